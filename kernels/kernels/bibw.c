/* A window of messages both ways at once between rank 0 and the last rank. */
#include "common/check.h"
#include "common/traffic.h"
#include "kernels/registry.h"
#include "kernels/stream.h"

static void run(struct job *job)
{
    struct stream *stream = job->state;
    const int window = job->settings.window;
    stream_receive(job, stream->requests);
    stream_send(job, stream->requests + window);
    CHECK_MPI(MPI_Waitall(2 * window, stream->requests, MPI_STATUSES_IGNORE));
}

static uint64_t verify(struct job *job)
{
    return stream_errors(job);
}

static uint64_t bytes_per_sample(const struct job *job)
{
    return 2 * (uint64_t)job->settings.window * (uint64_t)job->settings.message_bytes;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    return traffic_pair(host_of, 2 * (uint64_t)job->settings.window,
                        (uint64_t)job->settings.message_bytes);
}

const struct kernel kernel_bibw = {
    .name = "bibw",
    .description = "window of non-blocking messages both ways at once; time of a window",
    .metric = "rate",
    .reduction = "rank 0",
    .members = MEMBERS_PAIR,
    .samples = SAMPLES_FIRST_RANK,
    .keys = KEYS_COMMON | KEY_WINDOW,
    .min_ranks = 2,
    .bytes_multiple = 1,
    .bytes_min = 1,
    .sample_scale = 1.0,
    .defaults =
        {.message_bytes = 8, .iterations = 100, .warmup = 10, .window = 64, .sync = SYNC_NONE},
    .iterations_large = 20,
    .warmup_large = 2,
    .init = stream_init,
    .prepare = stream_prepare,
    .run = run,
    .verify = verify,
    .bytes_per_sample = bytes_per_sample,
    .bytes_moved = bytes_moved,
    .cleanup = stream_cleanup,
};
