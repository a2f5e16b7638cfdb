/* Preloaded: the process may open as many files as the variable PLANTED_FILES
 * says. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

__attribute__((constructor)) static void limit(void) {
  const char *wanted = getenv("PLANTED_FILES");
  struct rlimit files;
  if (wanted == NULL || getrlimit(RLIMIT_NOFILE, &files) != 0)
    return;
  files.rlim_cur = (rlim_t)strtoul(wanted, NULL, 10);
  if (setrlimit(RLIMIT_NOFILE, &files) != 0)
    _exit(97);
}
