/* The sparse matrix of CG (RNR-94-007, 2.4.3), the part of it that lies in a block of rows and
 * columns. */
#ifndef TARE_CG_MATRIX_H
#define TARE_CG_MATRIX_H

#include <stdint.h>

struct cg_problem {
    int size;
    int nonzeros; /* of each generating vector, its own element not counted */
    int iterations;
    double shift;
    double zeta;
};

/* A strip of columns, which count from the strip's first: its rows, those with most elements first,
 * each filled up with zeros to whole groups of CG_GROUP elements. */
enum { CG_GROUP = 4 };

struct cg_strip {
    int *row;          /* in the order in which they are stored */
    int most;          /* groups in a row */
    int *rows;         /* with so many groups, [0, most] */
    uint64_t *columns; /* of each group, 16 bits a column, the first in the lowest */
    double *value;
};

/* Rows and columns count from the block's first. */
struct cg_matrix {
    int rows;
    int strips; /* of the block's columns, all of one width but the last */
    int width;
    struct cg_strip *strip;
};

/* Make the block of rows [row, row_end) and columns [column, column_end). Every rank draws all of
 * the random numbers. */
struct cg_matrix cg_matrix_make(const struct cg_problem *problem, int row, int row_end, int column,
                                int column_end);

void cg_matrix_free(struct cg_matrix *matrix);

/* y = A x. */
void cg_matrix_multiply(const struct cg_matrix *matrix, const double *restrict x,
                        double *restrict y);

#endif
