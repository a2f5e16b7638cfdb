/* Message contents that say who sent them to whom in which operation. */
#ifndef TARE_PATTERN_H
#define TARE_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Fill a message of rank `source` for rank `destination`. */
void pattern_fill(unsigned char *message, size_t bytes, int source, int destination,
                  uint64_t nonce);

/* Return the number of bytes that differ from what pattern_fill wrote. */
uint64_t pattern_errors(const unsigned char *message, size_t bytes, int source, int destination,
                        uint64_t nonce);

/* Overwrite what is about to be received, so that data left by an earlier operation is not taken
 * for new. */
void pattern_poison(unsigned char *message, size_t bytes);

#endif
