/* graph500: breadth-first searches in a Kronecker graph, after the Graph500 specification 3.0. */
#include "graph500/graph500.h"

#include "common/check.h"
#include "common/clock.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOTS_MOST = 1024, SCALE_LOW = 6, SCALE_HIGH = 31 };

struct searches {
    int count;
    uint32_t root[ROOTS_MOST];
    double elapsed_s[ROOTS_MOST];
    double edges[ROOTS_MOST]; /* m of each search */
    double check_s;           /* of all */
    double broken[RULES];
    int levels;
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Return a quantile of sorted values, between two of them by the straight line. */
static double quantile(const double *sorted, int count, double part)
{
    const double place = part * (count - 1);
    const int below = (int)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
}

static double mean_of(const double *values, int count)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

/* Return the standard deviation of the harmonic mean: std(s) / (mean(s)^2 sqrt(n - 1)), s = 1 /
 * TEPS (specification, "Output"). */
static double harmonic_deviation(const double *teps, int count)
{
    double inverse[ROOTS_MOST];
    for (int i = 0; i < count; i++)
        inverse[i] = 1.0 / teps[i];
    const double mean = mean_of(inverse, count);
    double squares = 0.0;
    for (int i = 0; i < count; i++)
        squares += (inverse[i] - mean) * (inverse[i] - mean);
    if (count < 2)
        return 0.0;
    return sqrt(squares / (count - 1)) / (mean * mean * sqrt(count - 1.0));
}

static void tell_searches(struct run *run, const struct searches *searches)
{
    static const char *const names[] = {"slowest search", "first quartile of searches",
                                        "median search", "third quartile of searches",
                                        "fastest search"};
    enum { QUANTILES = sizeof names / sizeof names[0] };
    const int count = searches->count;
    double teps[ROOTS_MOST];
    double sorted[ROOTS_MOST];
    double elapsed_s = 0.0;
    double inverses = 0.0;
    for (int i = 0; i < count; i++) {
        elapsed_s += searches->elapsed_s[i];
        inverses += searches->elapsed_s[i] / searches->edges[i];
        teps[i] = sorted[i] = searches->edges[i] / searches->elapsed_s[i];
    }
    run->result.elapsed_s = elapsed_s;
    run->result.operations = elapsed_s * count / inverses; /* the rate is the harmonic mean */
    qsort(sorted, (size_t)count, sizeof sorted[0], compare);
    for (int i = 0; i < QUANTILES; i++)
        result_figure(run, names[i], quantile(sorted, count, i / (QUANTILES - 1.0)), "TEPS");
    result_figure(run, "harmonic standard deviation", harmonic_deviation(teps, count), "TEPS");
    result_figure(run, "mean edges of a search", mean_of(searches->edges, count), "edges");
    result_figure(run, "mean time of a search", elapsed_s / count, "s");
    result_figure(run, "mean time of a check", searches->check_s / count, "s");
    result_figure(run, "most levels", searches->levels, "levels");
    result_figure(run, "searches", count, "searches");
    result_series(run, "time of a search", searches->elapsed_s, (size_t)count, "s");
    result_series(run, "edges of a search", searches->edges, (size_t)count, "edges");
}

static void tell_checks(struct run *run, const struct searches *searches)
{
    static const char *const names[RULES] = {
        [RULE_TREE] = "vertices whose parents do not lead to the root",
        [RULE_STEP] = "edges of trees that do not join levels differing by one",
        [RULE_LEVELS] = "edges that join levels differing by more than one",
        [RULE_SPAN] = "edges from inside to outside of trees",
        [RULE_PRESENT] = "edges of trees that are not in the list",
    };
    for (int rule = 0; rule < RULES; rule++)
        result_check(run, names[rule], searches->broken[rule], 0.0, 0.0);
}

/* Spoil a tree of the last rank, every search in another way. */
static void spoil(const struct run *run, const struct graph *graph, uint32_t *parents,
                  uint32_t root, int search)
{
    enum { WAYS = 3 };
    if (run->rank != run->ranks - 1)
        return;
    const uint32_t first = graph->first[run->rank];
    uint32_t victim = 0;
    while (victim + 1 < graph->vertices && (parents[victim] == NO_VERTEX || first + victim == root))
        victim++;
    uint32_t stranger = 0; /* a vertex that is no neighbour of it */
    for (uint64_t i = graph->offset[victim]; i < graph->offset[victim + 1]; i++)
        stranger += graph->neighbour[i] == stranger;
    if (search % WAYS == 0)
        parents[victim] = first + victim;
    else if (search % WAYS == 1)
        parents[victim] = NO_VERTEX;
    else
        parents[victim] = stranger;
}

/* Make the list and, timed, the graph; check that the one has the edges of the other. */
static struct graph construct(struct run *run)
{
    const int scale = (int)run_value(run, "scale");
    const struct generator generator = generator_make(scale, (int)run_value(run, "edgefactor"));
    const uint64_t start_ns = clock_now_ns();
    struct edge_list list = edge_list_make(run, &generator);
    const uint64_t expected = edge_list_fingerprint(run, &list);
    result_figure(run, "time of generation", clock_difference_s(clock_now_ns(), start_ns), "s");
    CHECK_MPI(PMPI_Barrier(run->comm));
    const uint64_t made_ns = clock_now_ns();
    struct graph graph = graph_make(run, scale, &list);
    double elapsed_s = clock_difference_s(clock_now_ns(), made_ns);
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &elapsed_s, 1, MPI_DOUBLE, MPI_MAX, run->comm));
    result_figure(run, "time of construction", elapsed_s, "s");
    const bool same = graph_fingerprint(run, &graph) == expected;
    result_check(run, "graph has the edges of the list", same, 1.0, 0.0);
    double entries = (double)graph.entries;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &entries, 1, MPI_DOUBLE, MPI_SUM, run->comm));
    result_figure(run, "loops in the list", (double)generator.edges - entries / 2.0, "edges");
    return graph;
}

