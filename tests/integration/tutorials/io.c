#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  int rank;
  char line[32];
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(line, sizeof line, "rank %4d wrote this line here\n", rank);
  int code =
      MPI_File_open(MPI_COMM_WORLD, "lines.txt",
                    MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  if (code != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "lines.txt: %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_File_write_at_all(file, (MPI_Offset)(rank * strlen(line)), line,
                        (int)strlen(line), MPI_CHAR, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
