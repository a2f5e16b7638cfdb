/* Steady heat conduction on the unit cube by finite elements, miniFE-like: its parts. */
#ifndef TARE_MINIFE_H
#define TARE_MINIFE_H

#include "sparse/halo.h"
#include "sparse/matrix.h"

struct minife {
    int elements[AXES]; /* of the whole cube */
    struct box nodes;   /* of the whole cube */
    struct halo halo;
    struct matrix matrix;
    double *b;
    double assembly_s;  /* of this rank: elements computed and summed, boundary put in */
    double structure_s; /* of this rank: what is stored was made from it */
};

/* Cut the elements by recursive coordinate bisection: a box's longest side, as its ranks are cut in
 * halves. Boxes of elements; false if one is empty. */
bool minife_cut(const int elements[AXES], int ranks, struct box *boxes);

/* Assemble matrix and right-hand side of the own nodes. */
struct minife minife_make(const struct run *run);
void minife_free(struct minife *fe);

enum { ELEMENT_NODES = 8 };

/* Set the stiffness and the load of unit source density of the hexahedron with these corners, in
 * natural order. */
void element_compute(const double corner[ELEMENT_NODES][AXES],
                     double stiffness[ELEMENT_NODES][ELEMENT_NODES], double load[ELEMENT_NODES]);

#endif
