#include "common/buffers.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static unsigned char *allocate_pages(size_t bytes)
{
    const size_t pages = bytes / PAGE + 1;
    unsigned char *memory = aligned_alloc(PAGE, pages * PAGE);
    if (memory != NULL)
        memset(memory, 1, pages * PAGE); /* not zero: an untouched zero page is shared */
    return memory;
}

bool buffers_allocate(struct job *job, size_t send_bytes, size_t recv_bytes)
{
    job->send = allocate_pages(send_bytes);
    job->recv = allocate_pages(recv_bytes);
    job->send_bytes = send_bytes;
    job->recv_bytes = recv_bytes;
    return job->send != NULL && job->recv != NULL;
}

void buffers_free(struct job *job)
{
    free(job->send);
    free(job->recv);
    job->send = NULL;
    job->recv = NULL;
}
