#pragma once

#include "common/json.h"

#include <mpi.h>
#include <stdbool.h>

enum usage_column { VOLUNTARY, INVOLUNTARY, RUN_DELAY, ON_CPU, USAGE_COLUMNS };

/* What each rank has used of its cores since it was started; on rank 0 only. */
struct usage {
    double *columns[USAGE_COLUMNS]; /* NULL: the kernel does not report it */
    int ranks;
};

/* Collective. Context switches are of all threads of a rank (getrusage), the time on a core and the
 * time that it waited for one (/proc/self/schedstat) of its first thread, which is the one that
 * calls MPI. */
struct usage usage_gather(MPI_Comm comm);

/* Rank 0: write the record `usage`; or return it, not closed yet. */
bool usage_write(const struct usage *usage);
struct json usage_line(const struct usage *usage);

void usage_free(struct usage *usage);
