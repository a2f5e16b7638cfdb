/* MPI_Allreduce: sum of message_bytes / 4 floats. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"
#include "common/traffic.h"
#include "kernels/registry.h"

#include <string.h>

/* Contributions are small whole numbers, so that the sum is exact in any order up to 2^24 / PERIOD
 * ranks. The period is prime: blocks that an algorithm swapped, whose sizes are powers of two,
 * show. */
enum { PERIOD = 251 };

static float contribution(int rank, size_t element, uint64_t nonce)
{
    return (float)((element + 13 * (size_t)rank + nonce) % PERIOD);
}

static bool init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    return buffers_allocate(job, bytes, bytes);
}

static void prepare(struct job *job)
{
    for (size_t i = 0; i < job->send_bytes / sizeof(float); i++) {
        const float value = contribution(job->rank, i, job->nonce);
        memcpy(job->send + i * sizeof value, &value, sizeof value);
    }
    pattern_poison(job->recv, job->recv_bytes);
}

static void run(struct job *job)
{
    CHECK_MPI(MPI_Allreduce(job->send, job->recv, job->settings.message_bytes / (int)sizeof(float),
                            MPI_FLOAT, MPI_SUM, job->comm));
}

static uint64_t verify(struct job *job)
{
    float expected[PERIOD] = {0};
    for (size_t i = 0; i < PERIOD; i++)
        for (int rank = 0; rank < job->ranks; rank++)
            expected[i] += contribution(rank, i, job->nonce);
    uint64_t errors = 0;
    for (size_t i = 0; i < job->recv_bytes / sizeof(float); i++)
        errors += memcmp(job->recv + i * sizeof(float), &expected[i % PERIOD], sizeof(float)) != 0;
    return errors;
}

static uint64_t bytes_per_sample(const struct job *job)
{
    return (uint64_t)job->settings.message_bytes;
}

/* Each host must send what its ranks contribute and be sent the rest: a vector for each host. At
 * most ranks gather all vectors and add for themselves (P^2), or halve and double in 2 log2 P
 * steps. */
static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    const uint64_t bytes = (uint64_t)job->settings.message_bytes;
    const uint64_t ranks = (uint64_t)job->ranks;
    const uint64_t hosts = traffic_hosts(host_of, job->ranks);
    if (hosts < 2)
        return (struct traffic){0};
    return (struct traffic){
        .bytes_min = hosts * bytes,
        .bytes_max = 2 * ranks * (ranks + traffic_log2(job->ranks) + 1) * bytes,
        .messages = hosts,
    };
}

const struct kernel kernel_allreduce = {
    .name = "allreduce",
    .description = "MPI_Allreduce, sum of floats; bytes is the size of the vector",
    .metric = "cost",
    .reduction = "per iteration: maximum and mean over ranks",
    .members = MEMBERS_ALL,
    .samples = SAMPLES_ALL_RANKS,
    .keys = KEYS_COMMON,
    .min_ranks = 2,
    .bytes_multiple = 4,
    .bytes_min = 4,
    .two_readings = true,
    .sample_scale = 1.0,
    .defaults = {.message_bytes = 8, .iterations = 1000, .warmup = 100, .sync = SYNC_NONE},
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
