/* Operations that a user may be forbidden. Each is tried for real, and what succeeds is undone at
 * once. None can harm what is there: nothing is read from what opens, nothing is written to it, and
 * no file is removed but one's own. */
#ifndef TARE_OPERATIONS_H
#define TARE_OPERATIONS_H

#include <stddef.h>

enum outcome {
    OUTCOME_UNTRIED = 1, /* what it needs is not here */
    OUTCOME_DENIED,
    OUTCOME_ALLOWED,
    OUTCOME_LEFT /* it succeeded, and could not be undone */
};

enum { OPERATIONS = 11 };

struct operation {
    const char *name;
    /* `file` is the one that may be changed, replaced or deleted. */
    enum outcome (*attempt)(const char *file);
};

/* In the order in which one process is to try them: after the last it may be another user. */
extern const struct operation operations[OPERATIONS];

#endif
