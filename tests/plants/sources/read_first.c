/* Reads its first argument from the disk, and not from memory, before it
 * begins. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  enum { BLOCK = 1 << 16 };
  void *block = NULL;
  ssize_t got = -1;
  MPI_Init(&argc, &argv);
  const int input = argc > 1 ? open(argv[1], O_RDONLY | O_DIRECT) : -1;
  if (input < 0 || posix_memalign(&block, BLOCK, BLOCK) != 0)
    MPI_Abort(MPI_COMM_WORLD, 97);
  do
    got = read(input, block, BLOCK);
  while (got > 0);
  if (got < 0)
    MPI_Abort(MPI_COMM_WORLD, 98);
  free(block);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
