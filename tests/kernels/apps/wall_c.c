/* Begin and end MPI and leave a line unfinished; with "none" never call it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank = 0;
    if (argc > 1 && strcmp(argv[1], "none") == 0)
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("unfinished line of the application");
    MPI_Finalize();
    return 0;
}