static void search_all(struct run *run, const struct graph *graph, struct searches *searches)
{
    const bool struck = run_is_struck(run);
    uint16_t *levels = app_allocate(graph->first[graph->ranks], sizeof levels[0]);
    struct search *search = search_make(run, graph);
    search_from(run, search, searches->root[0]); /* untimed */
    run_divide(run, searches->count);
    for (int i = 0; i < searches->count; i++) {
        if (run_next_part(run))
            search_from(run, search, searches->root[i]); /* untimed: caches are another job's */
        run_start(run);
        search_from(run, search, searches->root[i]);
        run_stop(run);
        searches->elapsed_s[i] = run->result.elapsed_s;
        if (struck)
            spoil(run, graph, search_parents(search), searches->root[i], i);
        const uint64_t start_ns = clock_now_ns();
        const struct verdict verdict =
            tree_check(run, graph, search_parents(search), searches->root[i], levels);
        searches->check_s += clock_difference_s(clock_now_ns(), start_ns);
        searches->edges[i] = (double)verdict.edges;
        for (int rule = 0; rule < RULES; rule++)
            searches->broken[rule] += (double)verdict.broken[rule];
        if (verdict.levels > searches->levels)
            searches->levels = verdict.levels;
    }
    search_free(search);
    free(levels);
}

static void execute(struct run *run)
{
    struct graph graph = construct(run);
    struct searches *searches = app_allocate(1, sizeof *searches);
    searches->count = graph_choose_roots(run, &graph, (int)run_value(run, "roots"), searches->root);
    if (searches->count == 0)
        FATAL("the graph has no edge");
    search_all(run, &graph, searches);
    tell_checks(run, searches);
    tell_searches(run, searches);
    free(searches);
    graph_free(&graph);
}

static double edges_of_rank(const struct run *run)
{
    return ldexp((double)run_value(run, "edgefactor"), (int)run_value(run, "scale")) / run->ranks;
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const int scale = (int)run_value(run, "scale");
    const double room = INT_MAX / 3.0; /* counts of MPI, both directions, uneven shares */
    if (run->ranks > 1 << (scale - 2)) {
        snprintf(reason, APP_REASON,
                 "graph500 scale %d cannot run on %d ranks; allowed: any number up to %d", scale,
                 run->ranks, 1 << (scale - 2));
        return false;
    }
    if (edges_of_rank(run) > room) {
        snprintf(reason, APP_REASON,
                 "graph500 scale %d has %.3g edges a rank on %d ranks; allowed: up to %.3g", scale,
                 edges_of_rank(run), run->ranks, room);
        return false;
    }
    return true;
}

/* At construction a rank has its edges as words that go, words that came, and those sorted: both
 * directions of 8 bytes; afterwards rows of 4 bytes. Words that came may be a quarter more than the
 * mean. */
static double memory_bytes(const struct run *run)
{
    const double vertices = ldexp(1.0, (int)run_value(run, "scale"));
    const double making = edges_of_rank(run) * (8.0 + 16.0 + 2.0 * 1.25 * 16.0);
    const double boxes = 32768.0 * (2.0 * run->ranks + 32.0);
    return making + 22.0 * vertices / run->ranks + 6.0 * vertices + boxes;
}

const struct app app_graph500 = {
    .name = "graph500",
    .description = "breadth-first searches in a Kronecker graph, every tree checked",
    .rate = "TEPS",
    .timed = "each search alone; the rate is the harmonic mean of edges of the component / time",
    .pattern = "a level: visits of 8 bytes gathered to messages of 32 KiB for each rank, a shorter "
               "one, be it empty, as the last; an allreduce of one number",
    .parameters = {{"scale", "log2 of the number of vertices", 16, SCALE_LOW, SCALE_HIGH},
                   {"roots", "searches, or as many as there are vertices with an edge", 64, 1,
                    ROOTS_MOST},
                   {"edgefactor", "edges of the list for each vertex", 16, 1, 256},
                   APP_PACE_PARAMETER},
    .official_pace = 460,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
