/* The explicit part of a step of BT and SP: the space operator R of the Navier-Stokes equations,
 * with central differences, viscous terms and dissipation of the second and the fourth order. */
#ifndef TARE_PSEUDO_OPERATOR_H
#define TARE_PSEUDO_OPERATOR_H

#include "npb/multipartition.h"

/* Room for what is derived from the state, of three planes, and for factors along a row. */
struct pseudo_operator {
    double *plane[3];
    double *scale;       /* of the points of a row; 0 for those on the cube's faces */
    double *dissipation; /* factors of the points around each, PSEUDO_STENCIL rows */
};

double pseudo_operator_doubles(int points, int parts);
struct pseudo_operator pseudo_operator_make(const struct multipartition *grid);
void pseudo_operator_free(struct pseudo_operator *space);

/* change = scale (R(state) + forcing) at all points that are not on the cube's faces. The layers
 * around the cells must hold the neighbours' state. */
void pseudo_operator_apply(const struct multipartition *grid, struct pseudo_operator *space,
                           double scale);

#endif
