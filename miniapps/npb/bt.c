/* BT: along every line one block-tridiagonal system, 5 x 5 (RNR-94-007, 4.3). */
#include "npb/adi.h"
#include "npb/bt_point.h"

static const struct pseudo_problem problems[CLASSES] = {
    [CLASS_S] = {12, 60, &published_bt[CLASS_S]},    [CLASS_W] = {24, 200, &published_bt[CLASS_W]},
    [CLASS_A] = {64, 200, &published_bt[CLASS_A]},   [CLASS_B] = {102, 200, &published_bt[CLASS_B]},
    [CLASS_C] = {162, 200, &published_bt[CLASS_C]},  [CLASS_D] = {408, 250, &published_bt[CLASS_D]},
    [CLASS_E] = {1020, 250, &published_bt[CLASS_E]},
};

/* Components with the momentum along the line second: the operators of all axes are then one. */
static const int orders[PSEUDO_AXES][N] = {{0, 1, 2, 3, 4}, {0, 2, 1, 3, 4}, {0, 3, 1, 2, 4}};

/* --- a pencil of lines
 * ----------------------------------------------------------------------------------------
 */

static void eliminate(struct line_work *work, const struct pencil *pencil, lanes *kept)
{
    const int *order = orders[pencil->axis];
    const int low = pencil->cell->low[pencil->axis];
    const int high = pencil->cell->high[pencil->axis];
    const double first = work->first;
    const double second = work->second;
    const double diffusion = pseudo_diffusion[pencil->axis];
    pencil_load(pencil, FIELD_STATE, order, low - 1, high + 1, work->state);
    pencil_load(pencil, FIELD_CHANGE, order, low, high, work->change);
    for (int point = 0; point < high - low + 2; point++) {
        const lanes *state = work->state + point * N;
        lanes *derived = work->derived + point * DERIVED;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++)
            derive(state, derived, lane);
    }
    for (int point = low; point < high; point++) {
        const lanes *derived = work->derived + (point - low) * DERIVED;
        const lanes *change = work->change + (point - low) * N;
        lanes *own = kept + point * KEPT;
        const lanes *before = own - KEPT;
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++)
            eliminate_point(derived, change, first, second, diffusion, before, own, lane);
    }
}

static void substitute(struct line_work *work, const struct pencil *pencil, const lanes *kept,
                       lanes *solution)
{
    const int *order = orders[pencil->axis];
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
        pencil_add(pencil, FIELD_STATE, order, low, high, solution + low * N);
    else
        pencil_store(pencil, FIELD_CHANGE, order, low, high, solution + low * N);
}

/* --- the operator once more
 * -----------------------------------------------------------------------------------
 *
 * As derivatives of the fluxes along a change, without matrices: what the solver is checked with.
 */

/* first dH - second (dW + diffusion x), at a state and along x; H and W are the convective and the
 * viscous flux along an axis. */
static void derivative(const double u[N], const double x[N], int axis, double first, double second,
                       double made[N])
{
    const double inverse = 1.0 / u[0];
    double velocity_change[PSEUDO_AXES];
    double kinetic = 0.0;        /* per mass */
    double kinetic_change = 0.0; /* per mass */
    for (int d = 0; d < PSEUDO_AXES; d++) {
        const double velocity = u[1 + d] * inverse;
        velocity_change[d] = (x[1 + d] - velocity * x[0]) * inverse;
        kinetic += 0.5 * velocity * velocity;
        kinetic_change += velocity * velocity_change[d];
    }
    const double along = u[1 + axis] * inverse;
    const double along_change = velocity_change[axis];
    const double pressure = PSEUDO_C2 * (u[4] - u[0] * kinetic);
    const double pressure_change = PSEUDO_C2 * (x[4] - x[0] * kinetic - u[0] * kinetic_change);
    const double energy_change = (x[4] - u[4] * inverse * x[0]) * inverse;
    const double heat_change = PSEUDO_CONZ1 * kinetic_change +
                               2.0 * PSEUDO_CON16 * along * along_change +
                               PSEUDO_C1C5 * energy_change;
    const double diffusion = second * pseudo_diffusion[axis];
    made[0] = first * x[1 + axis] - diffusion * x[0];
    for (int d = 0; d < PSEUDO_AXES; d++) {
        const double viscosity = d == axis ? NORMAL_VISCOSITY : SIDE_VISCOSITY;
        const double push = d == axis ? pressure_change : 0.0;
        made[1 + d] = first * (x[1 + d] * along + u[1 + d] * along_change + push) -
                      second * viscosity * velocity_change[d] - diffusion * x[1 + d];
    }
    made[4] = first * ((x[4] + pressure_change) * along + (u[4] + pressure) * along_change) -
              second * PSEUDO_C3C4 * heat_change - diffusion * x[4];
}

static void apply(const struct line_work *work, int axis, int index, double state[3][N],
                  double x[PSEUDO_STENCIL][N], double made[N])
{
    double low[N];
    double own[N];
    double high[N];
    (void)index;
    derivative(state[0], x[1], axis, -work->first, work->second, low);
    derivative(state[1], x[2], axis, 0.0, work->second, own);
    derivative(state[2], x[3], axis, work->first, work->second, high);
    for (int m = 0; m < N; m++)
        made[m] = x[2][m] + low[m] - 2.0 * own[m] + high[m];
}

/* --- the application
 * -------------------------------------------------------------------------------------------
 */

static const struct line_solver solver = {
    .kept = KEPT,
    .rows = 1,
    .padded_plane = true,
    .eliminate = eliminate,
    .substitute = substitute,
};

static const struct adi_method method = {
    .problems = problems,
    .operations = {3478.8, -17655.7, 28023.7, 0.0},
    .solver = &solver,
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

const struct app app_npb_bt = {
    .name = "npb-bt",
    .description = "flow of a compressible fluid, a block-tridiagonal system along each line",
    .rate = "Mop/s",
    .timed = "time steps: the change of the state, solved along x, y and z",
    .pattern = "multi-partition on the largest square number of ranks: six halos a step, then "
               "along each axis from slab to slab and back, large messages to one rank",
    .classes = "SWABCDE",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 360,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
