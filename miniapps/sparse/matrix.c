#include "sparse/matrix.h"

#include <string.h>

enum { MIDDLE = MATRIX_MIDDLE, RUN = MATRIX_RUN, LANES = MATRIX_LANES, USUAL_RUNS = 8 };

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

/* Add the products of a run. The last lane is whatever follows: nobody reads it. */
static inline void add_run(lanes *sum, const double *values, const double *x)
{
    lanes value;
    lanes other;
    memcpy(&value, values, sizeof value);
    memcpy(&other, x, sizeof other);
    *sum += value * other;
}

/* Return the sum of a row's products but for the three about the diagonal. */
static inline double sum_outer(const double *values, const int32_t *columns, int runs, int singles,
                               const double *x)
{
    lanes even = {0.0};
    lanes odd = {0.0};
    int run = 0;
    for (; run + 1 < runs; run += 2) {
        add_run(&even, values + RUN * run, x + columns[run]);
        add_run(&odd, values + RUN * run + RUN, x + columns[run + 1]);
    }
    if (run < runs)
        add_run(&even, values + RUN * run, x + columns[run]);
    even += odd;
    double sum = even[0] + even[1] + even[2];
    for (int i = 0; i < singles; i++)
        sum += values[RUN * runs + i] * x[columns[runs + i]];
    return sum;
}

/* The same; what most rows look like has loops of a known length. */
static inline double outer(const double *values, const int32_t *columns, struct matrix_shape shape,
                           const double *x)
{
    if (shape.runs == USUAL_RUNS && shape.singles == 0)
        return sum_outer(values, columns, USUAL_RUNS, 0, x);
    return sum_outer(values, columns, shape.runs, shape.singles, x);
}

static inline double row_product(const double *values, const int32_t *columns,
                                 struct matrix_shape shape, const double *x, int row)
{
    return outer(values + MIDDLE, columns, shape, x) + values[0] * x[row - 1] + values[1] * x[row] +
           values[2] * x[row + 1];
}

static double multiply_block(const struct matrix *matrix, int block, const double *restrict x,
                             double *restrict y)
{
    const struct matrix_row *first = &matrix->block[block];
    const int end = first[1].row;
    const double *values = matrix->values + first->value;
    const int32_t *columns = matrix->columns + first->column;
    double product = 0.0;
    for (int row = first->row; row < end; row++) {
        const struct matrix_shape shape = matrix->shapes[row];
        y[row] = row_product(values, columns, shape, x, row);
        product += y[row] * x[row];
        values += matrix_values_of(shape);
        columns += matrix_columns_of(shape);
    }
    return product;
}

double matrix_multiply(const struct matrix *matrix, const double *x, double *y)
{
    double product = 0.0;
    for (int block = 0; block < matrix->blocks; block++)
        product += multiply_block(matrix, block, x, y);
    return product;
}

void matrix_multiply_border(const struct matrix *matrix, const double *x, double *y)
{
    for (int i = 0; i < matrix->borders; i++) {
        const struct matrix_row *at = &matrix->border[i];
        y[at->row] = row_product(matrix->values + at->value, matrix->columns + at->column,
                                 matrix->shapes[at->row], x, at->row);
    }
}

/* Solve row after row. The value just found enters by one multiplication, added last: the rows' own
 * sums do not wait for each other. */
static void sweep_forward(const struct matrix *matrix, const double *restrict b, double *restrict x)
{
    const double *values = matrix->values;
    const int32_t *columns = matrix->columns;
    double before = x[-1];
    for (int row = 0; row < matrix->rows; row++) {
        const struct matrix_shape shape = matrix->shapes[row];
        const double scale = 1.0 / values[1];
        const double rest =
            b[row] - outer(values + MIDDLE, columns, shape, x) - values[2] * x[row + 1];
        before = rest * scale - (values[0] * scale) * before;
        x[row] = before;
        values += matrix_values_of(shape);
        columns += matrix_columns_of(shape);
    }
}

static void sweep_block_backward(const struct matrix *matrix, int block, const double *restrict b,
                                 double *restrict x)
{
    const struct matrix_row *first = &matrix->block[block];
    const double *values = matrix->values + first[1].value;
    const int32_t *columns = matrix->columns + first[1].column;
    double behind = x[first[1].row];
    for (int row = first[1].row - 1; row >= first->row; row--) {
        const struct matrix_shape shape = matrix->shapes[row];
        values -= matrix_values_of(shape);
        columns -= matrix_columns_of(shape);
        const double scale = 1.0 / values[1];
        const double rest =
            b[row] - outer(values + MIDDLE, columns, shape, x) - values[0] * x[row - 1];
        behind = rest * scale - (values[2] * scale) * behind;
        x[row] = behind;
    }
}

void matrix_smooth(const struct matrix *matrix, const double *b, double *x)
{
    sweep_forward(matrix, b, x);
    for (int block = matrix->blocks - 1; block >= 0; block--)
        sweep_block_backward(matrix, block, b, x);
}

void matrix_smooth_multiply(const struct matrix *matrix, const double *b, double *x, double *y)
{
    int last = matrix->blocks - 1; /* of the blocks that wait for the product */
    sweep_forward(matrix, b, x);
    for (int block = matrix->blocks - 1; block >= 0; block--) {
        sweep_block_backward(matrix, block, b, x);
        for (; last >= 0 && matrix->lowest[last] >= block * MATRIX_BLOCK; last--)
            multiply_block(matrix, last, x, y);
    }
}
