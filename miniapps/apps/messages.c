#include "apps/messages.h"

#include "apps/app.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/locality.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_SIZE = 320 };

static const char *const names[MESSAGE_KINDS] = {
    [MESSAGE_SEND] = "send",           [MESSAGE_ALLREDUCE] = "allreduce",
    [MESSAGE_REDUCE] = "reduce",       [MESSAGE_BCAST] = "bcast",
    [MESSAGE_ALLGATHER] = "allgather", [MESSAGE_ALLTOALL] = "alltoall",
    [MESSAGE_ALLTOALLV] = "alltoallv", [MESSAGE_BARRIER] = "barrier",
    [MESSAGE_SOCKET] = "socket",
};

/* Hostname and boot_id, as in common/locality.c: containers of a host differ in the first, machines
 * that were made from one image in the second. */
static void name_host(char name[HOST_SIZE])
{
    memset(name, 0, HOST_SIZE);
    gethostname(name, HOST_SIZE - BOOT_ID_SIZE);
    locality_boot_id(name + HOST_SIZE - BOOT_ID_SIZE);
}

void messages_begin(struct run *run)
{
    struct messages *messages = &run->messages;
    char own[HOST_SIZE];
    char *all = app_allocate((size_t)run->ranks, HOST_SIZE);
    messages->host_of = app_allocate((size_t)run->ranks, sizeof messages->host_of[0]);
    name_host(own);
    CHECK_MPI(PMPI_Allgather(own, HOST_SIZE, MPI_CHAR, all, HOST_SIZE, MPI_CHAR, run->comm));
    messages->slowdown = run_pace(run) - 1.0;
    messages->hosts = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        int first = 0;
        while (memcmp(all + (size_t)first * HOST_SIZE, all + (size_t)rank * HOST_SIZE, HOST_SIZE) !=
               0)
            first++;
        messages->host_of[rank] = first;
        messages->hosts += first == rank;
    }
    free(all);
}

void messages_free(struct messages *messages)
{
    free(messages->host_of);
    messages->host_of = NULL;
}

/* Wait as long as the pace wants for the arithmetic since the last call; return the time. */
static uint64_t keep_pace(struct messages *messages)
{
    const uint64_t now_ns = clock_now_ns();
    if (messages->slowdown <= 0.0)
        return now_ns;
    const double computed_ns = (double)(now_ns - messages->left_ns);
    clock_spin_until(now_ns + (uint64_t)(messages->slowdown * computed_ns));
    return clock_now_ns();
}

/* Before and after every call to MPI: return when the call began, and add the time it took. */
static uint64_t enter(struct run *run)
{
    return run->messages.counting ? keep_pace(&run->messages) : 0;
}

static void leave(struct run *run, uint64_t entered_ns)
{
    struct messages *messages = &run->messages;
    if (!messages->counting)
        return;
    messages->left_ns = clock_now_ns();
    messages->inside_ns += messages->left_ns - entered_ns;
}

void messages_open(struct messages *messages)
{
    messages->counting = true;
    messages->left_ns = clock_now_ns();
    messages->section_ns -= messages->left_ns; /* modulo 2^64, until the end is added */
}

void messages_close(struct messages *messages)
{
    messages->section_ns += keep_pace(messages);
    messages->counting = false;
}

/* Return the entry of a kind and size, a new one if it is the first; the last one where the table
 * is full. Slots are searched one after the other from where the size hashes to. */
static struct message_count *entry_of(struct messages *messages, enum message_kind kind,
                                      uint64_t bytes)
{
    const uint64_t mixed = (bytes * MESSAGE_KINDS + (uint64_t)kind) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t at = (size_t)(mixed >> 32) % MESSAGE_SLOTS;; at = (at + 1) % MESSAGE_SLOTS) {
        if (messages->slot[at] == 0) {
            if (messages->sizes == MESSAGE_SIZES) {
                messages->overflowed = true;
                return &messages->size[MESSAGE_SIZES - 1];
            }
            messages->size[messages->sizes++] = (struct message_count){kind, bytes, 0};
            messages->slot[at] = (uint16_t)messages->sizes;
        }
        struct message_count *entry = &messages->size[messages->slot[at] - 1];
        if (entry->kind == kind && entry->bytes == bytes)
            return entry;
    }
}

static void note(struct messages *messages, enum message_kind kind, uint64_t bytes, uint64_t count)
{
    entry_of(messages, kind, bytes)->count += count;
}

