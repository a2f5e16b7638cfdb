/* MPI_Alltoallv with equal counts: block i lies at message_bytes * i. */
#include "common/buffers.h"
#include "common/check.h"
#include "kernels/exchange.h"
#include "kernels/registry.h"

#include <stdlib.h>

struct layout {
    int *counts;
    int *displacements;
};

static bool init(struct job *job)
{
    struct layout *layout = calloc(1, sizeof *layout);
    job->state = layout;
    if (layout == NULL || !exchange_init(job))
        return false;
    layout->counts = calloc((size_t)job->ranks, sizeof layout->counts[0]);
    layout->displacements = calloc((size_t)job->ranks, sizeof layout->displacements[0]);
    if (layout->counts == NULL || layout->displacements == NULL)
        return false;
    for (int i = 0; i < job->ranks; i++) {
        layout->counts[i] = job->settings.message_bytes;
        layout->displacements[i] = job->settings.message_bytes * i;
    }
    return true;
}

static void run(struct job *job)
{
    const struct layout *layout = job->state;
    CHECK_MPI(MPI_Alltoallv(job->send, layout->counts, layout->displacements, MPI_BYTE, job->recv,
                            layout->counts, layout->displacements, MPI_BYTE, job->comm));
}

static void cleanup(struct job *job)
{
    struct layout *layout = job->state;
    if (layout != NULL) {
        free(layout->counts);
        free(layout->displacements);
    }
    free(layout);
    job->state = NULL;
    buffers_free(job);
}

const struct kernel kernel_alltoallv = {
    .name = "alltoallv",
    .description = "MPI_Alltoallv; equal counts, bytes go from each rank to each rank",
    .metric = "cost",
    .reduction = "per iteration: maximum and mean over ranks",
    .members = MEMBERS_ALL,
    .samples = SAMPLES_ALL_RANKS,
    .keys = KEYS_COMMON,
    .min_ranks = 2,
    .bytes_multiple = 1,
    .bytes_min = 1,
    .bytes_times_ranks = true,
    .two_readings = true,
    .sample_scale = 1.0,
    .defaults = {.message_bytes = 8, .iterations = 1000, .warmup = 100, .sync = SYNC_BARRIER},
    .iterations_large = 100,
    .warmup_large = 10,
    .init = init,
    .prepare = exchange_prepare,
    .run = run,
    .verify = exchange_verify,
    .bytes_per_sample = exchange_bytes_per_sample,
    .bytes_moved = exchange_bytes_moved,
    .cleanup = cleanup,
};
