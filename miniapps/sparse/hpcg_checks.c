#include "apps/lcg46.h"
#include "common/check.h"
#include "sparse/hpcg.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTLIERS = 9, MOST_PLAIN = 12, MOST_PRECONDITIONED = 2, CALLS = 2, ENOUGH = 100 };

#define SEED         UINT64_C(314159265)
#define NORM_OF_A    52.0
#define TINY         1e-12
#define EXAGGERATION 1e6

/* Values of the diagonal and the right-hand side, to be put back. */
struct saved {
    double *diagonal;
    double *b;
};

/* Give the matrix ten clusters of eigenvalues, which conjugate gradients find in about as many
 * iterations: the diagonal is made a million times larger, of nine rows even more. */
static struct saved exaggerate(struct hpcg *hpcg)
{
    struct hpcg_level *top = &hpcg->level[0];
    const int rows = top->halo.own_points;
    struct saved saved = {vector_make(&top->halo), vector_make(&top->halo)};
    double *diagonal = vector_make(&top->halo);
    matrix_diagonal(&top->matrix, saved.diagonal);
    memcpy(saved.b, hpcg->b, (size_t)rows * sizeof(double));
    for (int row = 0; row < rows; row++) {
        int point[AXES];
        box_point(&top->halo.own, row, point);
        const bool outlier = point[X] < OUTLIERS && point[Y] == 0 && point[Z] == 0;
        const double factor = (outlier ? point[X] + 2 : 1) * EXAGGERATION;
        diagonal[row] = saved.diagonal[row] * factor;
        hpcg->b[row] *= factor;
    }
    matrix_set_diagonal(&top->matrix, diagonal);
    vector_free(diagonal);
    return saved;
}

static void put_back(struct hpcg *hpcg, struct saved *saved)
{
    struct hpcg_level *top = &hpcg->level[0];
    matrix_set_diagonal(&top->matrix, saved->diagonal);
    memcpy(hpcg->b, saved->b, (size_t)top->halo.own_points * sizeof(double));
    vector_free(saved->diagonal);
    vector_free(saved->b);
}

static int most_iterations(struct run *run, struct hpcg *hpcg, bool preconditioned)
{
    int most = 0;
    for (int call = 0; call < CALLS; call++) {
        const int needed = hpcg_solve(run, hpcg, preconditioned, ENOUGH, TINY, NULL).iterations;
        most = needed > most ? needed : most;
    }
    return most;
}

static void check_spectrum(struct run *run, struct hpcg *hpcg)
{
    struct saved saved = exaggerate(hpcg);
    const int plain = most_iterations(run, hpcg, false);
    const int preconditioned = most_iterations(run, hpcg, true);
    put_back(hpcg, &saved);
    result_check(run, "iterations with ten clusters of eigenvalues", plain, 0, MOST_PLAIN);
    result_check(run, "iterations with ten clusters, preconditioned", preconditioned, 0,
                 MOST_PRECONDITIONED);
}

/* Fill the own points with numbers in [1, 2], the same whatever the ranks own. */
static void fill(const struct hpcg *hpcg, uint64_t vector, double *values)
{
    const struct box *own = &hpcg->level[0].halo.own;
    const int size[AXES] = {hpcg->grid[X] * box_length(own, X), hpcg->grid[Y] * box_length(own, Y),
                            hpcg->grid[Z] * box_length(own, Z)};
    const struct box global = {.high = {size[X], size[Y], size[Z]}};
    const uint64_t skip = vector * (uint64_t)box_points(&global);
    for (int row = 0; row < hpcg->level[0].halo.own_points; row++) {
        int point[AXES];
        box_point(own, row, point);
        if (point[X] == own->low[X])
            lcg46_fill(lcg46_jump(SEED, skip + (uint64_t)box_index(&global, point)),
                       (size_t)box_length(own, X), values + row);
        values[row] += 1.0;
    }
}

/* Return |x' B y - y' B x| in units of what rounding may make of it. */
static double departure(struct run *run, struct hpcg *hpcg, const double *x, const double *y,
                        const double *by, const double *bx)
{
    const double difference = fabs(hpcg_dot(run, hpcg, x, by) - hpcg_dot(run, hpcg, y, bx));
    const double scale = hpcg_dot(run, hpcg, x, x) * NORM_OF_A * hpcg_dot(run, hpcg, y, y);
    return difference / (2.0 * scale * DBL_EPSILON);
}

static void check_symmetry(struct run *run, struct hpcg *hpcg)
{
    double *x = vector_make(&hpcg->level[0].halo);
    double *y = vector_make(&hpcg->level[0].halo);
    double *by = hpcg->ap;
    double *bx = hpcg->z;
    fill(hpcg, 0, x);
    fill(hpcg, 1, y);
    hpcg_multiply(run, hpcg, y, by);
    hpcg_multiply(run, hpcg, x, bx);
    result_check(run, "departure of the matrix from symmetry", departure(run, hpcg, x, y, by, bx),
                 0.0, 1.0);
    hpcg_precondition(run, hpcg, y, by);
    hpcg_precondition(run, hpcg, x, bx);
    result_check(run, "departure of the preconditioner from symmetry",
                 departure(run, hpcg, x, y, by, bx), 0.0, 1.0);
    vector_free(x);
    vector_free(y);
}

void hpcg_validate(struct run *run, struct hpcg *hpcg)
{
    int64_t entries = hpcg->level[0].matrix.entries;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &entries, 1, MPI_INT64_T, MPI_SUM, run->comm));
    result_check(run, "entries of the matrix", (double)entries, hpcg_entries(run, hpcg->grid, 0),
                 0.0);
    check_spectrum(run, hpcg);
    check_symmetry(run, hpcg);
}
