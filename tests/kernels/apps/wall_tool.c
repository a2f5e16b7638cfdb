/* A tiny PMPI tool: it counts the calls that it sees. */
#include <mpi.h>
#include <stdio.h>

static int inits;

int MPI_Init(int *argc, char ***argv)
{
    inits++;
    return PMPI_Init(argc, argv);
}

int MPI_Finalize(void)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        fprintf(stderr, "tool: %d MPI_Init, MPI_Finalize\n", inits);
    return PMPI_Finalize();
}
