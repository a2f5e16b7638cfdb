/* MPI_Barrier, in a back-to-back loop and from start windows. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/traffic.h"
#include "kernels/registry.h"

#include <stdlib.h>

enum { DELAY_STEPS = 4, DELAY_STEP_NS = 250000 };

/* A barrier has no data; it is checked by cause and effect, without clocks and without false
 * alarms. One rank comes late; the others tell it when they have left the barrier. A message that
 * is there before the late rank has entered was sent by a rank that did not wait. */
struct barrier_state {
    int late_rank;
    uint64_t errors;
};

static bool init(struct job *job)
{
    job->state = calloc(1, sizeof(struct barrier_state));
    return job->state != NULL;
}

static uint64_t count_early(const struct job *job)
{
    uint64_t early = 0;
    for (int step = 0; step < DELAY_STEPS; step++) {
        int arrived = 0;
        clock_sleep_ns(DELAY_STEP_NS);
        CHECK_MPI(PMPI_Iprobe(MPI_ANY_SOURCE, TAG_CONTROL, job->comm, &arrived, MPI_STATUS_IGNORE));
        early += arrived != 0;
    }
    return early;
}

static void prepare(struct job *job)
{
    struct barrier_state *state = job->state;
    state->late_rank = (int)(job->nonce % (uint64_t)job->ranks);
    state->errors = job->rank == state->late_rank ? count_early(job) : 0;
}

static void run(struct job *job)
{
    CHECK_MPI(MPI_Barrier(job->comm));
}

static uint64_t verify(struct job *job)
{
    struct barrier_state *state = job->state;
    if (job->rank != state->late_rank) {
        CHECK_MPI(PMPI_Send(NULL, 0, MPI_BYTE, state->late_rank, TAG_CONTROL, job->comm));
        return 0;
    }
    /* Not from MPI_ANY_SOURCE: with MPICH 5.0.2 over UCX such a receive may wait for ever. */
    for (int rank = 0; rank < job->ranks; rank++)
        if (rank != state->late_rank)
            CHECK_MPI(
                PMPI_Recv(NULL, 0, MPI_BYTE, rank, TAG_CONTROL, job->comm, MPI_STATUS_IGNORE));
    return state->errors;
}

static uint64_t bytes_per_sample(const struct job *job)
{
    (void)job;
    return 0;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    return traffic_barrier(host_of, job->ranks);
}

static void cleanup(struct job *job)
{
    free(job->state);
    job->state = NULL;
}

const struct kernel kernel_barrier = {
    .name = "barrier",
    .description = "MPI_Barrier, in a back-to-back loop and from start windows",
    .metric = "cost",
    .reduction = "per iteration: maximum and mean over ranks",
    .members = MEMBERS_ALL,
    .samples = SAMPLES_ALL_RANKS,
    .keys = KEY_ITERATIONS | KEY_WARMUP | KEY_SYNC,
    .min_ranks = 2,
    .bytes_multiple = 1,
    .two_readings = true,
    .sample_scale = 1.0,
    .defaults = {.iterations = 1000, .warmup = 100, .sync = SYNC_NONE},
    .iterations_large = 1000,
    .warmup_large = 100,
    .init = init,
    .prepare = prepare,
    .run = run,
    .verify = verify,
    .bytes_per_sample = bytes_per_sample,
    .bytes_moved = bytes_moved,
    .cleanup = cleanup,
};
