#include "npb/line_sweep.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_UP = 20, TAG_DOWN = 30 };

/* --- pencils
 * ---------------------------------------------------------------------------------------------------
 */

static int lane_axis_of(int axis)
{
    return axis == X ? Y : X;
}

static int other_axis_of(int axis)
{
    return axis == Z ? Y : Z;
}

static int groups_of(int count)
{
    return (count + LANES - 1) / LANES;
}

static int count_pencils(const struct cell *cell, int axis)
{
    const int other = other_axis_of(axis);
    return groups_of(cell->count[lane_axis_of(axis)]) * (cell->high[other] - cell->low[other]);
}

static struct pencil pencil_of(const struct cell *cell, int axis, int number)
{
    struct pencil pencil = {.cell = cell,
                            .axis = axis,
                            .lane_axis = lane_axis_of(axis),
                            .other_axis = other_axis_of(axis)};
    const int lines = cell->count[pencil.lane_axis];
    const int groups = groups_of(lines);
    pencil.lane = number % groups * LANES;
    pencil.other = number / groups + cell->low[pencil.other_axis];
    pencil.live = lines - pencil.lane < LANES ? lines - pencil.lane : LANES;
    pencil.at =
        pencil.lane * cell->step[pencil.lane_axis] + pencil.other * cell->step[pencil.other_axis];
    return pencil;
}

/* Lanes along y: eight rows at once become lanes. Lanes that are not live repeat the last one. */
static void load_rows(const struct pencil *pencil, const double *field,
                      const int order[PSEUDO_COMPONENTS], int first, int end, lanes *restrict to)
{
    const double *line[LANES];
    for (int lane = 0; lane < LANES; lane++)
        line[lane] = field + pencil->at +
                     (lane < pencil->live ? lane : pencil->live - 1) * pencil->cell->step[Y];
    for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
        const ptrdiff_t row = order[m] * pencil->cell->row;
        for (int point = first; point < end; point++)
            for (int lane = 0; lane < LANES; lane++)
                to[(point - first) * PSEUDO_COMPONENTS + m].at[lane] = line[lane][row + point];
    }
}

void pencil_load(const struct pencil *pencil, enum field field, const int order[PSEUDO_COMPONENTS],
                 int first, int end, lanes *to)
{
    const struct cell *cell = pencil->cell;
    if (pencil->axis == X) {
        load_rows(pencil, cell->field[field], order, first, end, to);
        return;
    }
    const double *from = cell->field[field] + pencil->at;
    for (int point = first; point < end; point++)
        for (int m = 0; m < PSEUDO_COMPONENTS; m++, to++)
            memcpy(to->at, from + point * cell->step[pencil->axis] + order[m] * cell->row,
                   sizeof to->at);
}

static void store_rows(const struct pencil *pencil, double *restrict field,
                       const int order[PSEUDO_COMPONENTS], int first, int end, const lanes *from)
{
    for (int lane = 0; lane < pencil->live; lane++) {
        double *line = field + pencil->at + lane * pencil->cell->step[Y];
        for (int m = 0; m < PSEUDO_COMPONENTS; m++)
            for (int point = first; point < end; point++)
                line[order[m] * pencil->cell->row + point] =
                    from[(point - first) * PSEUDO_COMPONENTS + m].at[lane];
    }
}

void pencil_store(const struct pencil *pencil, enum field field, const int order[PSEUDO_COMPONENTS],
                  int first, int end, const lanes *from)
{
    const struct cell *cell = pencil->cell;
    if (pencil->axis == X) {
        store_rows(pencil, cell->field[field], order, first, end, from);
        return;
    }
    double *to = cell->field[field] + pencil->at;
    for (int point = first; point < end; point++)
        for (int m = 0; m < PSEUDO_COMPONENTS; m++, from++)
            memcpy(to + point * cell->step[pencil->axis] + order[m] * cell->row, from->at,
                   sizeof from->at);
}

void pencil_add(const struct pencil *pencil, enum field field, const int order[PSEUDO_COMPONENTS],
                int first, int end, const lanes *from)
{
    const struct cell *cell = pencil->cell;
    for (int point = first; point < end; point++) {
        for (int m = 0; m < PSEUDO_COMPONENTS; m++, from++) {
            double *to = cell->field[field] + pencil->at + point * cell->step[pencil->axis] +
                         order[m] * cell->row;
#pragma omp simd
            for (int lane = 0; lane < LANES; lane++)
                to[lane] += from->at[lane];
        }
    }
}

/* --- what goes from cell to cell
 * -------------------------------------------------------------------------------
 */

/* Where a pencil's lines are in a message: value by value a plane of lines, those that are not on
 * the cube's faces or a plane as large as the largest cell's. */
struct plane {
    int size;
    int at;   /* of lane 0; may be before the plane's begin where that lane is not in it */
    int lane; /* lanes from this to before `end` are in it */
    int end;
};

