/* Packed strings: order, merging, and a search for those that begin with a query. */
#include "kmi/kmi.h"

#include <stdlib.h>
#include <string.h>

enum { INDEX_LETTERS = 10, KEY_BYTES = 8, LETTERS_OF_BYTE = 4 };

static size_t packed_bytes(int letters)
{
    return ((size_t)letters + LETTERS_OF_BYTE - 1) / LETTERS_OF_BYTE;
}

struct kmi_records kmi_records_make(int count, int length)
{
    const size_t whole = (packed_bytes(length) + 3) / 4 * 4;
    struct kmi_records records = {.count = count, .length = length};
    records.stride = sizeof(struct kmi_record) + (whole < KEY_BYTES ? KEY_BYTES : whole);
    records.data = app_allocate((size_t)count, records.stride);
    return records;
}

void kmi_records_free(struct kmi_records *records)
{
    free(records->data);
    records->data = NULL;
}

void kmi_pack(const unsigned char *letters, int count, unsigned char *packed)
{
    memset(packed, 0, packed_bytes(count));
    for (int i = 0; i < count; i++)
        packed[i / LETTERS_OF_BYTE] =
            (unsigned char)(packed[i / LETTERS_OF_BYTE] | letters[i]
                                                              << (6 - 2 * (i % LETTERS_OF_BYTE)));
}

uint64_t kmi_key(const unsigned char *packed)
{
    uint64_t key = 0;
    for (int i = 0; i < KEY_BYTES; i++)
        key = key << 8 | packed[i];
    return key;
}

static int compare_records(const void *a, const void *b)
{
    const struct kmi_record *one = a;
    const struct kmi_record *other = b;
    return memcmp(one->text, other->text, packed_bytes(one->length));
}

void kmi_sort(struct kmi_records *records)
{
    qsort(records->data, (size_t)records->count, records->stride, compare_records);
}

void kmi_merge(struct kmi_records *records)
{
    int kept = 0;
    for (int i = 0; i < records->count; i++) {
        const struct kmi_record *record = kmi_record_at(records, i);
        struct kmi_record *last = kept > 0 ? kmi_record_at(records, kept - 1) : NULL;
        if (last != NULL && compare_records(last, record) == 0) {
            last->count += record->count;
            last->reverse += record->reverse;
        } else if (i != kept) {
            memcpy(kmi_record_at(records, kept++), record, records->stride);
        } else {
            kept++;
        }
    }
    records->count = kept;
}

static unsigned letter_at(const unsigned char *packed, int place)
{
    const unsigned byte = packed[place / LETTERS_OF_BYTE];
    return byte >> (6 - 2 * (place % LETTERS_OF_BYTE)) & 3U;
}

/* Return so many letters from a place on as one number. */
static unsigned number_at(const unsigned char *packed, int place, int letters)
{
    unsigned number = 0;
    for (int i = 0; i < letters; i++)
        number = number << 2 | letter_at(packed, place + i);
    return number;
}

struct kmi_index kmi_index_make(const struct kmi_records *records)
{
    struct kmi_index index = {.common = 0};
    const int last = records->count - 1;
    if (records->count > 0)
        while (index.common < records->length &&
               letter_at(kmi_record_at(records, 0)->text, index.common) ==
                   letter_at(kmi_record_at(records, last)->text, index.common))
            index.common++;
    index.letters = records->length - index.common;
    if (index.letters > INDEX_LETTERS)
        index.letters = INDEX_LETTERS;
    const unsigned buckets = 1U << (2 * index.letters);
    index.first = app_allocate((size_t)buckets + 1, sizeof index.first[0]);
    unsigned bucket = 0;
    for (int i = 0; i < records->count; i++) {
        const unsigned own =
            number_at(kmi_record_at(records, i)->text, index.common, index.letters);
        while (bucket <= own)
            index.first[bucket++] = i;
    }
    while (bucket <= buckets)
        index.first[bucket++] = records->count;
    return index;
}

void kmi_index_free(struct kmi_index *index)
{
    free(index->first);
    index->first = NULL;
}

struct kmi_query kmi_query_make(const unsigned char *letters, int count)
{
    struct kmi_query query = {.letters = count};
    kmi_pack(letters, count, query.low);
    memcpy(query.high, query.low, sizeof query.low);
    const size_t used = packed_bytes(count);
    memset(query.high + used, 0xff, sizeof query.high - used);
    if (count % LETTERS_OF_BYTE != 0)
        query.high[used - 1] =
            (unsigned char)(query.high[used - 1] | 0xff >> (2 * (count % LETTERS_OF_BYTE)));
    return query;
}

/* Compare the beginning of a string with a query. */
static int compare_beginning(const unsigned char *text, const struct kmi_query *query)
{
    const size_t whole = (size_t)query->letters / LETTERS_OF_BYTE;
    const int left = query->letters % LETTERS_OF_BYTE;
    const int order = memcmp(text, query->low, whole);
    if (order != 0 || left == 0)
        return order;
    const int mask = 0xff << (8 - 2 * left) & 0xff;
    return (text[whole] & mask) - query->low[whole];
}

/* Return the first record from `low` to `high` - 1 that does not come before the query, or, if
 * `after`, that comes after all that begin with it; `high` if there is none. */
static int bound(const struct kmi_records *records, const struct kmi_query *query, int low,
                 int high, bool after)
{
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = compare_beginning(kmi_record_at(records, middle)->text, query);
        if (order < 0 || (after && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int kmi_find(const struct kmi_records *records, const struct kmi_index *index,
             const struct kmi_query *query, int *first)
{
    *first = 0;
    if (records->count == 0)
        return 0;
    const unsigned char *const text = kmi_record_at(records, 0)->text;
    for (int i = 0; i < index->common && i < query->letters; i++)
        if (letter_at(text, i) != letter_at(query->low, i))
            return 0;
    const unsigned from = number_at(query->low, index->common, index->letters);
    const unsigned to = number_at(query->high, index->common, index->letters);
    const int low = index->first[from];
    const int high = index->first[to + 1];
    *first = bound(records, query, low, high, false);
    return bound(records, query, *first, high, true) - *first;
}
