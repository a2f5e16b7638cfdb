/* What alltoall and alltoallv have in common: one message from every rank to every rank. */
#ifndef TARE_EXCHANGE_H
#define TARE_EXCHANGE_H

#include "common/kernel.h"

bool exchange_init(struct job *job);
void exchange_prepare(struct job *job);
uint64_t exchange_verify(struct job *job);
uint64_t exchange_bytes_per_sample(const struct job *job);
struct traffic exchange_bytes_moved(const struct job *job, const int *host_of);

#endif
