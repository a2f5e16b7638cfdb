/* IS, integer sort: rank keys by buckets (RNR-94-007, 2.7; NAS-95-020). */
#include "apps/app.h"
#include "apps/lcg46.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 314159265, TIMED = 10, PROBES = 5, DRAWS = 4, MOST_LOG2_BUCKETS = 10 };
enum { SPREAD = 4, GROUP_VALUES = 4096, GROUPS = 128, AHEAD = 16 };

/* The rank of the key at `position` in iteration i is `rank` + `slope` (i + shift). */
struct probe {
    int position;
    int rank;
    int slope;
    int shift;
};

struct problem {
    int log2_keys;
    int log2_largest;
    int log2_buckets;
    struct probe probe[PROBES];
};

static const struct problem problems[CLASSES] = {
    [CLASS_S] = {16,
                 11,
                 9,
                 {{48427, 0, 1, 0},
                  {17148, 18, 1, 0},
                  {23627, 346, 1, 0},
                  {62548, 64917, -1, 0},
                  {4431, 65463, -1, 0}}},
    [CLASS_W] = {20,
                 16,
                 10,
                 {{357773, 1249, 1, -2},
                  {934767, 11698, 1, -2},
                  {875723, 1039987, -1, 0},
                  {898999, 1043896, -1, 0},
                  {404505, 1048018, -1, 0}}},
    [CLASS_A] = {23,
                 19,
                 10,
                 {{2112377, 104, 1, -1},
                  {662041, 17523, 1, -1},
                  {5336171, 123928, 1, -1},
                  {3642833, 8288932, -1, -1},
                  {4250760, 8388264, -1, -1}}},
    [CLASS_B] = {25,
                 21,
                 10,
                 {{41869, 33422937, -1, 0},
                  {812306, 10244, 1, 0},
                  {5102857, 59149, 1, 0},
                  {18232239, 33135281, -1, 0},
                  {26860214, 99, 1, 0}}},
    [CLASS_C] = {27,
                 23,
                 10,
                 {{44172927, 61147, 1, 0},
                  {72999161, 882988, 1, 0},
                  {74326391, 266290, 1, 0},
                  {129606274, 133997595, -1, 0},
                  {21736814, 133525895, -1, 0}}},
};

/* One rank's part of the sort. Ranks own ranges of buckets, hence of key values: [low, high). */
struct sort {
    const struct problem *problem;
    int keys; /* of this rank at the start */
    int buckets;
    int shift; /* key >> shift is its bucket */
    int *key;
    int *by_group;      /* the keys again, group of buckets by group */
    uint16_t *group_of; /* of each bucket */
    int *group_at;      /* where the next key of a group goes in by_group */
    int *bucket_size;   /* own, then of all ranks */
    int *bucket_total;
    int *partial; /* the sizes again, as SPREAD sums */
    int *out_count;
    int *out_at;
    int *in_count;
    int *in_at;
    int *received;
    int received_size;
    int got;  /* all keys of the own range, */
    int kept; /* and those of them that were here before: they stay in by_group */
    int low;
    int high;
    int groups;
    int grouped; /* keys of the groups so far */
    int smaller; /* keys of all ranks below `low` */
    int *count;  /* of each value of the range; then how many keys of the range are smaller */
    int count_size;
    int passed;
};

static void make_keys(const struct run *run, struct sort *sort)
{
    enum { AT_ONCE = 256 };
    double draws[DRAWS * AT_ONCE];
    const double scale = (double)(1 << sort->problem->log2_largest) / 4.0;
    const uint64_t first = (uint64_t)run->rank * (uint64_t)sort->keys;
    uint64_t state = lcg46_jump(SEED, DRAWS * first);
    for (int at = 0; at < sort->keys; at += AT_ONCE) {
        const int many = sort->keys - at < AT_ONCE ? sort->keys - at : AT_ONCE;
        state = lcg46_fill(state, DRAWS * (size_t)many, draws);
        for (int i = 0; i < many; i++) {
            const double *r = draws + DRAWS * (size_t)i;
            sort->key[at + i] = (int)(scale * (((r[0] + r[1]) + r[2]) + r[3]));
        }
    }
}

static int log2_buckets(const struct run *run)
{
    const int wanted = (int)run_value(run, "log2_buckets");
    return wanted > 0 ? wanted : problems[run_class(run)].log2_buckets;
}

