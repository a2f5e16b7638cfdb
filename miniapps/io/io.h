/* The parts of the file tests: which files a rank uses, and what is in them. */
#ifndef TARE_IO_H
#define TARE_IO_H

#include "apps/app.h"
#include "common/content.h"
#include "common/modules.h"

enum { IO_FILES_MOST = 64, IO_KIB = 1024, IO_KIB_MOST = 1 << 20, IO_BLOCK_MOST = 1 << 26 };

/* The open files of a rank, all of one size, and room for all that is in them. */
struct io_files {
    int count;
    size_t bytes; /* of one file */
    int descriptor[IO_FILES_MOST];
    uint64_t number[IO_FILES_MOST]; /* which words are in it (content_word) */
    unsigned char *data;
};

/* End the job and say which call failed on which path, with errno's text. */
_Noreturn void io_fail(const char *what, const char *path);

/* Write the path of the folder of the image's files: the one that was installed with this program.
 */
void io_image_folder(char path[PATH_BYTES]);

/* Write the path of a new folder of this rank, in $SCRATCH or else /tmp. Collective. */
void io_make_folder(const struct run *run, char path[PATH_BYTES]);
void io_remove_folder(const char *path);

/* Open the image's large file, or make files in a folder of the job: written, with fsync, unless
 * `empty`. They have no name from then on, so none is left behind. Collective. */
struct io_files io_open(struct run *run, bool of_image, bool empty);
void io_close(struct io_files *files);

/* Write or read a whole block at a place of a file, however often the call is interrupted. */
void io_write_block(int descriptor, const unsigned char *data, size_t bytes, size_t at);
void io_read_block(int descriptor, unsigned char *data, size_t bytes, size_t at);

/* Fill with what belongs into a file; return how many words of `data` are wrong. */
void io_fill(const struct io_files *files, int file);
uint64_t io_wrong_words(const struct io_files *files, int file);

/* Drop a file's pages from the page cache, as far as the kernel does that on request. */
void io_drop(int descriptor, const char *path);

/* Note which share of the pages of all ranks' files is in the page cache, if the kernel says it of
 * all of them; with cold=1 check that it is almost none. Collective. */
void io_tell_cached(struct run *run, const struct io_files *files);

/* Return the sum over all ranks; collective. */
uint64_t io_sum(const struct run *run, uint64_t own);

#endif
