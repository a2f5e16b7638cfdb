/* Counts behind the payload bounds. */
#ifndef TARE_TRAFFIC_H
#define TARE_TRAFFIC_H

#include "common/kernel.h"

/* Return the number of hosts among the ranks; hosts are numbered from 0 to less than the ranks of
 * the world. */
uint64_t traffic_hosts(const int *host_of, int ranks);

/* Return the number of ordered pairs of ranks on different hosts. */
uint64_t traffic_pairs(const int *host_of, int ranks);

/* Return the smallest k with 2^k >= ranks. */
uint64_t traffic_log2(int ranks);

/* Return the bounds of one barrier: no payload needed, a header a message allowed. */
struct traffic traffic_barrier(const int *host_of, int ranks);

/* Return exact traffic of `messages` messages of `bytes` between rank 0 and rank 1 of a pair. */
struct traffic traffic_pair(const int *host_of, uint64_t messages, uint64_t bytes);

#endif
