#include "common/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_length(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* Return byte `position` of the little-endian image of the array, whatever this machine's order. */
static uint32_t byte_at(const double *values, size_t position)
{
    uint64_t word;
    memcpy(&word, &values[position / 8], sizeof word);
    return (uint32_t)(word >> (8 * (position % 8))) & 0xFFU;
}

void base64_encode_doubles(char *text, const double *values, size_t count)
{
    const size_t bytes = count * sizeof values[0];
    for (size_t at = 0; at < bytes; at += 3) {
        const size_t left = bytes - at;
        const uint32_t group = byte_at(values, at) << 16 |
                               (left > 1 ? byte_at(values, at + 1) << 8 : 0U) |
                               (left > 2 ? byte_at(values, at + 2) : 0U);
        *text++ = alphabet[group >> 18];
        *text++ = alphabet[group >> 12 & 63U];
        *text++ = left > 1 ? alphabet[group >> 6 & 63U] : '=';
        *text++ = left > 2 ? alphabet[group & 63U] : '=';
    }
}
