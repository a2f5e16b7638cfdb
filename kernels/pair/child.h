/* A command that a rank starts beside its MPI, and ends by its process id. */
#ifndef TARE_PAIR_CHILD_H
#define TARE_PAIR_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    bool ended;
    int status; /* as a shell has it: 128 + signal where one ended it; -1 while it runs */
};

/* Start `command`, found on PATH. It is killed when this process dies. `quiet` turns its standard
 * output to standard error. The preload library of tare is not handed on: the command is no rank.
 */
struct child child_start(char *const command[], bool quiet);

/* Look whether it has ended; with `wait` until it has. */
void child_poll(struct child *child, bool wait);

/* End it: after `patience_s` seconds by SIGTERM, two seconds later by SIGKILL. */
void child_end(struct child *child, double patience_s);

#endif
