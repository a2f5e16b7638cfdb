#include "common/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return a mask large enough for this kernel; it refuses smaller ones with EINVAL. */
static cpu_set_t *read_mask(int *cpus)
{
    for (*cpus = 1024; *cpus <= 1 << 20; *cpus *= 2) {
        cpu_set_t *mask = CPU_ALLOC((size_t)*cpus);
        if (mask == NULL)
            return NULL;
        const size_t size = CPU_ALLOC_SIZE((size_t)*cpus);
        CPU_ZERO_S(size, mask);
        if (sched_getaffinity(0, size, mask) == 0)
            return mask;
        const int error = errno;
        CPU_FREE(mask);
        if (error != EINVAL)
            return NULL;
    }
    return NULL;
}

static bool in_mask(const cpu_set_t *mask, int cpus, int cpu)
{
    return cpu < cpus && CPU_ISSET_S((size_t)cpu, CPU_ALLOC_SIZE((size_t)cpus), mask);
}

char *cpus_affinity(void)
{
    int cpus = 0;
    cpu_set_t *mask = read_mask(&cpus);
    char *list = NULL;
    size_t length = 0;
    FILE *stream = mask == NULL ? NULL : open_memstream(&list, &length);
    if (stream == NULL) {
        if (mask != NULL)
            CPU_FREE(mask);
        return NULL;
    }
    const char *comma = "";
    for (int first = 0; first < cpus; first++) {
        if (!in_mask(mask, cpus, first))
            continue;
        int last = first;
        while (in_mask(mask, cpus, last + 1))
            last++;
        if (last > first)
            fprintf(stream, "%s%d-%d", comma, first, last);
        else
            fprintf(stream, "%s%d", comma, first);
        comma = ",";
        first = last;
    }
    CPU_FREE(mask);
    fclose(stream);
    return list;
}

/* Return the first line of a file without its end; NULL when it cannot be read or is empty. */
static char *first_line(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *line = NULL;
    size_t capacity = 0;
    const ssize_t length = getline(&line, &capacity, file);
    fclose(file);
    if (length > 0)
        line[strcspn(line, "\n")] = '\0';
    if (length <= 0 || line[0] == '\0') {
        free(line);
        return NULL;
    }
    return line;
}

static char *read_in(const char *root, const char *group, const char *file)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s/%s", root, group, file) < 0)
        return NULL;
    char *line = first_line(path);
    free(path);
    return line;
}

/* Return the path of the group in the hierarchy whose controller field is `controllers`; "" is v2.
 */
static char *group_of(const char *controllers)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char *line = NULL;
    char *group = NULL;
    size_t capacity = 0;
    while (file != NULL && group == NULL && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *field = strchr(line, ':');
        char *path = field == NULL ? NULL : strchr(field + 1, ':');
        if (path == NULL)
            continue;
        *path = '\0';
        if (strcmp(field + 1, controllers) == 0)
            group = strdup(path + 1);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return group;
}

/* In a container without a cgroup namespace the group's path is the host's while the mount shows
 * the container's own group at its root: so the root is the second place to look. */
static char *cpus_in(const char *controllers, const char *root, const char *file)
{
    char *group = group_of(controllers);
    if (group == NULL)
        return NULL;
    char *list = read_in(root, group, file);
    if (list == NULL)
        list = read_in(root, "", file);
    free(group);
    return list;
}

char *cpus_cgroup(void)
{
    char *list = cpus_in("cpuset", "/sys/fs/cgroup/cpuset", "cpuset.effective_cpus");
    if (list == NULL)
        list = cpus_in("cpuset", "/sys/fs/cgroup/cpuset", "cpuset.cpus");
    if (list == NULL)
        list = cpus_in("", "/sys/fs/cgroup", "cpuset.cpus.effective");
    return list;
}
