/* The kernels, one a file. */
#ifndef TARE_REGISTRY_H
#define TARE_REGISTRY_H

#include "common/kernel.h"

extern const struct kernel kernel_allgather;
extern const struct kernel kernel_allreduce;
extern const struct kernel kernel_alltoall;
extern const struct kernel kernel_alltoallv;
extern const struct kernel kernel_barrier;
extern const struct kernel kernel_bibw;
extern const struct kernel kernel_bw;
extern const struct kernel kernel_halo;
extern const struct kernel kernel_latency;
extern const struct kernel kernel_sendrecv;
extern const struct kernel kernel_spacing;

#endif
