/* A sparse matrix, each of its values stored, with column numbers of 32 bits.
 *
 * Columns that follow each other share a number: a row is three values about its diagonal, then
 * runs of three neighbouring columns (of two, with a zero behind), then single values. Nothing else
 * is taken from the grid that the matrix came from: any matrix with a diagonal can be held. Runs
 * are what vector instructions can load without gathering, and a third of the column numbers are
 * what is left to read.
 *
 * Columns beyond the rows are the halo's. Vectors are those of vector_make(). */
#ifndef TARE_MATRIX_H
#define TARE_MATRIX_H

#include <stdint.h>

enum {
    MATRIX_ROW = 32,     /* most values of a row */
    MATRIX_BLOCK = 1024, /* rows of a block: fewer would interrupt the streams too often */
    MATRIX_MIDDLE = 3,   /* values about the diagonal */
    MATRIX_RUN = 3,
    MATRIX_LANES = 4 /* that a run is loaded into: a value more than it has is read */
};

/* Give the values of a row and their columns in any order; return how many. */
typedef int matrix_source(const void *context, int row, int32_t columns[MATRIX_ROW],
                          double values[MATRIX_ROW]);

struct matrix_shape {
    uint8_t runs;
    uint8_t singles;
};

static inline int matrix_values_of(struct matrix_shape shape)
{
    return MATRIX_MIDDLE + MATRIX_RUN * shape.runs + shape.singles;
}

static inline int matrix_columns_of(struct matrix_shape shape)
{
    return shape.runs + shape.singles;
}

/* Where a row begins. */
struct matrix_row {
    int64_t value;
    int64_t column;
    int row;
};

struct matrix {
    int rows;
    int blocks;
    int64_t entries; /* that the source gave, zeros that it gave as well */
    double *values;
    int32_t *columns;
    struct matrix_shape *shapes;
    struct matrix_row *block; /* the first row of every block, and the end */
    int32_t *lowest;          /* the lowest column of every block of rows */
    struct matrix_row *border;
    int borders; /* rows with columns of the halo */
};

/* Take all rows from the source; each is asked for twice. */
struct matrix matrix_make(int rows, matrix_source *source, const void *context);
void matrix_free(struct matrix *matrix);

/* Read and write the diagonal. */
void matrix_diagonal(const struct matrix *matrix, double *diagonal);
void matrix_set_diagonal(struct matrix *matrix, const double *diagonal);

/* Set y = A x; return the sum of x y over the rows. */
double matrix_multiply(const struct matrix *matrix, const double *x, double *y);

/* The same for the rows with columns of the halo only. */
void matrix_multiply_border(const struct matrix *matrix, const double *x, double *y);

/* Sweep forward and backward through A x = b by Gauss and Seidel, rows in their order; the halo is
 * fixed. */
void matrix_smooth(const struct matrix *matrix, const double *b, double *x);

/* The same, and y = A x with what x is then. The product follows the second sweep at the distance
 * that the columns demand, so that it finds the rows in a cache. */
void matrix_smooth_multiply(const struct matrix *matrix, const double *b, double *x, double *y);

#endif
