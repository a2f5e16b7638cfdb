/* SP: the implicit operators made diagonal, so that along every line the five components are
 * pentadiagonal systems of their own, three of them with one matrix (RNR-94-007, 4.4).
 *
 * The transforms between the systems of one axis and the next are done where a pencil is loaded. */
#include "npb/adi.h"
#include "npb/sp_point.h"

#include <math.h>

static const struct pseudo_problem problems[CLASSES] = {
    [CLASS_S] = {12, 100, &published_sp[CLASS_S]},   [CLASS_W] = {36, 400, &published_sp[CLASS_W]},
    [CLASS_A] = {64, 400, &published_sp[CLASS_A]},   [CLASS_B] = {102, 400, &published_sp[CLASS_B]},
    [CLASS_C] = {162, 400, &published_sp[CLASS_C]},  [CLASS_D] = {408, 500, &published_sp[CLASS_D]},
    [CLASS_E] = {1020, 500, &published_sp[CLASS_E]},
};

static const int order[N] = {0, 1, 2, 3, 4};

/* --- a pencil of lines
 * ----------------------------------------------------------------------------------------
 */

/* Derive what the rows need, and transform the right sides. */
static void prepare(struct line_work *work, const struct pencil *pencil, int points)
{
    const double first = work->first;
    const double second = work->second;
    const double diffusion = pseudo_diffusion[pencil->axis];
    for (int point = 0; point < points + 2; point++) {
        const lanes *state = work->state + point * N;
        const lanes *momentum = state + 1 + pencil->axis;
        lanes *derived = work->derived + point * DERIVED;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++)
            derive(state, momentum, first, second, diffusion, derived, lane);
    }
    for (int point = 0; point < points; point++) {
        const lanes *state = work->state + (point + 1) * N;
        lanes *change = work->change + point * N;
        if (pencil->axis == X) {
#pragma omp simd
            for (int lane = 0; lane < LANES; lane++)
                enter_x(state, change, lane);
        } else if (pencil->axis == Y) {
#pragma omp simd
            for (int lane = 0; lane < LANES; lane++)
                x_to_y(change, lane);
        } else {
#pragma omp simd
            for (int lane = 0; lane < LANES; lane++)
                y_to_z(change, lane);
        }
    }
}

static void eliminate(struct line_work *work, const struct pencil *pencil, lanes *kept)
{
    const struct cell *cell = pencil->cell;
    const int low = cell->low[pencil->axis];
    const int high = cell->high[pencil->axis];
    pencil_load(pencil, FIELD_STATE, order, low - 1, high + 1, work->state);
    pencil_load(pencil, FIELD_CHANGE, order, low, high, work->change);
    prepare(work, pencil, high - low);
    for (int point = low; point < high; point++) {
        const lanes *derived = work->derived + (point - low) * DERIVED;
        const lanes *change = work->change + (point - low) * N;
        lanes *own = kept + point * KEPT;
        const lanes *before = own - 2 * KEPT;
        double fourth[PSEUDO_STENCIL];
        pseudo_fourth_difference(cell->first[pencil->axis] + point, work->problem->points, fourth);
        for (int i = 0; i < PSEUDO_STENCIL; i++)
            fourth[i] *= PSEUDO_DISSIPATION * work->problem->published->dt;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++) {
            eliminate_matrix(derived, change, fourth, 0, 0.0, 0, 3, before, own, lane);
            eliminate_matrix(derived, change, fourth, 1, 1.0, 3, 4, before, own, lane);
            eliminate_matrix(derived, change, fourth, 2, -1.0, 4, 5, before, own, lane);
        }
    }
}

/* The solution itself stays as it is: the cell below needs it. */
static void leave(const struct line_work *work, const struct pencil *pencil, const lanes *solution)
{
    const int low = pencil->cell->low[Z];
    const int high = pencil->cell->high[Z];
    pencil_load(pencil, FIELD_STATE, order, low, high, work->state);
    for (int point = low; point < high; point++) {
        const lanes *state = work->state + (point - low) * N;
        const lanes *own = solution + point * N;
        lanes *change = work->change + (point - low) * N;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++)
            leave_z(state, own, change, lane);
    }
    pencil_add(pencil, FIELD_STATE, order, low, high, work->change);
}

