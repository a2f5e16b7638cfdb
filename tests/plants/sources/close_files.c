/* Closes every file that it may open, as programs do before they start another
 * one. */
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv) {
  enum { TIMES = 20, FIRST = 100 };
  MPI_Init(&argc, &argv);
  for (int time = 0; time < TIMES; time++) {
    const long most = sysconf(_SC_OPEN_MAX);
    for (long file = FIRST; file < most; file++)
      (void)fcntl((int)file, F_GETFD);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
