#include "apps/app.h"
#include "common/check.h"
#include "sparse/matrix.h"

#include <stdlib.h>
#include <string.h>

/* A row of the source, put in order. */
struct row {
    int count;
    int32_t columns[MATRIX_ROW];
    double values[MATRIX_ROW];
};

/* A row as it is stored. */
struct split {
    struct matrix_shape shape;
    int values;
    int columns;
    int32_t lowest;
    bool border;
    double value[MATRIX_MIDDLE + MATRIX_RUN * MATRIX_ROW];
    int32_t column[MATRIX_ROW];
};

static void take_row(matrix_source *source, const void *context, int number, struct row *row)
{
    row->count = source(context, number, row->columns, row->values);
    for (int i = 1; i < row->count; i++) { /* nearly in order already */
        const int32_t column = row->columns[i];
        const double value = row->values[i];
        int at = i;
        for (; at > 0 && row->columns[at - 1] > column; at--) {
            row->columns[at] = row->columns[at - 1];
            row->values[at] = row->values[at - 1];
        }
        row->columns[at] = column;
        row->values[at] = value;
    }
}

/* Return how many of the values at `from` can be stored as a run. */
static int run_length(const struct row *row, int from)
{
    int length = 1;
    while (length < MATRIX_RUN && from + length < row->count &&
           row->columns[from + length] == row->columns[from] + length)
        length++;
    return length;
}

/* Move the values next to the diagonal to their places, and close the gap that they leave. */
static void split_middle(struct row *row, int number, struct split *split)
{
    int kept = 0;
    split->value[0] = split->value[1] = split->value[2] = 0.0;
    for (int i = 0; i < row->count; i++) {
        const int32_t distance = row->columns[i] - number;
        if (distance >= -1 && distance <= 1) {
            split->value[distance + 1] = row->values[i];
        } else {
            row->columns[kept] = row->columns[i];
            row->values[kept++] = row->values[i];
        }
    }
    row->count = kept;
}

static void split_row(struct row *row, int number, int rows, struct split *split)
{
    if (row->count == 0)
        FATAL("a row of the matrix is empty");
    split->shape = (struct matrix_shape){0, 0};
    split->values = MATRIX_MIDDLE;
    split->columns = 0;
    split->border = row->columns[row->count - 1] >= rows;
    split->lowest = row->columns[0];
    split_middle(row, number, split);
    for (int i = 0, length; i < row->count; i += length) {
        length = run_length(row, i);
        if (length == 1)
            continue;
        for (int k = 0; k < MATRIX_RUN; k++)
            split->value[split->values++] = k < length ? row->values[i + k] : 0.0;
        split->column[split->columns++] = row->columns[i];
        split->shape.runs++;
    }
    for (int i = 0, length; i < row->count; i += length) {
        length = run_length(row, i);
        if (length > 1)
            continue;
        split->value[split->values++] = row->values[i];
        split->column[split->columns++] = row->columns[i];
        split->shape.singles++;
    }
    if (split->value[1] == 0.0)
        FATAL("a row of the matrix has no diagonal");
}

/* Count what the rows need. */
static void measure(struct matrix *matrix, matrix_source *source, const void *context)
{
    struct row row;
    struct split split;
    struct matrix_row at = {0, 0, 0};
    for (; at.row < matrix->rows; at.row++) {
        take_row(source, context, at.row, &row);
        matrix->entries += row.count;
        split_row(&row, at.row, matrix->rows, &split);
        const int block = at.row / MATRIX_BLOCK;
        if (at.row % MATRIX_BLOCK == 0) {
            matrix->block[block] = at;
            matrix->lowest[block] = split.lowest;
        } else if (split.lowest < matrix->lowest[block]) {
            matrix->lowest[block] = split.lowest;
        }
        matrix->shapes[at.row] = split.shape;
        matrix->borders += split.border;
        at.value += split.values;
        at.column += split.columns;
    }
    matrix->block[matrix->blocks] = at;
}

static void fill(struct matrix *matrix, matrix_source *source, const void *context)
{
    struct row row;
    struct split split;
    struct matrix_row at = {0, 0, 0};
    int borders = 0;
    for (; at.row < matrix->rows; at.row++) {
        take_row(source, context, at.row, &row);
        split_row(&row, at.row, matrix->rows, &split);
        if (split.border)
            matrix->border[borders++] = at;
        memcpy(matrix->values + at.value, split.value, (size_t)split.values * sizeof(double));
        memcpy(matrix->columns + at.column, split.column, (size_t)split.columns * sizeof(int32_t));
        at.value += split.values;
        at.column += split.columns;
    }
}

struct matrix matrix_make(int rows, matrix_source *source, const void *context)
{
    struct matrix matrix = {.rows = rows, .blocks = (rows + MATRIX_BLOCK - 1) / MATRIX_BLOCK};
    matrix.block = app_allocate((size_t)matrix.blocks + 1, sizeof matrix.block[0]);
    matrix.lowest = app_allocate((size_t)matrix.blocks, sizeof matrix.lowest[0]);
    matrix.shapes = app_allocate((size_t)rows, sizeof matrix.shapes[0]);
    measure(&matrix, source, context);
    const struct matrix_row *end = &matrix.block[matrix.blocks];
    matrix.values = app_allocate_large((size_t)end->value + MATRIX_LANES, sizeof matrix.values[0]);
    matrix.columns = app_allocate_large((size_t)end->column, sizeof matrix.columns[0]);
    matrix.border = app_allocate((size_t)matrix.borders, sizeof matrix.border[0]);
    fill(&matrix, source, context);
    return matrix;
}

void matrix_free(struct matrix *matrix)
{
    free(matrix->values);
    free(matrix->columns);
    free(matrix->shapes);
    free(matrix->block);
    free(matrix->lowest);
    free(matrix->border);
}

void matrix_diagonal(const struct matrix *matrix, double *diagonal)
{
    const double *values = matrix->values;
    for (int row = 0; row < matrix->rows; row++) {
        diagonal[row] = values[1];
        values += matrix_values_of(matrix->shapes[row]);
    }
}

void matrix_set_diagonal(struct matrix *matrix, const double *diagonal)
{
    double *values = matrix->values;
    for (int row = 0; row < matrix->rows; row++) {
        values[1] = diagonal[row];
        values += matrix_values_of(matrix->shapes[row]);
    }
}
