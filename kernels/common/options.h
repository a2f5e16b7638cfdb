/* The command line: `tare-kernels [--no-samples] [--order=I,...] [--turns=N@ADDRESS:PORT/NAME]
 * SPEC...`,
 * SPEC = name[:key=value[,key=value]...]. */
#ifndef TARE_OPTIONS_H
#define TARE_OPTIONS_H

#include "common/kernel.h"
#include "common/turns.h"

/* One SPEC, understood. */
struct request {
    const char *spec; /* as given */
    const struct kernel *kernel;
    struct settings settings;
};

struct options {
    bool help;
    bool list;
    bool samples;
    int count;
    struct request *requests;
    int *order; /* order[i] is the request that runs as the i-th */
    struct turns_request turns;
};

enum { OPTIONS_ERROR_SIZE = 512 };

/* Read the arguments for a job of this many ranks; it needs no MPI. On a bad token return false and
 * a sentence that names it and what is allowed. */
bool options_parse(int argc, char **argv, int ranks, struct options *options,
                   char error[OPTIONS_ERROR_SIZE]);

/* Return whether --help or --list is asked for: they are answered before MPI_Init. */
bool options_informational(int argc, char **argv);

void options_free(struct options *options);

#endif
