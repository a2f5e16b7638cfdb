/* Every rank but the first writes lines for as long as the launcher reads what rank 0 reports. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const pid_t writer = rank > 0 ? fork() : -1;
    if (writer == 0) {
        for (int i = 0; i < 4000; i++) {
            char line[64];
            const int length = snprintf(line, sizeof line, "rank %d writes line %d\n", rank, i);
            if (write(STDOUT_FILENO, line, (size_t)length) < 0)
                break;
            usleep(50);
        }
        _exit(0);
    }
    usleep(100000);
    MPI_Finalize();
    return 0;
}
