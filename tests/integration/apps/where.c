/* Say where each rank runs; arguments: the exit status, and any second one: make the file `written`, and stay. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
    int rank, ranks;
    char host[256], folder[4096];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gethostname(host, sizeof host);
    printf("rank %d of %d on %s in %s\n", rank, ranks, host, getcwd(folder, sizeof folder));
    fflush(stdout);
    if (count > 2) {
        FILE *file = fopen("written", "w");
        fclose(file);
        for (;;) {
            pause();
        }
    }
    MPI_Finalize();
    return count > 1 ? atoi(words[1]) : 0;
}
