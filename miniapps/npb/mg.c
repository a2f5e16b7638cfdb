/* MG: V-cycles of multigrid for a Poisson equation on a periodic cube (RNR-94-007, 2.5). */
#include "apps/lcg46.h"
#include "common/check.h"
#include "npb/mg_grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 314159265, CHARGES = 10 };

struct problem {
    char letter;
    int levels;
    int iterations;
    double norm;
};

static const struct problem problems[] = {
    {'S', 5, 4, 0.5307707005734e-4},  {'W', 7, 4, 0.6467329375339e-5},
    {'A', 8, 4, 0.2433365309069e-5},  {'B', 8, 20, 0.1800564401355e-5},
    {'C', 9, 20, 0.5706732285740e-6}, {'D', 10, 50, 0.1583275060440e-9},
};

/* The smoother's coefficients: centre, face, edge. */
static const double smoother_small[AXES] = {-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0};
static const double smoother_large[AXES] = {-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0};

static const struct problem *problem_of(char letter)
{
    const struct problem *found = problems;
    while (found->letter != letter)
        found++;
    return found;
}

/* --- operators
 * -------------------------------------------------------------------------------------------------
 */

/* Sums over the four neighbours of a row of points by a face (`faces`) and the four by an edge
 * (`edges`), for each x from -1 to n: every sum serves three points. */
static void sum_rows(const double *restrict at, size_t y, size_t z, int n, double *restrict faces,
                     double *restrict edges)
{
    for (int i = 0; i < n + 2; i++) {
        faces[i] = (at[i - (ptrdiff_t)y] + at[i + (ptrdiff_t)y]) +
                   (at[i - (ptrdiff_t)z] + at[i + (ptrdiff_t)z]);
        edges[i] = (at[i - (ptrdiff_t)z - (ptrdiff_t)y] + at[i - (ptrdiff_t)z + (ptrdiff_t)y]) +
                   (at[i + (ptrdiff_t)z - (ptrdiff_t)y] + at[i + (ptrdiff_t)z + (ptrdiff_t)y]);
    }
}

static void residual_row(int n, const double *restrict u, const double *restrict faces,
                         const double *restrict edges, const double *v, double *r)
{
    for (int i = 1; i <= n; i++)
        r[i] = v[i] + 8.0 / 3.0 * u[i] - 1.0 / 6.0 * (edges[i] + faces[i - 1] + faces[i + 1]) -
               1.0 / 12.0 * (edges[i - 1] + edges[i + 1]);
}

static void smooth_row(int n, const double c[AXES], const double *restrict r,
                       const double *restrict faces, const double *restrict edges,
                       double *restrict u)
{
    for (int i = 1; i <= n; i++)
        u[i] += c[0] * r[i] + c[1] * (r[i - 1] + r[i + 1] + faces[i]) +
                c[2] * (edges[i] + faces[i - 1] + faces[i + 1]);
}

struct rows {
    double *faces;
    double *edges;
};

static struct rows make_rows(const struct mg_grid *grid)
{
    const size_t length = (size_t)grid->level[grid->levels].count[X] + 2;
    return (struct rows){app_allocate(length, sizeof(double)),
                         app_allocate(length, sizeof(double))};
}

/* r = v - A u; v may be r. */
static void residual(struct run *run, struct mg_grid *grid, struct mg_level *level,
                     const struct rows *rows, const double *v)
{
    const size_t y = mg_stride(level, Y);
    const size_t z = mg_stride(level, Z);
    for (int k = 1; k <= level->count[Z]; k++) {
        for (int j = 1; j <= level->count[Y]; j++) {
            const size_t at = (size_t)k * z + (size_t)j * y;
            sum_rows(level->u + at, y, z, level->count[X], rows->faces, rows->edges);
            residual_row(level->count[X], level->u + at, rows->faces, rows->edges, v + at,
                         level->r + at);
        }
    }
    mg_exchange(run, grid, level, level->r);
}

