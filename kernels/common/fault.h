/* Faults on request, so that the harness that reads our output can be tested honestly.
 *
 * TARE_FAULT=<what>:<kernel> in the environment of rank 0, where <what> is corrupt, crash, hang,
 * exit or clock. The last rank of the kernel's communicator is struck. */
#ifndef TARE_FAULT_H
#define TARE_FAULT_H

#include "common/kernel.h"

enum fault_kind { FAULT_NONE, FAULT_CORRUPT, FAULT_CRASH, FAULT_HANG, FAULT_EXIT, FAULT_CLOCK };

struct fault {
    enum fault_kind kind;
    char kernel[64];
};

/* Read the wish on rank 0 and tell every rank; collective. An unknown wish is no fault. */
struct fault fault_read(MPI_Comm comm);

/* Return whether this fault is for this kernel. */
bool fault_meant(const struct fault *fault, enum fault_kind kind, const struct kernel *kernel);

/* Crash, hang or exit if that is wished of this kernel and this is its last rank. */
void fault_strike(const struct fault *fault, const struct kernel *kernel, const struct job *job);

#endif