static uint64_t size_of(int count, MPI_Datatype type)
{
    int size = 0;
    CHECK_MPI(PMPI_Type_size(type, &size));
    return (uint64_t)count * (uint64_t)size;
}

static uint64_t far_ranks(const struct run *run)
{
    uint64_t far = 0;
    for (int rank = 0; rank < run->ranks; rank++)
        far += run->messages.host_of[rank] != run->messages.host_of[run->rank];
    return far;
}

static void count_far(struct messages *messages, uint64_t count, uint64_t low, uint64_t high)
{
    messages->far_messages += count;
    messages->far_bytes_min += low;
    messages->far_bytes_max += high;
}

static void count_send(struct run *run, int count, MPI_Datatype type, int to)
{
    struct messages *messages = &run->messages;
    if (!messages->counting)
        return;
    const uint64_t bytes = size_of(count, type);
    note(messages, MESSAGE_SEND, bytes, 1);
    if (messages->host_of[to] != messages->host_of[run->rank])
        count_far(messages, 1, bytes, bytes);
}

/* Count a collective whose data may take many ways: none need go far but a header's worth, and a
 * sensible algorithm sends each rank's buffer no more than twice a doubling. */
static void count_tree(struct run *run, enum message_kind kind, uint64_t bytes)
{
    struct messages *messages = &run->messages;
    if (!messages->counting)
        return;
    note(messages, kind, bytes, 1);
    if (messages->hosts == 1)
        return;
    uint64_t doublings = 1;
    while ((1 << doublings) < run->ranks)
        doublings++;
    count_far(messages, 2 * doublings, 0, 2 * doublings * bytes);
}

/* Note the share of MPI in the timed sections of all ranks that had one; none where nothing went
 * through MPI. */
static void tell_share(struct run *run)
{
    uint64_t spent_ns[2] = {run->messages.inside_ns, run->messages.section_ns};
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, spent_ns, 2, MPI_UINT64_T, MPI_SUM, run->comm));
    if (spent_ns[0] > 0)
        result_figure(run, "time in MPI", 100.0 * (double)spent_ns[0] / (double)spent_ns[1], "%");
}

void messages_gather(struct run *run)
{
    struct messages *messages = &run->messages;
    tell_share(run);
    uint64_t far[3] = {messages->far_messages, messages->far_bytes_min, messages->far_bytes_max};
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, far, 3, MPI_UINT64_T, MPI_SUM, run->comm));
    messages->far_messages = far[0];
    messages->far_bytes_min = far[1];
    messages->far_bytes_max = far[2];
    int lost = messages->overflowed;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &lost, 1, MPI_INT, MPI_MAX, run->comm));
    for (int rank = 1; rank < run->ranks; rank++) {
        const int each = (int)sizeof messages->size[0];
        if (run->rank == rank) {
            CHECK_MPI(PMPI_Send(&messages->sizes, 1, MPI_INT, 0, 0, run->comm));
            CHECK_MPI(PMPI_Send(messages->size, messages->sizes * each, MPI_BYTE, 0, 0, run->comm));
        } else if (run->rank == 0) {
            static struct message_count theirs[MESSAGE_SIZES];
            int sizes = 0;
            CHECK_MPI(PMPI_Recv(&sizes, 1, MPI_INT, rank, 0, run->comm, MPI_STATUS_IGNORE));
            CHECK_MPI(
                PMPI_Recv(theirs, sizes * each, MPI_BYTE, rank, 0, run->comm, MPI_STATUS_IGNORE));
            for (int i = 0; i < sizes; i++)
                note(messages, theirs[i].kind, theirs[i].bytes, theirs[i].count);
        }
    }
    messages->overflowed |= lost != 0;
}

void messages_put(const struct messages *messages, struct json *line)
{
    json_key(line, "messages");
    json_open(line, '[');
    for (int i = 0; i < messages->sizes; i++) {
        json_open(line, '{');
        json_put_string(line, "kind", names[messages->size[i].kind]);
        json_put_integer(line, "bytes", (int64_t)messages->size[i].bytes);
        json_put_integer(line, "count", (int64_t)messages->size[i].count);
        json_close(line, '}');
    }
    json_close(line, ']');
    json_put_bool(line, "messages_complete", !messages->overflowed);
    json_key(line, "payload");
    json_open(line, '{');
    json_put_integer(line, "bytes_min", (int64_t)messages->far_bytes_min);
    json_put_integer(line, "bytes_max", (int64_t)messages->far_bytes_max);
    json_put_integer(line, "messages", (int64_t)messages->far_messages);
    json_close(line, '}');
}