/* u += S r */
static void smooth(struct run *run, struct mg_grid *grid, struct mg_level *level,
                   const struct rows *rows, const double c[AXES])
{
    const size_t y = mg_stride(level, Y);
    const size_t z = mg_stride(level, Z);
    for (int k = 1; k <= level->count[Z]; k++) {
        for (int j = 1; j <= level->count[Y]; j++) {
            const size_t at = (size_t)k * z + (size_t)j * y;
            sum_rows(level->r + at, y, z, level->count[X], rows->faces, rows->edges);
            smooth_row(level->count[X], c, level->r + at, rows->faces, rows->edges, level->u + at);
        }
    }
    mg_exchange(run, grid, level, level->u);
}

/* The residual of the coarser level is the finer one's, fully weighted. */
static void restrict_residual(struct run *run, struct mg_grid *grid, const struct mg_level *fine,
                              struct mg_level *coarse, const struct rows *rows)
{
    const size_t y = mg_stride(fine, Y);
    const size_t z = mg_stride(fine, Z);
    for (int k = 0; k < coarse->count[Z]; k++) {
        const size_t fine_k = (size_t)(2 * (coarse->first[Z] + k) + 1 - fine->first[Z] + 1);
        for (int j = 0; j < coarse->count[Y]; j++) {
            const size_t fine_j = (size_t)(2 * (coarse->first[Y] + j) + 1 - fine->first[Y] + 1);
            const double *from = fine->r + fine_k * z + fine_j * y;
            double *to = coarse->r + (size_t)(k + 1) * mg_stride(coarse, Z) +
                         (size_t)(j + 1) * mg_stride(coarse, Y) + 1;
            sum_rows(from, y, z, fine->count[X], rows->faces, rows->edges);
            const int first = 2 * coarse->first[X] + 1 - fine->first[X] + 1;
            for (int i = 0; i < coarse->count[X]; i++) {
                const int x = first + 2 * i;
                to[i] = 0.5 * from[x] + 0.25 * (from[x - 1] + from[x + 1] + rows->faces[x]) +
                        0.125 * (rows->faces[x - 1] + rows->faces[x + 1] + rows->edges[x]) +
                        0.0625 * (rows->edges[x - 1] + rows->edges[x + 1]);
            }
        }
    }
    mg_exchange(run, grid, coarse, coarse->r);
}

/* The coarse rows around a fine one: the own twice where the fine one lies on it. */
static void coarse_pair(const struct mg_level *fine, const struct mg_level *coarse, int axis,
                        int at, size_t pair[2])
{
    const int point = fine->first[axis] + at - 1; /* may be one outside at both ends */
    const int low = point % 2 == 0 ? point / 2 - 1 : (point + 1) / 2 - 1;
    const int high = point % 2 == 0 ? point / 2 : low;
    pair[0] = (size_t)(low - coarse->first[axis] + 1);
    pair[1] = (size_t)(high - coarse->first[axis] + 1);
}

/* u of the finer level += trilinear interpolation of the coarser one's, in the layers around it as
 * well: the coarse layers hold all that they need, so nothing is exchanged. */
static void interpolate(const struct mg_level *coarse, struct mg_level *fine,
                        const struct rows *rows)
{
    if (!coarse->takes_part)
        return;
    const size_t y = mg_stride(coarse, Y);
    const size_t z = mg_stride(coarse, Z);
    for (int k = 0; k < fine->count[Z] + 2; k++) {
        size_t level_k[2];
        coarse_pair(fine, coarse, Z, k, level_k);
        for (int j = 0; j < fine->count[Y] + 2; j++) {
            size_t level_j[2];
            coarse_pair(fine, coarse, Y, j, level_j);
            const double *const corner[4] = {coarse->u + level_k[0] * z + level_j[0] * y,
                                             coarse->u + level_k[0] * z + level_j[1] * y,
                                             coarse->u + level_k[1] * z + level_j[0] * y,
                                             coarse->u + level_k[1] * z + level_j[1] * y};
            double *restrict mean = rows->faces;
            for (int i = 0; i < coarse->count[X] + 2; i++)
                mean[i] = 0.25 * ((corner[0][i] + corner[1][i]) + (corner[2][i] + corner[3][i]));
            double *to = fine->u + (size_t)k * mg_stride(fine, Z) + (size_t)j * mg_stride(fine, Y);
            for (int i = 0; i < fine->count[X] + 2; i++) {
                size_t level_i[2];
                coarse_pair(fine, coarse, X, i, level_i);
                to[i] += 0.5 * (mean[level_i[0]] + mean[level_i[1]]);
            }
        }
    }
}

