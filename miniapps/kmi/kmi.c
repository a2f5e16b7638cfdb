/* kmi: a string-matching service over sorted reads, after CORAL's KMI_HASH 1.1 (BENCH_QUERY). */
#include "kmi/kmi.h"

#include "apps/counter.h"
#include "common/check.h"
#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_READS = 1,
    STREAM_QUERIES,
    STREAM_CUTS,
    PROBES_MOST = 16384, /* queries that are checked by brute force, of all ranks */
    PROBES_OF_RANK_MOST = 256,
    PROBES_OF_RANK_LEAST = 4,
    RANKS_LEAST = 2
};

static const uint64_t seed = 1100;

/* Queries of one rank, whose answers are known to be right or not. */
struct probes {
    int count;
    int letters;
    int cut; /* of the count, the last: they are beginnings of reads */
    unsigned char *text;
    struct kmi_answer *answer;
};

static void random_letters(uint64_t stream, unsigned char *letters, int count)
{
    uint64_t drawn = 0;
    for (int i = 0; i < count; i++) {
        if (i % KMI_KEY_LETTERS == 0)
            drawn = counter_at(stream, (uint64_t)(i / KMI_KEY_LETTERS));
        letters[i] = (unsigned char)(drawn >> (2 * (i % KMI_KEY_LETTERS)) & 3);
    }
}

/* Make one strand of a read; reads are numbered over all ranks. */
static void make_read(uint64_t number, bool reverse, unsigned char *letters, int count)
{
    random_letters(counter_stream(counter_stream(seed, STREAM_READS), number), letters, count);
    if (!reverse)
        return;
    for (int i = 0; i < (count + 1) / 2; i++) {
        const unsigned char first = letters[i];
        letters[i] = (unsigned char)(3 - letters[count - 1 - i]);
        letters[count - 1 - i] = (unsigned char)(3 - first);
    }
}

static uint64_t read_number(const struct run *run, long index)
{
    return (uint64_t)run->rank * (uint64_t)run_value(run, "reads") + (uint64_t)index;
}

static struct kmi_records add_reads(const struct run *run)
{
    const int reads = (int)run_value(run, "reads");
    const int length = (int)run_value(run, "length");
    struct kmi_records records = kmi_records_make(2 * reads, length);
    for (int i = 0; i < 2 * reads; i++) {
        unsigned char letters[KMI_LETTERS_MOST];
        const bool reverse = i % 2 != 0;
        struct kmi_record *record = kmi_record_at(&records, i);
        make_read(read_number(run, i / 2), reverse, letters, length);
        record->length = length;
        record->count = !reverse;
        record->reverse = reverse;
        kmi_pack(letters, length, record->text);
    }
    return records;
}

static unsigned char *make_queries(const struct run *run, int count, int letters)
{
    unsigned char *queries = app_allocate((size_t)count, (size_t)letters);
    const uint64_t stream = counter_stream(seed, STREAM_QUERIES);
    for (int i = 0; i < count; i++) {
        const uint64_t number = (uint64_t)run->rank * (uint64_t)count + (uint64_t)i;
        random_letters(counter_stream(stream, number), queries + (size_t)i * (size_t)letters,
                       letters);
    }
    return queries;
}

/* Choose what is checked: the first of the timed queries with their answers, and as many beginnings
 * of reads, of any rank and either strand, that are asked now. */
static struct probes choose_probes(const struct run *run, const unsigned char *queries,
                                   const struct kmi_answer *answers)
{
    const int timed = (int)run_value(run, "queries");
    struct probes probes = {.letters = (int)run_value(run, "query_length")};
    int half = PROBES_MOST / run->ranks / 2;
    half = half > PROBES_OF_RANK_MOST / 2 ? PROBES_OF_RANK_MOST / 2 : half;
    half = half < PROBES_OF_RANK_LEAST / 2 ? PROBES_OF_RANK_LEAST / 2 : half;
    const int taken = timed < half ? timed : half;
    probes.count = taken + half;
    probes.cut = half;
    const size_t letters = (size_t)probes.letters;
    probes.text = app_allocate((size_t)probes.count, letters);
    probes.answer = app_allocate((size_t)probes.count, sizeof probes.answer[0]);
    memcpy(probes.text, queries, (size_t)taken * letters);
    memcpy(probes.answer, answers, (size_t)taken * sizeof answers[0]);
    const uint64_t all = (uint64_t)run->ranks * (uint64_t)run_value(run, "reads");
    const uint64_t stream = counter_stream(counter_stream(seed, STREAM_CUTS), (uint64_t)run->rank);
    for (int i = 0; i < half; i++) {
        unsigned char read[KMI_LETTERS_MOST];
        const uint64_t drawn = counter_at(stream, (uint64_t)i);
        make_read((drawn >> 1) % all, drawn & 1, read, (int)run_value(run, "length"));
        memcpy(probes.text + (size_t)(taken + i) * letters, read, letters);
    }
    return probes;
}

