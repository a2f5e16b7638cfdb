#include "common/parts.h"

#include "common/output.h"

#include <stdio.h>
#include <string.h>

/* A part and its copy are one write that a pipe takes whole (PIPE_BUF). */
enum { TEXT_MOST = 256, HEADER_MOST = 96, PART_MOST = HEADER_MOST + TEXT_MOST + 1 };

uint32_t parts_crc32(const char *text, size_t length)
{
    uint32_t rest = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        rest ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; bit++)
            rest = (rest >> 1) ^ ((rest & 1U) != 0 ? UINT32_C(0xEDB88320) : 0);
    }
    return ~rest;
}

/* Return how many bytes of the line go into a part: no character of UTF-8 is cut. */
static size_t room_for(const char *line, size_t length)
{
    if (length <= TEXT_MOST)
        return length;
    size_t room = TEXT_MOST;
    while (room > 1 && ((unsigned char)line[room] & 0xC0U) == 0x80U)
        room--;
    return room;
}

static bool write_part(const char *text, size_t length, bool last, int number)
{
    char both[2 * PART_MOST];
    char key[OUTPUT_KEY_SIZE];
    output_key(key);
    const int header = snprintf(both, HEADER_MOST, "@tare-part%s %d %s %zu %08x ", key, number,
                                last ? "last" : "more", length, parts_crc32(text, length));
    if (header < 0 || header >= HEADER_MOST)
        return false;
    const size_t part = (size_t)header + length + 1;
    memcpy(both + header, text, length);
    both[part - 1] = '\n';
    memcpy(both + part, both, part);
    return output_write(both, 2 * part);
}

static bool write_record(const char *line, size_t length, int *number)
{
    for (size_t at = 0; at < length;) {
        const size_t room = room_for(line + at, length - at);
        if (!write_part(line + at, room, at + room == length, (*number)++))
            return false;
        at += room;
    }
    return true;
}

bool parts_write(const char *lines, size_t length, int *number)
{
    const char *const end = lines + length;
    while (lines < end) {
        const char *newline = memchr(lines, '\n', (size_t)(end - lines));
        const char *stop = newline == NULL ? end : newline;
        if (!write_record(lines, (size_t)(stop - lines), number))
            return false;
        lines = stop + 1;
    }
    return true;
}
