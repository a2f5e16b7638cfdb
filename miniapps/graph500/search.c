/* Kernel 2: breadth-first search from the top down, level by level.
 *
 * For every edge from a vertex of the frontier to one of another rank a visit goes to that rank:
 * the vertex and its would-be parent, 8 bytes. Visits are gathered in a box of 32 KiB for each
 * rank, and a full box is sent while another is filled. Boxes that arrive are looked through
 * whenever one was sent. A box that is not full, be it empty, is the last from its sender in this
 * level; when all have come, the new vertices of all ranks are counted. */
#include "common/check.h"
#include "graph500/graph500.h"

#include <stdlib.h>
#include <string.h>

enum {
    TAG_VISITS = 1,
    BOX_BYTES = 32 * 1024,
    BOX_VISITS = BOX_BYTES / 8,
    BOXES = 2, /* for each rank */
    ARRIVALS_LEAST = 2,
    ARRIVALS_MOST = 32,
    WORD_BITS = 64
};

struct outbox {
    uint64_t *box[BOXES]; /* visits: the parent above, the vertex as its rank counts it below */
    MPI_Request request[BOXES];
    int filling;
    int visits;
};

struct arrival {
    uint64_t *box;
    MPI_Request request;
};

struct search {
    const struct graph *graph;
    uint32_t *parent; /* of the own vertices */
    uint64_t *seen;   /* a bit for each of them */
    uint32_t *frontier;
    uint32_t *next;
    uint32_t frontier_count;
    uint32_t next_count;
    struct outbox *outbox;
    int arrivals;
    struct arrival arrival[ARRIVALS_MOST];
    int oldest; /* of the arrivals that are waited for: messages match them in their order */
    int ended;  /* ranks that have no more visits in this level */
};

static size_t words_of(uint32_t vertices)
{
    return (size_t)vertices / WORD_BITS + 1;
}

static void expect(struct run *run, struct search *search, int index)
{
    message_irecv(run, search->arrival[index].box, BOX_VISITS, MPI_UINT64_T, MPI_ANY_SOURCE,
                  TAG_VISITS, &search->arrival[index].request);
}

struct search *search_make(struct run *run, const struct graph *graph)
{
    struct search *search = app_allocate(1, sizeof *search);
    const size_t vertices = graph->vertices;
    search->graph = graph;
    search->parent = app_allocate(vertices, sizeof search->parent[0]);
    search->frontier = app_allocate(vertices, sizeof search->frontier[0]);
    search->next = app_allocate(vertices, sizeof search->next[0]);
    search->seen = app_allocate(words_of(graph->vertices), sizeof search->seen[0]);
    search->outbox = app_allocate((size_t)run->ranks, sizeof search->outbox[0]);
    for (int rank = 0; rank < run->ranks; rank++) {
        for (int i = 0; i < BOXES; i++) {
            search->outbox[rank].request[i] = MPI_REQUEST_NULL;
            if (rank != run->rank)
                search->outbox[rank].box[i] = app_allocate(BOX_VISITS, sizeof(uint64_t));
        }
    }
    if (run->ranks > 1) {
        search->arrivals = 2 * (run->ranks - 1);
        if (search->arrivals < ARRIVALS_LEAST)
            search->arrivals = ARRIVALS_LEAST;
        if (search->arrivals > ARRIVALS_MOST)
            search->arrivals = ARRIVALS_MOST;
    }
    for (int i = 0; i < search->arrivals; i++) {
        search->arrival[i].box = app_allocate(BOX_VISITS, sizeof(uint64_t));
        expect(run, search, i);
    }
    return search;
}

void search_free(struct search *search)
{
    for (int i = 0; i < search->arrivals; i++) {
        CHECK_MPI(MPI_Cancel(&search->arrival[i].request));
        CHECK_MPI(MPI_Wait(&search->arrival[i].request, MPI_STATUS_IGNORE));
        free(search->arrival[i].box);
    }
    for (int rank = 0; rank < search->graph->ranks; rank++)
        for (int i = 0; i < BOXES; i++)
            free(search->outbox[rank].box[i]);
    free(search->outbox);
    free(search->parent);
    free(search->frontier);
    free(search->next);
    free(search->seen);
    free(search);
}

uint32_t *search_parents(struct search *search)
{
    return search->parent;
}

/* Note a visit of an own vertex; return the new count of next vertices. */
static inline uint32_t visit(const struct search *search, uint32_t vertex, uint32_t parent,
                             uint32_t next_count)
{
    uint64_t *const word = search->seen + vertex / WORD_BITS;
    const uint64_t bit = UINT64_C(1) << (vertex % WORD_BITS);
    if ((*word & bit) != 0)
        return next_count;
    *word |= bit;
    search->parent[vertex] = parent;
    search->next[next_count] = vertex;
    return next_count + 1;
}

