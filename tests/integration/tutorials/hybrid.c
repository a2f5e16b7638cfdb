#include <mpi.h>
#include <omp.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int provided, rank;
  double sum = 0, all = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 3000000; i++)
    sum += 1.0 / (i + 1);
  MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%.3f with %d threads a rank\n", all, omp_get_max_threads());
  MPI_Finalize();
  return 0;
}
