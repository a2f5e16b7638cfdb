/* Ping-pong between rank 0 and the last rank; a sample is half a round trip. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"
#include "common/traffic.h"
#include "kernels/registry.h"

static bool init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    return buffers_allocate(job, bytes, bytes);
}

static void prepare(struct job *job)
{
    pattern_fill(job->send, job->send_bytes, job->rank, 1 - job->rank, job->nonce);
    pattern_poison(job->recv, job->recv_bytes);
}

static void run(struct job *job)
{
    const int bytes = job->settings.message_bytes;
    const int peer = 1 - job->rank;
    if (job->rank == 0) {
        CHECK_MPI(MPI_Send(job->send, bytes, MPI_BYTE, peer, TAG_DATA, job->comm));
        CHECK_MPI(
            MPI_Recv(job->recv, bytes, MPI_BYTE, peer, TAG_DATA, job->comm, MPI_STATUS_IGNORE));
    } else {
        CHECK_MPI(
            MPI_Recv(job->recv, bytes, MPI_BYTE, peer, TAG_DATA, job->comm, MPI_STATUS_IGNORE));
        CHECK_MPI(MPI_Send(job->send, bytes, MPI_BYTE, peer, TAG_DATA, job->comm));
    }
}

static uint64_t verify(struct job *job)
{
    return pattern_errors(job->recv, job->recv_bytes, 1 - job->rank, job->rank, job->nonce);
}

static uint64_t bytes_per_sample(const struct job *job)
{
    return (uint64_t)job->settings.message_bytes;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    return traffic_pair(host_of, 2, (uint64_t)job->settings.message_bytes);
}

const struct kernel kernel_latency = {
    .name = "latency",
    .description = "ping-pong of blocking sends and receives; half a round trip",
    .metric = "cost",
    .reduction = "rank 0",
    .members = MEMBERS_PAIR,
    .samples = SAMPLES_FIRST_RANK,
    .keys = KEYS_COMMON,
    .min_ranks = 2,
    .bytes_multiple = 1,
    .sample_scale = 0.5,
    .defaults = {.message_bytes = 8, .iterations = 10000, .warmup = 100, .sync = SYNC_NONE},
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
