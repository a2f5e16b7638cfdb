/* Message buffers of a job. */
#ifndef TARE_BUFFERS_H
#define TARE_BUFFERS_H

#include "common/kernel.h"

/* Allocate and touch both buffers: the send buffer from a page boundary, the receive buffer from
 * buffer_skew bytes after one. What counts for copying is how they lie to each other. False without
 * memory. */
bool buffers_allocate(struct job *job, size_t send_bytes, size_t recv_bytes);

void buffers_free(struct job *job);

#endif
