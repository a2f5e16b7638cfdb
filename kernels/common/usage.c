#include "common/usage.h"

#include "common/check.h"
#include "common/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const char *const names[USAGE_COLUMNS] = {
    [VOLUNTARY] = "rank_voluntary_switches",
    [INVOLUNTARY] = "rank_involuntary_switches",
    [RUN_DELAY] = "rank_run_delay_s",
    [ON_CPU] = "rank_on_cpu_s",
};

/* A value that is not known is negative. */
static void read_own(double own[USAGE_COLUMNS])
{
    struct rusage used;
    unsigned long long on_cpu_ns = 0, delay_ns = 0;
    for (int i = 0; i < USAGE_COLUMNS; i++)
        own[i] = -1.0;
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        own[VOLUNTARY] = (double)used.ru_nvcsw;
        own[INVOLUNTARY] = (double)used.ru_nivcsw;
    }
    FILE *file = fopen("/proc/self/schedstat", "re");
    if (file == NULL)
        return;
    if (fscanf(file, "%llu %llu", &on_cpu_ns, &delay_ns) == 2) {
        own[ON_CPU] = (double)on_cpu_ns * 1e-9;
        own[RUN_DELAY] = (double)delay_ns * 1e-9;
    }
    fclose(file);
}

struct usage usage_gather(MPI_Comm comm)
{
    struct usage usage = {0};
    double own[USAGE_COLUMNS];
    int rank = 0;
    read_own(own);
    CHECK_MPI(PMPI_Comm_rank(comm, &rank));
    CHECK_MPI(PMPI_Comm_size(comm, &usage.ranks));
    for (int i = 0; i < USAGE_COLUMNS; i++) {
        if (rank == 0) {
            usage.columns[i] = calloc((size_t)usage.ranks, sizeof usage.columns[i][0]);
            if (usage.columns[i] == NULL)
                FATAL("out of memory for what the ranks used");
        }
        CHECK_MPI(PMPI_Gather(&own[i], 1, MPI_DOUBLE, usage.columns[i], 1, MPI_DOUBLE, 0, comm));
    }
    return usage;
}

static bool is_known(const struct usage *usage, int column)
{
    for (int rank = 0; rank < usage->ranks; rank++)
        if (usage->columns[column][rank] < 0.0)
            return false;
    return true;
}

struct json usage_line(const struct usage *usage)
{
    struct json line = output_begin("usage");
    for (int i = 0; i < USAGE_COLUMNS; i++) {
        if (is_known(usage, i))
            json_put_numbers(&line, names[i], usage->columns[i], (size_t)usage->ranks);
        else
            json_put_null(&line, names[i]);
    }
    return line;
}

bool usage_write(const struct usage *usage)
{
    struct json line = usage_line(usage);
    return output_finish(&line);
}

void usage_free(struct usage *usage)
{
    for (int i = 0; i < USAGE_COLUMNS; i++)
        free(usage->columns[i]);
}
