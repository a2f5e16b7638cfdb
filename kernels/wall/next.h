/* The definition of a function that would be called if this library were not there. */
#ifndef TARE_NEXT_H
#define TARE_NEXT_H

/* Return the next definition of a name after this library's, NULL if there is none: in the order
 * of the dynamic linker, then in libraries that were loaded with RTLD_LOCAL, as a Python module or
 * a plug-in loads its MPI. */
void *next_definition(const char *name);

#endif
