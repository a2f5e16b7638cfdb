/* The sparse matrix of CG (RNR-94-007, 2.4.3), the part of it that lies in a block of rows and
 * columns. */
#ifndef TARE_CG_MATRIX_H
#define TARE_CG_MATRIX_H

#include <stdint.h>

struct cg_problem {
    char letter;
    int size;
    int nonzeros; /* of each generating vector, its own element not counted */
    int iterations;
    double shift;
    double zeta;
};

/* Compressed rows of a strip of columns; columns count from the strip's first. */
struct cg_strip {
    int64_t *start; /* rows + 1 */
    int64_t room;
    uint16_t *column;
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
