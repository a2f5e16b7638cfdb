/* Records in small parts, for programs of which every rank writes to stdout.
 *
 * A launcher reads what its ranks write piece by piece, and may put the text of one rank into the
 * middle of another's line. So a record is cut into parts that are short, numbered and checked, and
 * each part is written twice: what cuts through the one leaves the other whole. */
#ifndef TARE_PARTS_H
#define TARE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write a text of records, each a line. The mark of a part has the launch's key.
 * `*number` is that of the first part, and then of the next. Return false when stdout takes no
 * more. */
bool parts_write(const char *lines, size_t length, int *number);

/* CRC-32 as in Ethernet and zlib. */
uint32_t parts_crc32(const char *text, size_t length);

#endif
