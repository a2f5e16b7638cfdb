/* The service: a rank puts its queries one after the other, and while it waits for an answer from
 * another rank it answers what others ask.
 *
 * A request is 288 bytes, its reply 12; strings follow only if there are any. One receive is posted
 * for the requests of all ranks. A rank that has no more queries sends one byte to all and goes on
 * answering until it has such a byte from everybody. */
#include "common/check.h"
#include "kmi/kmi.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_REQUEST = 2, TAG_REPLY, TAG_STRINGS, FIELDS = 8, END_BYTES = 1, SENDS = 2 };

struct request {
    unsigned char text[KMI_LETTERS_MOST];
    int32_t field[FIELDS]; /* the number of letters, and the rank that asks */
};
enum { REQUEST_BYTES = sizeof(struct request) };
_Static_assert(REQUEST_BYTES == 288, "a request has 288 bytes");

struct reply {
    int32_t count; /* of strings */
    int32_t bytes; /* of the message that follows */
    int32_t rank;
};
enum { REPLY_BYTES = sizeof(struct reply) };
_Static_assert(REPLY_BYTES == 12, "a reply has 12 bytes");

/* What goes to one rank. A rank has one question open, so there is one reply on its way to it. */
struct line {
    struct reply reply;
    MPI_Request sent[SENDS]; /* the reply, the strings */
};

struct kmi_service {
    const struct kmi_records *records;
    const struct kmi_index *index;
    const struct kmi_partition *partition;
    struct request incoming;
    MPI_Request posted;
    int ended;
    struct line *line;
    unsigned char *strings; /* that came in an answer */
    size_t strings_size;
};

struct kmi_service *kmi_service_make(const struct run *run, const struct kmi_records *records,
                                     const struct kmi_index *index,
                                     const struct kmi_partition *partition)
{
    struct kmi_service *service = app_allocate(1, sizeof *service);
    service->records = records;
    service->index = index;
    service->partition = partition;
    service->posted = MPI_REQUEST_NULL;
    service->line = app_allocate((size_t)run->ranks, sizeof service->line[0]);
    for (int rank = 0; rank < run->ranks; rank++)
        for (int i = 0; i < SENDS; i++)
            service->line[rank].sent[i] = MPI_REQUEST_NULL;
    return service;
}

void kmi_service_free(struct kmi_service *service)
{
    free(service->line);
    free(service->strings);
    free(service);
}

static void expect_request(struct run *run, struct kmi_service *service)
{
    message_irecv(run, &service->incoming, REQUEST_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG_REQUEST,
                  &service->posted);
}

static void reply_to(struct run *run, struct kmi_service *service, int asker)
{
    struct line *const line = &service->line[asker];
    const struct kmi_query query =
        kmi_query_make(service->incoming.text, service->incoming.field[0]);
    int first = 0;
    const int count = kmi_find(service->records, service->index, &query, &first);
    message_waitall(run, SENDS, line->sent); /* complete: the asker has had that answer */
    const uint64_t bytes = (uint64_t)count * service->records->stride;
    if (bytes > INT32_MAX)
        FATAL("an answer has more than 2 GiB; allowed: a longer query_length or fewer reads");
    line->reply = (struct reply){.count = count, .bytes = (int32_t)bytes, .rank = run->rank};
    message_isend(run, &line->reply, REPLY_BYTES, MPI_BYTE, asker, TAG_REPLY, &line->sent[0]);
    if (count > 0)
        message_isend(run, kmi_record_at(service->records, first), line->reply.bytes, MPI_BYTE,
                      asker, TAG_STRINGS, &line->sent[1]);
}

/* Answer what others have asked by now. */
static void serve(struct run *run, struct kmi_service *service)
{
    MPI_Status status;
    while (service->ended < run->ranks - 1 && message_test(run, &service->posted, &status)) {
        int bytes = 0;
        CHECK_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
        if (bytes == END_BYTES)
            service->ended++;
        else
            reply_to(run, service, status.MPI_SOURCE);
        if (service->ended < run->ranks - 1)
            expect_request(run, service);
    }
}

static void add_record(struct kmi_answer *answer, const struct kmi_record *record)
{
    answer->records++;
    answer->copies += record->count + record->reverse;
}

/* Take the strings that follow a reply. */
static void take_strings(struct run *run, struct kmi_service *service, const struct reply *reply,
                         struct kmi_answer *answer)
{
    const size_t bytes = (size_t)reply->bytes;
    if (bytes > service->strings_size) {
        free(service->strings);
        service->strings = app_allocate(2, bytes);
        service->strings_size = 2 * bytes;
    }
    message_recv(run, service->strings, reply->bytes, MPI_BYTE, reply->rank, TAG_STRINGS);
    struct kmi_records came = *service->records;
    came.data = service->strings;
    for (int i = 0; i < reply->count; i++)
        add_record(answer, kmi_record_at(&came, i));
}

static void ask(struct run *run, struct kmi_service *service, const unsigned char *letters,
                int count, int owner, struct kmi_answer *answer)
{
    struct request request = {.field = {count, run->rank}};
    struct reply reply = {0, 0, 0};
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Request replied = MPI_REQUEST_NULL;
    memcpy(request.text, letters, (size_t)count);
    message_irecv(run, &reply, REPLY_BYTES, MPI_BYTE, owner, TAG_REPLY, &replied);
    message_isend(run, &request, REQUEST_BYTES, MPI_BYTE, owner, TAG_REQUEST, &sent);
    while (!message_test(run, &replied, MPI_STATUS_IGNORE))
        serve(run, service);
    message_wait(run, &sent);
    if (reply.count > 0)
        take_strings(run, service, &reply, answer);
}

static struct kmi_answer answer_query(struct run *run, struct kmi_service *service,
                                      const unsigned char *letters, int count)
{
    struct kmi_answer answer = {0, 0};
    const struct kmi_query query = kmi_query_make(letters, count);
    const int last = kmi_owner(service->partition, run->ranks, kmi_key(query.high));
    for (int owner = kmi_owner(service->partition, run->ranks, kmi_key(query.low)); owner <= last;
         owner++) {
        if (owner != run->rank) {
            ask(run, service, letters, count, owner, &answer);
            continue;
        }
        int first = 0;
        const int found = kmi_find(service->records, service->index, &query, &first);
        for (int i = 0; i < found; i++)
            add_record(&answer, kmi_record_at(service->records, first + i));
    }
    return answer;
}

void kmi_service_run(struct run *run, struct kmi_service *service, int count,
                     const unsigned char *queries, int letters, struct kmi_answer *answers)
{
    const unsigned char end = 0;
    MPI_Request *ends = app_allocate((size_t)run->ranks, sizeof ends[0]);
    service->ended = 0;
    expect_request(run, service);
    for (int i = 0; i < count; i++)
        answers[i] = answer_query(run, service, queries + (size_t)i * (size_t)letters, letters);
    for (int rank = 0; rank < run->ranks; rank++) {
        ends[rank] = MPI_REQUEST_NULL;
        if (rank != run->rank)
            message_isend(run, &end, END_BYTES, MPI_BYTE, rank, TAG_REQUEST, &ends[rank]);
    }
    while (service->ended < run->ranks - 1)
        serve(run, service);
    message_waitall(run, run->ranks, ends);
    for (int rank = 0; rank < run->ranks; rank++)
        message_waitall(run, SENDS, service->line[rank].sent);
    free(ends);
}
