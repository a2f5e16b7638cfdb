/* Small files of the kernel, read whole. */
#ifndef TARE_CHECK_FILES_H
#define TARE_CHECK_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Read the beginning of a file into `text`, NUL-terminated; return false if it cannot be read. */
bool files_read(const char *path, char *text, size_t size);

/* Read the first line of a file, without its end; return false if it cannot be read. */
bool files_line(const char *path, char *text, size_t size);

#endif
