/* Ring: every rank sends to its right and receives from its left. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"
#include "kernels/registry.h"

static int right_of(const struct job *job)
{
    return (job->rank + 1) % job->ranks;
}

static int left_of(const struct job *job)
{
    return (job->rank + job->ranks - 1) % job->ranks;
}

static bool init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    return buffers_allocate(job, bytes, bytes);
}

static void prepare(struct job *job)
{
    pattern_fill(job->send, job->send_bytes, job->rank, right_of(job), job->nonce);
    pattern_poison(job->recv, job->recv_bytes);
}

static void run(struct job *job)
{
    const int bytes = job->settings.message_bytes;
    CHECK_MPI(MPI_Sendrecv(job->send, bytes, MPI_BYTE, right_of(job), TAG_DATA, job->recv, bytes,
                           MPI_BYTE, left_of(job), TAG_DATA, job->comm, MPI_STATUS_IGNORE));
}

static uint64_t verify(struct job *job)
{
    return pattern_errors(job->recv, job->recv_bytes, left_of(job), job->rank, job->nonce);
}

/* One message out and one in, as IMB counts. */
static uint64_t bytes_per_sample(const struct job *job)
{
    return 2 * (uint64_t)job->settings.message_bytes;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    uint64_t messages = 0;
    for (int i = 0; i < job->ranks; i++)
        messages += host_of[i] != host_of[(i + 1) % job->ranks];
    const uint64_t bytes = messages * (uint64_t)job->settings.message_bytes;
    return (struct traffic){bytes, bytes, messages};
}

const struct kernel kernel_sendrecv = {
    .name = "sendrecv",
    .description = "ring of MPI_Sendrecv: send right, receive from the left",
    .metric = "cost",
    .reduction = "per iteration: maximum and mean over ranks",
    .members = MEMBERS_ALL,
    .samples = SAMPLES_ALL_RANKS,
    .keys = KEYS_COMMON,
    .min_ranks = 2,
    .bytes_multiple = 1,
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
