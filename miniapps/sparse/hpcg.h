/* The HPCG-like problem and its solver (Dongarra, Heroux, Luszczek, SAND2013-4744 and -8752). */
#ifndef TARE_HPCG_H
#define TARE_HPCG_H

#include "sparse/halo.h"
#include "sparse/matrix.h"

enum { HPCG_LEVELS = 4, HPCG_ITERATIONS = 50 };

/* The operator on one of the grids; the first is the finest. */
struct hpcg_level {
    struct halo halo;
    struct matrix matrix;
    double *x; /* the correction, and the right-hand side: of coarse levels only */
    double *b;
    double *ax;     /* not of the coarsest */
    int32_t *finer; /* the row of the next finer level that each row is; of coarse levels only */
};

struct hpcg_times {
    uint64_t multiply_ns;
    uint64_t precondition_ns;
    uint64_t allreduce_ns;
};

struct hpcg {
    int grid[AXES]; /* of ranks */
    struct hpcg_level level[HPCG_LEVELS];
    double *b;
    double *x;
    double *r;
    double *z;
    double *p;
    double *ap;
    struct hpcg_times times;
};

struct hpcg_outcome {
    int iterations;
    double residual; /* norm, relative to the first */
    double first;    /* norm of the first residual */
};

/* Cut ranks into the grid with the smallest faces between them, the longest axis first. */
void hpcg_cut_ranks(int ranks, int grid[AXES]);

/* Return the values of the whole matrix of a level: (3 gx - 2)(3 gy - 2)(3 gz - 2). */
double hpcg_entries(const struct run *run, const int grid[AXES], int level);

/* Return the rows of the whole matrix of the finest level. */
double hpcg_rows(const struct run *run, const int grid[AXES]);

struct hpcg hpcg_make(const struct run *run);
void hpcg_free(struct hpcg *hpcg);

/* Set z to what one V-cycle makes of r. */
void hpcg_precondition(struct run *run, struct hpcg *hpcg, const double *r, double *z);

/* Set ap = A p, after an exchange of p; return p A p of all ranks. */
double hpcg_multiply(struct run *run, struct hpcg *hpcg, double *p, double *ap);

/* Return the scalar product of all ranks. */
double hpcg_dot(struct run *run, struct hpcg *hpcg, const double *a, const double *b);

/* Run conjugate gradients from x = 0 until the residual has fallen by `tolerance` or for so many
 * iterations; note the relative residual after iteration i in history[i], unless that is NULL. */
struct hpcg_outcome hpcg_solve(struct run *run, struct hpcg *hpcg, bool preconditioned,
                               int iterations, double tolerance, double *history);

/* Add the checks of the solver itself: known solutions, spectrum, symmetry. */
void hpcg_validate(struct run *run, struct hpcg *hpcg);

#endif
