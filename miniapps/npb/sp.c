/* SP: the implicit operators made diagonal, so that along every line the five components are
 * pentadiagonal systems of their own, three of them with one matrix (RNR-94-007, 4.4).
 *
 * The transforms between the systems of one axis and the next are done where a pencil is loaded. */
#include "npb/adi.h"

#include <math.h>

enum { N = PSEUDO_COMPONENTS };

/* What a row of a matrix takes of a state: the convective speed along the line, that of sound, and
 * a bound of the spectral radius of the viscous terms, times the factors of the time step. */
enum { CONVECTION, SOUND, SPECTRUM, DERIVED };

/* The matrices: of components 0 to 2, of 3 and of 4. */
enum { MATRICES = 3 };

/* Kept of a point: the scaled row's factors of the next point and of the one behind it, and the
 * right sides. */
enum { NEXT, NEXT_BUT_ONE = NEXT + MATRICES, RIGHT = NEXT_BUT_ONE + MATRICES, KEPT = RIGHT + N };

#define HALF_ROOT 0.70710678118654752440 /* the square root of 1/2 */

static const struct pseudo_problem problems[] = {
    {'S',
     12,
     100,
     0.015,
     true,
     {2.7470315451339479e-2, 1.0360746705285417e-2, 1.6235745065095532e-2, 1.5840557224455615e-2,
      3.4849040609362460e-2},
     {2.7289258557377227e-5, 1.0364446640837285e-5, 1.6154798287166471e-5, 1.5750704994480102e-5,
      3.4177666183390531e-5}},
    {'W',
     36,
     400,
     0.0015,
     true,
     {0.1893253733584e-2, 0.1717075447775e-3, 0.2778153350936e-3, 0.2887475409984e-3,
      0.3143611161242e-2},
     {0.7542088599534e-4, 0.6512852253086e-5, 0.1049092285688e-4, 0.1128838671535e-4,
      0.1212845639773e-3}},
    {'A',
     64,
     400,
     0.0015,
     true,
     {2.4799822399300195, 1.1276337964368832, 1.5028977888770491, 1.4217816211695179,
      2.1292113035138280},
     {1.0900140297820550e-4, 3.7343951769282091e-5, 5.0092785406541633e-5, 4.7671093939528255e-5,
      1.3621613399213001e-4}},
    {.letter = 'B', .points = 102, .steps = 400, .dt = 0.001},
    {.letter = 'C', .points = 162, .steps = 400, .dt = 0.00067},
    {.letter = 'D', .points = 408, .steps = 500, .dt = 0.0003},
};

static const int order[N] = {0, 1, 2, 3, 4};

/* --- transforms at a point
 * ------------------------------------------------------------------------------------
 */

/* What the transforms take of a state. */
struct local {
    double density;
    double velocity[PSEUDO_AXES];
    double kinetic; /* per mass */
    double sound;
};

LANE_FUNCTION struct local local_of(const lanes *state, int lane)
{
    struct local q;
    q.density = state[0].at[lane];
    const double inverse = 1.0 / q.density;
    q.velocity[X] = state[1].at[lane] * inverse;
    q.velocity[Y] = state[2].at[lane] * inverse;
    q.velocity[Z] = state[3].at[lane] * inverse;
    q.kinetic = 0.5 * (q.velocity[X] * q.velocity[X] + q.velocity[Y] * q.velocity[Y] +
                       q.velocity[Z] * q.velocity[Z]);
    q.sound = sqrt(PSEUDO_C1 * PSEUDO_C2 * (state[4].at[lane] * inverse - q.kinetic));
    return q;
}

/* To the characteristic variables of x. */
LANE_FUNCTION void enter_x(const lanes *restrict state, lanes *restrict r, int lane)
{
    const struct local q = local_of(state, lane);
    const double r0 = r[0].at[lane], r1 = r[1].at[lane], r2 = r[2].at[lane], r3 = r[3].at[lane];
    const double inverse = 1.0 / q.density;
    const double sum = PSEUDO_C2 / (q.sound * q.sound) *
                       (q.kinetic * r0 - q.velocity[X] * r1 - q.velocity[Y] * r2 -
                        q.velocity[Z] * r3 + r[4].at[lane]);
    const double difference = HALF_ROOT * inverse * (q.velocity[X] * r0 - r1);
    const double wave = HALF_ROOT * q.sound * inverse * sum;
    r[0].at[lane] = r0 - sum;
    r[1].at[lane] = -inverse * (q.velocity[Z] * r0 - r3);
    r[2].at[lane] = inverse * (q.velocity[Y] * r0 - r2);
    r[3].at[lane] = wave - difference;
    r[4].at[lane] = wave + difference;
}

/* From those of x to those of y. */
LANE_FUNCTION void x_to_y(lanes *r, int lane)
{
    const double r0 = r[0].at[lane], r1 = r[1].at[lane], r2 = r[2].at[lane];
    const double half = 0.5 * (r[3].at[lane] + r[4].at[lane]);
    const double difference = HALF_ROOT * (r[3].at[lane] - r[4].at[lane]);
    r[0].at[lane] = -r1;
    r[1].at[lane] = r0;
    r[2].at[lane] = difference;
    r[3].at[lane] = half - HALF_ROOT * r2;
    r[4].at[lane] = half + HALF_ROOT * r2;
}

