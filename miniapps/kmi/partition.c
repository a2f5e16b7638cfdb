/* Sorting over ranks: splitters by sampling histograms, then one exchange.
 *
 * In each round all ranks count their strings below a number of pivots: 4 for each splitter in the
 * first round, spread evenly from the smallest to the largest string, then 8, then 16, each between
 * the nearest pivots that are known on both sides of the splitter's place. It ends when no part is
 * 1.1 times the average. */
#include "common/check.h"
#include "kmi/kmi.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_RECORDS = 1, PIVOTS_FIRST = 4, PIVOTS_MOST = 16, ROUNDS_MOST = 64 };

static const double fullest_allowed = 1.1;

struct splitter {
    uint64_t low; /* its place is from here */
    uint64_t high;
    uint64_t best;
    int64_t best_below; /* strings below `best` */
    int64_t target;     /* how many there should be */
};

static int64_t distance(int64_t a, int64_t b)
{
    return a < b ? b - a : a - b;
}

/* Return how many of the sorted keys are below a pivot. */
static int64_t count_below(const uint64_t *keys, int count, uint64_t pivot)
{
    int low = 0;
    int high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (keys[middle] < pivot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return the smallest and the largest key of all ranks. */
static void find_ends(const struct run *run, const uint64_t *keys, int count, uint64_t ends[2])
{
    uint64_t own[2] = {count > 0 ? keys[0] : UINT64_MAX, count > 0 ? keys[count - 1] : 0};
    uint64_t *all = app_allocate((size_t)run->ranks, sizeof own);
    CHECK_MPI(MPI_Allgather(own, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, run->comm));
    ends[0] = UINT64_MAX;
    ends[1] = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        ends[0] = all[2 * rank] < ends[0] ? all[2 * rank] : ends[0];
        ends[1] = all[2 * rank + 1] > ends[1] ? all[2 * rank + 1] : ends[1];
    }
    free(all);
}

static void choose_pivots(const struct splitter *splitters, int count, int each, bool first_round,
                          uint64_t *pivots)
{
    const int all = count * each;
    for (int i = 0; i < all; i++) {
        const struct splitter *splitter = &splitters[i / each];
        const uint64_t step = (splitter->high - splitter->low) / (uint64_t)(each + 1);
        const uint64_t even = (splitter->high - splitter->low) / (uint64_t)(all + 1);
        pivots[i] = first_round ? splitter->low + even * (uint64_t)(i + 1)
                                : splitter->low + step * (uint64_t)(i % each + 1);
    }
}

static void take_pivot(struct splitter *splitter, uint64_t pivot, int64_t below)
{
    if (distance(below, splitter->target) < distance(splitter->best_below, splitter->target)) {
        splitter->best = pivot;
        splitter->best_below = below;
    }
    if (below <= splitter->target && pivot > splitter->low)
        splitter->low = pivot;
    if (below >= splitter->target && pivot < splitter->high)
        splitter->high = pivot;
}

static double fullest_part(const struct splitter *splitters, int count, int64_t all)
{
    int64_t fullest = 0;
    int64_t before = 0;
    for (int i = 0; i <= count; i++) {
        const int64_t below = i < count ? splitters[i].best_below : all;
        fullest = below - before > fullest ? below - before : fullest;
        before = below;
    }
    return (double)fullest * (count + 1) / (double)all;
}

static struct kmi_partition find_splitters(const struct run *run, const uint64_t *keys, int own)
{
    const int count = run->ranks - 1;
    struct kmi_partition partition = {.splitter = app_allocate((size_t)run->ranks, 8)};
    struct splitter *splitters = app_allocate((size_t)run->ranks, sizeof splitters[0]);
    uint64_t *pivots = app_allocate((size_t)run->ranks * PIVOTS_MOST, sizeof pivots[0]);
    int64_t *below = app_allocate((size_t)run->ranks * PIVOTS_MOST, sizeof below[0]);
    uint64_t ends[2];
    int64_t all = own;
    find_ends(run, keys, own, ends);
    CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT64_T, MPI_SUM, run->comm));
    for (int i = 0; i < count; i++)
        splitters[i] = (struct splitter){
            .low = ends[0], .high = ends[1], .best = ends[0], .target = all * (i + 1) / run->ranks};
    int each = PIVOTS_FIRST;
    do {
        choose_pivots(splitters, count, each, partition.rounds == 0, pivots);
        for (int i = 0; i < count * each; i++)
            below[i] = count_below(keys, own, pivots[i]);
        CHECK_MPI(
            MPI_Allreduce(MPI_IN_PLACE, below, count * each, MPI_INT64_T, MPI_SUM, run->comm));
        for (int i = 0; i < count; i++)
            for (int j = 0; j < count * each; j++)
                take_pivot(&splitters[i], pivots[j], below[j]);
        partition.fullest = fullest_part(splitters, count, all);
        each = each < PIVOTS_MOST ? 2 * each : PIVOTS_MOST;
    } while (++partition.rounds < ROUNDS_MOST && partition.fullest >= fullest_allowed);
    for (int i = 0; i < count; i++)
        partition.splitter[i] = splitters[i].best;
    free(splitters);
    free(pivots);
    free(below);
    return partition;
}

