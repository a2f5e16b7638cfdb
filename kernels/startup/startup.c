/* tare-startup FOLDER: tell when every rank came to main, how long MPI_Init took, when all were
 * ready, and how long an interpreter takes that opens many small files (those under FOLDER). */
#include "common/check.h"
#include "common/clock.h"
#include "common/leave.h"
#include "common/locality.h"
#include "common/modules.h"
#include "common/output.h"
#include "common/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_WRONG_DATA = 3 };

/* One rank's figures, in seconds; moments are readings of CLOCK_MONOTONIC. */
struct figures {
    double main_s;    /* moment of the first statement of main */
    double init_s;    /* what MPI_Init took */
    double ready_s;   /* moment of the return from the first barrier */
    double modules_s; /* what the reading of all files took */
};
enum { FIGURES = sizeof(struct figures) / sizeof(double) };

/* What was read: a slot for each file, with its length, or -1. */
struct library {
    char *text;
    ssize_t length[MODULES];
};

static double moment_s(uint64_t clock_ns)
{
    return clock_difference_s(clock_ns, 0);
}

/* Read a folder's names, as an interpreter does before it looks for the first module of a package.
 */
static void list_package(const char *path)
{
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL)
        ;
    if (folder != NULL)
        closedir(folder);
}

/* Open one file as an interpreter opens a module: is the folder still as it was, is the file there,
 * open it, how large is it, read it to its end. */
static ssize_t load_module(const char *package, const char *path, char text[MODULE_BYTES_MAX])
{
    struct stat status;
    if (stat(package, &status) != 0 || stat(path, &status) != 0)
        return -1;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t length = -1;
    if (fstat(file, &status) == 0 && status.st_size <= MODULE_BYTES_MAX) {
        char beyond;
        length = read(file, text, MODULE_BYTES_MAX);
        if (read(file, &beyond, 1) != 0)
            length = -1;
    }
    close(file);
    return length;
}

static void load_all(const char *at, struct library *library)
{
    char package[PATH_BYTES] = "";
    char path[PATH_BYTES];
    for (int i = 0; i < MODULES; i++) {
        if (i % MODULES_OF_PACKAGE == 0) {
            package_path(package, at, i / MODULES_OF_PACKAGE);
            list_package(package);
        }
        module_path(path, at, i);
        library->length[i] =
            load_module(package, path, library->text + (size_t)i * MODULE_BYTES_MAX);
    }
}

static uint64_t count_wrong(const struct library *library)
{
    uint64_t wrong = 0;
    for (int i = 0; i < MODULES; i++) {
        char expected[MODULE_BYTES_MAX];
        const size_t length = module_text(expected, i);
        const char *text = library->text + (size_t)i * MODULE_BYTES_MAX;
        wrong += library->length[i] != (ssize_t)length || memcmp(text, expected, length) != 0;
    }
    return wrong;
}

static bool write_column(struct json *line, const char *key, const double *gathered, int ranks,
                         size_t column)
{
    double *values = calloc((size_t)ranks, sizeof values[0]);
    if (values == NULL)
        return false;
    for (int rank = 0; rank < ranks; rank++)
        values[rank] = gathered[(size_t)rank * FIGURES + column];
    json_put_numbers(line, key, values, (size_t)ranks);
    free(values);
    return true;
}

static bool write_startup(const double *gathered, int ranks, uint64_t wrong)
{
    static const char *const keys[FIGURES] = {"rank_main_s", "rank_init_s", "rank_ready_s",
                                              "rank_modules_s"};
    struct json line = output_begin("startup");
    bool whole = true;
    json_put_integer(&line, "modules", MODULES);
    json_put_integer(&line, "wrong_modules", (int64_t)wrong);
    json_put_bool(&line, "verified", wrong == 0);
    for (size_t column = 0; column < FIGURES; column++)
        whole &= write_column(&line, keys[column], gathered, ranks, column);
    return output_finish(&line) && whole;
}

static double longest_init_s(const double *gathered, int ranks)
{
    double longest_s = 0.0;
    for (int rank = 0; rank < ranks; rank++) {
        const double init_s = gathered[(size_t)rank * FIGURES + 1];
        longest_s = init_s > longest_s ? init_s : longest_s;
    }
    return longest_s;
}

/* Gather all figures and write them on rank 0; return the exit code, the same on all ranks. */
static enum exit_code report(struct figures figures, uint64_t wrong)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const double own[FIGURES] = {figures.main_s, figures.init_s, figures.ready_s,
                                 figures.modules_s};
    int rank = 0;
    struct locality locality = locality_gather(world);
    CHECK_MPI(PMPI_Comm_rank(world, &rank));
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, world));
    double *gathered = calloc((size_t)locality.ranks * FIGURES, sizeof gathered[0]);
    if (gathered == NULL)
        FATAL("out of memory for the figures");
    CHECK_MPI(PMPI_Gather(own, FIGURES, MPI_DOUBLE, gathered, FIGURES, MPI_DOUBLE, 0, world));
    struct usage usage = usage_gather(world);
    enum exit_code code = wrong > 0 ? EXIT_WRONG_DATA : EXIT_DONE;
    if (rank == 0) {
        const double init_s = longest_init_s(gathered, locality.ranks);
        const double elapsed_s = moment_s(clock_now_ns()) - figures.main_s;
        const bool written = output_start("tare-startup", locality.ranks, init_s) &&
                             locality_write(&locality) &&
                             write_startup(gathered, locality.ranks, wrong) &&
                             usage_write(&usage) && output_end(elapsed_s, (int)code);
        code = written ? code : EXIT_FAILED;
    }
    free(gathered);
    usage_free(&usage);
    locality_free(&locality);
    return code;
}

int main(int argc, char **argv)
{
    const uint64_t main_ns = clock_now_ns();
    if (argc != 2) {
        fprintf(stderr, "tare-startup: one argument is needed: the folder of the small files\n");
        return EXIT_USAGE;
    }
    CHECK_MPI(MPI_Init(&argc, &argv));
    const uint64_t initialized_ns = clock_now_ns();
    CHECK_MPI(PMPI_Barrier(MPI_COMM_WORLD));
    const uint64_t ready_ns = clock_now_ns();
    CHECK_MPI(PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)); /* CHECK_MPI reports */

    struct library library;
    library.text = malloc((size_t)MODULES * MODULE_BYTES_MAX);
    if (library.text == NULL)
        FATAL("out of memory for the files");
    memset(library.text, 1, (size_t)MODULES * MODULE_BYTES_MAX); /* not in the timed part */
    const uint64_t start_ns = clock_now_ns();
    load_all(argv[1], &library);
    const uint64_t end_ns = clock_now_ns();
    const struct figures figures = {
        .main_s = moment_s(main_ns),
        .init_s = clock_difference_s(initialized_ns, main_ns),
        .ready_s = moment_s(ready_ns),
        .modules_s = clock_difference_s(end_ns, start_ns),
    };
    const enum exit_code code = report(figures, count_wrong(&library));
    free(library.text);
    leave_together();
    CHECK_MPI(MPI_Finalize());
    return (int)code;
}
