/* The one clock of all kernels: CLOCK_MONOTONIC. */
#ifndef TARE_CLOCK_H
#define TARE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Return the clock in nanoseconds; one vDSO call, no system call on common machines. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Return end - start in seconds; negative when end is before start. */
static inline double clock_difference_s(uint64_t end_ns, uint64_t start_ns)
{
    return (double)(int64_t)(end_ns - start_ns) * 1e-9;
}

/* Spin until the clock reads `deadline_ns`: sleeping would add the scheduler's wake-up time. */
static inline void clock_spin_until(uint64_t deadline_ns)
{
    while (clock_now_ns() < deadline_ns)
        ;
}

/* Return the resolution that the kernel states, in seconds. */
double clock_resolution_s(void);

/* Return the median cost of one reading, in seconds. */
double clock_cost_s(void);

/* Sleep without using the core. */
void clock_sleep_ns(long nanoseconds);

#endif
