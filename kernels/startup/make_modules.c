/* make-modules FOLDER: write the small files that tare-startup reads, and the large one that the
 * mini-applications io-* read; part of the build, not installed. */
#include "common/content.h"
#include "common/modules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int complain(const char *path)
{
    fprintf(stderr, "make-modules: cannot write %s: %s\n", path, strerror(errno));
    return 1;
}

static int make_folder(const char *path)
{
    return mkdir(path, 0755) != 0 && errno != EEXIST ? complain(path) : 0;
}

static int make_module(const char *at, int module)
{
    char path[PATH_BYTES];
    char text[MODULE_BYTES_MAX];
    const size_t length = module_text(text, module);
    module_path(path, at, module);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return complain(path);
    const size_t written = fwrite(text, 1, length, file);
    return fclose(file) != 0 || written != length ? complain(path) : 0;
}

static int make_content(const char *at)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/" CONTENT_NAME, at);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return complain(path);
    size_t written = 0;
    for (size_t i = 0; i < CONTENT_BYTES / sizeof(uint64_t); i++) {
        const uint64_t word = content_word(CONTENT_FILE, i);
        written += fwrite(&word, 1, sizeof word, file);
    }
    return fclose(file) != 0 || written != CONTENT_BYTES ? complain(path) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make-modules FOLDER\n");
        return 2;
    }
    int failed = make_folder(argv[1]);
    for (int i = 0; i < MODULES && !failed; i++) {
        char path[PATH_BYTES];
        package_path(path, argv[1], i / MODULES_OF_PACKAGE);
        failed = make_folder(path) || make_module(argv[1], i);
    }
    return failed || make_content(argv[1]);
}
