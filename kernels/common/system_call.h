#ifndef TARE_SYSTEM_CALL_H
#define TARE_SYSTEM_CALL_H

/* Return the time of a system call that does nothing, in nanoseconds: the fastest of some batches,
 * so that what interrupts one does not count. A seccomp filter of the process is part of it. */
double system_call_ns(void);

#endif
