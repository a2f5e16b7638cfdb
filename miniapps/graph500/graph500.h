/* The parts of graph500: the list of edges, the graph that is made of it, a search and its check.
 *
 * Vertices are numbered from 0 to 2^scale - 1. Rank r has those from graph->first[r] to
 * graph->first[r + 1] - 1. */
#ifndef TARE_GRAPH500_H
#define TARE_GRAPH500_H

#include "apps/app.h"

#define NO_VERTEX UINT32_MAX

/* A one-to-one map of the numbers below 2^bits that looks random. */
enum { SHUFFLE_ROUNDS = 4 };
struct shuffle {
    int bits;
    uint64_t factor[SHUFFLE_ROUNDS];
    uint64_t summand[SHUFFLE_ROUNDS];
};

struct shuffle shuffle_make(uint64_t stream, int bits);
uint64_t shuffle_apply(const struct shuffle *shuffle, uint64_t number);

/* Where the edges of the list come from: each is a function of its place in it. */
struct generator {
    int scale;
    uint64_t edges;
    uint64_t stream;
    struct shuffle labels;
    struct shuffle places;
};

struct generator generator_make(int scale, int edgefactor);
void generator_edge(const struct generator *generator, uint64_t place, uint32_t ends[2]);

/* A part of the list: edge i joins ends[2 i] and ends[2 i + 1]. */
struct edge_list {
    uint64_t count;
    uint32_t *ends;
};

struct edge_list edge_list_make(const struct run *run, const struct generator *generator);

/* The graph as compressed rows: the neighbours of the own vertex v (counted from first[rank]) are
 * neighbour[offset[v]] to neighbour[offset[v + 1] - 1], in rising order, as often as the list has
 * the edge. Loops are left out. */
struct graph {
    int scale;
    int ranks;
    uint32_t *first; /* of each rank, and the number of all vertices */
    uint32_t vertices;
    uint64_t entries;
    uint64_t *offset;
    uint32_t *neighbour;
};

/* Return the rank that has a vertex; first[] follows from it. */
static inline int graph_owner(const struct graph *graph, uint32_t vertex)
{
    return (int)(((uint64_t)vertex * (uint64_t)graph->ranks) >> graph->scale);
}

/* Kernel 1: make the graph of the list, whose memory is given back; collective. */
struct graph graph_make(struct run *run, int scale, struct edge_list *list);
void graph_free(struct graph *graph);

/* Return a sum over the entries of all ranks that does not depend on their order; that of a list
 * has every edge in both directions and no loop. */
uint64_t graph_fingerprint(const struct run *run, const struct graph *graph);
uint64_t edge_list_fingerprint(const struct run *run, const struct edge_list *list);

/* Choose distinct vertices with a neighbour at random; return how many there are, at most `count`.
 */
int graph_choose_roots(const struct run *run, const struct graph *graph, int count,
                       uint32_t *roots);

/* The state of searches, which is used again for the next. */
struct search;

struct search *search_make(struct run *run, const struct graph *graph);
void search_free(struct search *search);
/* Kernel 2: fill in the parents of the own vertices; collective. */
void search_from(struct run *run, struct search *search, uint32_t root);
uint32_t *search_parents(struct search *search);

enum graph_rule {
    RULE_TREE,    /* parents lead to the root and not in a circle */
    RULE_STEP,    /* an edge of the tree joins levels that differ by one */
    RULE_LEVELS,  /* an edge of the list joins levels that differ by one at most */
    RULE_SPAN,    /* the tree has all vertices of the root's component and no others */
    RULE_PRESENT, /* an edge of the tree is in the list */
    RULES
};

struct verdict {
    uint64_t broken[RULES]; /* how often */
    uint64_t edges;         /* of the list in the traversed component, loops left out */
    uint64_t reached;
    int levels;
};

/* Check a tree of parents; `levels` is scratch memory for all vertices. Collective. */
struct verdict tree_check(const struct run *run, const struct graph *graph, const uint32_t *parents,
                          uint32_t root, uint16_t *levels);

#endif
