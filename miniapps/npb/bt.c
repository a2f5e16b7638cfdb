/* BT: along every line one block-tridiagonal system, 5 x 5 (RNR-94-007, 4.3). */
#include "npb/adi.h"

enum { N = PSEUDO_COMPONENTS };

/* What the operators take of a state; the side velocities are those across the line. */
enum { INVERSE, NORMAL, SIDE, OTHER_SIDE, KINETIC, ENERGY, DERIVED };

/* Kept of a point: the block C' by rows, and the right side r'. */
enum { RIGHT = N * N, KEPT = RIGHT + N };

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

/* Factors of the viscous terms: of the normal and of a side momentum. */
#define NORMAL_VISCOSITY (PSEUDO_C3C4 * PSEUDO_CON43)
#define SIDE_VISCOSITY   PSEUDO_C3C4

/* --- one line at one point
 * ------------------------------------------------------------------------------------
 */

/* Derive what the operators take of a state at a point. */
LANE_FUNCTION void derive(const lanes *restrict state, lanes *restrict derived, int lane)
{
    const double inverse = 1.0 / state[0].at[lane];
    const double normal = state[1].at[lane] * inverse;
    const double side = state[2].at[lane] * inverse;
    const double other = state[3].at[lane] * inverse;
    derived[INVERSE].at[lane] = inverse;
    derived[NORMAL].at[lane] = normal;
    derived[SIDE].at[lane] = side;
    derived[OTHER_SIDE].at[lane] = other;
    derived[KINETIC].at[lane] = 0.5 * (normal * normal + side * side + other * other);
    derived[ENERGY].at[lane] = state[4].at[lane] * inverse;
}

/* The viscous factor of density in the energy equation, with the sign changed. */
LANE_FUNCTION double heat_of(const lanes *q, int lane)
{
    const double v = q[NORMAL].at[lane];
    const double sides = 2.0 * q[KINETIC].at[lane] - v * v;
    return q[INVERSE].at[lane] *
           ((NORMAL_VISCOSITY - PSEUDO_C1345) * v * v + (SIDE_VISCOSITY - PSEUDO_C1345) * sides +
            PSEUDO_C1345 * q[ENERGY].at[lane]);
}

/* first F - second (N + diffusion I), the factor of a neighbour; F and N are the derivatives of the
 * convective and of the viscous flux. What is not set is 0: see subtract_product. */
LANE_FUNCTION void neighbour(const lanes *q, double first, double second, double diffusion,
                             int lane, double a[N][N])
{
    const double r = q[INVERSE].at[lane] * second;
    const double v = q[NORMAL].at[lane];
    const double w = q[SIDE].at[lane];
    const double z = q[OTHER_SIDE].at[lane];
    const double kinetic = q[KINETIC].at[lane];
    const double energy = q[ENERGY].at[lane];
    const double spread = second * diffusion;
    a[0][0] = -spread;
    a[0][1] = first;
    a[1][0] = first * (PSEUDO_C2 * kinetic - v * v) + NORMAL_VISCOSITY * r * v;
    a[1][1] = first * (2.0 - PSEUDO_C2) * v - NORMAL_VISCOSITY * r - spread;
    a[1][2] = -PSEUDO_C2 * first * w;
    a[1][3] = -PSEUDO_C2 * first * z;
    a[1][4] = PSEUDO_C2 * first;
    a[2][0] = -first * v * w + SIDE_VISCOSITY * r * w;
    a[2][1] = first * w;
    a[2][2] = first * v - SIDE_VISCOSITY * r - spread;
    a[3][0] = -first * v * z + SIDE_VISCOSITY * r * z;
    a[3][1] = first * z;
    a[3][3] = a[2][2];
    a[4][0] =
        first * (2.0 * PSEUDO_C2 * kinetic - PSEUDO_C1 * energy) * v + second * heat_of(q, lane);
    a[4][1] = first * (PSEUDO_C1 * energy - PSEUDO_C2 * (kinetic + v * v)) -
              (NORMAL_VISCOSITY - PSEUDO_C1345) * r * v;
    a[4][2] = -PSEUDO_C2 * first * w * v - (SIDE_VISCOSITY - PSEUDO_C1345) * r * w;
    a[4][3] = -PSEUDO_C2 * first * z * v - (SIDE_VISCOSITY - PSEUDO_C1345) * r * z;
    a[4][4] = PSEUDO_C1 * first * v - PSEUDO_C1345 * r - spread;
}

