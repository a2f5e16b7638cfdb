/* BT: along every line one block-tridiagonal system, 5 x 5 (RNR-94-007, 4.3). */
#include "npb/adi.h"
#include "npb/bt_point.h"

static const struct pseudo_problem problems[] = {
    {'S',
     12,
     60,
     0.010,
     true,
     {1.7034283709541311e-1, 1.2975252070034097e-2, 3.2527926989486055e-2, 2.6436421275166801e-2,
      1.9211784131744430e-1},
     {4.9976913345811579e-4, 4.5195666782961927e-5, 7.3973765172921357e-5, 7.3821238632439731e-5,
      8.9269630987491446e-4}},
    {'W',
     24,
     200,
     0.0008,
     true,
     {112.5590409344, 11.80007595731, 27.10329767846, 24.69174937669, 263.8427874317},
     {4.419655736008, 0.4638531260002, 1.011551749967, 0.9235878729944, 10.18045837718}},
    {'A',
     64,
     200,
     0.0008,
     true,
     {108.06346714637264, 11.319730901220813, 25.974354511582465, 23.665622544678910,
      252.78963211748344},
     {4.2348416040525025, 0.44390282496995698, 0.96692480136345650, 0.88302063039765474,
      9.7379901770829278}},
    {.letter = 'B', .points = 102, .steps = 200, .dt = 0.0003},
    {.letter = 'C', .points = 162, .steps = 200, .dt = 0.0001},
    {.letter = 'D', .points = 408, .steps = 250, .dt = 0.00002},
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
    .classes = "SWABCD",
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
