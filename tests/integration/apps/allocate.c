/* An MPI program in which rank `which` uses so many MiB of memory, while the others wait for it:
 * allocate MIB [WHICH [FILE]]. The first launch uses none where FILE is there: it is removed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const int which = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == which && (argc < 4 || unlink(argv[3]) != 0)) {
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
