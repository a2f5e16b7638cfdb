/* What the program's own loader makes of the program: its libraries, and what is missing. */
#ifndef TARE_CHECK_LOADER_H
#define TARE_CHECK_LOADER_H

#include "common/json.h"

enum { LOADER_PATH_SIZE = 512 };

struct loader {
    char interpreter[LOADER_PATH_SIZE]; /* empty: it is static, a script, or cannot be read */
    char mpi[LOADER_PATH_SIZE];         /* the path of its libmpi, empty without one */
};

/* Find the program on PATH as execvp does; return false if there is none. */
bool loader_find(const char *name, char path[LOADER_PATH_SIZE]);

/* Look at the program, and put what was found under the key `program`. */
struct loader loader_look(struct json *line, const char *program);

#endif
