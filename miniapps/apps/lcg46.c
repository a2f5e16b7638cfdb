#include "apps/lcg46.h"

enum { LANES = 16 };

uint64_t lcg46_power(uint64_t n)
{
    uint64_t result = 1;
    for (uint64_t square = LCG46_MULTIPLIER; n > 0; n >>= 1) {
        if (n & 1)
            result = (result * square) & LCG46_MASK;
        square = (square * square) & LCG46_MASK;
    }
    return result;
}

uint64_t lcg46_jump(uint64_t state, uint64_t n)
{
    return (lcg46_power(n) * state) & LCG46_MASK;
}

/* Each lane is LANES draws ahead of itself in the next step, so that lanes are independent. */
uint64_t lcg46_fill(uint64_t state, size_t count, double *numbers)
{
    if (count == 0)
        return state;
    const uint64_t stride = lcg46_power(LANES);
    uint64_t lane[LANES];
    for (int i = 0; i < LANES; i++)
        state = lane[i] = lcg46_next(state);
    const size_t whole = count - count % LANES;
    uint64_t last = lane[LANES - 1];
    for (size_t at = 0; at < whole; at += LANES) {
        last = lane[LANES - 1];
        for (int i = 0; i < LANES; i++) {
            numbers[at + (size_t)i] = (double)(int64_t)lane[i] * LCG46_SCALE;
            lane[i] = (stride * lane[i]) & LCG46_MASK;
        }
    }
    for (size_t i = whole; i < count; i++) {
        last = lane[i - whole];
        numbers[i] = (double)(int64_t)last * LCG46_SCALE;
    }
    return last;
}
