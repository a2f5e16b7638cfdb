#include "kernels/stream.h"

#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"

#include <stdlib.h>

enum { SLOT_BYTES = 4 << 20, SLOT_ALIGNMENT = 64 };

bool stream_init(struct job *job)
{
    const size_t bytes = (size_t)job->settings.message_bytes;
    const int window = job->settings.window;
    struct stream *stream = calloc(1, sizeof *stream);
    job->state = stream;
    if (stream == NULL)
        return false;
    stream->slot_bytes = (bytes / SLOT_ALIGNMENT + 1) * SLOT_ALIGNMENT;
    const size_t fit = SLOT_BYTES / stream->slot_bytes;
    stream->slots = fit < 1 ? 1 : fit < (size_t)window ? (int)fit : window;
    stream->requests = calloc(2 * (size_t)window, sizeof stream->requests[0]);
    const size_t total = (size_t)stream->slots * stream->slot_bytes;
    return stream->requests != NULL && buffers_allocate(job, total, total);
}

void stream_cleanup(struct job *job)
{
    struct stream *stream = job->state;
    if (stream != NULL)
        free(stream->requests);
    free(stream);
    job->state = NULL;
    buffers_free(job);
}

static size_t slot_offset(const struct job *job, int message)
{
    const struct stream *stream = job->state;
    return job->verifying ? (size_t)(message % stream->slots) * stream->slot_bytes : 0;
}

/* Every slot has a nonce of its own. */
static uint64_t slot_nonce(const struct job *job, int slot)
{
    return job->nonce << 32 | (uint64_t)slot;
}

void stream_prepare(struct job *job)
{
    struct stream *stream = job->state;
    const size_t bytes = (size_t)job->settings.message_bytes;
    for (int slot = 0; slot < stream->slots; slot++)
        pattern_fill(job->send + slot_offset(job, slot), bytes, job->rank, 1 - job->rank,
                     slot_nonce(job, slot));
    pattern_poison(job->recv, job->recv_bytes);
    if (job->rank == 0)
        pattern_poison(stream->reply, REPLY_BYTES);
    else
        pattern_fill(stream->reply, REPLY_BYTES, 1, 0, job->nonce);
}

uint64_t stream_errors(const struct job *job)
{
    const struct stream *stream = job->state;
    const size_t bytes = (size_t)job->settings.message_bytes;
    uint64_t errors = 0;
    for (int slot = 0; slot < stream->slots; slot++)
        errors += pattern_errors(job->recv + slot_offset(job, slot), bytes, 1 - job->rank,
                                 job->rank, slot_nonce(job, slot));
    return errors;
}

void stream_send(struct job *job, MPI_Request *requests)
{
    for (int i = 0; i < job->settings.window; i++)
        CHECK_MPI(MPI_Isend(job->send + slot_offset(job, i), job->settings.message_bytes, MPI_BYTE,
                            1 - job->rank, TAG_DATA, job->comm, &requests[i]));
}

void stream_receive(struct job *job, MPI_Request *requests)
{
    for (int i = 0; i < job->settings.window; i++)
        CHECK_MPI(MPI_Irecv(job->recv + slot_offset(job, i), job->settings.message_bytes, MPI_BYTE,
                            1 - job->rank, TAG_DATA, job->comm, &requests[i]));
}