/* Look through the boxes that have come. */
static void take_arrivals(struct run *run, struct search *search)
{
    MPI_Status status;
    while (search->arrivals > 0 &&
           message_test(run, &search->arrival[search->oldest].request, &status)) {
        const uint64_t *const box = search->arrival[search->oldest].box;
        int visits = 0;
        CHECK_MPI(MPI_Get_count(&status, MPI_UINT64_T, &visits));
        uint32_t count = search->next_count;
        for (int i = 0; i < visits; i++)
            count = visit(search, (uint32_t)box[i], (uint32_t)(box[i] >> 32), count);
        search->next_count = count;
        search->ended += visits < BOX_VISITS;
        expect(run, search, search->oldest);
        search->oldest = (search->oldest + 1) % search->arrivals;
    }
}

/* Send the box that is being filled, and go on with the other as soon as it is free. */
static void send_box(struct run *run, struct search *search, int to)
{
    struct outbox *const out = &search->outbox[to];
    message_isend(run, out->box[out->filling], out->visits, MPI_UINT64_T, to, TAG_VISITS,
                  &out->request[out->filling]);
    out->filling = (out->filling + 1) % BOXES;
    out->visits = 0;
    take_arrivals(run, search);
    while (!message_test(run, &out->request[out->filling], MPI_STATUS_IGNORE))
        take_arrivals(run, search);
}

static void post_visits(struct run *run, struct search *search, int to, const uint32_t *at,
                        const uint32_t *stop, uint32_t parent)
{
    struct outbox *const out = &search->outbox[to];
    const uint32_t base = search->graph->first[to];
    const uint64_t above = (uint64_t)parent << 32;
    while (at < stop) {
        const int room = BOX_VISITS - out->visits;
        const int many = stop - at < room ? (int)(stop - at) : room;
        uint64_t *const box = out->box[out->filling] + out->visits;
        for (int i = 0; i < many; i++)
            box[i] = above | (at[i] - base);
        at += many;
        out->visits += many;
        if (out->visits == BOX_VISITS)
            send_box(run, search, to);
    }
}

/* Visit all neighbours of an own vertex, rank by rank: they are in rising order. */
static void expand(struct run *run, struct search *search, uint32_t vertex)
{
    const struct graph *const graph = search->graph;
    const uint32_t *at = graph->neighbour + graph->offset[vertex];
    const uint32_t *const end = graph->neighbour + graph->offset[vertex + 1];
    const uint32_t parent = graph->first[run->rank] + vertex;
    while (at < end) {
        const int owner = graph_owner(graph, *at);
        const uint32_t base = graph->first[owner];
        const uint32_t limit = graph->first[owner + 1];
        const uint32_t *stop = end;
        if (end[-1] >= limit)
            for (stop = at + 1; *stop < limit; stop++)
                ;
        if (owner == run->rank) {
            uint32_t count = search->next_count;
            for (; at < stop; at++)
                count = visit(search, *at - base, parent, count);
            search->next_count = count;
        } else {
            post_visits(run, search, owner, at, stop, parent);
        }
        at = stop;
    }
}

/* Send what is left, and wait until nobody has more for us. */
static void end_level(struct run *run, struct search *search)
{
    for (int i = 1; i < run->ranks; i++)
        send_box(run, search, (run->rank + i) % run->ranks);
    while (search->ended < run->ranks - 1)
        take_arrivals(run, search);
    search->ended = 0;
    uint32_t *const swapped = search->frontier;
    search->frontier = search->next;
    search->next = swapped;
    search->frontier_count = search->next_count;
    search->next_count = 0;
}

void search_from(struct run *run, struct search *search, uint32_t root)
{
    const struct graph *const graph = search->graph;
    memset(search->parent, 0xff, graph->vertices * sizeof search->parent[0]);
    memset(search->seen, 0, words_of(graph->vertices) * sizeof search->seen[0]);
    search->frontier_count = 0;
    search->next_count = 0;
    if (graph_owner(graph, root) == run->rank) {
        const uint32_t vertex = root - graph->first[run->rank];
        visit(search, vertex, root, 0);
        search->frontier[search->frontier_count++] = vertex;
    }
    uint64_t fresh = 1;
    while (fresh > 0) {
        for (uint32_t i = 0; i < search->frontier_count; i++)
            expand(run, search, search->frontier[i]);
        end_level(run, search);
        fresh = search->frontier_count;
        message_allreduce(run, &fresh, 1, MPI_UINT64_T, MPI_SUM);
    }
    for (int rank = 0; rank < run->ranks; rank++)
        message_waitall(run, BOXES, search->outbox[rank].request);
}
