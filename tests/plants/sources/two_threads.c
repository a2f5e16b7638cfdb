/* Two threads that wait for each other by spinning after each piece of work. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { PIECES = 400, PIECE = 100000, THREADS = 2 };

static atomic_int arrived;

static void *work(void *unused)
{
    volatile double sum = 0.0;
    for (int piece = 1; piece <= PIECES; piece++) {
        for (int i = 0; i < PIECE; i++)
            sum = sum + (double)i;
        atomic_fetch_add(&arrived, 1);
        while (atomic_load(&arrived) < THREADS * piece)
            ;
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t other;
    MPI_Init(&argc, &argv);
    if (pthread_create(&other, NULL, work, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    work(NULL);
    if (pthread_join(other, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
