/* One line of SP at one point: the transforms between the variables of the axes, and the steps that
 * solve its systems.
 *
 * Each function does one lane of a pencil. */
#ifndef TARE_SP_POINT_H
#define TARE_SP_POINT_H

#include "npb/line_sweep.h"

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

#endif
