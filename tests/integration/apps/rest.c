/* An MPI program that mostly sleeps, however busy the machine is: rest SECONDS.
 * Its ranks meet ten times a second. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    const int tenths = argc > 1 ? 10 * atoi(argv[1]) : 10;
    const struct timespec pause = {0, 100000000};
    MPI_Init(&argc, &argv);
    for (int each = 0; each < tenths; each++) {
        nanosleep(&pause, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
