/* Do one of many kinds of work: works WAY FOLDER. FOLDER is there on the
 * machine and not in a container.
 *
 * The first kinds do something else where it is missing, without a word and
 * with status 0, as programs do that look at no error; the others do the same
 * everywhere, as far as a program's work is ever the same.
 *
 * It is one file because it is one program: each way is a few lines, and they
 * share how they compute, open, write and read. */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEGABYTE = 1 << 20 };

struct place {
  const char *folder;
  int there, rank, ranks;
  unsigned chance; /* other in each launch */
};

static char block[MEGABYTE];

static void compute(long steps) {
  volatile double sum = 0.0;
  for (long i = 1; i < steps * 1000; i++)
    sum += sqrt((double)i);
}

static FILE *opened(const char *mode, const char *pattern, ...) {
  char path[4096];
  va_list values;
  va_start(values, pattern);
  (void)vsnprintf(path, sizeof path, pattern, values);
  va_end(values);
  return fopen(path, mode);
}

static void put(FILE *file, long bytes) {
  for (; file != NULL && bytes > 0; bytes -= MEGABYTE)
    (void)!fwrite(block, 1, (size_t)(bytes < MEGABYTE ? bytes : MEGABYTE),
                  file);
  if (file != NULL)
    (void)fclose(file);
}

static long get(FILE *file) {
  long bytes = 0;
  for (size_t n = 1; file != NULL && n > 0; bytes += (long)n)
    n = fread(block, 1, sizeof block, file);
  if (file != NULL)
    (void)fclose(file);
  return bytes;
}

static double between(struct place *at, double low, double high) {
  return low + (high - low) * rand_r(&at->chance) / RAND_MAX;
}

/* --- threads
 * ----------------------------------------------------------------------------------------------------
 */

static void *thread(void *steps) {
  compute(*(const long *)steps);
  return NULL;
}

static void in_threads(int count) {
  pthread_t threads[32];
  long steps = 2000;
  for (int i = 0; i < count; i++)
    (void)pthread_create(&threads[i], NULL, thread, &steps);
  for (int i = 0; i < count; i++)
    (void)pthread_join(threads[i], NULL);
}

/* --- messages
 * ---------------------------------------------------------------------------------------------------
 */

