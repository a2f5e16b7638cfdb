#include "common/locality.h"

#include "common/check.h"
#include "common/cpus.h"
#include "common/libraries.h"
#include "common/output.h"
#include "common/rights.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SIZE = 256 };

/* Two ranks are on one host when both fields agree: containers of a host differ in their name, and
 * the machines of a cluster made from one image may differ in nothing but their boot_id. */
struct host {
    char name[NAME_SIZE];
    char boot_id[BOOT_ID_SIZE];
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        FATAL("out of memory for the locality report");
    return memory;
}

void locality_boot_id(char text[BOOT_ID_SIZE])
{
    memset(text, 0, BOOT_ID_SIZE);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return;
    if (fgets(text, BOOT_ID_SIZE, file) == NULL)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

static struct host this_host(void)
{
    struct host host = {0};
    gethostname(host.name, sizeof host.name - 1);
    locality_boot_id(host.boot_id);
    return host;
}

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static void put_namespaces(struct json *line)
{
    static const char *const names[] = {"net", "ipc", "uts", "pid", "mnt", "user", "cgroup"};
    json_key(line, "namespaces");
    json_open(line, '{');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64];
        struct stat status;
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        json_key(line, names[i]);
        if (stat(path, &status) == 0)
            json_unsigned(line, status.st_ino);
        else
            json_null(line);
    }
    json_close(line, '}');
}

static void put_shm(struct json *line)
{
    struct stat status;
    const bool known = stat("/dev/shm", &status) == 0;
    json_key(line, "shm_device");
    known ? json_unsigned(line, status.st_dev) : json_null(line);
    json_key(line, "shm_inode");
    known ? json_unsigned(line, status.st_ino) : json_null(line);
}

static void put_cpus(struct json *line)
{
    char *affinity = cpus_affinity();
    json_put_string(line, "cpus", affinity);
    free(affinity);
    const int cpu = sched_getcpu();
    json_key(line, "last_cpu");
    cpu >= 0 ? json_integer(line, cpu) : json_null(line);
}

/* The ranks that MPI itself says can share memory with this one. */
static void put_shared_memory_ranks(struct json *line, MPI_Comm comm, int rank)
{
    MPI_Comm shared = MPI_COMM_NULL;
    int count = 0;
    CHECK_MPI(PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared));
    CHECK_MPI(PMPI_Comm_size(shared, &count));
    int *ranks = allocate((size_t)count, sizeof ranks[0]);
    CHECK_MPI(PMPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, shared));
    CHECK_MPI(PMPI_Comm_free(&shared));
    json_key(line, "shared_memory_ranks");
    json_open(line, '[');
    for (int i = 0; i < count; i++)
        json_integer(line, ranks[i]);
    json_close(line, ']');
    free(ranks);
}

static struct json describe(MPI_Comm comm, int rank, const struct host *host)
{
    char processor[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    CHECK_MPI(PMPI_Get_processor_name(processor, &length));
    struct json line = output_begin("rank");
    json_put_integer(&line, "rank", rank);
    json_put_string(&line, "hostname", text_or_null(host->name));
    json_put_string(&line, "processor_name", processor);
    json_put_string(&line, "boot_id", text_or_null(host->boot_id));
    json_put_integer(&line, "pid", getpid());
    put_cpus(&line);
    put_namespaces(&line);
    put_shm(&line);
    rights_put(&line);
    libraries_put(&line);
    put_shared_memory_ranks(&line, comm, rank);
    char *cgroup = cpus_cgroup();
    json_put_string(&line, "cgroup_cpus", cgroup);
    free(cgroup);
    json_close(&line, '}');
    json_raw(&line, "\n", 1);
    return line;
}

/* Return the host number of each rank; rank 0 only, NULL elsewhere. */
static int *gather_hosts(MPI_Comm comm, int rank, int ranks, struct host *host)
{
    struct host *hosts = rank == 0 ? allocate((size_t)ranks, sizeof hosts[0]) : NULL;
    int *host_of = rank == 0 ? allocate((size_t)ranks, sizeof host_of[0]) : NULL;
    const int size = (int)sizeof *host;
    CHECK_MPI(PMPI_Gather(host, size, MPI_BYTE, hosts, size, MPI_BYTE, 0, comm));
    if (rank != 0)
        return NULL;
    int count = 0;
    for (int i = 0; i < ranks; i++) {
        int earlier = 0;
        while (earlier < i && memcmp(&hosts[earlier], &hosts[i], sizeof hosts[i]) != 0)
            earlier++;
        host_of[i] = earlier < i ? host_of[earlier] : count++;
    }
    free(hosts);
    return host_of;
}

/* Return all lines in rank order; rank 0 only, NULL elsewhere. */
static char *gather_lines(MPI_Comm comm, int rank, int ranks, const struct json *line)
{
    int *lengths = rank == 0 ? allocate((size_t)ranks, sizeof lengths[0]) : NULL;
    int *offsets = rank == 0 ? allocate((size_t)ranks, sizeof offsets[0]) : NULL;
    const int length = (int)line->length;
    size_t total = 0;
    CHECK_MPI(PMPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, comm));
    for (int i = 0; rank == 0 && i < ranks; i++) {
        offsets[i] = (int)total;
        total += (size_t)lengths[i];
        if (total > INT_MAX)
            FATAL("the locality report is larger than 2 GiB");
    }
    char *lines = rank == 0 ? allocate(total + 1, 1) : NULL;
    CHECK_MPI(
        PMPI_Gatherv(line->text, length, MPI_CHAR, lines, lengths, offsets, MPI_CHAR, 0, comm));
    free(lengths);
    free(offsets);
    return lines;
}

struct locality locality_gather(MPI_Comm comm)
{
    int rank = 0;
    struct locality locality = {0};
    CHECK_MPI(PMPI_Comm_rank(comm, &rank));
    CHECK_MPI(PMPI_Comm_size(comm, &locality.ranks));
    struct host host = this_host();
    struct json line = describe(comm, rank, &host);
    locality.host_of = gather_hosts(comm, rank, locality.ranks, &host);
    locality.lines = gather_lines(comm, rank, locality.ranks, &line);
    json_free(&line);
    return locality;
}

bool locality_write(const struct locality *locality)
{
    return output_lines(locality->lines);
}

void locality_free(struct locality *locality)
{
    free(locality->host_of);
    free(locality->lines);
    *locality = (struct locality){0};
}
