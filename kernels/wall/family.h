/* The MPI that a program has loaded: a Python may bring its own. */
#ifndef TARE_FAMILY_H
#define TARE_FAMILY_H

#include <stdbool.h>

/* Return whether the library that defines `function`, the next definition of a call, is of the kind
 * that this one was built for. */
bool family_is_own(const void *function);

/* Make the symbols of that library global, so that those that the report asks for are the
 * program's, and not those of a second MPI. */
void family_show(const void *function);

#endif