static void substitute(struct line_work *work, const struct pencil *pencil, const lanes *kept,
                       lanes *solution)
{
    const int low = pencil->cell->low[pencil->axis];
    const int high = pencil->cell->high[pencil->axis];
    for (int point = high - 1; point >= low; point--) {
        const lanes *own = kept + point * KEPT;
        lanes *to = solution + point * N;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++)
            substitute_point(own, to + N, to, lane);
    }
    if (work->update && pencil->axis == Z)
        leave(work, pencil, solution);
    else
        pencil_store(pencil, FIELD_CHANGE, order, low, high, solution + low * N);
}

/* --- the operator once more
 * -----------------------------------------------------------------------------------
 *
 * Multiplied, not solved: what the solver is checked with.
 */

/* The right side of an axis' systems, in its variables. */
static void enter(int axis, const double state[N], double right[N])
{
    lanes u[N] = {0};
    lanes r[N] = {0};
    for (int m = 0; m < N; m++) {
        u[m].at[0] = state[m];
        r[m].at[0] = right[m];
    }
    if (axis == X)
        enter_x(u, r, 0);
    else if (axis == Y)
        x_to_y(r, 0);
    else
        y_to_z(r, 0);
    for (int m = 0; m < N; m++)
        right[m] = r[m].at[0];
}

static void apply(const struct line_work *work, int axis, int index, double state[3][N],
                  double x[PSEUDO_STENCIL][N], double made[N])
{
    double fourth[PSEUDO_STENCIL];
    pseudo_fourth_difference(index, work->problem->points, fourth);
    for (int m = 0; m < N; m++)
        made[m] = x[2][m];
    for (int side = 0; side < 3; side++) {
        const double *u = state[side];
        const double squares = u[1] * u[1] + u[2] * u[2] + u[3] * u[3];
        const double pressure = PSEUDO_C2 * (u[4] - 0.5 * squares / u[0]);
        const double sound = sqrt(PSEUDO_C1 * pressure / u[0]);
        const double spectrum = pseudo_diffusion[axis] + PSEUDO_C1345 / u[0];
        const double first = (side - 1) * work->first;
        const double second = (side == 1 ? 2.0 : -1.0) * work->second;
        for (int m = 0; m < N; m++) {
            const double wave = m < 3 ? 0.0 : m == 3 ? sound : -sound;
            made[m] += (first * (u[1 + axis] / u[0] + wave) + second * spectrum) * x[side + 1][m];
        }
    }
    for (int point = 0; point < PSEUDO_STENCIL; point++)
        for (int m = 0; m < N; m++)
            made[m] +=
                work->problem->published->dt * PSEUDO_DISSIPATION * fourth[point] * x[point][m];
}

/* --- the application
 * -------------------------------------------------------------------------------------------
 */

static const struct line_solver solver = {
    .kept = KEPT,
    .rows = 2,
    .padded_plane = false,
    .eliminate = eliminate,
    .substitute = substitute,
};

static const struct adi_method method = {
    .problems = problems,
    .operations = {881.174, -4683.91, 11484.5, -19272.4},
    .solver = &solver,
    .enter = enter,
    .apply = apply,
};

static bool suits(const struct run *run, char reason[APP_REASON])
{
    return adi_suits(run, &method, reason);
}

static double memory_bytes(const struct run *run)
{
    return adi_memory_bytes(run, &method);
}

static void execute(struct run *run)
{
    adi_execute(run, &method);
}

const struct app app_npb_sp = {
    .name = "npb-sp",
    .description = "flow of a compressible fluid, five pentadiagonal systems along each line",
    .rate = "Mop/s",
    .timed = "time steps: the change of the state, solved along x, y and z",
    .pattern = "multi-partition on the largest square number of ranks: six halos a step, then "
               "along each axis from slab to slab and back, large messages to one rank",
    .classes = "SWABCDE",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 160,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