static void free_probes(struct probes *probes)
{
    free(probes->text);
    free(probes->answer);
}

/* Count the strings, of all ranks, that begin with each of all ranks' probes, letter by letter over
 * the reads as they are made: nothing of the service is used. */
static int64_t *count_by_brute_force(const struct run *run, const struct probes *probes)
{
    const size_t all = (size_t)probes->count * (size_t)run->ranks;
    const size_t letters = (size_t)probes->letters;
    const int length = (int)run_value(run, "length");
    const int bytes = probes->count * probes->letters;
    unsigned char *text = app_allocate(all, letters);
    int64_t *count = app_allocate(all, sizeof count[0]);
    CHECK_MPI(PMPI_Allgather(probes->text, bytes, MPI_BYTE, text, bytes, MPI_BYTE, run->comm));
    for (long i = 0; i < 2 * run_value(run, "reads"); i++) {
        unsigned char read[KMI_LETTERS_MOST];
        make_read(read_number(run, i / 2), i % 2 != 0, read, length);
        for (size_t probe = 0; probe < all; probe++)
            count[probe] += memcmp(read, text + probe * letters, letters) == 0;
    }
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, count, (int)all, MPI_INT64_T, MPI_SUM, run->comm));
    free(text);
    return count;
}

static void check_answers(struct run *run, const struct probes *probes)
{
    int64_t *expected = count_by_brute_force(run, probes);
    const int64_t *own = expected + (size_t)run->rank * (size_t)probes->count;
    int64_t wrong[2] = {0, 0};
    for (int i = 0; i < probes->count; i++) {
        wrong[0] += probes->answer[i].copies != own[i];
        wrong[1] += i >= probes->count - probes->cut && probes->answer[i].records == 0;
    }
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, wrong, 2, MPI_INT64_T, MPI_SUM, run->comm));
    result_check(run, "answers that differ from a count by brute force", (double)wrong[0], 0.0,
                 0.0);
    result_check(run, "beginnings of reads that were not found", (double)wrong[1], 0.0, 0.0);
    result_figure(run, "answers checked", (double)probes->count * run->ranks, "queries");
    free(expected);
}

/* Count neighbours that are not in rising order, from rank to rank, too. */
static int64_t count_unordered(const struct run *run, const struct kmi_records *records)
{
    const size_t bytes = records->stride - sizeof(struct kmi_record);
    const size_t each = 1 + 2 * bytes; /* whether there are any, the first, the last */
    unsigned char *all = app_allocate((size_t)run->ranks, each);
    unsigned char *own = app_allocate(1, each);
    int64_t unordered = 0;
    for (int i = 1; i < records->count; i++)
        unordered += memcmp(kmi_record_at(records, i - 1)->text, kmi_record_at(records, i)->text,
                            bytes) >= 0;
    if (records->count > 0) {
        own[0] = 1;
        memcpy(own + 1, kmi_record_at(records, 0)->text, bytes);
        memcpy(own + 1 + bytes, kmi_record_at(records, records->count - 1)->text, bytes);
    }
    CHECK_MPI(PMPI_Allgather(own, (int)each, MPI_BYTE, all, (int)each, MPI_BYTE, run->comm));
    const unsigned char *before = NULL;
    for (int rank = 0; rank < run->ranks && run->rank == 0; rank++) {
        const unsigned char *const here = all + (size_t)rank * each;
        if (here[0] == 0)
            continue;
        unordered += before != NULL && memcmp(before + 1 + bytes, here + 1, bytes) >= 0;
        before = here;
    }
    free(all);
    free(own);
    return unordered;
}

static void check_records(struct run *run, const struct kmi_records *records,
                          const struct kmi_partition *partition)
{
    int64_t sums[3] = {0, count_unordered(run, records), records->count};
    for (int i = 0; i < records->count; i++) {
        const struct kmi_record *record = kmi_record_at(records, i);
        sums[0] += record->count + record->reverse;
    }
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INT64_T, MPI_SUM, run->comm));
    const double added = 2.0 * (double)run_value(run, "reads") * run->ranks;
    result_check(run, "strings in the end", (double)sums[0], added, 0.0);
    result_check(run, "strings out of order", (double)sums[1], 0.0, 0.0);
    result_check(run, "fullest part over the average", partition->fullest, 1.0, 0.1);
    result_figure(run, "rounds of sampling", partition->rounds, "rounds");
    result_figure(run, "different strings", (double)sums[2], "strings");
}

