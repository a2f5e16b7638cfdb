#include "common/buffers.h"

#include <stdlib.h>
#include <string.h>

static unsigned char *allocate(size_t bytes, int skew)
{
    const size_t pages = (bytes + (size_t)skew) / PAGE_BYTES + 1;
    unsigned char *memory = aligned_alloc(PAGE_BYTES, pages * PAGE_BYTES);
    if (memory == NULL)
        return NULL;
    memset(memory, 1, pages * PAGE_BYTES); /* not zero: an untouched zero page is shared */
    return memory + skew;
}

bool buffers_allocate(struct job *job, size_t send_bytes, size_t recv_bytes)
{
    job->send = allocate(send_bytes, 0);
    job->recv = allocate(recv_bytes, job->settings.buffer_skew);
    job->send_bytes = send_bytes;
    job->recv_bytes = recv_bytes;
    return job->send != NULL && job->recv != NULL;
}

void buffers_free(struct job *job)
{
    free(job->send);
    if (job->recv != NULL)
        free(job->recv - job->settings.buffer_skew);
    job->send = NULL;
    job->recv = NULL;
}
