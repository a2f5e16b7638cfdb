/* One line of BT at one point: the blocks of its system, and the steps that solve it.
 *
 * Each function does one lane of a pencil. */
#ifndef TARE_BT_POINT_H
#define TARE_BT_POINT_H

#include "npb/line_sweep.h"

enum { N = PSEUDO_COMPONENTS };

/* What the operators take of a state; the side velocities are those across the line. */
enum { INVERSE, NORMAL, SIDE, OTHER_SIDE, KINETIC, ENERGY, DERIVED };

/* Kept of a point: the block C' by rows, and the right side r'. */
enum { RIGHT = N * N, KEPT = RIGHT + N };

/* Factors of the viscous terms: of the normal and of a side momentum. */
#define NORMAL_VISCOSITY (PSEUDO_C3C4 * PSEUDO_CON43)
#define SIDE_VISCOSITY   PSEUDO_C3C4

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

#endif
