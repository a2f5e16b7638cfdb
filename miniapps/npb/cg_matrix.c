#include "npb/cg_matrix.h"

#include "apps/app.h"
#include "apps/lcg46.h"
#include "common/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONDITION 0.1 /* reciprocal of the condition number */
enum { SEED = 314159265, COLUMN_BITS = 16, COLUMN = (1 << COLUMN_BITS) - 1 };

/* All generating vectors, each with the same room. */
struct vectors {
    int size;
    int room;
    int *length;
    int *place;
    double *value;
};

static struct vectors draw_vectors(const struct cg_problem *problem)
{
    struct vectors vectors = {.size = problem->size, .room = problem->nonzeros + 1};
    const size_t room = (size_t)vectors.size * (size_t)vectors.room;
    vectors.length = app_allocate((size_t)vectors.size, sizeof(int));
    vectors.place = app_allocate(room, sizeof(int));
    vectors.value = app_allocate(room, sizeof(double));
    int *taken_by = app_allocate((size_t)vectors.size,
                                 sizeof(int)); /* the vector that took a place last, from 1 */
    double places = 1.0;
    while (places < vectors.size)
        places *= 2.0;
    uint64_t state = lcg46_next(SEED); /* one draw is not used */
    for (int i = 0; i < vectors.size; i++) {
        int *place = vectors.place + (size_t)i * (size_t)vectors.room;
        double *value = vectors.value + (size_t)i * (size_t)vectors.room;
        int length = 0;
        while (length < problem->nonzeros) {
            const double drawn = lcg46_draw(&state);
            const int at = (int)(places * lcg46_draw(&state));
            if (at >= vectors.size || taken_by[at] == i + 1)
                continue;
            taken_by[at] = i + 1;
            place[length] = at;
            value[length++] = drawn;
        }
        int own = 0;
        while (own < length && place[own] != i)
            own++;
        place[own] = i;
        value[own] = 0.5;
        vectors.length[i] = own == length ? length + 1 : length;
    }
    free(taken_by);
    return vectors;
}

/* For every row of the block the vectors that have an element in it: where they are in `entry`. */
struct occurrences {
    int64_t *start;
    int64_t *entry; /* index into vectors.place and vectors.value */
};

static struct occurrences find_occurrences(const struct vectors *vectors, int row, int row_end)
{
    const int rows = row_end - row;
    struct occurrences found = {.start = app_allocate((size_t)rows + 2, sizeof(int64_t))};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < vectors->size; i++) {
            for (int e = 0; e < vectors->length[i]; e++) {
                const int64_t entry = (int64_t)i * vectors->room + e;
                const int at = vectors->place[entry];
                if (at < row || at >= row_end)
                    continue;
                if (pass == 0)
                    found.start[at - row + 2]++;
                else
                    found.entry[found.start[at - row + 1]++] = entry;
            }
        }
        if (pass == 0) {
            for (int r = 0; r < rows; r++)
                found.start[r + 2] += found.start[r + 1];
            found.entry = app_allocate((size_t)found.start[rows + 1] + 1, sizeof(int64_t));
        }
    }
    return found;
}

/* A row under construction: values by column, and which columns have one. */
struct dense_row {
    double *value;
    bool *used;
    int *column;
    int length;
};

static void add(struct dense_row *row, int column, double value)
{
    if (!row->used[column]) {
        row->used[column] = true;
        row->value[column] = 0.0;
        row->column[row->length++] = column;
    }
    row->value[column] += value;
}

static int by_number(const void *left, const void *right)
{
    const int a = *(const int *)left;
    const int b = *(const int *)right;
    return (a > b) - (a < b);
}

/* A strip under construction: compressed rows, in their own order. */
struct growing_strip {
    int64_t *start; /* rows + 1 */
    int64_t room;
    uint16_t *column;
    double *value;
};

/* Make room for more elements of a strip. */
static void enlarge(struct growing_strip *strip, int64_t end)
{
    if (end <= strip->room)
        return;
    strip->room = end + end / 4;
    strip->column = realloc(strip->column, (size_t)strip->room * sizeof strip->column[0]);
    strip->value = realloc(strip->value, (size_t)strip->room * sizeof strip->value[0]);
    if (strip->column == NULL || strip->value == NULL)
        FATAL("out of memory");
}

