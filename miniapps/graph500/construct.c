/* Kernel 1: the list of edges becomes compressed rows, each on the rank that has the vertex.
 *
 * Every edge goes to the ranks of both of its ends as one word, the own vertex above, the neighbour
 * below. Received words are sorted by neighbour, then by vertex, both times without comparisons and
 * keeping order. */
#include "apps/counter.h"
#include "common/check.h"
#include "graph500/graph500.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, ROOTS_AT_ONCE = 1024, STREAM_ROOTS = 4 };

static const uint64_t seed = 500;

struct words {
    uint64_t count;
    uint64_t *word;
};

static void share_vertices(struct graph *graph)
{
    const uint64_t all = UINT64_C(1) << graph->scale;
    const uint64_t ranks = (uint64_t)graph->ranks;
    graph->first = app_allocate(ranks + 1, sizeof graph->first[0]);
    for (uint64_t rank = 0; rank <= ranks; rank++)
        graph->first[rank] = (uint32_t)((rank * all + ranks - 1) / ranks);
}

static uint64_t word_of(const struct graph *graph, int owner, uint32_t vertex, uint32_t neighbour)
{
    return (uint64_t)(vertex - graph->first[owner]) << 32 | neighbour;
}

/* Put both directions of every edge in the order of the ranks that they go to. */
static uint64_t *words_by_owner(const struct graph *graph, const struct edge_list *list,
                                int *counts, int *at)
{
    for (uint64_t i = 0; i < list->count; i++) {
        if (list->ends[2 * i] == list->ends[2 * i + 1])
            continue;
        counts[graph_owner(graph, list->ends[2 * i])]++;
        counts[graph_owner(graph, list->ends[2 * i + 1])]++;
    }
    for (int rank = 1; rank < graph->ranks; rank++)
        at[rank] = at[rank - 1] + counts[rank - 1];
    uint64_t *words = app_allocate(2 * list->count + 1, sizeof words[0]);
    int *next = app_allocate((size_t)graph->ranks, sizeof next[0]);
    memcpy(next, at, (size_t)graph->ranks * sizeof next[0]);
    for (uint64_t i = 0; i < list->count; i++) {
        const uint32_t *ends = list->ends + 2 * i;
        if (ends[0] == ends[1])
            continue;
        const int one = graph_owner(graph, ends[0]);
        const int other = graph_owner(graph, ends[1]);
        words[next[one]++] = word_of(graph, one, ends[0], ends[1]);
        words[next[other]++] = word_of(graph, other, ends[1], ends[0]);
    }
    free(next);
    return words;
}

static struct words exchange(struct run *run, const struct graph *graph,
                             const struct edge_list *list)
{
    const size_t ranks = (size_t)run->ranks;
    int *out_counts = app_allocate(4 * ranks, sizeof(int));
    int *out_at = out_counts + ranks;
    int *in_counts = out_at + ranks;
    int *in_at = in_counts + ranks;
    uint64_t *out = words_by_owner(graph, list, out_counts, out_at);
    message_alltoall(run, out_counts, 1, MPI_INT, in_counts);
    for (size_t rank = 1; rank < ranks; rank++)
        in_at[rank] = in_at[rank - 1] + in_counts[rank - 1];
    struct words in = {.count = (uint64_t)(in_at[ranks - 1] + in_counts[ranks - 1])};
    in.word = app_allocate(in.count, sizeof in.word[0]);
    message_alltoallv(run, out, out_counts, out_at, MPI_UINT64_T, in.word, in_counts, in_at);
    free(out);
    free(out_counts);
    return in;
}

