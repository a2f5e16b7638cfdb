/* Write a file into the current folder, with the value of the variable GIVEN, and talk to the
 * neighbour once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank = 0;
    int token = 1;
    int status = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Sendrecv_replace(&token, 1, MPI_INT, rank ^ 1, 0, rank ^ 1, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    const char *given = getenv("GIVEN");
    char name[32];
    (void)snprintf(name, sizeof name, "written-by-%d", rank);
    FILE *file = fopen(name, "w");
    if (file != NULL && given != NULL) {
        status = fprintf(file, "%s\n", given) < 0;
    }
    if (file != NULL && fclose(file) != 0) {
        status = 1;
    }
    MPI_Finalize();
    return status;
}
