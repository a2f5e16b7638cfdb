#include "common/pattern.h"

#include <string.h>

enum { WORD = 8, POISON = 0xA5 };

/* The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA'14): every bit of the input moves every
 * bit of the output, so that neighbouring ranks and offsets share nothing. */
static uint64_t mix(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static uint64_t seed(int source, int destination, uint64_t nonce)
{
    return mix(mix((uint64_t)source << 32 | (uint32_t)destination) + nonce);
}

void pattern_fill(unsigned char *message, size_t bytes, int source, int destination, uint64_t nonce)
{
    const uint64_t start = seed(source, destination, nonce);
    for (size_t at = 0; at < bytes; at += WORD) {
        const uint64_t word = mix(start + at);
        memcpy(message + at, &word, bytes - at < WORD ? bytes - at : WORD);
    }
}

uint64_t pattern_errors(const unsigned char *message, size_t bytes, int source, int destination,
                        uint64_t nonce)
{
    const uint64_t start = seed(source, destination, nonce);
    uint64_t errors = 0;
    for (size_t at = 0; at < bytes; at += WORD) {
        const uint64_t word = mix(start + at);
        if (bytes - at >= WORD && memcmp(message + at, &word, WORD) == 0)
            continue;
        unsigned char expected[WORD];
        memcpy(expected, &word, WORD);
        for (size_t i = 0; i < WORD && at + i < bytes; i++)
            errors += message[at + i] != expected[i];
    }
    return errors;
}

void pattern_poison(unsigned char *message, size_t bytes)
{
    memset(message, POISON, bytes);
}
