#include "common/libraries.h"

#include "common/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* The beginnings of the names of MPIs, of their parts, of what they send messages with, and of what
 * programs compute with.
 * Open MPI's components (mca_*) are left out: those that are loaded are not those that are used. */
static const char *const named[] = {
    "libc.so",     "libc-",        "libmpi",       "libmpich",      "libmvapich", "libopen-pal.",
    "libopen-rte", "libpmi.",      "libpmi2.",     "libpmix.",      "libprrte.",  "libucp.",
    "libucs.",     "libuct",       "libucm.",      "libfabric.",    "libpsm",     "libcxi.",
    "libefa",      "libibverbs.",  "librdmacm.",   "libmlx",        "libhfi1",    "librxe",
    "libirdma",    "libbnxt_re",   "libugni.",     "libxpmem.",     "libhcoll.",  "libucc.",
    "libshm-fi.",  "libtcp-fi.",   "libverbs-fi.", "libsockets-fi", "libpsmx2-",  "libpsm3-",
    "libmlx-fi.",  "libblas.",     "liblapack.",   "libopenblas",   "libblis",    "libmkl_",
    "libatlas",    "libfftw3",     "libgomp.",     "libomp.",       "libiomp5.",  "libm.so",
    "libm-",       "libgfortran.",
};

struct paths {
    char **items;
    size_t count;
};

static bool is_named(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (strstr(name, ".so") == NULL)
        return false;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strncmp(name, named[i], strlen(named[i])) == 0)
            return true;
    }
    return false;
}

static void add(struct paths *paths, const char *path)
{
    for (size_t i = 0; i < paths->count; i++) {
        if (strcmp(paths->items[i], path) == 0)
            return;
    }
    char **items = realloc(paths->items, (paths->count + 1) * sizeof items[0]);
    char *copy = strdup(path);
    if (items == NULL || copy == NULL)
        FATAL("out of memory for the list of libraries");
    paths->items = items;
    paths->items[paths->count++] = copy;
}

static int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* A line is `RANGE RIGHTS OFFSET DEVICE INODE PATH`; the path is the first word with a slash. */
void libraries_put(struct json *line)
{
    struct paths paths = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    if (file == NULL)
        return;
    while (getline(&text, &size, file) > 0) {
        char *path = strchr(text, '/');
        if (path == NULL)
            continue;
        path[strcspn(path, "\n")] = '\0';
        if (is_named(path))
            add(&paths, path);
    }
    free(text);
    fclose(file);
    if (paths.count > 0)
        qsort(paths.items, paths.count, sizeof paths.items[0], by_text);
    json_key(line, "libraries");
    json_open(line, '[');
    for (size_t i = 0; i < paths.count; i++) {
        json_string(line, paths.items[i]);
        free(paths.items[i]);
    }
    json_close(line, ']');
    free(paths.items);
}
