/* Writes a file and reads it several times: quick as long as memory holds the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, BLOCKS = 160, TIMES = 4 };

static int read_whole(int file, char *block)
{
    int wrong = lseek(file, 0, SEEK_SET) != 0;
    for (int i = 0; i < BLOCKS; i++)
        wrong |= read(file, block, BLOCK) != BLOCK;
    return wrong;
}

int main(int argc, char **argv)
{
    char *block = calloc(1, BLOCK);
    const int file = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    MPI_Init(&argc, &argv);
    int wrong = block == NULL || file < 0;
    for (int i = 0; i < BLOCKS && !wrong; i++)
        wrong = write(file, block, BLOCK) != BLOCK;
    wrong = wrong || fdatasync(file) != 0;
    for (int i = 0; i < TIMES && !wrong; i++)
        wrong = read_whole(file, block);
    if (wrong)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    free(block);
    return close(file);
}
