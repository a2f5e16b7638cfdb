/* Sleep between MPI_Init and MPI_Finalize for as many milliseconds as the first argument says, rank
 * 1 for as many as the second; with "none" never call MPI. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank = 0;
    if (argc < 3 || strcmp(argv[1], "none") == 0) {
        /* MPICH's mpiexec 4.0 dies of SIGPIPE if its ranks end while it still starts them */
        usleep(300 * 1000);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    usleep((useconds_t)atoi(argv[rank == 1 ? 2 : 1]) * 1000);
    if (rank == 0)
        printf("unfinished line of the application");
    MPI_Finalize();
    return 0;
}