static int plane_size(const struct multipartition *grid, const struct line_sweep *sweep,
                      const struct cell *cell, int axis)
{
    const int lane_axis = lane_axis_of(axis);
    const int other_axis = other_axis_of(axis);
    const int side = grid->points / grid->parts + 1; /* one more than needed where q divides n */
    if (sweep->solver->padded_plane)
        return side * side;
    return (cell->high[lane_axis] - cell->low[lane_axis]) *
           (cell->high[other_axis] - cell->low[other_axis]);
}

static struct plane plane_of(const struct multipartition *grid, const struct line_sweep *sweep,
                             const struct pencil *pencil)
{
    const struct cell *cell = pencil->cell;
    const int low = cell->low[pencil->lane_axis];
    const int lines = cell->high[pencil->lane_axis] - low;
    const int row = sweep->solver->padded_plane ? grid->points / grid->parts + 1 : lines;
    const int past = low + lines - pencil->lane;
    return (struct plane){.size = plane_size(grid, sweep, cell, pencil->axis),
                          .at = (pencil->other - cell->low[pencil->other_axis]) * row +
                                pencil->lane - low,
                          .lane = pencil->lane < low ? low - pencil->lane : 0,
                          .end = past < LANES ? past : LANES};
}

static void put_plane(const struct plane *plane, const lanes *from, int values, double *message)
{
    for (int value = 0; value < values; value++)
        for (int lane = plane->lane; lane < plane->end; lane++)
            message[value * plane->size + plane->at + lane] = from[value].at[lane];
}

static void get_plane(const struct plane *plane, const double *message, int values, lanes *to)
{
    memset(to, 0, (size_t)values * sizeof to[0]);
    for (int value = 0; value < values; value++)
        for (int lane = plane->lane; lane < plane->end; lane++)
            to[value].at[lane] = message[value * plane->size + plane->at + lane];
}

/* --- the passes
 * ------------------------------------------------------------------------------------------------
 */

/* Return where the values kept of a pencil's first point are; on one rank all pencils share them.
 */
static lanes *kept_of(const struct multipartition *grid, const struct line_sweep *sweep,
                      const struct cell *cell, int pencil)
{
    const size_t number =
        grid->parts == 1 ? 0 : (size_t)cell->place[Z] * sweep->pencils + (size_t)pencil;
    return sweep->kept + number * sweep->pencil_lanes +
           (size_t)(sweep->solver->rows * sweep->solver->kept);
}

/* What comes before the first point; at the cube's face the solution is 0 there and on it. */
static void eliminate(struct line_sweep *sweep, const struct plane *plane,
                      const struct pencil *pencil, lanes *kept)
{
    const struct line_solver *solver = sweep->solver;
    const int before = solver->rows * solver->kept;
    if (pencil->cell->low[pencil->axis] == 0)
        get_plane(plane, sweep->incoming, before, kept - before);
    else
        memset(kept - before, 0, (size_t)(before + solver->kept) * sizeof kept[0]);
    solver->eliminate(&sweep->work, pencil, kept);
}

static void substitute(struct line_sweep *sweep, const struct plane *plane,
                       const struct pencil *pencil, const lanes *kept)
{
    const struct line_solver *solver = sweep->solver;
    const int behind = solver->rows * PSEUDO_COMPONENTS;
    const int count = pencil->cell->count[pencil->axis];
    lanes *past = sweep->solution + count * PSEUDO_COMPONENTS;
    if (pencil->cell->high[pencil->axis] == count)
        get_plane(plane, sweep->incoming, behind, past);
    else
        memset(past - PSEUDO_COMPONENTS, 0, (size_t)(behind + PSEUDO_COMPONENTS) * sizeof past[0]);
    solver->substitute(&sweep->work, pencil, kept, sweep->solution);
}

static void cell_up(const struct multipartition *grid, struct line_sweep *sweep,
                    const struct cell *cell, int axis)
{
    const struct line_solver *solver = sweep->solver;
    const int handed = solver->rows * solver->kept;
    const int pencils = count_pencils(cell, axis);
    for (int number = 0; number < pencils; number++) {
        const struct pencil pencil = pencil_of(cell, axis, number);
        const struct plane plane = plane_of(grid, sweep, &pencil);
        lanes *kept = kept_of(grid, sweep, cell, number);
        eliminate(sweep, &plane, &pencil, kept);
        if (cell->high[axis] == cell->count[axis])
            put_plane(&plane, kept + (cell->count[axis] - solver->rows) * solver->kept, handed,
                      sweep->outgoing);
    }
}

static void cell_down(const struct multipartition *grid, struct line_sweep *sweep,
                      const struct cell *cell, int axis)
{
    const int pencils = count_pencils(cell, axis);
    for (int number = 0; number < pencils; number++) {
        const struct pencil pencil = pencil_of(cell, axis, number);
        const struct plane plane = plane_of(grid, sweep, &pencil);
        substitute(sweep, &plane, &pencil, kept_of(grid, sweep, cell, number));
        if (cell->low[axis] == 0)
            put_plane(&plane, sweep->solution, sweep->solver->rows * PSEUDO_COMPONENTS,
                      sweep->outgoing);
    }
}

