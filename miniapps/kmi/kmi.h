/* The parts of kmi: packed strings in order, cut over the ranks, and the service that looks them
 * up.
 *
 * Letters are 0 to 3 (A, C, G, T), one in a byte where they are made, four in a byte where they are
 * stored. */
#ifndef TARE_KMI_H
#define TARE_KMI_H

#include "apps/app.h"

enum {
    KMI_LETTERS_MOST = 256,
    KMI_PACKED_MOST = KMI_LETTERS_MOST / 4,
    KMI_KEY_LETTERS = 32 /* that a key of 64 bits holds */
};

/* A string as it is stored and sent: 44 bytes for 100 letters. Its first letter is in the highest
 * bits, so that bytes are in the order of letters. */
struct kmi_record {
    int32_t length;
    int32_t count;   /* how often it was added as it was read */
    int32_t reverse; /* and as the reverse complement of what was read */
    int32_t deleted;
    unsigned char text[];
};

struct kmi_records {
    int count;
    int length;    /* letters of every string */
    size_t stride; /* bytes of a record */
    unsigned char *data;
};

/* A query, packed: `low` ends in zero bits, `high` in ones. */
struct kmi_query {
    int letters;
    unsigned char low[KMI_PACKED_MOST];
    unsigned char high[KMI_PACKED_MOST];
};

/* Where the strings with the same letters at one place begin. */
struct kmi_index {
    int common;  /* letters that all strings begin with */
    int letters; /* after them, that are looked up */
    int *first;  /* of 4^letters + 1 */
};

struct kmi_records kmi_records_make(int count, int length);
void kmi_records_free(struct kmi_records *records);
void kmi_pack(const unsigned char *letters, int count, unsigned char *packed);
uint64_t kmi_key(const unsigned char *packed); /* the first letters; 8 bytes are read */
void kmi_sort(struct kmi_records *records);
/* Make equal neighbours one record and add their counts. */
void kmi_merge(struct kmi_records *records);
struct kmi_index kmi_index_make(const struct kmi_records *records);
void kmi_index_free(struct kmi_index *index);
struct kmi_query kmi_query_make(const unsigned char *letters, int count);
/* Find the strings that begin with the query; return how many, from *first on. */
int kmi_find(const struct kmi_records *records, const struct kmi_index *index,
             const struct kmi_query *query, int *first);

static inline struct kmi_record *kmi_record_at(const struct kmi_records *records, int index)
{
    return (struct kmi_record *)(void *)(records->data + (size_t)index * records->stride);
}

/* Sort all ranks' records and give each rank a range of them; ranks - 1 splitters say where one
 * begins. Collective. */
struct kmi_partition {
    uint64_t *splitter;
    int rounds;     /* of sampling */
    double fullest; /* part, over the average */
};

struct kmi_partition kmi_partition_make(struct run *run, struct kmi_records *records);
int kmi_owner(const struct kmi_partition *partition, int ranks, uint64_t key);

/* What the strings that begin with a query came to. */
struct kmi_answer {
    int64_t records;
    int64_t copies; /* with their counts */
};

struct kmi_service;

struct kmi_service *kmi_service_make(const struct run *run, const struct kmi_records *records,
                                     const struct kmi_index *index,
                                     const struct kmi_partition *partition);
void kmi_service_free(struct kmi_service *service);
/* Put the queries, one after the other, and answer those of others until nobody has any. */
void kmi_service_run(struct run *run, struct kmi_service *service, int count,
                     const unsigned char *queries, int letters, struct kmi_answer *answers);

#endif
