#include "npb/adi.h"

#include <math.h>
#include <string.h>

enum { N = PSEUDO_COMPONENTS };

/* The largest values met, by component: what a solver cannot leave apart is not compared. */
struct extremes {
    double right[N];
    double defect[N];
};

static void meet_point(const struct adi_method *method, const struct line_work *work,
                       const struct cell *cell, int axis, const int place[PSEUDO_AXES],
                       struct extremes *extremes)
{
    const ptrdiff_t at = cell_at(cell, place[X], place[Y], place[Z]);
    const ptrdiff_t step = cell->step[axis];
    double state[3][N];
    double x[PSEUDO_STENCIL][N];
    double right[N];
    double made[N];
    for (int m = 0; m < N; m++) {
        for (int side = 0; side < 3; side++)
            state[side][m] = cell->field[FIELD_STATE][at + (side - 1) * step + m * cell->row];
        for (int point = 0; point < PSEUDO_STENCIL; point++)
            x[point][m] = cell->field[FIELD_CHANGE][at + (point - 2) * step + m * cell->row];
        right[m] = cell->field[FIELD_FORCING][at + m * cell->row];
    }
    if (method->enter != NULL)
        method->enter(axis, state[1], right);
    method->apply(work, axis, cell->first[axis] + place[axis], state, x, made);
    for (int m = 0; m < N; m++) {
        const double defect = fabs(made[m] - right[m]);
        extremes->right[m] = fmax(extremes->right[m], fabs(right[m]));
        /* not fmax, which hides what is not a number */
        if (!(defect <= extremes->defect[m]))
            extremes->defect[m] = defect;
    }
}

static void meet_cell(const struct adi_method *method, const struct line_work *work,
                      const struct cell *cell, int axis, struct extremes *extremes)
{
    int place[PSEUDO_AXES];
    for (place[Z] = cell->low[Z]; place[Z] < cell->high[Z]; place[Z]++)
        for (place[Y] = cell->low[Y]; place[Y] < cell->high[Y]; place[Y]++)
            for (place[X] = cell->low[X]; place[X] < cell->high[X]; place[X]++)
                meet_point(method, work, cell, axis, place, extremes);
}

/* Keep the right sides where the forcing was. */
static void keep_right(const struct cell *cell)
{
    for (int k = cell->low[Z]; k < cell->high[Z]; k++) {
        for (int j = cell->low[Y]; j < cell->high[Y]; j++) {
            const ptrdiff_t at = cell_at(cell, 0, j, k);
            for (int m = 0; m < N; m++)
                memcpy(cell->field[FIELD_FORCING] + at + m * cell->row,
                       cell->field[FIELD_CHANGE] + at + m * cell->row,
                       (size_t)cell->count[X] * sizeof(double));
        }
    }
}

void adi_check_systems(struct run *run, const struct adi_method *method,
                       struct multipartition *grid, struct line_sweep *sweep)
{
    static const char *const names[PSEUDO_AXES] = {"systems along x", "systems along y",
                                                   "systems along z"};
    const bool struck = run_is_struck(run);
    sweep->work.update = false;
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        struct extremes extremes = {{0.0}, {0.0}};
        double largest = 0.0;
        for (int slab = 0; slab < grid->parts; slab++)
            keep_right(&grid->cell[slab]);
        line_sweep_run(run, grid, sweep, axis);
        if (struck)
            multipartition_spoil(run, grid, FIELD_CHANGE);
        multipartition_exchange(run, grid, FIELD_CHANGE);
        for (int slab = 0; slab < grid->parts; slab++)
            meet_cell(method, &sweep->work, &grid->cell[slab], axis, &extremes);
        message_allreduce(run, extremes.right, N, MPI_DOUBLE, MPI_MAX);
        message_allreduce(run, extremes.defect, N, MPI_DOUBLE, MPI_MAX);
        for (int m = 0; m < N; m++) {
            const double relative = extremes.defect[m] / extremes.right[m];
            if (!(relative <= largest))
                largest = relative;
        }
        result_check(run, names[axis], largest, 0.0, 1e-10);
    }
    sweep->work.update = true;
}
