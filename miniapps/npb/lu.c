/* LU: the compressible Navier-Stokes equations on a cube, stepped by symmetric successive
 * over-relaxation (RNR-94-007, 4.5). */
#include "npb/lu.h"

#include "npb/pseudo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TOLERANCE 1e-8
#define FAULT     1e-2 /* of one value, on request */

static const struct pseudo_problem problems[CLASSES] = {
    [CLASS_S] = {12, 50, &published_lu[CLASS_S]},    [CLASS_W] = {33, 300, &published_lu[CLASS_W]},
    [CLASS_A] = {64, 250, &published_lu[CLASS_A]},   [CLASS_B] = {102, 250, &published_lu[CLASS_B]},
    [CLASS_C] = {162, 250, &published_lu[CLASS_C]},  [CLASS_D] = {408, 300, &published_lu[CLASS_D]},
    [CLASS_E] = {1020, 300, &published_lu[CLASS_E]},
};

/* --- the state
 * -------------------------------------------------------------------------------------------------------
 */

/* Call `state` for each point of this rank, those of the boundary and of the layers around
 * included. */
static void fill(struct lu *lu, void (*state)(double x, double y, double z, double value[]))
{
    const struct lu_box *box = &lu->box;
    for (int k = 0; k < box->n; k++) {
        for (int j = -LU_HALO; j < box->own[LU_Y] + LU_HALO; j++) {
            for (int i = -LU_HALO; i < box->own[LU_X] + LU_HALO; i++) {
                const int x = box->first[LU_X] + i;
                const int y = box->first[LU_Y] + j;
                if (x < 0 || x >= box->n || y < 0 || y >= box->n)
                    continue;
                double value[LU_COMPONENTS];
                state(pseudo_coordinate(x, box->n), pseudo_coordinate(y, box->n),
                      pseudo_coordinate(k, box->n), value);
                double *u = lu->u + (size_t)k * box->plane + lu_at(box, i, j);
                for (size_t c = 0; c < LU_COMPONENTS; c++)
                    u[c * box->stride] = value[c];
            }
        }
    }
}

/* The forcing makes the exact solution steady: f = - R(u). */
static void make_forcing(struct lu *lu)
{
    fill(lu, pseudo_exact);
    lu_residual(lu);
    for (size_t i = 0; i < (size_t)lu->box.n * lu->box.plane; i++)
        lu->f[i] = -lu->r[i];
}

static void start(struct run *run, struct lu *lu)
{
    fill(lu, pseudo_start);
    lu_exchange(run, lu);
    lu_residual(lu);
}

static void sum_to_norm(struct run *run, const struct lu *lu, double sum[LU_COMPONENTS])
{
    message_allreduce(run, sum, LU_COMPONENTS, MPI_DOUBLE, MPI_SUM);
    for (int c = 0; c < LU_COMPONENTS; c++)
        sum[c] = sqrt(sum[c] / pow(lu->box.n - 2.0, 3.0));
}

/* The root mean squares of the components of r. */
static void norm(struct run *run, const struct lu *lu, double result[LU_COMPONENTS])
{
    const struct lu_box *box = &lu->box;
    for (size_t c = 0; c < LU_COMPONENTS; c++) {
        result[c] = 0.0;
        for (int k = 1; k < box->n - 1; k++) {
            const double *r = lu->r + (size_t)k * box->plane + c * box->stride;
            for (int j = 0; j < box->own[LU_Y]; j++)
                for (int i = 0; i < box->own[LU_X]; i++)
                    result[c] += r[lu_at(box, i, j)] * r[lu_at(box, i, j)];
        }
    }
    sum_to_norm(run, lu, result);
}

static void error_norm(struct run *run, const struct lu *lu, double result[LU_COMPONENTS])
{
    const struct lu_box *box = &lu->box;
    for (size_t c = 0; c < LU_COMPONENTS; c++)
        result[c] = 0.0;
    for (int k = 1; k < box->n - 1; k++) {
        for (int j = 0; j < box->own[LU_Y]; j++) {
            for (int i = 0; i < box->own[LU_X]; i++) {
                double exact[LU_COMPONENTS];
                pseudo_exact(pseudo_coordinate(box->first[LU_X] + i, box->n),
                             pseudo_coordinate(box->first[LU_Y] + j, box->n),
                             pseudo_coordinate(k, box->n), exact);
                const double *u = lu->u + (size_t)k * box->plane + lu_at(box, i, j);
                for (size_t c = 0; c < LU_COMPONENTS; c++) {
                    const double error = u[c * box->stride] - exact[c];
                    result[c] += error * error;
                }
            }
        }
    }
    sum_to_norm(run, lu, result);
}

/* --- the surface integral of pressure
 * -------------------------------------------------------------------------------- */

/* Where the six faces lie: first and last plane along x, y, z. */
struct faces {
    int low[3];
    int high[3];
};

/* How many of the cells between two planes have a corner at `at`, along one axis. */
static double cells(const struct faces *faces, int axis, int at)
{
    if (at < faces->low[axis] || at > faces->high[axis])
        return 0.0;
    return at == faces->low[axis] || at == faces->high[axis] ? 1.0 : 2.0;
}

