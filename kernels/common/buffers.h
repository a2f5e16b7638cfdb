/* Message buffers of a job. */
#ifndef TARE_BUFFERS_H
#define TARE_BUFFERS_H

#include "common/kernel.h"

/* Allocate and touch both buffers, each from a page boundary of its own; false without memory. */
bool buffers_allocate(struct job *job, size_t send_bytes, size_t recv_bytes);

void buffers_free(struct job *job);

#endif