/* Sort by the lower `bits` of the words. */
static void sort_by_neighbour(struct words *words, int bits)
{
    uint64_t *other = app_allocate(words->count, sizeof other[0]);
    uint64_t at[DIGITS];
    for (int shift = 0; shift < bits; shift += DIGIT_BITS) {
        memset(at, 0, sizeof at);
        for (uint64_t i = 0; i < words->count; i++)
            at[(words->word[i] >> shift) % DIGITS]++;
        uint64_t before = 0;
        for (int digit = 0; digit < DIGITS; digit++) {
            const uint64_t many = at[digit];
            at[digit] = before;
            before += many;
        }
        for (uint64_t i = 0; i < words->count; i++)
            other[at[(words->word[i] >> shift) % DIGITS]++] = words->word[i];
        uint64_t *const swapped = words->word;
        words->word = other;
        other = swapped;
    }
    free(other);
}

/* Words that are in the order of neighbours become rows. */
static void fill_rows(struct graph *graph, const struct words *words)
{
    graph->entries = words->count;
    graph->offset = app_allocate((size_t)graph->vertices + 2, sizeof graph->offset[0]);
    graph->neighbour = app_allocate(words->count, sizeof graph->neighbour[0]);
    uint64_t *const next =
        graph->offset + 1; /* of a row; in the end where the row after it begins */
    for (uint64_t i = 0; i < words->count; i++)
        next[(words->word[i] >> 32) + 1]++;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        next[vertex + 1] += next[vertex];
    for (uint64_t i = 0; i < words->count; i++)
        graph->neighbour[next[words->word[i] >> 32]++] = (uint32_t)words->word[i];
}

struct graph graph_make(struct run *run, int scale, struct edge_list *list)
{
    struct graph graph = {.scale = scale, .ranks = run->ranks};
    share_vertices(&graph);
    graph.vertices = graph.first[run->rank + 1] - graph.first[run->rank];
    struct words words = exchange(run, &graph, list);
    free(list->ends);
    *list = (struct edge_list){0};
    sort_by_neighbour(&words, scale);
    fill_rows(&graph, &words);
    free(words.word);
    return graph;
}

void graph_free(struct graph *graph)
{
    free(graph->first);
    free(graph->offset);
    free(graph->neighbour);
}

static uint64_t print_of(uint32_t vertex, uint32_t neighbour)
{
    return counter_at(seed, (uint64_t)vertex << 32 | neighbour);
}

static uint64_t sum_of_all(const struct run *run, uint64_t sum)
{
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, run->comm));
    return sum;
}

uint64_t graph_fingerprint(const struct run *run, const struct graph *graph)
{
    uint64_t sum = 0;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        for (uint64_t i = graph->offset[vertex]; i < graph->offset[vertex + 1]; i++)
            sum += print_of(graph->first[run->rank] + vertex, graph->neighbour[i]);
    return sum_of_all(run, sum);
}

uint64_t edge_list_fingerprint(const struct run *run, const struct edge_list *list)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < list->count; i++) {
        const uint32_t *ends = list->ends + 2 * i;
        if (ends[0] != ends[1])
            sum += print_of(ends[0], ends[1]) + print_of(ends[1], ends[0]);
    }
    return sum_of_all(run, sum);
}

int graph_choose_roots(const struct run *run, const struct graph *graph, int count, uint32_t *roots)
{
    const uint64_t all = UINT64_C(1) << graph->scale;
    const struct shuffle order = shuffle_make(counter_stream(seed, STREAM_ROOTS), graph->scale);
    const uint32_t first = graph->first[run->rank];
    int found = 0;
    for (uint64_t at = 0; at < all && found < count; at += ROOTS_AT_ONCE) {
        int joined[ROOTS_AT_ONCE] = {0};
        const uint64_t many = all - at < ROOTS_AT_ONCE ? all - at : ROOTS_AT_ONCE;
        for (uint64_t i = 0; i < many; i++) {
            const uint32_t vertex = (uint32_t)shuffle_apply(&order, at + i) - first;
            if (vertex < graph->vertices) /* one before the first wraps around and is not */
                joined[i] = graph->offset[vertex + 1] > graph->offset[vertex];
        }
        CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, joined, (int)many, MPI_INT, MPI_MAX, run->comm));
        for (uint64_t i = 0; i < many && found < count; i++)
            if (joined[i])
                roots[found++] = (uint32_t)shuffle_apply(&order, at + i);
    }
    return found;
}
