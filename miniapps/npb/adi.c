#include "npb/adi.h"

#include "common/check.h"
#include "npb/pseudo_operator.h"

#include <math.h>
#include <stdio.h>

enum { LEAST_POINTS = 3 }; /* of a cell along an axis, so that the halo comes from one neighbour */

struct adi {
    const struct pseudo_problem *problem;
    struct multipartition grid;
    struct pseudo_operator space;
    struct line_sweep sweep;
};

typedef void state_at(double x, double y, double z, double state[PSEUDO_COMPONENTS]);

/* Set the state at all points of the cube that the cells or the layers around them hold. */
static void fill(const struct multipartition *grid, state_at *function)
{
    for (int slab = 0; slab < grid->parts; slab++) {
        const struct cell *cell = &grid->cell[slab];
        int low[PSEUDO_AXES];
        int high[PSEUDO_AXES];
        for (int axis = 0; axis < PSEUDO_AXES; axis++) {
            low[axis] = cell->low[axis] == 0 ? -HALO_LAYERS : 0;
            high[axis] = cell->count[axis];
            if (cell->high[axis] == cell->count[axis])
                high[axis] += HALO_LAYERS;
        }
        for (int k = low[Z]; k < high[Z]; k++) {
            for (int j = low[Y]; j < high[Y]; j++) {
                for (int i = low[X]; i < high[X]; i++) {
                    double state[PSEUDO_COMPONENTS];
                    function(pseudo_coordinate(cell->first[X] + i, grid->points),
                             pseudo_coordinate(cell->first[Y] + j, grid->points),
                             pseudo_coordinate(cell->first[Z] + k, grid->points), state);
                    double *to = cell->field[FIELD_STATE] + cell_at(cell, i, j, k);
                    for (int m = 0; m < PSEUDO_COMPONENTS; m++)
                        to[m * cell->row] = state[m];
                }
            }
        }
    }
}

/* Forcing is what keeps the exact solution as it is: -R of it. */
static void make_forcing(struct adi *adi)
{
    fill(&adi->grid, pseudo_exact);
    pseudo_operator_apply(&adi->grid, &adi->space, -1.0);
    for (int slab = 0; slab < adi->grid.parts; slab++) {
        const struct cell *cell = &adi->grid.cell[slab];
        for (int k = cell->low[Z]; k < cell->high[Z]; k++) {
            for (int j = cell->low[Y]; j < cell->high[Y]; j++) {
                const ptrdiff_t at = cell_at(cell, 0, j, k);
                for (ptrdiff_t i = at; i < at + PSEUDO_COMPONENTS * cell->row; i++)
                    cell->field[FIELD_FORCING][i] = cell->field[FIELD_CHANGE][i];
            }
        }
    }
}

static void step(struct run *run, struct adi *adi)
{
    multipartition_exchange(run, &adi->grid, FIELD_STATE);
    pseudo_operator_apply(&adi->grid, &adi->space, adi->problem->published->dt);
    for (int axis = 0; axis < PSEUDO_AXES; axis++)
        line_sweep_run(run, &adi->grid, &adi->sweep, axis);
}

/* --- norms
 * -----------------------------------------------------------------------------------------------------
 */

static void add_squares(const struct multipartition *grid, const struct cell *cell, int j, int k,
                        bool error, double sum[PSEUDO_COMPONENTS])
{
    const ptrdiff_t at = cell_at(cell, 0, j, k);
    for (int i = cell->low[X]; i < cell->high[X]; i++) {
        double exact[PSEUDO_COMPONENTS];
        if (error)
            pseudo_exact(pseudo_coordinate(cell->first[X] + i, grid->points),
                         pseudo_coordinate(cell->first[Y] + j, grid->points),
                         pseudo_coordinate(cell->first[Z] + k, grid->points), exact);
        for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
            const ptrdiff_t place = at + i + m * cell->row;
            const double value = error ? cell->field[FIELD_STATE][place] - exact[m]
                                       : cell->field[FIELD_CHANGE][place];
            sum[m] += value * value;
        }
    }
}

