/* The random numbers of the NAS Parallel Benchmarks: x <- 5^13 x mod 2^46, returned as x 2^-46
 * (RNR-94-007, 2.2). */
#ifndef TARE_LCG46_H
#define TARE_LCG46_H

#include <stddef.h>
#include <stdint.h>

#define LCG46_MULTIPLIER UINT64_C(1220703125)
#define LCG46_MASK       ((UINT64_C(1) << 46) - 1)
#define LCG46_SCALE      0x1p-46

/* Return the next state. The low 46 bits of a product need only the low 64 of it. */
static inline uint64_t lcg46_next(uint64_t state)
{
    return (LCG46_MULTIPLIER * state) & LCG46_MASK;
}

/* Return the next number in (0, 1). */
static inline double lcg46_draw(uint64_t *state)
{
    *state = lcg46_next(*state);
    return (double)*state * LCG46_SCALE;
}

/* Return 5^13 to the power of n. */
uint64_t lcg46_power(uint64_t n);

/* Return the state after n draws. */
uint64_t lcg46_jump(uint64_t state, uint64_t n);

/* Fill with the next numbers and return the state after them. */
uint64_t lcg46_fill(uint64_t state, size_t count, double *numbers);

#endif