static void append_row(const struct cg_matrix *matrix, struct growing_strip *growing, int at,
                       struct dense_row *row)
{
    qsort(row->column, (size_t)row->length, sizeof row->column[0], by_number);
    int i = 0;
    for (int s = 0; s < matrix->strips; s++) {
        struct growing_strip *strip = &growing[s];
        int64_t end = strip->start[at];
        enlarge(strip, end + row->length);
        for (; i < row->length && row->column[i] / matrix->width == s; i++) {
            strip->column[end] = (uint16_t)(row->column[i] % matrix->width);
            strip->value[end++] = row->value[row->column[i]];
            row->used[row->column[i]] = false;
        }
        strip->start[at + 1] = end;
    }
    row->length = 0;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Choose strips so narrow that their part of x stays in the first cache, but not so narrow that a
 * row has but a few elements in one; 16 bits must tell their columns apart. */
static struct cg_matrix make_empty(const struct cg_problem *problem, int rows, int columns)
{
    enum { NARROW = 4096, WIDE = 1 << COLUMN_BITS, FEW = 32 };
    const double of_row = (problem->nonzeros + 1.0) * (problem->nonzeros + 1.0);
    const int useful =
        least((columns - 1) / NARROW + 1, (int)(of_row * columns / problem->size / FEW));
    const int needed = (columns - 1) / WIDE + 1;
    const int strips = useful > needed ? useful : needed;
    struct cg_matrix matrix = {.rows = rows, .strips = strips, .width = (columns - 1) / strips + 1};
    matrix.strip = app_allocate((size_t)matrix.strips, sizeof matrix.strip[0]);
    return matrix;
}

static int groups_of(const struct growing_strip *from, int row)
{
    return (int)((from->start[row + 1] - from->start[row] + CG_GROUP - 1) / CG_GROUP);
}

/* Order rows by how many groups of elements they have, those with most first. */
static void order_rows(struct cg_strip *strip, const struct growing_strip *from, int rows)
{
    for (int r = 0; r < rows; r++)
        if (groups_of(from, r) > strip->most)
            strip->most = groups_of(from, r);
    strip->rows = app_allocate((size_t)strip->most + 1, sizeof(int));
    int *next = app_allocate((size_t)strip->most + 1, sizeof(int));
    for (int r = 0; r < rows; r++)
        strip->rows[groups_of(from, r)]++;
    for (int groups = strip->most; groups > 0; groups--)
        next[groups - 1] = next[groups] + strip->rows[groups];
    strip->row = app_allocate((size_t)rows, sizeof(int));
    for (int r = 0; r < rows; r++)
        strip->row[next[groups_of(from, r)]++] = r;
    free(next);
}

/* Move what has grown to large pages, row by row in the order of its strip. */
static struct cg_strip settle(struct growing_strip *from, int rows)
{
    struct cg_strip strip = {.most = 0};
    order_rows(&strip, from, rows);
    size_t all = 0;
    for (int groups = 0; groups <= strip.most; groups++)
        all += (size_t)groups * (size_t)strip.rows[groups];
    strip.columns = app_allocate_large(all, sizeof strip.columns[0]);
    strip.value = app_allocate_large(all * CG_GROUP, sizeof strip.value[0]);
    size_t group = 0;
    for (int k = 0; k < rows; k++) {
        const int64_t end = from->start[strip.row[k] + 1];
        for (int64_t i = from->start[strip.row[k]]; i < end; i += CG_GROUP, group++) {
            for (int e = 0; e < CG_GROUP && i + e < end; e++) {
                strip.columns[group] |= (uint64_t)from->column[i + e] << (COLUMN_BITS * e);
                strip.value[group * CG_GROUP + (size_t)e] = from->value[i + e];
            }
        }
    }
    free(from->start);
    free(from->column);
    free(from->value);
    return strip;
}

struct cg_matrix cg_matrix_make(const struct cg_problem *problem, int row, int row_end, int column,
                                int column_end)
{
    const struct vectors vectors = draw_vectors(problem);
    const struct occurrences found = find_occurrences(&vectors, row, row_end);
    const size_t width = (size_t)(column_end - column);
    struct cg_matrix matrix = make_empty(problem, row_end - row, column_end - column);
    struct dense_row dense = {app_allocate(width, sizeof(double)),
                              app_allocate(width, sizeof(bool)), app_allocate(width, sizeof(int)),
                              0};
    struct growing_strip *growing = app_allocate((size_t)matrix.strips, sizeof growing[0]);
    for (int strip = 0; strip < matrix.strips; strip++)
        growing[strip].start = app_allocate((size_t)matrix.rows + 1, sizeof(int64_t));
    double *weight = app_allocate((size_t)vectors.size, sizeof(double));
    const double ratio = pow(CONDITION, 1.0 / vectors.size);
    weight[0] = 1.0;
    for (int i = 1; i < vectors.size; i++)
        weight[i] = weight[i - 1] * ratio;
    for (int r = 0; r < matrix.rows; r++) {
        for (int64_t o = found.start[r]; o < found.start[r + 1]; o++) {
            const int64_t entry = found.entry[o];
            const int64_t vector = entry / vectors.room;
            const double scaled = weight[vector] * vectors.value[entry];
            for (int e = 0; e < vectors.length[vector]; e++) {
                const int at = vectors.place[vector * vectors.room + e];
                if (at >= column && at < column_end)
                    add(&dense, at - column, scaled * vectors.value[vector * vectors.room + e]);
            }
        }
        if (row + r >= column && row + r < column_end)
            add(&dense, row + r - column, CONDITION - problem->shift);
        append_row(&matrix, growing, r, &dense);
    }
    for (int strip = 0; strip < matrix.strips; strip++)
        matrix.strip[strip] = settle(&growing[strip], matrix.rows);
    free(growing);
    free(dense.value);
    free(dense.used);
    free(dense.column);
    free(weight);
    free(found.start);
    free(found.entry);
    free(vectors.length);
    free(vectors.place);
    free(vectors.value);
    return matrix;
}

void cg_matrix_free(struct cg_matrix *matrix)
{
    for (int s = 0; s < matrix->strips; s++) {
        free(matrix->strip[s].row);
        free(matrix->strip[s].rows);
        free(matrix->strip[s].columns);
        free(matrix->strip[s].value);
    }
    free(matrix->strip);
}

typedef double group __attribute__((vector_size(CG_GROUP * sizeof(double))));

/* Add a strip's part to y. Rows of one length follow each other, so that the end of a row is no
 * surprise to the processor. Each line of values is asked for once, ahead, and only into the
 * second cache: the first is for x. */
static void add_strip(const struct cg_strip *strip, const double *restrict x, double *restrict y)
{
    enum { AHEAD = 512, SECOND_CACHE = 2 };
    const uint64_t *restrict columns = strip->columns;
    const double *restrict value = strip->value;
    const int *row = strip->row;
    for (int groups = strip->most; groups > 0; groups--) {
        for (int k = 0; k < strip->rows[groups]; k++) {
            group sum = {0.0, 0.0, 0.0, 0.0};
            for (int g = 0; g < groups; g++, value += CG_GROUP) {
                if (g % 2 != 0)
                    __builtin_prefetch(value + AHEAD, 0, SECOND_CACHE);
                const uint64_t c = *columns++;
                const group places = {x[c & COLUMN], x[c >> COLUMN_BITS & COLUMN],
                                      x[c >> 2 * COLUMN_BITS & COLUMN], x[c >> 3 * COLUMN_BITS]};
                group values;
                memcpy(&values, value, sizeof values);
                sum += values * places;
            }
            y[*row++] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
        }
    }
}

void cg_matrix_multiply(const struct cg_matrix *matrix, const double *restrict x,
                        double *restrict y)
{
    for (int r = 0; r < matrix->rows; r++)
        y[r] = 0.0;
    for (int s = 0; s < matrix->strips; s++)
        add_strip(&matrix->strip[s], x + (size_t)s * (size_t)matrix->width, y);
}
