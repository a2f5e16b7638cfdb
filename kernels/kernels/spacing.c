/* A stream from rank 0 to the last rank at a constant rate; the harness paces it and takes the
 * gaps. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"
#include "common/traffic.h"
#include "kernels/registry.h"

static bool init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    return job->rank == 0 ? buffers_allocate(job, bytes, 0) : buffers_allocate(job, 0, bytes);
}

static void prepare(struct job *job)
{
    pattern_fill(job->send, job->send_bytes, 0, 1, job->nonce);
    pattern_poison(job->recv, job->recv_bytes);
}

static void run(struct job *job)
{
    const int bytes = job->settings.message_bytes;
    if (job->rank == 0)
        CHECK_MPI(MPI_Send(job->send, bytes, MPI_BYTE, 1, TAG_DATA, job->comm));
    else
        CHECK_MPI(MPI_Recv(job->recv, bytes, MPI_BYTE, 0, TAG_DATA, job->comm, MPI_STATUS_IGNORE));
}

static uint64_t verify(struct job *job)
{
    return pattern_errors(job->recv, job->recv_bytes, 0, 1, job->nonce);
}

static uint64_t bytes_per_sample(const struct job *job)
{
    return (uint64_t)job->settings.message_bytes;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    return traffic_pair(host_of, 1, (uint64_t)job->settings.message_bytes);
}

const struct kernel kernel_spacing = {
    .name = "spacing",
    .description = "stream one way at a constant rate; gaps between sends and between receives",
    .metric = "cost",
    .reduction = "rank 0 sends, last rank receives",
    .members = MEMBERS_PAIR,
    .samples = SAMPLES_GAPS,
    .keys = KEY_BYTES | KEY_ITERATIONS | KEY_WARMUP | KEY_RATE | KEY_SKEW,
    .min_ranks = 2,
    .bytes_multiple = 1,
    .sample_scale = 1.0,
    .defaults = {.message_bytes = 8,
                 .iterations = 10000,
                 .warmup = 100,
                 .rate_hz = 10000.0,
                 .sync = SYNC_NONE},
    .iterations_large = 1000,
    .warmup_large = 10,
    .init = init,
    .prepare = prepare,
    .run = run,
    .verify = verify,
    .bytes_per_sample = bytes_per_sample,
    .bytes_moved = bytes_moved,
    .cleanup = buffers_free,
};
