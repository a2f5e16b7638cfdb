#include "common/traffic.h"

uint64_t traffic_hosts(const int *host_of, int ranks)
{
    uint64_t hosts = 0;
    for (int i = 0; i < ranks; i++) {
        int earlier = 0;
        while (earlier < i && host_of[earlier] != host_of[i])
            earlier++;
        hosts += earlier == i;
    }
    return hosts;
}

uint64_t traffic_pairs(const int *host_of, int ranks)
{
    uint64_t pairs = 0;
    for (int i = 0; i < ranks; i++)
        for (int j = 0; j < ranks; j++)
            pairs += host_of[i] != host_of[j];
    return pairs;
}

uint64_t traffic_log2(int ranks)
{
    uint64_t steps = 0;
    while ((UINT64_C(1) << steps) < (uint64_t)ranks)
        steps++;
    return steps;
}

struct traffic traffic_barrier(const int *host_of, int ranks)
{
    enum { HEADER = 64 }; /* no algorithm needs more than one byte */
    const uint64_t hosts = traffic_hosts(host_of, ranks);
    if (hosts < 2)
        return (struct traffic){0};
    return (struct traffic){
        .bytes_max = 2 * HEADER * (uint64_t)ranks * (traffic_log2(ranks) + 1),
        .messages = hosts, /* every host must be heard of */
    };
}

struct traffic traffic_pair(const int *host_of, uint64_t messages, uint64_t bytes)
{
    if (host_of[0] == host_of[1])
        return (struct traffic){0};
    return (struct traffic){messages * bytes, messages * bytes, messages};
}
