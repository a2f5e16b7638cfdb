/* The small files that a start-up reads: what they are called and what is in them.
 *
 * As many and as small as the modules that an interpreter opens before it does anything: packages
 * of 25 modules, 128 to 4096 bytes each. */
#ifndef TARE_MODULES_H
#define TARE_MODULES_H

#include <stddef.h>

enum { MODULES = 1000, MODULES_OF_PACKAGE = 25, MODULE_BYTES_MAX = 4096, PATH_BYTES = 4096 };

/* Write the path of a package's folder, or of a module's file; `at` is the folder of all. */
void package_path(char path[PATH_BYTES], const char *at, int package);
void module_path(char path[PATH_BYTES], const char *at, int module);

/* Write what is in a module's file and return its length. */
size_t module_text(char text[MODULE_BYTES_MAX], int module);

#endif
