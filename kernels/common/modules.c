#include "common/modules.h"

#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 16, LINES_MIN = 8, LINES_SPREAD = 249, LINES_STRIDE = 37 };

void package_path(char path[PATH_BYTES], const char *at, int package)
{
    snprintf(path, PATH_BYTES, "%.4000s/package%02d", at, package);
}

void module_path(char path[PATH_BYTES], const char *at, int module)
{
    snprintf(path, PATH_BYTES, "%.4000s/package%02d/module%03d", at, module / MODULES_OF_PACKAGE,
             module);
}

size_t module_text(char text[MODULE_BYTES_MAX], int module)
{
    char line[LINE_BYTES + 1];
    const int lines = LINES_MIN + module * LINES_STRIDE % LINES_SPREAD;
    snprintf(line, sizeof line, "tare: file %04d\n", module);
    for (int i = 0; i < lines; i++)
        memcpy(text + (size_t)i * LINE_BYTES, line, LINE_BYTES);
    return (size_t)lines * LINE_BYTES;
}
