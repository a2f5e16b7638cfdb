/* MG: V-cycles of multigrid for a Poisson equation on a periodic cube (RNR-94-007, 2.5). */
#include "apps/lcg46.h"
#include "common/check.h"
#include "npb/mg_operators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 314159265, CHARGES = 10 };
enum { FEWEST_PLANES = 6 }; /* of a pass in which both ends are planes of their own */

struct problem {
    int levels;
    int iterations;
    double norm;
};

static const struct problem problems[CLASSES] = {
    [CLASS_S] = {5, 4, 0.5307707005734e-4},  [CLASS_W] = {7, 4, 0.6467329375339e-5},
    [CLASS_A] = {8, 4, 0.2433365309069e-5},  [CLASS_B] = {8, 20, 0.1800564401355e-5},
    [CLASS_C] = {9, 20, 0.5706732285740e-6}, [CLASS_D] = {10, 50, 0.1583275060440e-9},
};

/* The smoother's coefficients: centre, face, edge. */
static const double smoother_small[AXES] = {-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0};
static const double smoother_large[AXES] = {-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0};

/* --- operators, and what they need of neighbours
 * -------------------------------------------------------------------------------------------------
 */

static void residual(struct run *run, struct mg_grid *grid, struct mg_level *level,
                     const struct mg_rows *rows, const double *v)
{
    for (int k = 1; k <= level->count[Z]; k++)
        mg_residual(level, rows, v, k);
    mg_exchange(run, grid, level, level->r);
}

static void smooth(struct run *run, struct mg_grid *grid, struct mg_level *level,
                   const struct mg_rows *rows, const double c[AXES])
{
    for (int k = 1; k <= level->count[Z]; k++)
        mg_smooth(level, rows, c, k);
    mg_exchange(run, grid, level, level->u);
}

static void restrict_residual(struct run *run, struct mg_grid *grid, const struct mg_level *fine,
                              struct mg_level *coarse, const struct mg_rows *rows)
{
    for (int k = 1; k <= coarse->count[Z]; k++)
        mg_restrict(fine, coarse, rows, k);
    mg_exchange(run, grid, coarse, coarse->r);
}

static void smooth_and_wrap(const struct mg_level *level, const struct mg_rows *rows,
                            const double c[AXES], int k)
{
    mg_smooth(level, rows, c, k);
    mg_wrap(level, level->u, k);
}

static void clear(const struct mg_level *level, double *values)
{
    for (size_t i = 0; i < mg_elements(level); i++)
        values[i] = 0.0;
}

/* What happens on a level on the way up: interpolation, residual, smoothing; `again` with a second
 * residual. */
static void rise(struct run *run, struct mg_grid *grid, int number, const struct mg_rows *rows,
                 const double c[AXES], const double *v, bool again)
{
    struct mg_level *fine = &grid->level[number];
    if (fine[-1].takes_part)
        for (int k = 0; k < fine->count[Z] + 2; k++)
            mg_interpolate(fine - 1, fine, rows, k);
    residual(run, grid, fine, rows, v);
    smooth(run, grid, fine, rows, c);
    if (again)
        residual(run, grid, fine, rows, v);
}

/* The same in one pass over the planes where layers along x and y are copies of the rank's own:
 * each step follows the one before as soon as the planes around are done, and they are still in a
 * cache. The planes at both ends wait for the neighbours' layers. */
static void rise_at_once(struct run *run, struct mg_grid *grid, int number,
                         const struct mg_rows *rows, const double c[AXES], const double *v,
                         bool again)
{
    struct mg_level *fine = &grid->level[number];
    const int n = fine->count[Z];
    mg_interpolate(fine - 1, fine, rows, 0);
    mg_interpolate(fine - 1, fine, rows, 1);
    for (int k = 1; k <= n; k++) {
        mg_interpolate(fine - 1, fine, rows, k + 1);
        mg_residual(fine, rows, v, k);
        mg_wrap(fine, fine->r, k);
        if (k >= 3)
            smooth_and_wrap(fine, rows, c, k - 1);
        if (again && k >= 5) {
            mg_residual(fine, rows, v, k - 2);
            mg_wrap(fine, fine->r, k - 2);
        }
    }
    mg_exchange_z(run, grid, fine, fine->r);
    smooth_and_wrap(fine, rows, c, 1);
    smooth_and_wrap(fine, rows, c, n);
    mg_exchange_z(run, grid, fine, fine->u);
    if (!again)
        return;
    const int left[] = {1, 2, n - 1, n};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        mg_residual(fine, rows, v, left[i]);
        mg_wrap(fine, fine->r, left[i]);
    }
    mg_exchange_z(run, grid, fine, fine->r);
}