static struct sort make_sort(const struct run *run)
{
    const struct problem *problem = &problems[run_class(run)];
    const size_t ranks = (size_t)run->ranks;
    struct sort sort = {.problem = problem, .buckets = 1 << log2_buckets(run)};
    sort.keys = (1 << problem->log2_keys) / run->ranks;
    sort.shift = problem->log2_largest - log2_buckets(run);
    sort.key = app_allocate_large((size_t)sort.keys, sizeof sort.key[0]);
    sort.by_group = app_allocate_large((size_t)sort.keys, sizeof sort.by_group[0]);
    sort.group_of = app_allocate((size_t)sort.buckets, sizeof(uint16_t));
    sort.group_at = app_allocate((size_t)sort.buckets, sizeof(int));
    sort.bucket_size = app_allocate((size_t)sort.buckets + PROBES, sizeof(int));
    sort.bucket_total = app_allocate((size_t)sort.buckets + PROBES, sizeof(int));
    sort.partial = app_allocate(SPREAD * (size_t)sort.buckets, sizeof(int));
    sort.out_count = app_allocate(ranks, sizeof(int));
    sort.out_at = app_allocate(ranks, sizeof(int));
    sort.in_count = app_allocate(ranks, sizeof(int));
    sort.in_at = app_allocate(ranks, sizeof(int));
    sort.received = app_allocate(1, sizeof(int)); /* a rank may own no bucket */
    sort.count = app_allocate(1, sizeof(int));
    make_keys(run, &sort);
    return sort;
}

static void free_sort(struct sort *sort)
{
    free(sort->key);
    free(sort->by_group);
    free(sort->group_of);
    free(sort->group_at);
    free(sort->bucket_size);
    free(sort->bucket_total);
    free(sort->partial);
    free(sort->out_count);
    free(sort->out_at);
    free(sort->in_count);
    free(sort->in_at);
    free(sort->received);
    free(sort->count);
}

/* Count keys by bucket; neighbouring keys in sums of their own, because equal ones would wait for
 * each other's. */
static void count_buckets(struct sort *sort)
{
    const size_t buckets = (size_t)sort->buckets;
    const int keys = sort->keys;
    const int shift = sort->shift;
    const int *restrict key = sort->key;
    int *restrict partial = sort->partial;
    memset(partial, 0, SPREAD * buckets * sizeof(int));
#pragma GCC unroll 4
    for (int i = 0; i < keys; i += SPREAD)
        for (int k = 0; k < SPREAD; k++)
            partial[(size_t)k * buckets + (size_t)(key[i + k] >> shift)]++;
    for (size_t bucket = 0; bucket < buckets; bucket++) {
        int sum = 0;
        for (size_t k = 0; k < SPREAD; k++)
            sum += partial[k * buckets + bucket];
        sort->bucket_size[bucket] = sum;
    }
}

/* Make groups of the buckets that a rank gets: so small that the counts of a group's values stay in
 * the first cache, so few that the ends of all groups do, and enough that neighbouring keys seldom
 * wait for each other. */
static void group_buckets(struct sort *sort, int first, int end)
{
    int together = sort->buckets > GROUPS ? sort->buckets / GROUPS : 1;
    while (together > 1 && together << sort->shift > GROUP_VALUES)
        together /= 2;
    for (int bucket = first; bucket < end; bucket++) {
        if ((bucket - first) % together == 0)
            sort->group_at[sort->groups++] = sort->grouped;
        sort->group_of[bucket] = (uint16_t)(sort->groups - 1);
        sort->grouped += sort->bucket_size[bucket];
    }
}

/* Put the keys in the order of groups. */
static void fill_groups(struct sort *sort)
{
    const int keys = sort->keys;
    const int shift = sort->shift;
    const int *restrict key = sort->key;
    const uint16_t *restrict group_of = sort->group_of;
    int *restrict at = sort->group_at;
    int *restrict to = sort->by_group;
#pragma GCC unroll 8
    for (int i = 0; i < keys; i++) {
        const int value = key[i];
        const int group = group_of[value >> shift];
        const int place = at[group];
        at[group] = place + 1;
        to[place] = value;
        /* a store that misses holds up all behind it, and so many runs are beyond the hardware */
        __builtin_prefetch(to + place + AHEAD, 1);
    }
}

