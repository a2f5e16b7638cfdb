/* A window of messages from rank 0 to the last rank, then a reply of four bytes. */
#include "common/check.h"
#include "common/pattern.h"
#include "common/traffic.h"
#include "kernels/registry.h"
#include "kernels/stream.h"

static void run(struct job *job)
{
    struct stream *stream = job->state;
    const int window = job->settings.window;
    if (job->rank == 0) {
        stream_send(job, stream->requests);
        CHECK_MPI(MPI_Waitall(window, stream->requests, MPI_STATUSES_IGNORE));
        CHECK_MPI(MPI_Recv(stream->reply, REPLY_BYTES, MPI_BYTE, 1, TAG_REPLY, job->comm,
                           MPI_STATUS_IGNORE));
    } else {
        stream_receive(job, stream->requests);
        CHECK_MPI(MPI_Waitall(window, stream->requests, MPI_STATUSES_IGNORE));
        CHECK_MPI(MPI_Send(stream->reply, REPLY_BYTES, MPI_BYTE, 0, TAG_REPLY, job->comm));
    }
}

static uint64_t verify(struct job *job)
{
    const struct stream *stream = job->state;
    if (job->rank == 0)
        return pattern_errors(stream->reply, REPLY_BYTES, 1, 0, job->nonce);
    return stream_errors(job);
}

static uint64_t bytes_per_sample(const struct job *job)
{
    return (uint64_t)job->settings.window * (uint64_t)job->settings.message_bytes;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    const struct traffic data = traffic_pair(host_of, (uint64_t)job->settings.window,
                                             (uint64_t)job->settings.message_bytes);
    const struct traffic reply = traffic_pair(host_of, 1, REPLY_BYTES);
    const uint64_t bytes = data.bytes_min + reply.bytes_min;
    return (struct traffic){bytes, bytes, data.messages + reply.messages};
}

const struct kernel kernel_bw = {
    .name = "bw",
    .description = "window of non-blocking messages one way, then a reply; time of a window",
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