static void clear(const struct mg_level *level, double *values)
{
    for (size_t i = 0; i < mg_elements(level); i++)
        values[i] = 0.0;
}

static void cycle(struct run *run, struct mg_grid *grid, const struct rows *rows,
                  const double c[AXES])
{
    struct mg_level *level = grid->level;
    for (int number = grid->levels; number > 1; number--)
        restrict_residual(run, grid, &level[number], &level[number - 1], rows);
    clear(&level[1], level[1].u);
    smooth(run, grid, &level[1], rows, c);
    for (int number = 2; number < grid->levels; number++) {
        clear(&level[number], level[number].u);
        interpolate(&level[number - 1], &level[number], rows);
        residual(run, grid, &level[number], rows, level[number].r);
        smooth(run, grid, &level[number], rows, c);
    }
    struct mg_level *top = &level[grid->levels];
    interpolate(top - 1, top, rows);
    residual(run, grid, top, rows, grid->v);
    smooth(run, grid, top, rows, c);
}

static double norm(struct run *run, const struct mg_level *level)
{
    double sum = 0.0;
    for (int k = 1; k <= level->count[Z]; k++) {
        for (int j = 1; j <= level->count[Y]; j++) {
            const double *r =
                level->r + (size_t)k * mg_stride(level, Z) + (size_t)j * mg_stride(level, Y);
#pragma omp simd reduction(+ : sum)
            for (int i = 1; i <= level->count[X]; i++)
                sum += r[i] * r[i];
        }
    }
    message_allreduce(run, &sum, 1, MPI_DOUBLE, MPI_SUM);
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
    const struct problem *problem = problem_of(run->problem_class);
    const double *c = problem->letter == 'S' || problem->letter == 'W' || problem->letter == 'A'
                          ? smoother_small
                          : smoother_large;
    struct mg_grid grid = mg_grid_make(run, problem->levels);
    struct rows rows = make_rows(&grid);
    struct mg_level *top = &grid.level[grid.levels];
    make_charges(run, &grid);
    residual(run, &grid, top, &rows, grid.v); /* untimed */
    cycle(run, &grid, &rows, c);
    clear(top, top->u);
    run_start(run);
    residual(run, &grid, top, &rows, grid.v);
    norm(run, top);
    for (int i = 0; i < problem->iterations; i++) {
        cycle(run, &grid, &rows, c);
        residual(run, &grid, top, &rows, grid.v);
    }
    const double last = norm(run, top);
    run_stop(run);
    run->result.operations = 58e-6 * problem->iterations * pow(top->points, AXES);
    result_check(run, "norm of the residual", last, problem->norm, 1e-8);
    free(rows.faces);
    free(rows.edges);
    mg_grid_free(&grid);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const int levels = problem_of(run->problem_class)->levels;
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
    const double points = ldexp(1.0, AXES * problem_of(run->problem_class)->levels);
    return 3.6 * sizeof(double) * points / run->ranks;
}

const struct app app_npb_mg = {
    .name = "npb-mg",
    .description = "multigrid for a Poisson equation on a periodic cube",
    .rate = "Mop/s",
    .timed = "V-cycles with their residuals, the norm before and after",
    .pattern = "layers of boxes to the neighbours along x, y and z after each operator on each "
               "level; allreduce for norms",
    .classes = "SWABCD",
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
