/* tare-miniapps: start the build of the mini-applications that suits this CPU.
 *
 * TARE_CPU_LEVEL names another, to compare them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANNOT_START = 127 };

/* Return the best level of those that were built (TARE_LEVELS, the plainest first). */
static const char *best_level(void)
{
#if defined(__x86_64__)
    if (strstr(TARE_LEVELS, "x86-64-v4") != NULL && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "x86-64-v4";
    if (strstr(TARE_LEVELS, "x86-64-v3") != NULL && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
        return "x86-64-v3";
    if (strstr(TARE_LEVELS, "x86-64") != NULL)
        return "x86-64";
#endif
    return "plain";
}

int main(int argc, char **argv)
{
    char path[PATH_MAX];
    const char *wanted = getenv("TARE_CPU_LEVEL");
    const char *level = wanted != NULL && wanted[0] != '\0' ? wanted : best_level();
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (argc < 1 || length < 0 || (size_t)length + strlen(level) + 2 > sizeof path) {
        fprintf(stderr, "tare-miniapps: cannot tell where this program is: %s\n", strerror(errno));
        return CANNOT_START;
    }
    snprintf(path + length, sizeof path - (size_t)length, "-%s", level);
    execv(path, argv);
    fprintf(stderr, "tare-miniapps: %s cannot be started: %s; levels that were built: %s\n", path,
            strerror(errno), TARE_LEVELS);
    return CANNOT_START;
}
