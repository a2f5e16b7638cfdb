/* A cube of points on q^2 ranks, cut into q^3 cells so that each rank has one cell in every slab of
 * every axis: a sweep along any axis keeps all ranks at work (multi-partition).
 *
 * A cell's fields have five components, two layers of the neighbours' points around them and rows
 * along x that begin at a cache line:
 *
 *   field[i + j step[Y] + k step[Z] + m row],  -2 <= i < count[X] + 2, the same for j and k
 *
 * Behind the last point of a row comes room for whole lanes. What no point of the cube belongs to
 * holds density and energy 1, so that arithmetic on whole lanes never divides by 0. */
#ifndef TARE_MULTIPARTITION_H
#define TARE_MULTIPARTITION_H

#include "npb/pseudo.h"

#include <stddef.h>

/* What a loop over lanes does to one of them: it is vectorised only where all of it is inlined. */
#define LANE_FUNCTION static inline __attribute__((always_inline))

enum { X, Y, Z };
enum { LANES = 8, HALO_LAYERS = 2 };
enum field { FIELD_STATE, FIELD_CHANGE, FIELD_FORCING, FIELDS };

struct cell {
    int place[PSEUDO_AXES]; /* which slab of each axis */
    int first[PSEUDO_AXES]; /* the cube's number of the first point */
    int count[PSEUDO_AXES];
    int low[PSEUDO_AXES];  /* points from low to before high are not on the cube's faces */
    int high[PSEUDO_AXES]; /* that this axis crosses */
    ptrdiff_t row;
    ptrdiff_t step[PSEUDO_AXES];
    double *field[FIELDS]; /* at the first point's density */
    double *memory;
};

struct multipartition {
    int points;      /* of the cube, along each axis */
    int parts;       /* q */
    int largest;     /* points along an axis that no cell exceeds */
    int diagonal[2]; /* the rank's numbers: rank = diagonal[0] + q diagonal[1] */
    int up[PSEUDO_AXES];
    int down[PSEUDO_AXES];
    struct cell *cell; /* by slab of z */
    int halo_values[PSEUDO_AXES][2];
    double *outgoing[PSEUDO_AXES][2]; /* to the upper and to the lower neighbour */
    double *incoming[PSEUDO_AXES][2]; /* what goes up, from the lower one, and what goes down */
};

/* Return q for so many ranks: those that make up the largest square take part. */
int multipartition_parts(int ranks);

/* Return the doubles that one rank's fields and halos take. */
double multipartition_doubles(int points, int parts);

struct multipartition multipartition_make(const struct run *run, int points);
void multipartition_free(struct multipartition *grid);

/* Return the rank's cell in a slab of an axis. */
const struct cell *multipartition_cell(const struct multipartition *grid, int axis, int slab);

/* Fill the two layers around every cell, but not their edges, from the neighbours. */
void multipartition_exchange(struct run *run, struct multipartition *grid, enum field field);

/* Double the density of a point of rank 0 that is not on the cube's faces, so that checks fail. */
void multipartition_spoil(const struct run *run, const struct multipartition *grid,
                          enum field field);

/* Return the place of a point in a field. */
static inline ptrdiff_t cell_at(const struct cell *cell, int i, int j, int k)
{
    return i + j * cell->step[Y] + k * cell->step[Z];
}

#endif
