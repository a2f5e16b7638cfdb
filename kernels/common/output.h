/* The protocol: lines on stdout, each "@tare " and one JSON object. Only rank 0 writes.
 *
 * A launch of tare has a key, the first letters of $TARE_PADDING up to a colon; records then begin
 * with "@tare:KEY ", so that those of an earlier launch, printed again, are not taken for its own.
 */
#ifndef TARE_OUTPUT_H
#define TARE_OUTPUT_H

#include "common/json.h"

#include <stdbool.h>

enum { OUTPUT_KEY_SIZE = 34 };

/* Write ":KEY", or "" if the launch has no key. */
void output_key(char key[OUTPUT_KEY_SIZE]);

/* Begin a record of this type, without its mark; finish it with output_finish. */
struct json output_begin(const char *type);

/* Close the object and end the line; the caller marks, writes and frees it. */
void output_close(struct json *line);

/* Write whole lines, each a record, with their marks; return false when stdout takes no more. */
bool output_lines(const char *lines);

/* Close the object, write the marked line and free it; return false when stdout takes no more. */
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
