/* Two ranks tell each other a number and say what they heard; a rank that is alone says so, too. */
#include <mpi.h>
#include <stdio.h>

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int rank = 0;
    int ranks = 0;
    int heard = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks == 2) {
        int said = 41 + rank;
        MPI_Sendrecv(&said, 1, MPI_INT, 1 - rank, 0, &heard, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d of %d heard %d\n", rank, ranks, heard);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
