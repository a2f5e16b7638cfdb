/* The command line: `tare-miniapps APP[:key=value[,key=value]...]`, `--list`, `--ask RANKS APP...`.
 */
#ifndef TARE_ARGUMENTS_H
#define TARE_ARGUMENTS_H

#include "apps/app.h"

enum { ARGUMENTS_ERROR = 512 };

/* Read an application's specification into the run (app, class, values). It needs no MPI. On a bad
 * one return false and a sentence that names the word and what is allowed. */
bool arguments_parse(const char *spec, struct run *run, char error[ARGUMENTS_ERROR]);

/* Write all applications with their parameters as one JSON object; return false when stdout takes
 * no more. */
bool arguments_list(void);

/* Write as one JSON object whether each of these specifications can run on so many ranks, and how
 * much memory a rank needs then. It needs no MPI; return false when a word is not understood. */
bool arguments_answer(const char *ranks, int count, char *const *specs);

#endif