/* Give each rank a run of buckets with about as many keys; note the own range and what is below it.
 */
static void share_buckets(const struct run *run, struct sort *sort)
{
    const int64_t all = (int64_t)sort->keys * run->ranks;
    int64_t given = 0;
    int bucket = 0;
    sort->groups = 0;
    sort->grouped = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        const int first = bucket;
        const int64_t before = given;
        const int offset = sort->grouped;
        const int64_t target = all * (rank + 1) / run->ranks;
        while (bucket < sort->buckets && (given < target || rank == run->ranks - 1)) {
            given += sort->bucket_total[bucket];
            bucket++;
        }
        group_buckets(sort, first, bucket);
        sort->out_count[rank] = sort->grouped - offset;
        sort->out_at[rank] = offset;
        if (rank == run->rank) {
            sort->low = first << sort->shift;
            sort->high = bucket << sort->shift;
            sort->smaller = (int)before;
            sort->got = (int)(given - before);
        }
    }
}

/* Make room for what is received and for the counts of the own range; both hardly change between
 * iterations. */
static void make_room(struct sort *sort)
{
    if (sort->got > sort->received_size) {
        free(sort->received);
        sort->received_size = sort->got + sort->got / 8;
        sort->received = app_allocate_large((size_t)sort->received_size, sizeof(int));
    }
    if (sort->high - sort->low > sort->count_size) {
        free(sort->count);
        sort->count_size = sort->high - sort->low;
        sort->count = app_allocate((size_t)sort->count_size + 1, sizeof(int));
    }
}

static void exchange(struct run *run, struct sort *sort)
{
    message_alltoall(run, sort->out_count, 1, MPI_INT, sort->in_count);
    sort->kept = sort->out_count[run->rank];
    sort->out_count[run->rank] = sort->in_count[run->rank] = 0;
    int at = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        sort->in_at[rank] = at;
        at += sort->in_count[rank];
    }
    message_alltoallv(run, sort->by_group, sort->out_count, sort->out_at, MPI_INT, sort->received,
                      sort->in_count, sort->in_at);
}

static void count_keys(int *restrict count, int low, const int *restrict key, int keys)
{
#pragma GCC unroll 8
    for (int i = 0; i < keys; i++)
        count[key[i] - low]++;
}

static void count_values(const struct run *run, struct sort *sort)
{
    const int values = sort->high - sort->low;
    int *const count = sort->count;
    memset(count, 0, ((size_t)values + 1) * sizeof(int));
    count_keys(count, sort->low, sort->by_group + sort->out_at[run->rank], sort->kept);
    count_keys(count, sort->low, sort->received, sort->got - sort->kept);
    int smaller = 0;
    for (int value = 0; value <= values; value++) {
        const int own = count[value];
        count[value] = smaller;
        smaller += own;
    }
}

/* The probes' keys travel to all ranks with the sizes of the buckets; whoever owns one looks at its
 * rank. */
static void take_probes(const struct run *run, struct sort *sort)
{
    const int first = run->rank * sort->keys;
    for (int i = 0; i < PROBES; i++) {
        const int position = sort->problem->probe[i].position - first;
        sort->bucket_size[sort->buckets + i] =
            position >= 0 && position < sort->keys ? sort->key[position] : 0;
    }
}

static void check_probes(struct sort *sort, int iteration)
{
    for (int i = 0; i < PROBES; i++) {
        const struct probe *probe = &sort->problem->probe[i];
        const int key = sort->bucket_total[sort->buckets + i];
        if (key < sort->low || key >= sort->high)
            continue;
        const int expected = probe->rank + probe->slope * (iteration + probe->shift);
        sort->passed += sort->smaller + sort->count[key - sort->low] == expected;
    }
}

static void rank_keys(struct run *run, struct sort *sort, int iteration)
{
    if (run->rank == 0) {
        sort->key[iteration] = iteration;
        sort->key[iteration + TIMED] = (1 << sort->problem->log2_largest) - iteration;
    }
    count_buckets(sort);
    take_probes(run, sort);
    memcpy(sort->bucket_total, sort->bucket_size, ((size_t)sort->buckets + PROBES) * sizeof(int));
    message_allreduce(run, sort->bucket_total, sort->buckets + PROBES, MPI_INT, MPI_SUM);
    share_buckets(run, sort);
    fill_groups(sort);
    make_room(sort);
    exchange(run, sort);
    count_values(run, sort);
    check_probes(sort, iteration);
}