static void cycle(struct run *run, struct mg_grid *grid, const struct mg_rows *rows,
                  const double c[AXES])
{
    struct mg_level *level = grid->level;
    for (int number = grid->levels; number > 1; number--)
        restrict_residual(run, grid, &level[number], &level[number - 1], rows);
    clear(&level[1], level[1].u);
    smooth(run, grid, &level[1], rows, c);
    for (int number = 2; number <= grid->levels; number++) {
        const bool top = number == grid->levels;
        if (!top)
            clear(&level[number], level[number].u);
        const double *v = top ? grid->v : level[number].r;
        if (mg_wraps(&level[number]) && level[number].count[Z] >= FEWEST_PLANES)
            rise_at_once(run, grid, number, rows, c, v, top);
        else
            rise(run, grid, number, rows, c, v, top);
    }
}

/* Return the norm of the residual; the largest value is found with it, as in the official program.
 */
static double norm(struct run *run, const struct mg_level *level, double *largest)
{
    double sum = 0.0;
    double most = 0.0;
    for (int k = 1; k <= level->count[Z]; k++) {
        for (int j = 1; j <= level->count[Y]; j++) {
            const double *r =
                level->r + (size_t)k * mg_stride(level, Z) + (size_t)j * mg_stride(level, Y);
#pragma omp simd reduction(+ : sum) reduction(max : most)
            for (int i = 1; i <= level->count[X]; i++) {
                sum += r[i] * r[i];
                most = fmax(most, fabs(r[i]));
            }
        }
    }
    message_allreduce(run, &sum, 1, MPI_DOUBLE, MPI_SUM);
    message_allreduce(run, &most, 1, MPI_DOUBLE, MPI_MAX);
    *largest = most;
    return sqrt(sum / pow(level->points, AXES));
}

/* --- the right-hand side
 * --------------------------------------------------------------------------------------- */

struct charge {
    double value; /* as drawn; with the sign changed where the smallest are looked for */
    int64_t place;
};

static void keep_largest(struct charge kept[CHARGES], double value, int64_t place)
{
    if (value <= kept[0].value)
        return;
    int at = 0; /* the smallest of the kept is first */
    while (at + 1 < CHARGES && kept[at + 1].value < value) {
        kept[at] = kept[at + 1];
        at++;
    }
    kept[at] = (struct charge){value, place};
}

static void put_charge(const struct mg_grid *grid, int64_t place, double value)
{
    const struct mg_level *top = &grid->level[grid->levels];
    const int64_t n = top->points;
    const int64_t point[AXES] = {place % n, place / n % n, place / (n * n)};
    size_t at = 0;
    for (int axis = 0; axis < AXES; axis++) {
        const int64_t own = point[axis] - top->first[axis];
        if (own < 0 || own >= top->count[axis])
            return;
        at += (size_t)(own + 1) * mg_stride(top, axis);
    }
    grid->v[at] = value;
}

/* Find the largest of all ranks and put their charge. */
static void share_charges(const struct run *run, const struct mg_grid *grid,
                          struct charge own[CHARGES], double value)
{
    const int bytes = (int)(CHARGES * sizeof own[0]);
    struct charge *all = app_allocate((size_t)run->ranks * CHARGES, sizeof all[0]);
    CHECK_MPI(PMPI_Allgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, run->comm));
    struct charge kept[CHARGES];
    for (int i = 0; i < CHARGES; i++)
        kept[i] = (struct charge){-2.0, 0};
    for (int i = 0; i < run->ranks * CHARGES; i++)
        keep_largest(kept, all[i].value, all[i].place);
    for (int i = 0; i < CHARGES; i++)
        put_charge(grid, kept[i].place, value);
    free(all);
}

