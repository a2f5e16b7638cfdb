#include "common/check.h"
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0600, FOLDER_MODE = 0700, ERROR_TEXT = 512 };

static const double cached_most = 5.0; /* percent of the pages of files that are cold */

_Static_assert(sizeof(off_t) >= sizeof(int64_t), "files of more than 2 GiB need a large off_t");

void io_fail(const char *what, const char *path)
{
    char text[ERROR_TEXT];
    snprintf(text, sizeof text, "%.80s %.300s: %.80s", what, path, strerror(errno));
    FATAL(text);
}

void io_image_folder(char path[PATH_BYTES])
{
    static const char below[] = "/share/tare/modules";
    const ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - sizeof below);
    if (length < 0)
        io_fail("cannot tell where this program is:", "/proc/self/exe");
    path[length] = '\0';
    for (int i = 0; i < 2; i++) { /* PREFIX/bin/tare-miniapps-LEVEL */
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            FATAL("this program is in no folder");
        *slash = '\0';
    }
    memcpy(path + strlen(path), below, sizeof below);
}

void io_make_folder(const struct run *run, char path[PATH_BYTES])
{
    const char *wanted = getenv("SCRATCH");
    uint64_t token = 0;
    if (run->rank == 0 && getrandom(&token, sizeof token, 0) != sizeof token)
        FATAL("the kernel gave no random number");
    CHECK_MPI(PMPI_Bcast(&token, 1, MPI_UINT64_T, 0, run->comm));
    snprintf(path, PATH_BYTES, "%.4000s/tare-io-%016llx-%d",
             wanted != NULL && wanted[0] != '\0' ? wanted : "/tmp", (unsigned long long)token,
             run->rank);
    if (mkdir(path, FOLDER_MODE) != 0)
        io_fail("cannot make the folder (name a folder that can be written in SCRATCH)", path);
}

void io_remove_folder(const char *path)
{
    if (rmdir(path) != 0)
        io_fail("cannot remove", path);
}

static int open_image_file(size_t bytes)
{
    char path[PATH_BYTES];
    struct stat stated;
    io_image_folder(path);
    const size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/" CONTENT_NAME);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &stated) != 0)
        io_fail("cannot open", path);
    if ((size_t)stated.st_size < bytes)
        FATAL("the image's file of contents is shorter than what is to be read");
    return descriptor;
}

static int make_file(const char *folder)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/file", folder);
    const int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (descriptor < 0 || unlink(path) != 0)
        io_fail("cannot make the file", path);
    return descriptor;
}

struct io_files io_open(struct run *run, bool of_image, bool empty)
{
    char folder[PATH_BYTES] = "";
    struct io_files files = {.count = (int)run_value(run, "files"),
                             .bytes = (size_t)run_value(run, "kib") * IO_KIB};
    files.data = app_allocate((size_t)files.count, files.bytes);
    if (!of_image)
        io_make_folder(run, folder);
    for (int i = 0; i < files.count; i++) {
        files.number[i] = of_image ? CONTENT_FILE : (uint64_t)(run->rank * IO_FILES_MOST + i + 1);
        files.descriptor[i] = of_image ? open_image_file(files.bytes) : make_file(folder);
        if (of_image || empty)
            continue;
        io_fill(&files, i);
        io_write_block(files.descriptor[i], files.data + (size_t)i * files.bytes, files.bytes, 0);
        if (fsync(files.descriptor[i]) != 0)
            io_fail("cannot write out a file in", folder);
    }
    if (!of_image)
        io_remove_folder(folder);
    return files;
}

void io_close(struct io_files *files)
{
    for (int i = 0; i < files->count; i++)
        if (close(files->descriptor[i]) != 0)
            io_fail("cannot close", "a file");
    free(files->data);
    files->data = NULL;
}

void io_write_block(int descriptor, const unsigned char *data, size_t bytes, size_t at)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t more = pwrite(descriptor, data + done, bytes - done, (off_t)(at + done));
        if (more < 0 && errno != EINTR)
            io_fail("cannot write", "a file");
        done += more < 0 ? 0 : (size_t)more;
    }
}

void io_read_block(int descriptor, unsigned char *data, size_t bytes, size_t at)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t more = pread(descriptor, data + done, bytes - done, (off_t)(at + done));
        if (more == 0)
            FATAL("a file ended before all of it was read");
        if (more < 0 && errno != EINTR)
            io_fail("cannot read", "a file");
        done += more < 0 ? 0 : (size_t)more;
    }
}

void io_fill(const struct io_files *files, int file)
{
    unsigned char *data = files->data + (size_t)file * files->bytes;
    for (size_t i = 0; i < files->bytes / sizeof(uint64_t); i++) {
        const uint64_t word = content_word(files->number[file], i);
        memcpy(data + i * sizeof word, &word, sizeof word);
    }
}

uint64_t io_wrong_words(const struct io_files *files, int file)
{
    const unsigned char *data = files->data + (size_t)file * files->bytes;
    uint64_t wrong = 0;
    for (size_t i = 0; i < files->bytes / sizeof(uint64_t); i++) {
        uint64_t word;
        memcpy(&word, data + i * sizeof word, sizeof word);
        wrong += word != content_word(files->number[file], i);
    }
    return wrong;
}

void io_drop(int descriptor, const char *path)
{
    const int error = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    if (error == 0)
        return;
    errno = error;
    io_fail("cannot drop the cached pages of", path);
}

/* Add how many pages of a file are in the page cache; return whether the kernel says so. It does to
 * a file's owner. To those who may not write the file it says that all pages are there. */
static bool add_cached(int descriptor, size_t bytes, size_t page, uint64_t *cached)
{
    const size_t pages = (bytes + page - 1) / page;
    struct stat stated;
    if (fstat(descriptor, &stated) != 0 || stated.st_uid != geteuid())
        return false;
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) /* as on some file systems in user space */
        return false;
    unsigned char *states = app_allocate(pages, 1);
    const bool known = mincore(mapped, bytes, states) == 0;
    for (size_t i = 0; known && i < pages; i++)
        *cached += states[i] & 1;
    free(states);
    if (munmap(mapped, bytes) != 0)
        io_fail("cannot unmap", "a file");
    return known;
}

void io_tell_cached(struct run *run, const struct io_files *files)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t cached = 0;
    uint64_t unknown = 0;
    for (int i = 0; i < files->count; i++)
        unknown += !add_cached(files->descriptor[i], files->bytes, page, &cached);
    const double all = (double)((files->bytes + page - 1) / page) * files->count * run->ranks;
    const double share = 100.0 * (double)io_sum(run, cached) / all;
    if (io_sum(run, unknown) > 0)
        return;
    result_figure(run, "in the page cache before", share, "%");
    if (run_value(run, "cold") != 0)
        result_check(run, "% of cold files in the page cache", share, 0.0, cached_most);
}

uint64_t io_sum(const struct run *run, uint64_t own)
{
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &own, 1, MPI_UINT64_T, MPI_SUM, run->comm));
    return own;
}