/* Put the received keys in order and count places where the order is broken, to the next rank's
 * first key, too. */
static int unordered(struct run *run, const struct sort *sort)
{
    int *sorted = app_allocate((size_t)sort->got + 1, sizeof(int));
    memcpy(sort->received + sort->got - sort->kept, sort->by_group + sort->out_at[run->rank],
           (size_t)sort->kept * sizeof(int));
    int *next = app_allocate((size_t)(sort->high - sort->low) + 1, sizeof(int));
    memcpy(next, sort->count, (size_t)(sort->high - sort->low) * sizeof(int));
    for (int i = 0; i < sort->got; i++)
        sorted[next[sort->received[i] - sort->low]++] = sort->received[i];
    int wrong = 0;
    for (int i = 1; i < sort->got; i++)
        wrong += sorted[i - 1] > sorted[i];
    int before = -1;
    const int smallest = sort->got > 0 ? sorted[0] : sort->low;
    const int largest = sort->got > 0 ? sorted[sort->got - 1] : sort->low;
    MPI_Request request = MPI_REQUEST_NULL;
    if (run->rank > 0)
        message_irecv(run, &before, 1, MPI_INT, run->rank - 1, 1, &request);
    if (run->rank < run->ranks - 1)
        message_send(run, &largest, 1, MPI_INT, run->rank + 1, 1);
    message_wait(run, &request);
    wrong += before > smallest;
    free(sorted);
    free(next);
    return wrong;
}

static void execute(struct run *run)
{
    struct sort sort = make_sort(run);
    rank_keys(run, &sort, 1); /* untimed: memory is touched, connections are there */
    sort.passed = 0;
    run_divide(run, TIMED);
    run_start(run);
    for (int iteration = 1; iteration <= TIMED; iteration++) {
        run_next_part(run);
        rank_keys(run, &sort, iteration);
    }
    run_stop(run);
    if (run_is_struck(run) && run->rank == run->ranks - 1)
        sort.by_group[sort.out_at[run->rank]] ^= 1;
    int64_t told[3] = {sort.passed, unordered(run, &sort), sort.got};
    message_allreduce(run, told, 3, MPI_INT64_T, MPI_SUM);
    const double keys = (double)(INT64_C(1) << sort.problem->log2_keys);
    run->result.operations = TIMED * keys / 1e6;
    result_check(run, "ranks of probed keys", (double)told[0], TIMED * PROBES, 0.0);
    result_check(run, "places out of order", (double)told[1], 0.0, 0.0);
    result_check(run, "keys in the end", (double)told[2], keys, 0.0);
    free_sort(&sort);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const struct problem *problem = &problems[run_class(run)];
    const int most =
        1 << (problem->log2_keys - 7); /* rank 0 holds the keys that iterations change */
    if ((run->ranks & (run->ranks - 1)) == 0 && run->ranks <= most)
        return true;
    snprintf(reason, APP_REASON,
             "npb-is class %c cannot run on %d ranks; allowed: powers of two up to %d",
             run->problem_class, run->ranks, most);
    return false;
}

static double memory_bytes(const struct run *run)
{
    const struct problem *problem = &problems[run_class(run)];
    const double keys = (double)(1 << problem->log2_keys) / run->ranks;
    return (3.2 * keys + (double)(1 << problem->log2_largest) + 4.0 * (1 << log2_buckets(run))) *
           sizeof(int);
}

const struct app app_npb_is = {
    .name = "npb-is",
    .description = "integer sort: ranking of keys by buckets",
    .rate = "Mop/s",
    .timed = "ten rankings",
    .pattern = "in each ranking an allreduce of bucket sizes, an alltoall of counts, an alltoallv "
               "of the keys that leave their rank",
    .classes = "SWABC",
    .parameters = {{"log2_buckets", "log2 of the number of buckets; 0: as the class has it", 0, 0,
                    MOST_LOG2_BUCKETS},
                   APP_PACE_PARAMETER},
    .official_pace = 170,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