void message_send(struct run *run, const void *data, int count, MPI_Datatype type, int to, int tag)
{
    count_send(run, count, type, to);
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Send(data, count, type, to, tag, run->comm));
    leave(run, entered_ns);
}

void message_isend(struct run *run, const void *data, int count, MPI_Datatype type, int to, int tag,
                   MPI_Request *request)
{
    count_send(run, count, type, to);
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Isend(data, count, type, to, tag, run->comm, request));
    leave(run, entered_ns);
}

void message_recv(struct run *run, void *data, int count, MPI_Datatype type, int from, int tag)
{
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Recv(data, count, type, from, tag, run->comm, MPI_STATUS_IGNORE));
    leave(run, entered_ns);
}

void message_irecv(struct run *run, void *data, int count, MPI_Datatype type, int from, int tag,
                   MPI_Request *request)
{
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Irecv(data, count, type, from, tag, run->comm, request));
    leave(run, entered_ns);
}

void message_wait(struct run *run, MPI_Request *request)
{
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Wait(request, MPI_STATUS_IGNORE));
    leave(run, entered_ns);
}

bool message_test(struct run *run, MPI_Request *request, MPI_Status *status)
{
    int complete = 0;
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Test(request, &complete, status));
    leave(run, entered_ns);
    return complete != 0;
}

void message_waitall(struct run *run, int count, MPI_Request *requests)
{
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    leave(run, entered_ns);
}

void message_allreduce(struct run *run, void *data, int count, MPI_Datatype type, MPI_Op op)
{
    count_tree(run, MESSAGE_ALLREDUCE, size_of(count, type));
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, data, count, type, op, run->comm));
    leave(run, entered_ns);
}

void message_reduce(struct run *run, void *data, int count, MPI_Datatype type, MPI_Op op)
{
    count_tree(run, MESSAGE_REDUCE, size_of(count, type));
    const bool root = run->rank == 0;
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(
        MPI_Reduce(root ? MPI_IN_PLACE : data, root ? data : NULL, count, type, op, 0, run->comm));
    leave(run, entered_ns);
}

void message_bcast(struct run *run, void *data, int count, MPI_Datatype type, int root)
{
    count_tree(run, MESSAGE_BCAST, size_of(count, type));
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Bcast(data, count, type, root, run->comm));
    leave(run, entered_ns);
}

void message_alltoall(struct run *run, const void *out, int count, MPI_Datatype type, void *in)
{
    if (run->messages.counting) {
        const uint64_t bytes = size_of(count, type);
        const uint64_t far = far_ranks(run);
        note(&run->messages, MESSAGE_ALLTOALL, bytes, 1);
        count_far(&run->messages, far, far * bytes, 2 * far * bytes);
    }
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Alltoall(out, count, type, in, count, type, run->comm));
    leave(run, entered_ns);
}

void message_alltoallv(struct run *run, const void *out, const int *out_counts, const int *out_at,
                       MPI_Datatype type, void *in, const int *in_counts, const int *in_at)
{
    struct messages *messages = &run->messages;
    if (messages->counting) {
        uint64_t all = 0;
        for (int rank = 0; rank < run->ranks; rank++) {
            const uint64_t bytes = size_of(out_counts[rank], type);
            all += bytes;
            if (messages->host_of[rank] != messages->host_of[run->rank])
                count_far(messages, 1, bytes, bytes);
        }
        note(messages, MESSAGE_ALLTOALLV, all, 1);
    }
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Alltoallv(out, out_counts, out_at, type, in, in_counts, in_at, type, run->comm));
    leave(run, entered_ns);
}

void message_barrier(struct run *run)
{
    count_tree(run, MESSAGE_BARRIER, 0);
    const uint64_t entered_ns = enter(run);
    CHECK_MPI(MPI_Barrier(run->comm));
    leave(run, entered_ns);
}

void message_socket(struct run *run, uint64_t bytes, uint64_t count, uint64_t arrived, int to)
{
    struct messages *messages = &run->messages;
    note(messages, MESSAGE_SOCKET, bytes, count);
    if (messages->host_of[to] != messages->host_of[run->rank])
        count_far(messages, count, bytes * arrived, bytes * count);
}
