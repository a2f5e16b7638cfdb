#include "npb/cg_matrix.h"

#include "apps/app.h"
#include "apps/lcg46.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONDITION 0.1 /* reciprocal of the condition number */
enum { SEED = 314159265 };

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

static void append_row(struct cg_matrix *matrix, int at, struct dense_row *row, int64_t *room)
{
    const int64_t first = matrix->start[at];
    const int64_t end = first + row->length;
    if (end > *room) {
        *room = 2 * end;
        matrix->column = realloc(matrix->column, (size_t)*room * sizeof matrix->column[0]);
        matrix->value = realloc(matrix->value, (size_t)*room * sizeof matrix->value[0]);
        if (matrix->column == NULL || matrix->value == NULL)
            app_allocate(SIZE_MAX / 2, 2); /* ends the job with the usual words */
    }
    qsort(row->column, (size_t)row->length, sizeof row->column[0], by_number);
    for (int i = 0; i < row->length; i++) {
        matrix->column[first + i] = row->column[i];
        matrix->value[first + i] = row->value[row->column[i]];
        row->used[row->column[i]] = false;
    }
    matrix->start[at + 1] = end;
    row->length = 0;
}

struct cg_matrix cg_matrix_make(const struct cg_problem *problem, int row, int row_end, int column,
                                int column_end)
{
    const struct vectors vectors = draw_vectors(problem);
    const struct occurrences found = find_occurrences(&vectors, row, row_end);
    const size_t width = (size_t)(column_end - column);
    struct cg_matrix matrix = {.rows = row_end - row};
    struct dense_row dense = {app_allocate(width, sizeof(double)),
                              app_allocate(width, sizeof(bool)), app_allocate(width, sizeof(int)),
                              0};
    double *weight = app_allocate((size_t)vectors.size, sizeof(double));
    const double ratio = pow(CONDITION, 1.0 / vectors.size);
    weight[0] = 1.0;
    for (int i = 1; i < vectors.size; i++)
        weight[i] = weight[i - 1] * ratio;
    matrix.start = app_allocate((size_t)matrix.rows + 1, sizeof matrix.start[0]);
    int64_t room = 0;
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
        append_row(&matrix, r, &dense, &room);
    }
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
    free(matrix->start);
    free(matrix->column);
    free(matrix->value);
}

void cg_matrix_multiply(const struct cg_matrix *matrix, const double *restrict x,
                        double *restrict y)
{
    const int64_t *restrict start = matrix->start;
    const int *restrict column = matrix->column;
    const double *restrict value = matrix->value;
    for (int r = 0; r < matrix->rows; r++) {
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = start[r]; i < start[r + 1]; i++)
            sum += value[i] * x[column[i]];
        y[r] = sum;
    }
}
