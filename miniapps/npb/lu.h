/* LU: the state of one rank (RNR-94-007, chapter 3).
 *
 * The sweeps of SSOR need a point's lower (upper) neighbours first. Points of one diagonal
 * i + j of a plane do not need each other, so a plane is stored diagonal by diagonal: the lanes of
 * a vector are then points that can be worked on at once, and all neighbours of a vector are
 * vectors, too. A diagonal's storage is filled up to whole vectors; the lanes that belong to no own
 * point are computed along and never read. */
#ifndef TARE_LU_H
#define TARE_LU_H

#include "apps/app.h"

#include <stddef.h>

enum { LU_X, LU_Y, LU_Z };
enum { LU_COMPONENTS = 5, LU_LANES = 8, LU_HALO = 2 };
/* Of the flow of a plane: velocities, kinetic and total energy of the mass, pressure. */
enum { LU_FLOW = 6, LU_FLOW_PLANES = 3 };
enum { LU_STENCIL = 5 }; /* a point and its neighbours along an axis, from -2 to 2 */
enum { LU_BELOW, LU_ABOVE, LU_SIDES };

/* A rank has all of z and a rectangle of x and y; its own points are those inside the cube's
 * boundary. Own point 0 has lane LU_LANES; points -1 and own[axis] are a neighbour's or the
 * boundary. */
struct lu_box {
    int n; /* points of the cube along each axis */
    int parts[2];
    int place[2];
    int own[2];
    int first[2];               /* where own point 0 is in the cube */
    int neighbour[2][LU_SIDES]; /* ranks; -1 at the boundary */
    int *row;                   /* where lane 0 of the diagonal s is in a plane: [s + 2 LU_HALO] */
    size_t stride;              /* from component to component of a plane */
    size_t plane;               /* from plane to plane of a field */
};

struct lu {
    struct lu_box box;
    double dt;
    double *u;    /* density, momentum, energy */
    double *r;    /* residual; in the sweeps the correction */
    double *f;    /* forcing */
    double *flow; /* of LU_FLOW_PLANES planes, in turn */

    /* By place along x (index: lane) and along y (index: lu_along_y). */
    double *dissipation[2]; /* weights of a point and its neighbours, -2 to 2 */
    double *inside[2];      /* 1 for own points, else 0 */
    size_t table[2];        /* elements of such a table */

    /* Of the neighbours: [plane][layer, the next one first][component][place along the edge]. */
    double *halo[2][LU_SIDES];
    double *outgoing;

    /* What neighbours of the next diagonal and plane are to subtract, from lanes along x. */
    size_t line;
    double *along_x[2]; /* of the last diagonal and of this one */
    double *along_y[2];
    double *along_z;
    double *edge[2][LU_SIDES]; /* the same from the neighbours' points */
    double *message;
};

/* Return whether so many ranks can share the cube of n^3 points, and how. */
bool lu_cut(int ranks, int n, int parts[2]);

/* Return the doubles that one component of a plane takes, for a rank with so many points. */
size_t lu_plane_size(const int own[2]);

struct lu lu_make(const struct run *run, int n, double dt);
void lu_free(struct lu *lu);

/* Return where point (i, j) is in a plane. */
static inline size_t lu_at(const struct lu_box *box, int i, int j)
{
    return (size_t)(box->row[i + j + 2 * LU_HALO] + i + LU_LANES);
}

/* Return the index of lane 0 of diagonal s in a table by place along y; they run backwards. */
static inline ptrdiff_t lu_along_y(const struct lu_box *box, int s)
{
    return box->own[LU_Y] - 1 - s;
}

/* The lanes of diagonal s that hold own points, as whole vectors: [first, end). */
static inline void lu_lanes(const struct lu_box *box, int s, int *first, int *end)
{
    const int low = s < box->own[LU_Y] ? 0 : s - box->own[LU_Y] + 1;
    const int high = s < box->own[LU_X] ? s : box->own[LU_X] - 1;
    *first = (low + LU_LANES) / LU_LANES * LU_LANES;
    *end = (high + 2 * LU_LANES) / LU_LANES * LU_LANES;
}

/* The numbers of places along the edge towards a neighbour on `axis`: own points and those of the
 * boundary beside them, [first, end) along the other axis. */
static inline void lu_edge(const struct lu_box *box, int axis, int *first, int *end)
{
    const int other = 1 - axis;
    *first = box->neighbour[other][LU_BELOW] < 0 ? -1 : 0;
    *end = box->own[other] + (box->neighbour[other][LU_ABOVE] < 0 ? 1 : 0);
}

/* Give the weights that R(u) has for u along an axis at the point `at` of n: the second- and
 * fourth-order dissipation. */
void lu_dissipation(int n, int axis, int at, double weight[LU_STENCIL]);

/* Bring the two layers of u next to the own points from the neighbours. */
void lu_exchange(struct run *run, struct lu *lu);

/* r = f + R(u), the layers around must be there. */
void lu_residual(struct lu *lu);

/* One sweep over all planes: r is turned from a residual into a correction by the lower one, then
 * finished and added to u by the upper one. */
void lu_sweep_lower(struct run *run, struct lu *lu);
void lu_sweep_upper(struct run *run, struct lu *lu);

#endif
