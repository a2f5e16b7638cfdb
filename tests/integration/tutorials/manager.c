/* starts one more process, as master and worker programs do */
#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) {
  MPI_Comm parent, all;
  int n;
  MPI_Init(&c, &v);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    MPI_Comm child;
    MPI_Comm_spawn(v[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &child, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(child, 0, &all);
  } else
    MPI_Intercomm_merge(parent, 1, &all);
  MPI_Comm_size(all, &n);
  printf("merged %d\n", n);
  MPI_Barrier(all);
  MPI_Finalize();
  return 0;
}
