/* An MPI program in which rank `which` uses so many MiB of memory, while the
 * others wait for it: allocate MIB [WHICH [FOLDER [FILE]]]. Where FOLDER is, no
 * launch uses memory; with FILE only the first one does not, which makes FILE. */
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool uses_none(const char *folder, const char *path)
{
    if (access(folder, F_OK) != 0) {
        return false;
    }
    if (path == NULL) {
        return true;
    }
    const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) {
        return false;
    }
    close(file);
    return true;
}

int main(int argc, char **argv)
{
    const size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const int which = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == which && (argc < 4 || !uses_none(argv[3], argc > 4 ? argv[4] : NULL))) {
        for (size_t i = 0; i < mib; i++) {
            char *block = malloc(1 << 20);
            if (block == NULL) {
                fprintf(stderr, "no more memory after %zu MiB\n", i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            memset(block, 1 + rank, 1 << 20);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
