/* The large file that is in every image, next to the small ones: what is in it, a word of 8 bytes
 * at each place. Half of it is random and half is zero, so that a compressed image has work with
 * it. */
#ifndef TARE_CONTENT_H
#define TARE_CONTENT_H

#include <stddef.h>
#include <stdint.h>

enum { CONTENT_BYTES = 16 << 20, CONTENT_FILE = 0 };
#define CONTENT_NAME "content"

/* Return the word at a place of a file; every file has words of its own. (The mixing function is
 * SplitMix64's: Steele, Lea, Flood, OOPSLA 2014.) */
static inline uint64_t content_word(uint64_t file, uint64_t place)
{
    uint64_t x = (file << 40) + (place + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) & UINT64_C(0xFFFFFFFF);
}

#endif