/* Hand on what the cell just done gives, and wait for what the next one needs. */
static void hand_on(struct run *run, struct line_sweep *sweep, int send, int to, int receive,
                    int from, int tag)
{
    MPI_Request request[2];
    message_irecv(run, sweep->incoming, receive, MPI_DOUBLE, from, tag, &request[0]);
    message_isend(run, sweep->outgoing, send, MPI_DOUBLE, to, tag, &request[1]);
    message_waitall(run, 2, request);
}

static void run_one(const struct multipartition *grid, struct line_sweep *sweep, int axis)
{
    const struct cell *cell = &grid->cell[0];
    const struct plane none = {0};
    const int pencils = count_pencils(cell, axis);
    for (int number = 0; number < pencils; number++) {
        const struct pencil pencil = pencil_of(cell, axis, number);
        lanes *kept = kept_of(grid, sweep, cell, number);
        eliminate(sweep, &none, &pencil, kept);
        substitute(sweep, &none, &pencil, kept);
    }
}

void line_sweep_run(struct run *run, const struct multipartition *grid, struct line_sweep *sweep,
                    int axis)
{
    const struct line_solver *solver = sweep->solver;
    const int up_values = solver->rows * solver->kept;
    const int down_values = solver->rows * PSEUDO_COMPONENTS;
    const int last = grid->parts - 1;
    if (grid->parts == 1) {
        run_one(grid, sweep, axis);
        return;
    }
    for (int slab = 0; slab <= last; slab++) {
        const struct cell *cell = multipartition_cell(grid, axis, slab);
        cell_up(grid, sweep, cell, axis);
        if (slab == last)
            break;
        const struct cell *next = multipartition_cell(grid, axis, slab + 1);
        hand_on(run, sweep, up_values * plane_size(grid, sweep, cell, axis), grid->up[axis],
                up_values * plane_size(grid, sweep, next, axis), grid->down[axis], TAG_UP + axis);
    }
    for (int slab = last; slab >= 0; slab--) {
        const struct cell *cell = multipartition_cell(grid, axis, slab);
        cell_down(grid, sweep, cell, axis);
        if (slab == 0)
            break;
        const struct cell *next = multipartition_cell(grid, axis, slab - 1);
        hand_on(run, sweep, down_values * plane_size(grid, sweep, cell, axis), grid->down[axis],
                down_values * plane_size(grid, sweep, next, axis), grid->up[axis], TAG_DOWN + axis);
    }
}

/* --- making it
 * -------------------------------------------------------------------------------------------------
 */

static double pencil_size(const struct line_solver *solver, int largest)
{
    return (double)solver->kept * (largest + solver->rows);
}

double line_sweep_doubles(const struct line_solver *solver, int points, int parts)
{
    const int largest = (points + parts - 1) / parts;
    const double pencils = parts == 1 ? 1.0 : (double)parts * largest * groups_of(largest);
    const double messages = parts == 1 ? 0.0 : 2.0 * solver->rows * solver->kept;
    return LANES * (pencils * pencil_size(solver, largest) + 26.0 * (largest + 2)) +
           messages * (largest + 1) * (largest + 1);
}

struct line_sweep line_sweep_make(const struct line_solver *solver,
                                  const struct multipartition *grid,
                                  const struct pseudo_problem *problem)
{
    const double inverse_spacing = problem->points - 1;
    const size_t line = (size_t)grid->largest + 2;
    const size_t side = (size_t)grid->largest + 1;
    struct line_sweep sweep = {.solver = solver,
                               .pencils = (size_t)(grid->largest * groups_of(grid->largest)),
                               .pencil_lanes = (size_t)pencil_size(solver, grid->largest)};
    sweep.work.problem = problem;
    sweep.work.first = 0.5 * problem->published->dt * inverse_spacing;
    sweep.work.second = problem->published->dt * inverse_spacing * inverse_spacing;
    sweep.work.update = true;
    sweep.work.state = app_allocate(PSEUDO_COMPONENTS * line, sizeof(lanes));
    sweep.work.derived = app_allocate(6 * line, sizeof(lanes));
    sweep.work.change = app_allocate(PSEUDO_COMPONENTS * line, sizeof(lanes));
    sweep.solution = app_allocate(PSEUDO_COMPONENTS * line, sizeof(lanes));
    const size_t pencils = grid->parts == 1 ? 1 : (size_t)grid->parts * sweep.pencils;
    sweep.kept = app_allocate(pencils * sweep.pencil_lanes, sizeof(lanes));
    const size_t message =
        grid->parts == 1 ? 0 : (size_t)(solver->rows * solver->kept) * side * side;
    sweep.outgoing = app_allocate(message, sizeof(double));
    sweep.incoming = app_allocate(message, sizeof(double));
    return sweep;
}

void line_sweep_free(struct line_sweep *sweep)
{
    free(sweep->work.state);
    free(sweep->work.derived);
    free(sweep->work.change);
    free(sweep->solution);
    free(sweep->kept);
    free(sweep->outgoing);
    free(sweep->incoming);
}
