#include "kernels/exchange.h"

#include "common/buffers.h"
#include "common/pattern.h"
#include "common/traffic.h"

bool exchange_init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes * (size_t)job->ranks;
    return buffers_allocate(job, bytes, bytes);
}

void exchange_prepare(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    for (int peer = 0; peer < job->ranks; peer++)
        pattern_fill(job->send + (size_t)peer * bytes, bytes, job->rank, peer, job->nonce);
    pattern_poison(job->recv, job->recv_bytes);
}

uint64_t exchange_verify(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    uint64_t errors = 0;
    for (int peer = 0; peer < job->ranks; peer++)
        errors +=
            pattern_errors(job->recv + (size_t)peer * bytes, bytes, peer, job->rank, job->nonce);
    return errors;
}

uint64_t exchange_bytes_per_sample(const struct job *job)
{
    return (uint64_t)(job->ranks - 1) * (uint64_t)job->settings.message_bytes;
}

/* Every message between hosts must cross. At most each of the P^2 blocks is forwarded at every step
 * of Bruck's algorithm, in ceil(log2 P) steps. */
struct traffic exchange_bytes_moved(const struct job *job, const int *host_of)
{
    const uint64_t bytes = (uint64_t)job->settings.message_bytes;
    const uint64_t ranks = (uint64_t)job->ranks;
    const uint64_t pairs = traffic_pairs(host_of, job->ranks);
    if (pairs == 0)
        return (struct traffic){0};
    return (struct traffic){
        .bytes_min = pairs * bytes,
        .bytes_max = ranks * ranks * (traffic_log2(job->ranks) + 1) * bytes,
        .messages = traffic_hosts(host_of, job->ranks),
    };
}