/* I + 2 second (N + diffusion I), by columns. */
LANE_FUNCTION void diagonal(const lanes *q, double second, double diffusion, int lane,
                            double b[N][N])
{
    const double r = 2.0 * second * q[INVERSE].at[lane];
    const double v = q[NORMAL].at[lane];
    const double w = q[SIDE].at[lane];
    const double z = q[OTHER_SIDE].at[lane];
    const double own = 1.0 + 2.0 * second * diffusion;
#pragma GCC unroll 5
    for (int column = 0; column < N; column++)
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            b[column][row] = 0.0;
    b[0][0] = own;
    b[0][1] = -NORMAL_VISCOSITY * r * v;
    b[0][2] = -SIDE_VISCOSITY * r * w;
    b[0][3] = -SIDE_VISCOSITY * r * z;
    b[0][4] = -2.0 * second * heat_of(q, lane);
    b[1][1] = own + NORMAL_VISCOSITY * r;
    b[1][4] = (NORMAL_VISCOSITY - PSEUDO_C1345) * r * v;
    b[2][2] = own + SIDE_VISCOSITY * r;
    b[2][4] = (SIDE_VISCOSITY - PSEUDO_C1345) * r * w;
    b[3][3] = b[2][2];
    b[3][4] = (SIDE_VISCOSITY - PSEUDO_C1345) * r * z;
    b[4][4] = own + PSEUDO_C1345 * r;
}

/* y -= a x, where a is a neighbour's factor. */
LANE_FUNCTION void subtract_product(double a[N][N], const double x[N], double y[N])
{
    y[0] -= a[0][0] * x[0] + a[0][1] * x[1];
    y[1] -= a[1][0] * x[0] + a[1][1] * x[1] + a[1][2] * x[2] + a[1][3] * x[3] + a[1][4] * x[4];
    y[2] -= a[2][0] * x[0] + a[2][1] * x[1] + a[2][2] * x[2];
    y[3] -= a[3][0] * x[0] + a[3][1] * x[1] + a[3][3] * x[3];
    y[4] -= a[4][0] * x[0] + a[4][1] * x[1] + a[4][2] * x[2] + a[4][3] * x[3] + a[4][4] * x[4];
}

/* Decompose a block given by columns into a lower factor with ones and an upper one, whose diagonal
 * is left inverted; no pivoting is needed. */
LANE_FUNCTION void decompose(double b[N][N])
{
#pragma GCC unroll 5
    for (int pivot = 0; pivot < N; pivot++) {
        b[pivot][pivot] = 1.0 / b[pivot][pivot];
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            if (row > pivot)
                b[pivot][row] *= b[pivot][pivot];
#pragma GCC unroll 5
        for (int column = 0; column < N; column++) {
#pragma GCC unroll 5
            for (int row = 0; row < N; row++)
                if (column > pivot && row > pivot)
                    b[column][row] -= b[pivot][row] * b[column][pivot];
        }
    }
}

/* x = b^-1 x, with what decompose() left of b. */
LANE_FUNCTION void solve(double b[N][N], double x[N])
{
#pragma GCC unroll 5
    for (int column = 0; column < N; column++)
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            if (row > column)
                x[row] -= b[column][row] * x[column];
#pragma GCC unroll 5
    for (int column = N - 1; column >= 0; column--) {
        x[column] *= b[column][column];
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            if (row < column)
                x[row] -= b[column][row] * x[column];
    }
}

/* Column by column of the block row (A B C | r): B - A C'(before), then what its inverse makes of C
 * and of r - A r'(before). `derived` begins at the point before. */
LANE_FUNCTION void eliminate_point(const lanes *restrict derived, const lanes *restrict change,
                                   double first, double second, double diffusion,
                                   const lanes *restrict before, lanes *restrict kept, int lane)
{
    double a[N][N];
    double b[N][N];
    double c[N][N];
    double x[N];
    double y[N];
    neighbour(derived, -first, second, diffusion, lane, a);
    diagonal(derived + DERIVED, second, diffusion, lane, b);
#pragma GCC unroll 5
    for (int column = 0; column < N; column++) {
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            x[row] = before[row * N + column].at[lane];
        subtract_product(a, x, b[column]);
    }
#pragma GCC unroll 5
    for (int row = 0; row < N; row++) {
        x[row] = before[RIGHT + row].at[lane];
        y[row] = change[row].at[lane];
    }
    subtract_product(a, x, y);
    decompose(b);
    solve(b, y);
#pragma GCC unroll 5
    for (int row = 0; row < N; row++)
        kept[RIGHT + row].at[lane] = y[row];
#pragma GCC unroll 5
    for (int column = 0; column < N; column++)
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            c[row][column] = 0.0;
    neighbour(derived + 2 * DERIVED, first, second, diffusion, lane, c);
#pragma GCC unroll 5
    for (int column = 0; column < N; column++) {
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            x[row] = c[row][column];
        solve(b, x);
#pragma GCC unroll 5
        for (int row = 0; row < N; row++)
            kept[row * N + column].at[lane] = x[row];
    }
}

LANE_FUNCTION void substitute_point(const lanes *restrict kept, const lanes *restrict above,
                                    lanes *restrict solution, int lane)
{
#pragma GCC unroll 5
    for (int row = 0; row < N; row++) {
        double value = kept[RIGHT + row].at[lane];
#pragma GCC unroll 5
        for (int column = 0; column < N; column++)
            value -= kept[row * N + column].at[lane] * above[column].at[lane];
        solution[row].at[lane] = value;
    }
}

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