static void norms(struct run *run, const struct adi *adi, bool error,
                  double norm[PSEUDO_COMPONENTS])
{
    const struct multipartition *grid = &adi->grid;
    for (int m = 0; m < PSEUDO_COMPONENTS; m++)
        norm[m] = 0.0;
    for (int slab = 0; slab < grid->parts; slab++) {
        const struct cell *cell = &grid->cell[slab];
        for (int k = cell->low[Z]; k < cell->high[Z]; k++)
            for (int j = cell->low[Y]; j < cell->high[Y]; j++)
                add_squares(grid, cell, j, k, error, norm);
    }
    message_allreduce(run, norm, PSEUDO_COMPONENTS, MPI_DOUBLE, MPI_SUM);
    for (int m = 0; m < PSEUDO_COMPONENTS; m++)
        norm[m] = sqrt(norm[m] / pow(grid->points - 2, PSEUDO_AXES));
}

static void error_norms(struct run *run, const struct adi *adi, double norm[PSEUDO_COMPONENTS])
{
    norms(run, adi, true, norm);
}

static void residual_norms(struct run *run, struct adi *adi, double norm[PSEUDO_COMPONENTS])
{
    multipartition_exchange(run, &adi->grid, FIELD_STATE);
    pseudo_operator_apply(&adi->grid, &adi->space, 1.0);
    norms(run, adi, false, norm);
}

/* --- the application
 * -------------------------------------------------------------------------------------------
 */

/* The ten norms that are verified. */
struct norms {
    double residual[PSEUDO_COMPONENTS];
    double error[PSEUDO_COMPONENTS];
};

static struct norms measure(struct run *run, struct adi *adi)
{
    struct norms found;
    error_norms(run, adi, found.error);
    residual_norms(run, adi, found.residual);
    return found;
}

static double operations(const struct adi_method *method, double n)
{
    const double *c = method->operations;
    return 1e-6 * (c[3] + n * (c[2] + n * (c[1] + n * c[0])));
}

static void execute_active(struct run *run, const struct adi_method *method)
{
    const struct pseudo_problem *problem = &method->problems[run_class(run)];
    struct adi adi = {.problem = problem, .grid = multipartition_make(run, problem->points)};
    adi.space = pseudo_operator_make(&adi.grid);
    adi.sweep = line_sweep_make(method->solver, &adi.grid, problem);
    make_forcing(&adi);
    fill(&adi.grid, pseudo_start);
    step(run, &adi); /* untimed */
    fill(&adi.grid, pseudo_start);
    run_divide(run, problem->steps);
    run_start(run);
    for (int i = 0; i < problem->steps; i++) {
        run_next_part(run);
        step(run, &adi);
    }
    run_stop(run);
    run->result.operations = problem->steps * operations(method, problem->points);
    if (run_is_struck(run))
        multipartition_spoil(run, &adi.grid, FIELD_STATE);
    const struct norms end = measure(run, &adi);
    pseudo_check(run, problem->published, end.residual, end.error);
    adi_check_systems(run, method, &adi.grid, &adi.sweep);
    line_sweep_free(&adi.sweep);
    pseudo_operator_free(&adi.space);
    multipartition_free(&adi.grid);
}

void adi_execute(struct run *run, const struct adi_method *method)
{
    const int parts = multipartition_parts(run->ranks);
    const int active = parts * parts;
    const MPI_Comm whole = run->comm;
    const int ranks = run->ranks;
    const bool takes_part = run->rank < active;
    CHECK_MPI(PMPI_Comm_split(whole, takes_part ? 0 : 1, run->rank, &run->comm));
    run_narrow_turns(run, !takes_part);
    if (takes_part) {
        run->ranks = active;
        execute_active(run, method);
        result_figure(run, "active ranks", active, "ranks");
    }
    CHECK_MPI(PMPI_Comm_free(&run->comm));
    run->comm = whole;
    run->ranks = ranks;
    run_narrow_turns(run, false);
    run_join(run, !takes_part);
}

bool adi_suits(const struct run *run, const struct adi_method *method, char reason[APP_REASON])
{
    const int points = method->problems[run_class(run)].points;
    const int most = points / LEAST_POINTS;
    if (multipartition_parts(run->ranks) <= most)
        return true;
    snprintf(reason, APP_REASON,
             "%s class %c cannot run on %d ranks; allowed: up to %d, of which the largest square "
             "number takes part",
             run->app->name, run->problem_class, run->ranks, (most + 1) * (most + 1) - 1);
    return false;
}

double adi_memory_bytes(const struct run *run, const struct adi_method *method)
{
    const int points = method->problems[run_class(run)].points;
    const int parts = multipartition_parts(run->ranks);
    return sizeof(double) *
           (multipartition_doubles(points, parts) + pseudo_operator_doubles(points, parts) +
            line_sweep_doubles(method->solver, points, parts));
}