static void make_charges(struct run *run, struct mg_grid *grid)
{
    const struct mg_level *top = &grid->level[grid->levels];
    const int64_t n = top->points;
    double *row = app_allocate((size_t)top->count[X], sizeof(double));
    struct charge largest[CHARGES];
    struct charge smallest[CHARGES];
    for (int i = 0; i < CHARGES; i++)
        largest[i] = smallest[i] = (struct charge){-2.0, 0};
    for (int k = 0; k < top->count[Z]; k++) {
        for (int j = 0; j < top->count[Y]; j++) {
            const int64_t place = ((top->first[Z] + k) * n + top->first[Y] + j) * n + top->first[X];
            lcg46_fill(lcg46_jump(SEED, (uint64_t)place), (size_t)top->count[X], row);
            for (int i = 0; i < top->count[X]; i++) {
                keep_largest(largest, row[i], place + i);
                keep_largest(smallest, -row[i], place + i);
            }
        }
    }
    share_charges(run, grid, smallest, -1.0);
    share_charges(run, grid, largest, 1.0);
    mg_exchange(run, grid, &grid->level[grid->levels], grid->v);
    free(row);
}

/* --- the application
 * -------------------------------------------------------------------------------------------- */

static void execute(struct run *run)
{
    const struct problem *problem = &problems[run_class(run)];
    const double *c = run_class(run) <= CLASS_A ? smoother_small : smoother_large;
    struct mg_grid grid = mg_grid_make(run, problem->levels);
    struct mg_rows rows = mg_rows_make(&grid);
    struct mg_level *top = &grid.level[grid.levels];
    make_charges(run, &grid);
    residual(run, &grid, top, &rows, grid.v); /* untimed */
    cycle(run, &grid, &rows, c);
    clear(top, top->u);
    if (run_is_struck(run) && run->rank == run->ranks - 1)
        grid.v[mg_stride(top, Z) + mg_stride(top, Y) + 1] += 1e-2;
    double largest = 0.0;
    run_divide(run, problem->iterations + 1);
    run_start(run);
    run_next_part(run);
    residual(run, &grid, top, &rows, grid.v);
    norm(run, top, &largest);
    for (int i = 0; i < problem->iterations; i++) {
        run_next_part(run);
        cycle(run, &grid, &rows, c);
    }
    const double last = norm(run, top, &largest);
    run_stop(run);
    run->result.operations = 58e-6 * problem->iterations * pow(top->points, AXES);
    result_check(run, "norm of the residual", last, problem->norm, 1e-8);
    result_figure(run, "largest residual", largest, "");
    mg_rows_free(&rows);
    mg_grid_free(&grid);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const int levels = problems[run_class(run)].levels;
    const double most = ldexp(1.0, AXES * (levels - 1)); /* two points a rank along each axis */
    if ((run->ranks & (run->ranks - 1)) == 0 && run->ranks <= most)
        return true;
    snprintf(reason, APP_REASON,
             "npb-mg class %c cannot run on %d ranks; allowed: powers of two up to %.0f",
             run->problem_class, run->ranks, most);
    return false;
}

static double memory_bytes(const struct run *run)
{
    const double points = ldexp(1.0, AXES * problems[run_class(run)].levels);
    return 3.6 * sizeof(double) * points / run->ranks;
}

const struct app app_npb_mg = {
    .name = "npb-mg",
    .description = "multigrid for a Poisson equation on a periodic cube",
    .rate = "Mop/s",
    .timed = "V-cycles with their residuals, the norm before and after",
    .pattern = "layers of boxes to the neighbours along x, y and z after each operator on each "
               "level, copied along an axis that is not cut; two allreduces a norm",
    .classes = "SWABCD",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 160,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
