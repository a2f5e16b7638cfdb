/* Looks up a name that nobody knows. */
#include <mpi.h>
#include <netdb.h>
#include <stddef.h>

int main(int argc, char **argv) {
  struct addrinfo *found = NULL;
  MPI_Init(&argc, &argv);
  if (getaddrinfo("license.site.example", NULL, NULL, &found) == 0)
    freeaddrinfo(found);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
