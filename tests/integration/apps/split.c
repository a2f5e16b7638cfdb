/* Say which ranks share memory with this one, as MPI sees it, and exchange 8 messages (1 MiB, or as
   the argument says) with a neighbour in rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 20, TIMES = 8 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int bytes = argc > 1 ? atoi(argv[1]) : BYTES;
    int rank = 0;
    int shared_ranks = 0;
    MPI_Comm shared = MPI_COMM_NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &shared_ranks);
    char *buffer = calloc(1, (size_t)bytes);
    if (buffer == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < TIMES; i++) {
        MPI_Sendrecv_replace(buffer, bytes, MPI_CHAR, rank ^ 1, 0, rank ^ 1, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    }
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    MPI_Get_processor_name(name, &length);
    printf("rank %d on %s shares with %d\n", rank, name, shared_ranks);
    free(buffer);
    MPI_Comm_free(&shared);
    MPI_Finalize();
    return 0;
}
