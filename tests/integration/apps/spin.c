/* An MPI program whose ranks compute for a second of wall time, and tell how much CPU time they got. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    while (now(CLOCK_MONOTONIC) < began + 1.0) {
    }
    const double wall = now(CLOCK_MONOTONIC) - began;
    printf("%.3f\n", (now(CLOCK_PROCESS_CPUTIME_ID) - used) / wall);
    MPI_Finalize();
    return 0;
}
