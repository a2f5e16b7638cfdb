/* MPI calls that are counted: what goes over the wire is what containers make dearer.
 *
 * Counting is on in the timed section only. It costs two readings of the clock a call, from which
 * follows how much of the section was spent in MPI. */
#ifndef TARE_MESSAGES_H
#define TARE_MESSAGES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct run;
struct json;

enum message_kind {
    MESSAGE_SEND, /* every kind of send from one rank to another */
    MESSAGE_ALLREDUCE,
    MESSAGE_REDUCE,
    MESSAGE_BCAST,
    MESSAGE_ALLGATHER,
    MESSAGE_ALLTOALL,
    MESSAGE_ALLTOALLV,
    MESSAGE_BARRIER,
    MESSAGE_SOCKET, /* what an application sends past MPI */
    MESSAGE_KINDS
};

/* Room for every size of a message that is a whole number of 8 bytes up to 32 KiB, and more. Slots
 * are a power of two. */
enum { MESSAGE_SIZES = 4352, MESSAGE_SLOTS = 8192 };

/* How often this rank made a call of a kind with so many bytes: of one message, or of a
 * collective's buffer for one peer. */
struct message_count {
    enum message_kind kind;
    uint64_t bytes;
    uint64_t count;
};

struct messages {
    bool counting;
    double slowdown;     /* waited for each second between two calls, where a pace is asked for */
    uint64_t section_ns; /* of this rank's timed sections, */
    uint64_t inside_ns;  /* and of those the time inside of MPI */
    uint64_t left_ns;    /* when the last call returned, or the section began */
    int *host_of;        /* the host of every rank of the run, numbered by the first rank on it */
    int hosts;
    int sizes;
    bool overflowed; /* there were more sizes than the table holds: the last entry has the rest */
    struct message_count size[MESSAGE_SIZES];
    uint16_t slot[MESSAGE_SLOTS]; /* 1 + the index in `size` of what hashes to here, 0 if nothing */
    uint64_t
        far_messages; /* to ranks of other hosts, by sends and by what collectives cannot avoid */
    uint64_t far_bytes_min;
    uint64_t far_bytes_max;
};

/* Find out which ranks share a host; collective over the run's ranks. */
void messages_begin(struct run *run);
void messages_free(struct messages *messages);

/* Begin and end a timed section of this rank. */
void messages_open(struct messages *messages);
void messages_close(struct messages *messages);

/* Sum the counts of all ranks on rank 0, and note the share of the time that was spent in MPI;
 * collective. The far counts of rank 0 are then the job's. */
void messages_gather(struct run *run);

/* Write the fields "messages" and "payload" of the result's line. */
void messages_put(const struct messages *messages, struct json *line);

void message_send(struct run *run, const void *data, int count, MPI_Datatype type, int to, int tag);
void message_isend(struct run *run, const void *data, int count, MPI_Datatype type, int to, int tag,
                   MPI_Request *request);
void message_recv(struct run *run, void *data, int count, MPI_Datatype type, int from, int tag);
void message_irecv(struct run *run, void *data, int count, MPI_Datatype type, int from, int tag,
                   MPI_Request *request);
void message_wait(struct run *run, MPI_Request *request);
/* Return whether the request is complete; its status is then filled in. */
bool message_test(struct run *run, MPI_Request *request, MPI_Status *status);
void message_waitall(struct run *run, int count, MPI_Request *requests);
void message_allreduce(struct run *run, void *data, int count, MPI_Datatype type, MPI_Op op);
void message_reduce(struct run *run, void *data, int count, MPI_Datatype type, MPI_Op op);
void message_bcast(struct run *run, void *data, int count, MPI_Datatype type, int root);
void message_alltoall(struct run *run, const void *out, int count, MPI_Datatype type, void *in);
void message_alltoallv(struct run *run, const void *out, const int *out_counts, const int *out_at,
                       MPI_Datatype type, void *in, const int *in_counts, const int *in_at);
void message_barrier(struct run *run);
/* Note messages that were sent to a rank past MPI, so many of so many bytes, of which some arrived.
 * It may be called after the timed section. */
void message_socket(struct run *run, uint64_t bytes, uint64_t count, uint64_t arrived, int to);

#endif
