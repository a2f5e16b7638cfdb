/* io-metadata: many small files, each made, looked up, read and removed; or those of the image. */
#include "common/check.h"
#include "common/clock.h"
#include "io/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_MODE = 0600, SMALL_FILES_MOST = 100000 };

struct small {
    char at[PATH_BYTES]; /* the folder of all */
    bool of_image;
    int count;
    char *texts; /* what was read, MODULE_BYTES_MAX each */
    size_t *lengths;
};

static void path_of(char path[PATH_BYTES], const struct small *small, int file)
{
    if (small->of_image)
        module_path(path, small->at, file);
    else
        snprintf(path, PATH_BYTES, "%.4000s/file%06d", small->at, file);
}

static void make_one(const struct small *small, int file)
{
    char path[PATH_BYTES];
    char text[MODULE_BYTES_MAX];
    const size_t length = module_text(text, file % MODULES);
    path_of(path, small, file);
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, SMALL_MODE);
    if (descriptor < 0)
        io_fail("cannot make", path);
    io_write_block(descriptor, (const unsigned char *)text, length, 0);
    if (close(descriptor) != 0)
        io_fail("cannot close", path);
}

/* Look a file up, open it, ask for its size, read it and close it, as an interpreter does. */
static void read_one(const struct small *small, int file)
{
    char path[PATH_BYTES];
    struct stat stated;
    path_of(path, small, file);
    if (stat(path, &stated) != 0)
        io_fail("cannot look up", path);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &stated) != 0)
        io_fail("cannot open", path);
    const size_t length = (size_t)stated.st_size;
    if (length > MODULE_BYTES_MAX)
        FATAL("a small file is larger than it was made");
    io_read_block(descriptor, (unsigned char *)small->texts + (size_t)file * MODULE_BYTES_MAX,
                  length, 0);
    small->lengths[file] = length;
    if (close(descriptor) != 0)
        io_fail("cannot close", path);
}

static void remove_one(const struct small *small, int file)
{
    char path[PATH_BYTES];
    path_of(path, small, file);
    if (unlink(path) != 0)
        io_fail("cannot remove", path);
}

/* Do something with each file; return the seconds that it took. */
static double each(const struct small *small, void (*act)(const struct small *, int))
{
    const uint64_t before_ns = clock_now_ns();
    for (int i = 0; i < small->count; i++)
        act(small, i);
    return clock_difference_s(clock_now_ns(), before_ns);
}

static uint64_t wrong_files(const struct small *small)
{
    char text[MODULE_BYTES_MAX];
    uint64_t wrong = 0;
    for (int i = 0; i < small->count; i++) {
        const size_t length = module_text(text, i % MODULES);
        wrong += length != small->lengths[i] ||
                 memcmp(text, small->texts + (size_t)i * MODULE_BYTES_MAX, length) != 0;
    }
    return wrong;
}

static struct small open_small(const struct run *run)
{
    struct small small = {.of_image = run_value(run, "image") != 0,
                          .count = (int)run_value(run, "files")};
    small.texts = app_allocate((size_t)small.count, MODULE_BYTES_MAX);
    small.lengths = app_allocate((size_t)small.count, sizeof small.lengths[0]);
    if (small.of_image)
        io_image_folder(small.at);
    else
        io_make_folder(run, small.at);
    return small;
}

static void execute(struct run *run)
{
    struct small small = open_small(run);
    double make_s = 0.0;
    double remove_s = 0.0;
    if (small.of_image && run_value(run, "cold") == 0)
        each(&small, read_one);
    memset(small.texts, 0xFF, (size_t)small.count * MODULE_BYTES_MAX); /* what is read is new */
    run_start(run);
    if (!small.of_image)
        make_s = each(&small, make_one);
    const double read_s = each(&small, read_one);
    if (!small.of_image)
        remove_s = each(&small, remove_one);
    run_stop(run);
    run->result.operations = (double)small.count * run->ranks;
    if (run_is_struck(run) && run->rank == 0)
        small.texts[0] ^= 1;
    result_check(run, "files that are not what was written",
                 (double)io_sum(run, wrong_files(&small)), 0.0, 0.0);
    const double files = 1e6 / small.count; /* of the slowest rank, in microseconds a file */
    result_figure(run, "looking up and reading", files * run_longest_s(run, read_s), "us");
    make_s = run_longest_s(run, make_s);
    remove_s = run_longest_s(run, remove_s);
    if (!small.of_image) {
        result_figure(run, "making", files * make_s, "us");
        result_figure(run, "removing", files * remove_s, "us");
        io_remove_folder(small.at);
    }
    free(small.texts);
    free(small.lengths);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    if (run_value(run, "image") != 0 && run_value(run, "files") > MODULES) {
        snprintf(reason, APP_REASON,
                 "the image has %d small files; allowed with image=1: files up to %d", MODULES,
                 MODULES);
        return false;
    }
    if (run_value(run, "image") == 0 && run_value(run, "cold") != 0) {
        snprintf(reason, APP_REASON,
                 "files that were just made are in memory; allowed with image=0: cold=0");
        return false;
    }
    return true;
}

static double memory_bytes(const struct run *run)
{
    return (double)run_value(run, "files") * (MODULE_BYTES_MAX + sizeof(size_t));
}

const struct app app_io_metadata = {
    .name = "io-metadata",
    .description = "making, looking up, reading and removing many small files",
    .rate = "files/s",
    .timed = "all files of all ranks: made, looked up, read and removed; those of the image only "
             "looked up and read",
    .pattern = "none in the timed section; each rank has a folder of its own, or all the image's",
    .parameters =
        {
            {"files", "of a rank", 1000, 1, SMALL_FILES_MOST},
            {"image", "1: the files of the image, 0: files that each rank makes", 0, 0, 1},
            {"cold", "1: nothing of them is read first; tare drops the machine's caches", 0, 0, 1},
        },
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
