/* Random numbers by counter: the i-th of a stream is a function of i, so that what is made of them
 * does not depend on which rank makes it.
 *
 * SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)
 * with its state taken at any place. */
#ifndef TARE_COUNTER_H
#define TARE_COUNTER_H

#include <stdint.h>

#define COUNTER_STEP UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t counter_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Return the number at a place of a stream. */
static inline uint64_t counter_at(uint64_t stream, uint64_t place)
{
    return counter_mix(stream + (place + 1) * COUNTER_STEP);
}

/* Return the stream that belongs to a place of another one. */
static inline uint64_t counter_stream(uint64_t stream, uint64_t place)
{
    return counter_mix(counter_at(stream, place) ^ COUNTER_STEP);
}

#endif
