/* Preloaded: the process runs on as many of its cores as the variable
 * PLANTED_CORES says. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void choose(void) {
  const char *wanted = getenv("PLANTED_CORES");
  cpu_set_t allowed;
  if (wanted == NULL || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  int left = atoi(wanted);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &allowed) && left-- <= 0)
      CPU_CLR(core, &allowed);
  if (sched_setaffinity(0, sizeof allowed, &allowed) != 0)
    _exit(97);
}
