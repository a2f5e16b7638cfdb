#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, *cells;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win_allocate(size * sizeof(int), sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &cells, &window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < size; i++)
    MPI_Put(&rank, 1, MPI_INT, i, rank, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (rank == 0)
    printf("last cell %d\n", cells[size - 1]);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
