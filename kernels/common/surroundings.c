#include "common/surroundings.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

enum {
    LINE_SIZE = 512,
    MOST_SERVERS = 3, /* as many as a resolver asks (resolv.conf(5)) */
    NUMBER_SIZE = 32,
};

static void put_limit(struct json *line, const char *key, int status, const struct rlimit *limit)
{
    char text[NUMBER_SIZE];
    if (status != 0)
        return;
    if (limit->rlim_cur == RLIM_INFINITY)
        snprintf(text, sizeof text, "unlimited");
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)limit->rlim_cur);
    json_put_string(line, key, text);
}

/* What names a limit is an enumeration in one C library and an int in another. */
static void put_limits(struct json *line)
{
    struct rlimit limit;
    put_limit(line, "open_files", getrlimit(RLIMIT_NOFILE, &limit), &limit);
    put_limit(line, "stack_bytes", getrlimit(RLIMIT_STACK, &limit), &limit);
    put_limit(line, "locked_bytes", getrlimit(RLIMIT_MEMLOCK, &limit), &limit);
    put_limit(line, "processes", getrlimit(RLIMIT_NPROC, &limit), &limit);
}

static void put_shared_memory(struct json *line)
{
    char text[NUMBER_SIZE];
    struct statvfs found;
    if (statvfs("/dev/shm", &found) != 0)
        return;
    snprintf(text, sizeof text, "%llu",
             (unsigned long long)found.f_blocks * (unsigned long long)found.f_frsize);
    json_put_string(line, "shm_bytes", text);
}

/* Addresses only: the rest of the file is anybody's text. */
static void put_name_servers(struct json *line)
{
    char text[LINE_SIZE], address[INET6_ADDRSTRLEN], found[MOST_SERVERS * INET6_ADDRSTRLEN] = "";
    unsigned char parsed[sizeof(struct in6_addr)];
    int servers = 0;
    FILE *file = fopen("/etc/resolv.conf", "re");
    if (file == NULL)
        return;
    while (servers < MOST_SERVERS && fgets(text, sizeof text, file) != NULL) {
        if (sscanf(text, "nameserver %45s", address) != 1)
            continue;
        if (inet_pton(AF_INET, address, parsed) != 1 && inet_pton(AF_INET6, address, parsed) != 1)
            continue;
        const size_t length = strlen(found);
        snprintf(found + length, sizeof found - length, "%s%s", servers > 0 ? " " : "", address);
        servers++;
    }
    fclose(file);
    json_put_string(line, "name_servers", servers > 0 ? found : "none");
}

void surroundings_put(struct json *line)
{
    put_limits(line);
    put_shared_memory(line);
    put_name_servers(line);
}
