/* What the pseudo-applications BT, SP and LU have in common: the compressible Navier-Stokes
 * equations on a cube of points (RNR-94-007, chapter 3), with the exact solution that the forcing
 * makes steady.
 *
 * Components of a state: density, momentum along x, y, z, energy. Coordinates go from 0 to 1. */
#ifndef TARE_PSEUDO_H
#define TARE_PSEUDO_H

#include "npb/published.h"

enum { PSEUDO_COMPONENTS = PUBLISHED_COMPONENTS, PSEUDO_AXES = 3, PSEUDO_STENCIL = 5 };

/* c1 to c5 and what is made of them; c1 = 1 + c2, so c1 E - c2 K = E + p. */
#define PSEUDO_C1          1.4
#define PSEUDO_C2          0.4
#define PSEUDO_C3C4        0.1
#define PSEUDO_C1C5        1.96
#define PSEUDO_C1345       (PSEUDO_C1C5 * PSEUDO_C3C4)
#define PSEUDO_CON43       (4.0 / 3.0)
#define PSEUDO_CON16       (1.0 / 6.0)
#define PSEUDO_CONZ1       (1.0 - PSEUDO_C1C5)
#define PSEUDO_DISSIPATION 0.25 /* of the fourth order: a quarter of the largest diffusion */

/* Second-order dissipation along each axis, for all five components. */
extern const double pseudo_diffusion[PSEUDO_AXES];

/* A class of one of the three; the published values have its time step. */
struct pseudo_problem {
    int points; /* along each axis */
    int steps;
    const struct published_norms *published;
};

/* Return the coordinate of a point of an axis: exactly 0 and 1 at its ends. */
double pseudo_coordinate(int index, int points);

/* The exact solution, a polynomial of the fourth degree in each coordinate. */
void pseudo_exact(double x, double y, double z, double state[PSEUDO_COMPONENTS]);

/* The state at the start: the exact solution on the faces of the cube, inside a blend of what the
 * faces interpolate to, which is far from it. */
void pseudo_start(double x, double y, double z, double state[PSEUDO_COMPONENTS]);

/* The fourth difference at a point of an axis, as factors of the points from two before to two
 * behind; zero at the ends of the axis, and for what the difference leaves out near them. */
void pseudo_fourth_difference(int index, int points, double factor[PSEUDO_STENCIL]);

/* Note the norms as checks against the published ones. */
void pseudo_check(struct run *run, const struct published_norms *published,
                  const double residual[PSEUDO_COMPONENTS], const double error[PSEUDO_COMPONENTS]);

#endif
