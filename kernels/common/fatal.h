/* Stop for what a program cannot go on from. Each program that uses it defines what that is. */
#ifndef TARE_COMMON_FATAL_H
#define TARE_COMMON_FATAL_H

/* Print the reason and its place on stderr, then end; in an MPI program, the whole job
 * (common/check.c). */
_Noreturn void check_fatal(const char *reason, const char *file, int line);
#define FATAL(reason) check_fatal((reason), __FILE__, __LINE__)

#endif
