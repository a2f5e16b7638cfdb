/* What bw and bibw have in common: a window of messages in flight.
 *
 * Timed, all messages of a window use one send and one receive buffer, as OSU's do, so that the
 * footprint in cache is that of one message. Verified, each message has a slot of its own with
 * contents of its own, as far as SLOT_BYTES reach. */
#ifndef TARE_STREAM_H
#define TARE_STREAM_H

#include "common/kernel.h"

enum { REPLY_BYTES = 4 };

struct stream {
    MPI_Request *requests; /* two a message: room for both directions */
    int slots;
    size_t slot_bytes;
    unsigned char reply[REPLY_BYTES];
};

bool stream_init(struct job *job);
void stream_cleanup(struct job *job);

/* Fill every slot for the peer, poison what is received. */
void stream_prepare(struct job *job);

/* Return the number of wrong bytes in the slots received from the peer. */
uint64_t stream_errors(const struct job *job);

/* Start all messages of a window; requests go to `requests`. */
void stream_send(struct job *job, MPI_Request *requests);
void stream_receive(struct job *job, MPI_Request *requests);

#endif
