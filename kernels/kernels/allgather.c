/* MPI_Allgather of message_bytes from every rank. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"
#include "common/traffic.h"
#include "kernels/registry.h"

enum { TO_ALL = -1 }; /* the same message goes to every rank */

static bool init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    return buffers_allocate(job, bytes, bytes * (size_t)job->ranks);
}

static void prepare(struct job *job)
{
    pattern_fill(job->send, job->send_bytes, job->rank, TO_ALL, job->nonce);
    pattern_poison(job->recv, job->recv_bytes);
}

static void run(struct job *job)
{
    const int bytes = job->settings.message_bytes;
    CHECK_MPI(MPI_Allgather(job->send, bytes, MPI_BYTE, job->recv, bytes, MPI_BYTE, job->comm));
}

static uint64_t verify(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    uint64_t errors = 0;
    for (int peer = 0; peer < job->ranks; peer++)
        errors += pattern_errors(job->recv + (size_t)peer * bytes, bytes, peer, TO_ALL, job->nonce);
    return errors;
}

static uint64_t bytes_per_sample(const struct job *job)
{
    return (uint64_t)(job->ranks - 1) * (uint64_t)job->settings.message_bytes;
}

/* Each host must be sent once what its own ranks do not have: H P - P blocks over H hosts. At most
 * a gather along a tree (P log2 P blocks) is followed by a broadcast of everything (P^2). */
static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    const uint64_t bytes = (uint64_t)job->settings.message_bytes;
    const uint64_t ranks = (uint64_t)job->ranks;
    const uint64_t hosts = traffic_hosts(host_of, job->ranks);
    if (hosts < 2)
        return (struct traffic){0};
    return (struct traffic){
        .bytes_min = (hosts - 1) * ranks * bytes,
        .bytes_max = 2 * ranks * (ranks + traffic_log2(job->ranks)) * bytes,
        .messages = hosts,
    };
}

const struct kernel kernel_allgather = {
    .name = "allgather",
    .description = "MPI_Allgather; bytes come from each rank",
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
    .prepare = prepare,
    .run = run,
    .verify = verify,
    .bytes_per_sample = bytes_per_sample,
    .bytes_moved = bytes_moved,
    .cleanup = buffers_free,
};