/* How many cells of all faces have a corner at a point. */
static double corners(const struct faces *faces, const int point[3])
{
    double sum = 0.0;
    for (int axis = 0; axis < 3; axis++)
        if (point[axis] == faces->low[axis] || point[axis] == faces->high[axis])
            sum += cells(faces, (axis + 1) % 3, point[(axis + 1) % 3]) *
                   cells(faces, (axis + 2) % 3, point[(axis + 2) % 3]);
    return sum;
}

static double pressure(const double *u, size_t stride)
{
    const double x = u[stride];
    const double y = u[2 * stride];
    const double z = u[3 * stride];
    return PSEUDO_C2 * (u[4 * stride] - 0.5 * (x * x + y * y + z * z) / u[0]);
}

/* Integrate the pressure over six planes inside the cube, by the mean of the corners of cells. */
static double surface(struct run *run, const struct lu *lu)
{
    const struct lu_box *box = &lu->box;
    const int n = box->n;
    const struct faces faces = {.low = {1, 1, 2}, .high = {n - 2, n - 3, n - 2}};
    double sum = 0.0;
    for (int k = 1; k < n - 1; k++) {
        for (int j = 0; j < box->own[LU_Y]; j++) {
            for (int i = 0; i < box->own[LU_X]; i++) {
                const int point[3] = {box->first[LU_X] + i, box->first[LU_Y] + j, k};
                const double many = corners(&faces, point);
                const double *u = lu->u + (size_t)k * box->plane + lu_at(box, i, j);
                sum += many == 0.0 ? 0.0 : many * pressure(u, box->stride);
            }
        }
    }
    message_allreduce(run, &sum, 1, MPI_DOUBLE, MPI_SUM);
    return sum / (4.0 * (n - 1.0) * (n - 1.0));
}

/* --- the application
 * -------------------------------------------------------------------------------------------------
 */

struct norms {
    double correction[LU_COMPONENTS];
    double residual[LU_COMPONENTS];
};

/* One iteration; the last one takes the norms. */
static void iterate(struct run *run, struct lu *lu, struct norms *norms)
{
    lu_sweep_lower(run, lu);
    lu_sweep_upper(run, lu);
    if (norms != NULL)
        norm(run, lu, norms->correction);
    lu_exchange(run, lu);
    lu_residual(lu);
    if (norms != NULL)
        norm(run, lu, norms->residual);
}

static double operations(const struct pseudo_problem *problem)
{
    const double n = problem->points;
    return 1e-6 * problem->steps * (((1984.77 * n - 10923.3) * n + 27770.9) * n - 144010.0);
}

static void execute(struct run *run)
{
    const struct pseudo_problem *problem = &problems[run_class(run)];
    struct lu lu = lu_make(run, problem->points, problem->published->dt);
    struct norms norms;
    double error[LU_COMPONENTS];
    make_forcing(&lu);
    start(run, &lu);
    iterate(run, &lu, &norms); /* untimed */
    start(run, &lu);
    norm(run, &lu, norms.residual); /* untimed, as in the official program */
    run_divide(run, problem->steps);
    run_start(run);
    for (int step = 1; step <= problem->steps; step++) {
        run_next_part(run);
        iterate(run, &lu, step == problem->steps ? &norms : NULL);
    }
    run_stop(run);
    run->result.operations = operations(problem);
    if (run_is_struck(run) && run->rank == run->ranks - 1)
        lu.u[lu.box.plane + lu_at(&lu.box, 0, 0)] *= 1.0 + FAULT;
    error_norm(run, &lu, error);
    pseudo_check(run, problem->published, norms.residual, error);
    result_check(run, "surface integral", surface(run, &lu), problem->published->surface,
                 TOLERANCE);
    result_figure(run, "correction 1", norms.correction[0], "");
    lu_free(&lu);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const int n = problems[run_class(run)].points;
    int parts[2];
    if (lu_cut(run->ranks, n, parts))
        return true;
    snprintf(reason, APP_REASON,
             "npb-lu class %c cannot run on %d ranks, %d along x and %d along y; allowed: numbers "
             "with factors as near to the square as 2 to 1, and at least 3 of %d points a rank",
             run->problem_class, run->ranks, parts[0], parts[1], n);
    return false;
}

static double memory_bytes(const struct run *run)
{
    const int n = problems[run_class(run)].points;
    int parts[2];
    lu_cut(run->ranks, n, parts);
    const int own[2] = {(n - 1) / parts[0] + 1, (n - 1) / parts[1] + 1};
    const double fields = 3.0 * n * LU_COMPONENTS;
    const double planes = LU_FLOW_PLANES * LU_FLOW + LU_COMPONENTS;
    const double halos = 6.0 * n * LU_HALO * LU_COMPONENTS * (own[0] + own[1]);
    return sizeof(double) * ((fields + planes) * (double)lu_plane_size(own) + halos);
}

const struct app app_npb_lu = {
    .name = "npb-lu",
    .description = "Navier-Stokes equations on a cube by symmetric successive over-relaxation",
    .rate = "Mop/s",
    .timed =
        "the iterations: two sweeps, update, exchange of layers, residual; two norms at the end",
    .pattern = "a sweep: for each plane small messages from the neighbours below (above) and to "
               "those above (below), as a wave through the grid of ranks; layers of faces to the "
               "four neighbours once an iteration",
    .classes = "SWABCDE",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 490,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
