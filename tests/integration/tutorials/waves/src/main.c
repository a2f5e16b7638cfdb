#include <mpi.h>
#include <stdio.h>
double wave(int i);
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double own = wave(rank), all;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("sum %g\n", all);
  MPI_Finalize();
  return 0;
}
