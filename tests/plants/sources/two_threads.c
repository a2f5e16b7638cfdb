/* Two threads of a rank compute at the same time, and wait for each other. */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>

enum { TIMES = 20, STEPS = 4000000 };

static pthread_barrier_t barrier;

static void *compute(void *unused) {
  volatile double sum = 0.0;
  for (int time = 0; time < TIMES; time++) {
    for (int step = 1; step <= STEPS; step++)
      sum = sum + 1.0 / step;
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

int main(int argc, char **argv) {
  pthread_t other;
  MPI_Init(&argc, &argv);
  if (pthread_barrier_init(&barrier, NULL, 2) != 0 ||
      pthread_create(&other, NULL, compute, NULL) != 0)
    MPI_Abort(MPI_COMM_WORLD, 97);
  compute(NULL);
  if (pthread_join(other, NULL) != 0)
    MPI_Abort(MPI_COMM_WORLD, 98);
  MPI_Finalize();
  return 0;
}
