#include "wall/work.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Where the kernel's struct tcp_info has the bytes of a connection; headers of before Linux 4.1
 * lack them, and so do those of the C library. */
enum { ACKED_AT = 120, RECEIVED_AT = 128, INFO_BYTES = 136, MOST_FILES = 4096 };

static void read_io(struct work *work)
{
    char text[128];
    FILE *file = fopen("/proc/self/io", "re");
    if (file == NULL)
        return;
    unsigned long long value = 0;
    while (fgets(text, sizeof text, file) != NULL) {
        if (sscanf(text, "rchar: %llu", &value) == 1)
            work->values[WORK_READ] = (double)value;
        else if (sscanf(text, "wchar: %llu", &value) == 1)
            work->values[WORK_WRITTEN] = (double)value;
    }
    fclose(file);
}

static void add_connection(struct work *work, int descriptor)
{
    unsigned char info[INFO_BYTES] = {0};
    socklen_t length = sizeof info;
    uint64_t acked = 0, received = 0;
    int queued = 0;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, info, &length) != 0 || length < INFO_BYTES)
        return;
    memcpy(&acked, info + ACKED_AT, sizeof acked);
    memcpy(&received, info + RECEIVED_AT, sizeof received);
    (void)ioctl(descriptor, TIOCOUTQ, &queued); /* written, and not acknowledged yet */
    work->values[WORK_SENT] += (double)acked + (queued > 0 ? queued : 0);
    work->values[WORK_RECEIVED] += (double)received;
}

static void read_connections(struct work *work)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    work->values[WORK_SENT] = 0.0;
    work->values[WORK_RECEIVED] = 0.0;
    struct dirent *entry;
    for (int i = 0; i < MOST_FILES && (entry = readdir(folder)) != NULL; i++)
        if (entry->d_name[0] != '.')
            add_connection(work, atoi(entry->d_name));
    closedir(folder);
}

struct work work_so_far(unsigned threads)
{
    struct work work;
    struct rusage used;
    for (int i = 0; i < WORK_COLUMNS; i++)
        work.values[i] = -1.0;
    read_io(&work);
    read_connections(&work);
    if (getrusage(RUSAGE_SELF, &used) == 0)
        work.values[WORK_USER] =
            (double)used.ru_utime.tv_sec + 1e-6 * (double)used.ru_utime.tv_usec;
    work.values[WORK_THREADS] = threads;
    return work;
}

void work_add(struct work *total, const struct work *from, const struct work *to)
{
    for (int i = 0; i < WORK_COLUMNS; i++) {
        const double done = to->values[i] - from->values[i];
        if (from->values[i] < 0.0 || to->values[i] < 0.0)
            total->values[i] = -1.0;
        else if (total->values[i] >= 0.0)
            total->values[i] += done > 0.0 ? done : 0.0; /* a connection may be closed by then */
    }
}
