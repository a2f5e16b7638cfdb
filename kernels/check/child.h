/* One child with a deadline; what it writes is read meanwhile. */
#ifndef TARE_CHECK_CHILD_H
#define TARE_CHECK_CHILD_H

#include <stdbool.h>
#include <stddef.h>

struct child_end {
    bool started;
    bool late;  /* it was killed at the deadline */
    int signal; /* by which it ended, or 0 */
    int status; /* with which it exited */
    int number; /* errno if it did not start */
};

/* Run a program for at most `limit_s`; both of its outputs go to `text`, NUL-terminated, whose
 * beginning is kept. */
struct child_end child_run(char *const argv[], int limit_s, char *text, size_t size);

#endif
