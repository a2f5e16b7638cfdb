/* io-sequential and io-random: blocks of files, in order or not, through read and write. */
#include "apps/counter.h"
#include "common/check.h"
#include "io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const double mb = 1e-6;

static size_t blocks_of_file(const struct run *run, const struct io_files *files)
{
    const size_t block = (size_t)run_value(run, "block");
    return (files->bytes + block - 1) / block;
}

/* Return all blocks of all files in the order in which they are used: each once. */
static size_t *make_order(const struct run *run, const struct io_files *files, bool at_random)
{
    const size_t count = blocks_of_file(run, files) * (size_t)files->count;
    const uint64_t stream = counter_stream(0, (uint64_t)run->rank);
    size_t *order = app_allocate(count, sizeof order[0]);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count - 1; at_random && i > 0; i--) {
        const size_t other = (size_t)(counter_at(stream, i) % (i + 1));
        const size_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    return order;
}

static void go_through(const struct run *run, const struct io_files *files, const size_t *order)
{
    const size_t block = (size_t)run_value(run, "block");
    const size_t of_file = blocks_of_file(run, files);
    const bool writes = run_value(run, "write") != 0;
    for (size_t i = 0; i < of_file * (size_t)files->count; i++) {
        const size_t file = order[i] / of_file;
        const size_t at = order[i] % of_file * block;
        const size_t bytes = at + block > files->bytes ? files->bytes - at : block;
        unsigned char *data = files->data + file * files->bytes + at;
        if (writes)
            io_write_block(files->descriptor[file], data, bytes, at);
        else
            io_read_block(files->descriptor[file], data, bytes, at);
    }
    for (int i = 0; writes && i < files->count; i++)
        if (fsync(files->descriptor[i]) != 0)
            io_fail("cannot write out", "a file");
}

/* Read again what was written, past the timed section, from the disk where there is one. */
static void read_again(const struct io_files *files)
{
    for (int i = 0; i < files->count; i++) {
        unsigned char *data = files->data + (size_t)i * files->bytes;
        for (size_t k = 0; k < files->bytes; k++)
            data[k] = 0;
        io_drop(files->descriptor[i], "a file");
        io_read_block(files->descriptor[i], data, files->bytes, 0);
    }
}

static void prepare(struct run *run, struct io_files *files)
{
    const bool writes = run_value(run, "write") != 0;
    for (int i = 0; i < files->count; i++) {
        unsigned char *data = files->data + (size_t)i * files->bytes;
        if (writes)
            io_fill(files, i);
        else if (run_value(run, "cold") == 0) /* warm: all of it has just been read */
            io_read_block(files->descriptor[i], data, files->bytes, 0);
        for (size_t k = 0; !writes && k < files->bytes; k++)
            data[k] = 0xFF;
    }
    CHECK_MPI(PMPI_Barrier(run->comm)); /* no rank reads any more what is now dropped */
    for (int i = 0; run_value(run, "cold") != 0 && i < files->count; i++)
        io_drop(files->descriptor[i], "a file");
    if (!writes)
        io_tell_cached(run, files);
}

static void execute(struct run *run, bool at_random)
{
    const bool writes = run_value(run, "write") != 0;
    struct io_files files = io_open(run, run_value(run, "image") != 0, writes);
    size_t *order = make_order(run, &files, at_random);
    prepare(run, &files);
    run_start(run);
    go_through(run, &files, order);
    run_stop(run);
    const size_t bytes = files.bytes * (size_t)files.count;
    run->result.operations = mb * (double)bytes * run->ranks;
    if (writes)
        read_again(&files);
    if (run_is_struck(run) && run->rank == 0)
        files.data[files.bytes / 2] ^= 1;
    uint64_t wrong = 0;
    for (int i = 0; i < files.count; i++)
        wrong += io_wrong_words(&files, i);
    result_check(run, "words that are not what was written", (double)io_sum(run, wrong), 0.0, 0.0);
    result_figure(run, "calls", (double)blocks_of_file(run, &files) * files.count * run->ranks,
                  "calls");
    free(order);
    io_close(&files);
}

static void execute_sequential(struct run *run)
{
    execute(run, false);
}

static void execute_random(struct run *run)
{
    execute(run, true);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    if (run_value(run, "write") != 0 && run_value(run, "cold") != 0) {
        snprintf(reason, APP_REASON, "%s reads nothing with write=1; allowed with write=1: cold=0",
                 run->app->name);
        return false;
    }
    if (run_value(run, "image") == 0)
        return true;
    if (run_value(run, "write") != 0) {
        snprintf(reason, APP_REASON,
                 "%s cannot write files of the image; allowed with image=1: write=0",
                 run->app->name);
        return false;
    }
    if (run_value(run, "kib") > CONTENT_BYTES / IO_KIB || run_value(run, "files") != 1) {
        snprintf(reason, APP_REASON,
                 "the image has one file of %d KiB; allowed with image=1: kib up to %d, files=1",
                 CONTENT_BYTES / IO_KIB, CONTENT_BYTES / IO_KIB);
        return false;
    }
    return true;
}

static double memory_bytes(const struct run *run)
{
    const double bytes = (double)run_value(run, "kib") * IO_KIB * (double)run_value(run, "files");
    return bytes * (1.0 + sizeof(size_t) / (double)run_value(run, "block"));
}

/* clang-format off */
#define BLOCK_PARAMETERS(usual_block)                                                              \
    {                                                                                              \
        {"block", "bytes of a call", usual_block, 512, IO_BLOCK_MOST},                             \
        {"kib", "size of a file in KiB", 16384, 1, IO_KIB_MOST},                                   \
        {"files", "of a rank", 1, 1, IO_FILES_MOST},                                               \
        {"image", "1: the file of the image, 0: files that each rank makes", 0, 0, 1},             \
        {"cold", "1: drop the files' pages from the cache first", 0, 0, 1},                        \
        {"write", "1: write and fsync, 0: read", 0, 0, 1},                                         \
    }
/* clang-format on */

const struct app app_io_sequential = {
    .name = "io-sequential",
    .description = "reading or writing files from beginning to end",
    .rate = "MB/s",
    .timed = "all calls of all ranks, and fsync where they write; files are open",
    .pattern = "none in the timed section; ranks use files of their own, or all the image's",
    .parameters = BLOCK_PARAMETERS(1 << 20),
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute_sequential,
};

const struct app app_io_random = {
    .name = "io-random",
    .description = "reading or writing each block of files once, in random order",
    .rate = "MB/s",
    .timed = "all calls of all ranks, and fsync where they write; files are open",
    .pattern = "none in the timed section; ranks use files of their own, or all the image's",
    .parameters = BLOCK_PARAMETERS(4096),
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute_random,
};