int kmi_owner(const struct kmi_partition *partition, int ranks, uint64_t key)
{
    int low = 0;
    int high = ranks - 1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (partition->splitter[middle] <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Send every rank its range of the sorted records; those that come replace them. */
static void exchange(struct run *run, struct kmi_records *records, const int *out_counts)
{
    const size_t ranks = (size_t)run->ranks;
    int *in_counts = app_allocate(ranks, sizeof in_counts[0]);
    MPI_Request *requests = app_allocate(2 * ranks, sizeof requests[0]);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    message_alltoall(run, out_counts, 1, MPI_INT, in_counts);
    int all = 0;
    for (size_t rank = 0; rank < ranks; rank++)
        all += in_counts[rank];
    struct kmi_records in = kmi_records_make(all, records->length);
    CHECK_MPI(MPI_Type_contiguous((int)in.stride, MPI_BYTE, &type));
    CHECK_MPI(MPI_Type_commit(&type));
    int at = 0;
    int from = 0;
    for (int rank = 0; rank < run->ranks; rank++) {
        void *const there = kmi_record_at(&in, at);
        const void *const here = kmi_record_at(records, from);
        requests[2 * rank] = requests[2 * rank + 1] = MPI_REQUEST_NULL;
        if (rank == run->rank) {
            memcpy(there, here, (size_t)in_counts[rank] * in.stride);
        } else {
            message_irecv(run, there, in_counts[rank], type, rank, TAG_RECORDS,
                          &requests[2 * rank]);
            message_isend(run, here, out_counts[rank], type, rank, TAG_RECORDS,
                          &requests[2 * rank + 1]);
        }
        at += in_counts[rank];
        from += out_counts[rank];
    }
    message_waitall(run, 2 * run->ranks, requests);
    CHECK_MPI(MPI_Type_free(&type));
    free(requests);
    free(in_counts);
    kmi_records_free(records);
    *records = in;
}

struct kmi_partition kmi_partition_make(struct run *run, struct kmi_records *records)
{
    kmi_sort(records);
    uint64_t *keys = app_allocate((size_t)records->count, sizeof keys[0]);
    int *counts = app_allocate((size_t)run->ranks, sizeof counts[0]);
    for (int i = 0; i < records->count; i++)
        keys[i] = kmi_key(kmi_record_at(records, i)->text);
    struct kmi_partition partition = find_splitters(run, keys, records->count);
    for (int i = 0; i < records->count; i++)
        counts[kmi_owner(&partition, run->ranks, keys[i])]++;
    exchange(run, records, counts);
    kmi_sort(records);
    free(keys);
    free(counts);
    return partition;
}