static double since_s(const struct run *run, uint64_t since_ns)
{
    return run_longest_s(run, clock_difference_s(clock_now_ns(), since_ns));
}

/* Put the queries, timed; return their answers. */
static struct kmi_answer *query_all(struct run *run, struct kmi_service *service,
                                    const unsigned char *queries)
{
    const int count = (int)run_value(run, "queries");
    const int letters = (int)run_value(run, "query_length");
    const int shares = run_shares(run);
    struct kmi_answer *answers = app_allocate((size_t)count, sizeof answers[0]);
    run_divide(run, shares);
    run_start(run);
    for (int share = 0; share < shares; share++) {
        const int first = (int)((int64_t)count * share / shares);
        const int own = (int)((int64_t)count * (share + 1) / shares) - first;
        run_next_part(run);
        kmi_service_run(run, service, own, queries + (size_t)first * (size_t)letters, letters,
                        answers + first);
    }
    run_stop(run);
    run->result.operations = (double)count * run->ranks;
    int64_t sums[2] = {0, 0};
    for (int i = 0; i < count; i++) {
        sums[0] += answers[i].records > 0;
        sums[1] += answers[i].records;
    }
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INT64_T, MPI_SUM, run->comm));
    result_figure(run, "queries with a hit", (double)sums[0], "queries");
    result_figure(run, "strings that were hit", (double)sums[1], "strings");
    return answers;
}

static void spoil(const struct run *run, struct kmi_records *records)
{
    for (int i = 0; i < records->count && run->rank == run->ranks - 1; i++)
        kmi_record_at(records, i)->reverse++;
}

static void execute(struct run *run)
{
    uint64_t start_ns = clock_now_ns();
    struct kmi_records records = add_reads(run);
    result_figure(run, "time of adding", since_s(run, start_ns), "s");
    start_ns = clock_now_ns();
    struct kmi_partition partition = kmi_partition_make(run, &records);
    kmi_merge(&records);
    struct kmi_index index = kmi_index_make(&records);
    result_figure(run, "time of commit", since_s(run, start_ns), "s");
    if (run_is_struck(run))
        spoil(run, &records);
    check_records(run, &records, &partition);

    const int letters = (int)run_value(run, "query_length");
    unsigned char *queries = make_queries(run, (int)run_value(run, "queries"), letters);
    struct kmi_service *service = kmi_service_make(run, &records, &index, &partition);
    struct kmi_answer *answers = query_all(run, service, queries);
    struct probes probes = choose_probes(run, queries, answers);
    const int taken = probes.count - probes.cut;
    kmi_service_run(run, service, probes.cut, probes.text + (size_t)taken * (size_t)letters,
                    letters, probes.answer + taken);
    check_answers(run, &probes);

    free_probes(&probes);
    free(answers);
    kmi_service_free(service);
    free(queries);
    kmi_index_free(&index);
    free(partition.splitter);
    kmi_records_free(&records);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    if (run->ranks < RANKS_LEAST) {
        snprintf(reason, APP_REASON,
                 "kmi cannot run on 1 rank, which would have nobody to ask; allowed: 2 and more");
        return false;
    }
    if (run_value(run, "query_length") > run_value(run, "length")) {
        snprintf(reason, APP_REASON,
                 "kmi query_length=%ld is not possible with reads of %ld letters; allowed: up to "
                 "the length",
                 run_value(run, "query_length"), run_value(run, "length"));
        return false;
    }
    return true;
}

/* The records before, during and after the exchange, an index of 4^10 places, queries and answers.
 */
static double memory_bytes(const struct run *run)
{
    const double record = 20.0 + (double)run_value(run, "length") / 4.0;
    const double query = (double)run_value(run, "query_length") + sizeof(struct kmi_answer);
    const double probes = PROBES_MOST * ((double)run_value(run, "query_length") + 8.0);
    return 2.0 * (double)run_value(run, "reads") * (3.2 * record + 8.0) +
           query * (double)run_value(run, "queries") + 4.0 * (1 << 20) + probes;
}

const struct app app_kmi = {
    .name = "kmi",
    .description = "a service that finds strings by their beginning, sorted over ranks",
    .rate = "queries/s",
    .timed = "the queries of all ranks, from the first to the last end mark",
    .pattern = "a query for another rank: a request of 288 bytes and a reply of 12, the strings "
               "only if there are any; requests of all come to one receive that is polled; one "
               "byte to all at the end",
    .parameters =
        {
            {"reads", "random reads of a rank; their reverse complements are added, too", 2048, 16,
             100000000},
            {"queries", "random queries of a rank", 2048, 1, 100000000},
            {"length", "letters of a read", 100, 16, KMI_LETTERS_MOST},
            {"query_length", "letters of a query", 20, 4, KMI_LETTERS_MOST},
        },
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