/* From those of y to those of z. */
LANE_FUNCTION void y_to_z(lanes *r, int lane)
{
    const double r0 = r[0].at[lane], r1 = r[1].at[lane], r2 = r[2].at[lane];
    const double half = 0.5 * (r[3].at[lane] + r[4].at[lane]);
    const double difference = HALF_ROOT * (r[3].at[lane] - r[4].at[lane]);
    r[0].at[lane] = difference;
    r[1].at[lane] = -r2;
    r[2].at[lane] = r1;
    r[3].at[lane] = half - HALF_ROOT * r0;
    r[4].at[lane] = half + HALF_ROOT * r0;
}

/* From those of z to the change of the state. */
LANE_FUNCTION void leave_z(const lanes *restrict state, const lanes *restrict r,
                           lanes *restrict change, int lane)
{
    const struct local q = local_of(state, lane);
    const double r0 = r[0].at[lane], r1 = r[1].at[lane];
    const double sum = HALF_ROOT * q.density / q.sound * (r[3].at[lane] + r[4].at[lane]);
    const double mass = r[2].at[lane] + sum;
    const double difference = HALF_ROOT * q.density * (r[3].at[lane] - r[4].at[lane]);
    change[0].at[lane] = mass;
    change[1].at[lane] = q.velocity[X] * mass - q.density * r1;
    change[2].at[lane] = q.velocity[Y] * mass + q.density * r0;
    change[3].at[lane] = q.velocity[Z] * mass + difference;
    change[4].at[lane] = q.density * (q.velocity[Y] * r0 - q.velocity[X] * r1) + q.kinetic * mass +
                         q.sound * q.sound / PSEUDO_C2 * sum + q.velocity[Z] * difference;
}

/* --- one line at one point
 * ------------------------------------------------------------------------------------
 */

LANE_FUNCTION void derive(const lanes *restrict state, const lanes *restrict momentum, double first,
                          double second, double diffusion, lanes *restrict derived, int lane)
{
    const struct local q = local_of(state, lane);
    derived[CONVECTION].at[lane] = first * momentum->at[lane] / q.density;
    derived[SOUND].at[lane] = first * q.sound;
    derived[SPECTRUM].at[lane] = second * (diffusion + PSEUDO_C1345 / q.density);
}

/* One matrix, whose speed is that of convection plus `sign` times that of sound, and its right
 * sides. `derived` begins at the point before; kept[-KEPT] is the point before, too. */
LANE_FUNCTION void eliminate_matrix(const lanes *restrict derived, const lanes *restrict change,
                                    const double fourth[PSEUDO_STENCIL], int matrix, double sign,
                                    int from, int to, const lanes *restrict before,
                                    lanes *restrict kept, int lane)
{
    const lanes *after = derived + 2 * DERIVED;
    const lanes *near = before + KEPT;
    double low = fourth[1] - derived[CONVECTION].at[lane] - sign * derived[SOUND].at[lane] -
                 derived[SPECTRUM].at[lane];
    double own = 1.0 + fourth[2] + 2.0 * derived[DERIVED + SPECTRUM].at[lane];
    double next = fourth[3] + after[CONVECTION].at[lane] + sign * after[SOUND].at[lane] -
                  after[SPECTRUM].at[lane];
    low -= fourth[0] * before[NEXT + matrix].at[lane];
    own -= fourth[0] * before[NEXT_BUT_ONE + matrix].at[lane];
    own -= low * near[NEXT + matrix].at[lane];
    next -= low * near[NEXT_BUT_ONE + matrix].at[lane];
    const double inverse = 1.0 / own;
    kept[NEXT + matrix].at[lane] = next * inverse;
    kept[NEXT_BUT_ONE + matrix].at[lane] = fourth[4] * inverse;
#pragma GCC unroll 3
    for (int m = from; m < to; m++)
        kept[RIGHT + m].at[lane] =
            inverse * (change[m].at[lane] - fourth[0] * before[RIGHT + m].at[lane] -
                       low * near[RIGHT + m].at[lane]);
}

LANE_FUNCTION void substitute_point(const lanes *restrict kept, const lanes *restrict above,
                                    lanes *restrict solution, int lane)
{
#pragma GCC unroll 5
    for (int m = 0; m < N; m++) {
        const int matrix = m < MATRICES ? 0 : m - MATRICES + 1;
        solution[m].at[lane] = kept[RIGHT + m].at[lane] -
                               kept[NEXT + matrix].at[lane] * above[m].at[lane] -
                               kept[NEXT_BUT_ONE + matrix].at[lane] * above[N + m].at[lane];
    }
}

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
            fourth[i] *= PSEUDO_DISSIPATION * work->problem->dt;
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
    .classes = "SWABCD",
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
