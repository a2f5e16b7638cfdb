#include "check/files.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool files_read(const char *path, char *text, size_t size)
{
    size_t length = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    while (length < size - 1) {
        const ssize_t got = read(file, text + length, size - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    close(file);
    text[length] = '\0';
    return length > 0;
}

bool files_line(const char *path, char *text, size_t size)
{
    if (!files_read(path, text, size))
        return false;
    text[strcspn(text, "\n")] = '\0';
    return true;
}
