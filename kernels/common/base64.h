/* Base64 (RFC 4648 section 4, with padding) of arrays of doubles. */
#ifndef TARE_BASE64_H
#define TARE_BASE64_H

#include <stddef.h>

/* Return the number of characters that `bytes` bytes become. */
size_t base64_length(size_t bytes);

/* Write base64_length(8 * count) characters, no NUL: IEEE 754 binary64, little-endian. */
void base64_encode_doubles(char *text, const double *values, size_t count);

#endif
