/* One child with a deadline; what it writes is read meanwhile. */
#ifndef TARE_CHECK_CHILD_H
#define TARE_CHECK_CHILD_H

#include <stdbool.h>
#include <stddef.h>

struct child_end {
    bool started;
    bool late;    /* it was killed at the deadline */
    bool stopped; /* it was killed as this process was told to end */
    int signal;   /* by which it ended, or 0 */
    int status;   /* with which it exited */
    int number;   /* errno if it did not start */
};

/* Room for what a child writes: its beginning is kept, NUL-terminated, and has no other NUL. */
struct child_text {
    char *text;
    size_t size;
};

/* From now on, take SIGTERM as a wish to end soon: a launcher ends all ranks when one of them
 * fails, and what they saw is the reason. */
bool child_heed_signals(void);

/* In the child, this variable is the number of the file to which its answers go. */
#define CHILD_ANSWERS "TARE_CHECK_ANSWERS"

/* Run a program for at most `limit_s`. Both of its outputs go to `said`. Where there is room for
 * answers, they come in `answers`, so that what libraries print can neither be taken for one nor
 * keep one out; and its errors go where this process's own do, at once, as a launcher may kill it
 * then. */
struct child_end child_run(char *const argv[], int limit_s, struct child_text said,
                           struct child_text answers);

#endif
