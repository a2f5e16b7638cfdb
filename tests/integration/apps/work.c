/* Do some work in one of several ways; what it does beyond the usual depends on
 * a folder, which is there or not. It looks at no error, as many programs do.
 *
 *     work WAY FOLDER */
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *computes(void *argument) {
  const long steps = *(const long *)argument;
  volatile double sum = 0.0;
  for (long i = 1; i < steps; i++)
    sum += sqrt((double)i);
  return NULL;
}

static FILE *file_in(const char *folder, const char *name, const char *mode) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return fopen(path, mode);
}

static void writes(const char *folder, int rank) {
  static char text[1 << 20];
  char name[32];
  (void)snprintf(name, sizeof name, "out-%d", rank);
  FILE *file = file_in(folder, name, "w");
  if (file != NULL) {
    (void)!fwrite(text, 1, sizeof text, file);
    fclose(file);
  }
}

/* Return the number in the file `steps`, a small one if it is not there. */
static long steps_in(const char *folder) {
  char text[32] = "1000";
  FILE *file = file_in(folder, "steps", "r");
  if (file != NULL) {
    (void)!fgets(text, sizeof text, file);
    fclose(file);
  }
  return atol(text);
}

static void exchanges(void) {
  int token = 1, rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 10; i++)
    MPI_Sendrecv_replace(&token, 1, MPI_INT, rank ^ 1, 0, rank ^ 1, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  const char *way = argv[1], *folder = argv[2];
  const int there = access(folder, R_OK) == 0;
  int rank;
  long usual = 20000000;
  if (strcmp(way, "ends") == 0 && !there)
    return 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(way, "writes") == 0)
    writes(folder, rank);
  if (strcmp(way, "input") == 0)
    usual = steps_in(folder);
  if (strcmp(way, "threads") == 0) {
    pthread_t threads[4];
    const int count = there ? 4 : 1;
    for (int i = 0; i < count; i++)
      pthread_create(&threads[i], NULL, computes, &usual);
    for (int i = 0; i < count; i++)
      pthread_join(threads[i], NULL);
  } else {
    computes(&usual);
  }
  if (strcmp(way, "talks") ==
      0) { /* all that may differ from launch to launch and between hosts */
    char host[256] = "";
    (void)gethostname(host, sizeof host);
    printf("rank %d on %s, process %d, at %ld, %s\n", rank, host, getpid(),
           (long)time(NULL), getenv("HOME"));
    writes("/tmp", rank);
  }
  exchanges();
  MPI_Finalize();
  return 0;
}
