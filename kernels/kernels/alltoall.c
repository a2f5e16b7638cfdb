/* MPI_Alltoall of message_bytes from every rank to every rank. */
#include "common/buffers.h"
#include "common/check.h"
#include "kernels/exchange.h"
#include "kernels/registry.h"

static void run(struct job *job)
{
    const int bytes = job->settings.message_bytes;
    CHECK_MPI(MPI_Alltoall(job->send, bytes, MPI_BYTE, job->recv, bytes, MPI_BYTE, job->comm));
}

const struct kernel kernel_alltoall = {
    .name = "alltoall",
    .description = "MPI_Alltoall; bytes go from each rank to each rank",
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
    .init = exchange_init,
    .prepare = exchange_prepare,
    .run = run,
    .verify = exchange_verify,
    .bytes_per_sample = exchange_bytes_per_sample,
    .bytes_moved = exchange_bytes_moved,
    .cleanup = buffers_free,
};