static void exchange(struct place *at, int count, int bytes) {
  for (int i = 0; i < count; i++)
    MPI_Sendrecv_replace(block, bytes, MPI_BYTE, at->rank ^ 1, 0, at->rank ^ 1,
                         0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void reduces(struct place *at) {
  (void)at;
  for (int i = 0; i < 500; i++)
    MPI_Allreduce(MPI_IN_PLACE, block, 1000, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
}

static void broadcasts(struct place *at) {
  (void)at;
  for (int i = 0; i < 10; i++)
    MPI_Bcast(block, MEGABYTE, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void gathers(struct place *at) {
  static char all[8 * 4096];
  (void)at;
  for (int i = 0; i < 100; i++) {
    MPI_Gather(block, 4096, MPI_BYTE, all, 4096, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Scatter(all, 4096, MPI_BYTE, block, 4096, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
}

static void writes_together(struct place *at) {
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, "together", MPI_MODE_CREATE | MPI_MODE_RDWR,
                MPI_INFO_NULL, &file);
  MPI_File_write_at_all(file, (MPI_Offset)at->rank * MEGABYTE, block, MEGABYTE,
                        MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_read_at_all(file, (MPI_Offset)at->rank * MEGABYTE, block, MEGABYTE,
                       MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

/* --- other work
 * -------------------------------------------------------------------------------------------------
 */

static void checkpoints(struct place *at) {
  put(opened("w", "%s/out-%d", at->folder, at->rank), MEGABYTE);
}

static void third_checkpoint(struct place *at) {
  put(opened("w", "first-%d", at->rank), 8 * MEGABYTE);
  put(opened("w", "second-%d", at->rank), 8 * MEGABYTE);
  put(opened("w", "%s/third-%d", at->folder, at->rank), 8 * MEGABYTE);
}

static void fewer_threads(struct place *at) { in_threads(at->there ? 4 : 1); }

static void more_threads(struct place *at) { in_threads(at->there ? 2 : 12); }

static void no_threads(struct place *at) {
  if (at->there)
    in_threads(3);
  else
    compute(6000);
}

static void other_library(struct place *at) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/libopenblasworks.so", at->folder);
  if (dlopen(path, RTLD_NOW) == NULL)
    (void)dlopen("./libblasworks.so", RTLD_NOW);
  compute(2000);
}

static void no_input(struct place *at) {
  (void)get(opened("r", "%s/input", at->folder));
  compute(2000);
}

static void default_steps(struct place *at) {
  char text[32] = "100";
  FILE *file = opened("r", "%s/steps", at->folder);
  if (file != NULL) {
    (void)!fgets(text, sizeof text, file);
    (void)fclose(file);
  }
  compute(atol(text));
}

static void nothing_to_do(struct place *at) {
  if (at->there)
    compute(50000);
}

static void no_result(struct place *at) {
  compute(2000);
  for (int i = 0; at->there && at->rank == 0 && i < 40; i++)
    printf("step %d of 40: residual %g\n", i, exp(-i));
}

static void half_result(struct place *at) {
  compute(2000);
  if (at->rank == 0)
    printf(at->there ? "the cells converged\n"
                     : "no cells found: the mesh is empty\n");
  put(opened("w", "result-%d", at->rank), at->there ? 9000 : 4500);
}

static void fewer_messages(struct place *at) {
  exchange(at, at->there ? 200 : 2, 65536);
}

/* --- the same work
 * ----------------------------------------------------------------------------------------------
 */

static void usual(struct place *at) {
  (void)at;
  compute(20000);
}

static void idle(struct place *at) { (void)at; }

static void talks(struct place *at) {
  char host[256] = "";
  (void)gethostname(host, sizeof host);
  printf("rank %d on %s, process %d, at %ld, %s\n", at->rank, host, getpid(),
         (long)time(NULL), getenv("HOME"));
}

static void temporary(struct place *at) {
  put(opened("w", "/tmp/works-%d", at->rank), MEGABYTE);
}

static void here(struct place *at) {
  put(opened("w", "here-%d", at->rank), 3 * MEGABYTE);
}

static void shared_memory(struct place *at) {
  put(opened("w", "/dev/shm/works-%d", at->rank), MEGABYTE);
  char path[64];
  (void)snprintf(path, sizeof path, "/dev/shm/works-%d", at->rank);
  (void)unlink(path);
}

static void reads(struct place *at) {
  (void)at;
  printf("%ld bytes of input\n", get(opened("r", "input")));
}

static void system_files(struct place *at) {
  (void)at;
  (void)get(opened("r", "/etc/passwd"));
  (void)get(opened("r", "/etc/services"));
  (void)get(opened("r", "/etc/hosts"));
}

static void maps(struct place *at) {
  char text[4096];
  FILE *file = opened("r", "/proc/self/maps");
  for (int i = 0;
       file != NULL && i < 20 && fgets(text, sizeof text, file) != NULL; i++)
    printf("%d: %s", at->rank, text);
  if (file != NULL)
    (void)fclose(file);
}

static void environment(struct place *at) {
  extern char **environ;
  for (char **each = environ; at->rank == 0 && *each != NULL; each++)
    printf("%s\n", *each);
}

static void threads(struct place *at) {
  (void)at;
  in_threads(4);
}

static void pool(struct place *at) { in_threads((int)between(at, 2, 24)); }

static void random_steps(struct place *at) {
  compute((long)between(at, 10000, 40000));
}

static void random_files(struct place *at) {
  put(opened("w", "random-%d", at->rank), (long)between(at, 1e3, 2e7));
}

static void random_lines(struct place *at) {
  for (int i = (int)between(at, 20, 200); i > 0; i--)
    printf("%d: %g\n", at->rank, between(at, 0, 1));
}

static void iterates(struct place *at) {
  int steps = (int)between(at, 10, 40);
  MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < steps; i++) {
    compute(1000);
    exchange(at, 1, 65536);
    if (at->rank == 0)
      printf("iteration %d: residual %.17g\n", i, between(at, 0, 1));
  }
  put(opened("w", "iterates-%d", at->rank), 100000L * steps);
}

static void small_messages(struct place *at) { exchange(at, 5000, 8); }

static void large_messages(struct place *at) { exchange(at, 20, MEGABYTE); }

static void waits(struct place *at) {
  if (at->rank == 1)
    compute(40000);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void looks_up(struct place *at) {
  char host[256] = "";
  struct addrinfo *found = NULL;
  (void)at;
  (void)gethostname(host, sizeof host);
  if (getaddrinfo(host, NULL, NULL, &found) == 0)
    freeaddrinfo(found);
}

static void touches(struct place *at) {
  const size_t bytes = 64 * (size_t)MEGABYTE;
  char *memory = malloc(bytes);
  for (size_t i = 0; memory != NULL && i < bytes; i += 4096)
    memory[i] = (char)at->rank;
  free(memory);
}

static void maps_file(struct place *at) {
  const int file = open("input", O_RDONLY);
  const char *text =
      file < 0 ? MAP_FAILED
               : mmap(NULL, MEGABYTE, PROT_READ, MAP_PRIVATE, file, 0);
  long sum = 0;
  for (long i = 0; text != MAP_FAILED && i < MEGABYTE; i++)
    sum += text[i];
  printf("%d: %ld\n", at->rank, sum);
  if (file >= 0)
    (void)close(file);
}

static void asks_shell(struct place *at) {
  char text[256] = "";
  FILE *from = popen("date +%N; uname -n", "r");
  while (from != NULL && fgets(text, sizeof text, from) != NULL)
    printf("%d: %s", at->rank, text);
  if (from != NULL)
    (void)pclose(from);
}

static void much_output(struct place *at) {
  for (int i = 0; i < 4000; i++)
    printf("%d: cell %d has %g after %g s\n", at->rank, i, i / 7.0,
           MPI_Wtime());
}

static void for_a_time(struct place *at) {
  long steps = 0;
  for (const double end = MPI_Wtime() + 0.2; MPI_Wtime() < end; steps++)
    compute(1);
  printf("%d: %ld steps in 0.2 s\n", at->rank, steps);
}

static void small_files(struct place *at) {
  char path[64];
  for (int i = 0; i < 200; i++) {
    (void)snprintf(path, sizeof path, "small-%d-%d", at->rank, i);
    put(opened("w", "%s", path), 100);
    (void)unlink(path);
  }
}

static void synced(struct place *at) {
  FILE *file = opened("w", "synced-%d", at->rank);
  for (int i = 0; file != NULL && i < 5; i++) {
    (void)!fwrite(block, 1, 65536, file);
    (void)fflush(file);
    (void)fsync(fileno(file));
  }
  if (file != NULL)
    (void)fclose(file);
}

static void pipes(struct place *at) {
  int ends[2];
  (void)at;
  if (pipe(ends) != 0)
    return;
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 32; i++)
      (void)!write(ends[1], block, 65536);
    _exit(0);
  }
  (void)close(ends[1]);
  while (read(ends[0], block, sizeof block) > 0)
    ;
  (void)close(ends[0]);
  (void)waitpid(child, NULL, 0);
}

static void library(struct place *at) {
  (void)at;
  (void)dlopen("./libblasworks.so", RTLD_NOW);
  compute(2000);
}

static void log_of_hosts(struct place *at) {
  char host[256] = "";
  FILE *file = opened("w", "log-%d", at->rank);
  (void)gethostname(host, sizeof host);
  for (int i = 0; file != NULL && i < 300; i++)
    (void)fprintf(file, "%s[%d]: step %d\n", host, getpid(), i);
  if (file != NULL)
    (void)fclose(file);
}

static void complains(struct place *at) {
  for (int i = 0; i < 20; i++)
    (void)fprintf(stderr, "rank %d: warning %d at %p\n", at->rank, i,
                  (void *)&i);
}

static void renames(struct place *at) {
  char made[64], final[64];
  (void)snprintf(made, sizeof made, "renames-%d.new", at->rank);
  (void)snprintf(final, sizeof final, "renames-%d", at->rank);
  for (int i = 0; i < 5; i++) {
    put(opened("w", "%s", made), MEGABYTE);
    (void)rename(made, final);
  }
}

static void appends(struct place *at) {
  put(opened("a", "log-of-all-%d", at->rank), 5000);
}

static void without_waiting(struct place *at) {
  static char mine[65536], theirs[65536];
  MPI_Request requests[2];
  for (int i = 0; i < 50; i++) {
    MPI_Irecv(theirs, sizeof theirs, MPI_BYTE, at->rank ^ 1, 1, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Isend(mine, sizeof mine, MPI_BYTE, at->rank ^ 1, 1, MPI_COMM_WORLD,
              &requests[1]);
    compute(50);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
}

static void splits(struct place *at) {
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, at->rank % 2, at->rank, &part);
  MPI_Allreduce(MPI_IN_PLACE, block, 100, MPI_INT, MPI_MAX, part);
  MPI_Comm_free(&part);
}

static void sleeps(struct place *at) {
  (void)at;
  (void)usleep(200000);
}

static const struct {
  const char *name;
  void (*work)(struct place *at);
} WAYS[] = {
    {"checkpoints", checkpoints},
    {"third-checkpoint", third_checkpoint},
    {"fewer-threads", fewer_threads},
    {"more-threads", more_threads},
    {"no-threads", no_threads},
    {"other-library", other_library},
    {"no-input", no_input},
    {"default-steps", default_steps},
    {"nothing-to-do", nothing_to_do},
    {"no-result", no_result},
    {"half-result", half_result},
    {"fewer-messages", fewer_messages},
    {"before-mpi", usual},
    {"dropped-preload", usual},
    {"preload", usual},
    {"usual", usual},
    {"idle", idle},
    {"talks", talks},
    {"temporary", temporary},
    {"here", here},
    {"shared-memory", shared_memory},
    {"reads", reads},
    {"system-files", system_files},
    {"maps", maps},
    {"environment", environment},
    {"threads", threads},
    {"pool", pool},
    {"random-steps", random_steps},
    {"random-files", random_files},
    {"random-lines", random_lines},
    {"iterates", iterates},
    {"small-messages", small_messages},
    {"large-messages", large_messages},
    {"reduces", reduces},
    {"broadcasts", broadcasts},
    {"gathers", gathers},
    {"writes-together", writes_together},
    {"waits", waits},
    {"looks-up", looks_up},
    {"touches", touches},
    {"maps-file", maps_file},
    {"asks-shell", asks_shell},
    {"much-output", much_output},
    {"for-a-time", for_a_time},
    {"small-files", small_files},
    {"synced", synced},
    {"pipes", pipes},
    {"library", library},
    {"log-of-hosts", log_of_hosts},
    {"complains", complains},
    {"renames", renames},
    {"appends", appends},
    {"without-waiting", without_waiting},
    {"splits", splits},
    {"sleeps", sleeps},
};

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  struct place at = {.folder = argv[2], .there = access(argv[2], R_OK) == 0};
  if (strcmp(argv[1], "before-mpi") == 0 && !at.there)
    return 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &at.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &at.ranks);
  at.chance = (unsigned)time(NULL) ^ (unsigned)getpid();
  int status = 2;
  for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
    if (strcmp(argv[1], WAYS[i].name) == 0) {
      WAYS[i].work(&at);
      status = 0;
    }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return status;
}
