/* The Kronecker generator of the Graph500 specification (A .57, B .19, C .19, D .05). */
#include "apps/counter.h"
#include "graph500/graph500.h"

#include <stdlib.h>

enum { STREAM_EDGES = 1, STREAM_LABELS, STREAM_PLACES, BITS_MOST = 32 };

static const uint64_t seed = 500;

struct shuffle shuffle_make(uint64_t stream, int bits)
{
    struct shuffle shuffle = {.bits = bits};
    for (uint64_t i = 0; i < SHUFFLE_ROUNDS; i++) {
        shuffle.factor[i] = counter_at(stream, 2 * i) | 1;
        shuffle.summand[i] = counter_at(stream, 2 * i + 1);
    }
    return shuffle;
}

/* An odd factor, a summand and a shift to the right can each be undone: no two numbers meet. */
uint64_t shuffle_apply(const struct shuffle *shuffle, uint64_t number)
{
    const uint64_t mask = (UINT64_C(1) << shuffle->bits) - 1;
    for (int i = 0; i < SHUFFLE_ROUNDS; i++) {
        number = (number * shuffle->factor[i] + shuffle->summand[i]) & mask;
        number ^= number >> ((shuffle->bits + 1) / 2);
    }
    return number;
}

struct generator generator_make(int scale, int edgefactor)
{
    struct generator generator = {.scale = scale,
                                  .edges = (uint64_t)edgefactor << scale,
                                  .stream = counter_stream(seed, STREAM_EDGES)};
    int bits = scale;
    while ((UINT64_C(1) << bits) < generator.edges)
        bits++;
    generator.labels = shuffle_make(counter_stream(seed, STREAM_LABELS), scale);
    generator.places = shuffle_make(counter_stream(seed, STREAM_PLACES), bits);
    return generator;
}

void generator_edge(const struct generator *generator, uint64_t place, uint32_t ends[2])
{
    const uint32_t lower_half = (uint32_t)(0.24 * 0x1p32);         /* C + D */
    const uint32_t right_above = (uint32_t)(0.19 / 0.76 * 0x1p32); /* B / (A + B) */
    const uint32_t right_below = (uint32_t)(0.05 / 0.24 * 0x1p32); /* D / (C + D) */
    uint64_t number = shuffle_apply(&generator->places, place);
    while (number >= generator->edges) /* the shuffle is of a power of two: walk on until inside */
        number = shuffle_apply(&generator->places, number);
    uint64_t row = 0;
    uint64_t column = 0;
    for (int bit = 0; bit < generator->scale; bit++) {
        const uint64_t drawn = counter_at(generator->stream, number * BITS_MOST + (uint64_t)bit);
        const bool below = (uint32_t)drawn < lower_half;
        const bool right = (uint32_t)(drawn >> 32) < (below ? right_below : right_above);
        row = 2 * row + below;
        column = 2 * column + right;
    }
    ends[0] = (uint32_t)shuffle_apply(&generator->labels, row);
    ends[1] = (uint32_t)shuffle_apply(&generator->labels, column);
}

struct edge_list edge_list_make(const struct run *run, const struct generator *generator)
{
    const uint64_t rank = (uint64_t)run->rank;
    const uint64_t ranks = (uint64_t)run->ranks;
    const uint64_t first =
        generator->edges / ranks * rank + generator->edges % ranks * rank / ranks;
    const uint64_t end =
        generator->edges / ranks * (rank + 1) + generator->edges % ranks * (rank + 1) / ranks;
    struct edge_list list = {.count = end - first};
    list.ends = app_allocate(list.count, 2 * sizeof list.ends[0]);
    for (uint64_t i = 0; i < list.count; i++)
        generator_edge(generator, first + i, list.ends + 2 * i);
    return list;
}
