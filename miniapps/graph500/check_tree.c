/* The five checks that the Graph500 specification asks of every tree.
 *
 * Levels are found from the parents alone: in each round the vertices whose parent got its level in
 * the round before get theirs, and all ranks are told. A vertex that leads into a circle or to
 * nowhere never gets one. Every rank then looks at the edges of its own vertices; that the graph
 * has the edges of the list and no others is known from their fingerprints. */
#include "common/check.h"
#include "graph500/graph500.h"

#include <stdlib.h>

#define NO_LEVEL UINT16_MAX

struct pending {
    uint32_t count;
    uint32_t *vertex; /* own vertices that were reached and have no level yet */
};

/* Tell all ranks which vertices have got this level; return how many. */
static uint64_t spread(const struct run *run, const uint32_t *fresh, int count, uint16_t level,
                       uint16_t *levels)
{
    const size_t ranks = (size_t)run->ranks;
    int *counts = app_allocate(2 * ranks, sizeof(int));
    int *at = counts + ranks;
    CHECK_MPI(PMPI_Allgather(&count, 1, MPI_INT, counts, 1, MPI_INT, run->comm));
    for (size_t rank = 1; rank < ranks; rank++)
        at[rank] = at[rank - 1] + counts[rank - 1];
    const uint64_t all = (uint64_t)(at[ranks - 1] + counts[ranks - 1]);
    uint32_t *vertices = app_allocate(all, sizeof vertices[0]);
    CHECK_MPI(
        PMPI_Allgatherv(fresh, count, MPI_UINT32_T, vertices, counts, at, MPI_UINT32_T, run->comm));
    for (uint64_t i = 0; i < all; i++)
        levels[vertices[i]] = level;
    free(vertices);
    free(counts);
    return all;
}

/* Fill in the levels of all vertices; return how many there are. */
static int find_levels(const struct run *run, const struct graph *graph, const uint32_t *parents,
                       uint32_t root, uint16_t *levels)
{
    const uint32_t first = graph->first[run->rank];
    const uint32_t all = graph->first[graph->ranks];
    struct pending pending = {.vertex = app_allocate(graph->vertices, sizeof(uint32_t))};
    uint32_t *fresh = app_allocate(graph->vertices, sizeof fresh[0]);
    for (uint32_t vertex = 0; vertex < all; vertex++)
        levels[vertex] = NO_LEVEL;
    levels[root] = 0;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        if (parents[vertex] < all && first + vertex != root)
            pending.vertex[pending.count++] = vertex;
    int level = 0;
    uint64_t found = 1;
    while (found > 0 && level < NO_LEVEL - 1) {
        uint32_t left = 0;
        int count = 0;
        for (uint32_t i = 0; i < pending.count; i++) {
            const uint32_t vertex = pending.vertex[i];
            if (levels[parents[vertex]] != NO_LEVEL)
                fresh[count++] = first + vertex;
            else
                pending.vertex[left++] = vertex;
        }
        pending.count = left;
        level++;
        found = spread(run, fresh, count, (uint16_t)level, levels);
    }
    free(pending.vertex);
    free(fresh);
    return level;
}

/* Check one own vertex and its edges. */
static void check_vertex(const struct graph *graph, uint32_t vertex, uint32_t name, uint32_t parent,
                         uint32_t root, const uint16_t *levels, struct verdict *verdict)
{
    const uint16_t level = levels[name];
    const bool reached = level != NO_LEVEL;
    bool present = false;
    for (uint64_t i = graph->offset[vertex]; i < graph->offset[vertex + 1]; i++) {
        const uint32_t neighbour = graph->neighbour[i];
        const uint16_t other = levels[neighbour];
        const bool both = reached && other != NO_LEVEL;
        present |= neighbour == parent;
        verdict->edges += both;
        verdict->broken[RULE_SPAN] += reached != (other != NO_LEVEL);
        verdict->broken[RULE_LEVELS] += both && abs(level - other) > 1;
    }
    verdict->reached += reached;
    verdict->broken[RULE_TREE] += (parent != NO_VERTEX) != reached;
    verdict->broken[RULE_TREE] += name == root && parent != root;
    if (!reached || name == root || parent >= graph->first[graph->ranks])
        return;
    verdict->broken[RULE_STEP] += level != levels[parent] + 1;
    verdict->broken[RULE_PRESENT] += !present;
}

struct verdict tree_check(const struct run *run, const struct graph *graph, const uint32_t *parents,
                          uint32_t root, uint16_t *levels)
{
    struct verdict verdict = {.levels = find_levels(run, graph, parents, root, levels)};
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        check_vertex(graph, vertex, graph->first[run->rank] + vertex, parents[vertex], root, levels,
                     &verdict);
    CHECK_MPI(
        PMPI_Allreduce(MPI_IN_PLACE, verdict.broken, RULES, MPI_UINT64_T, MPI_SUM, run->comm));
    uint64_t sums[2] = {verdict.edges, verdict.reached};
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, run->comm));
    verdict.edges = sums[0] / 2; /* each is in the rows of both ends */
    verdict.reached = sums[1];
    return verdict;
}
