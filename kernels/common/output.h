/* The protocol: lines on stdout, each "@tare " and one JSON object. Only rank 0 writes. */
#ifndef TARE_OUTPUT_H
#define TARE_OUTPUT_H

#include "common/json.h"

#include <stdbool.h>

#define OUTPUT_MARK "@tare "

/* Begin a line of this type; finish it with output_finish. */
struct json output_begin(const char *type);

/* Close the object and end the line; the caller writes and frees it. */
void output_close(struct json *line);

/* Close the object, write the whole line and free it; return false when stdout takes no more. */
bool output_finish(struct json *line);

/* Write all bytes whatever stdout is (pipe, file, non-blocking socket); return false on error. */
bool output_write(const char *text, size_t length);

/* Write the start line. `init_s` is the longest MPI_Init of all ranks. */
bool output_start(const char *program, int ranks, double init_s);
struct json output_start_line(const char *program, int ranks, double init_s); /* not closed yet */

/* Write the end line; a stream without it was cut off. */
bool output_end(double elapsed_s, int exit_code);
struct json output_end_line(double elapsed_s, int exit_code); /* not closed yet */

#endif
