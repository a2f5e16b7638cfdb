/* Values of the points around a rank's box, which other ranks own.
 *
 * A vector holds the own points in natural order, then those of the neighbours, neighbour after
 * neighbour by rank, each in the natural order of its owner. */
#ifndef TARE_HALO_H
#define TARE_HALO_H

#include "apps/app.h"
#include "sparse/box.h"

enum { AROUND = 27 }; /* points at a distance of at most 1 along each axis, in natural order */

struct neighbour {
    int rank;
    struct box taken; /* its points that touch the own box */
    int taken_at;     /* where they begin in a vector */
    int taken_count;
    int given_at; /* where the own points that it needs begin in `given` */
    int given_count;
};

struct halo {
    struct box own;
    int own_points;
    int points; /* own and taken */
    int neighbours;
    struct neighbour *neighbour;
    int32_t *given; /* own points by number */
    double *outgoing;
    MPI_Request *requests;
    uint64_t exchanges;
    uint64_t spent_ns; /* in exchanges */
};

/* Find the neighbours of a rank among the boxes of all ranks, which do not overlap. */
struct halo halo_make(const struct run *run, const struct box *boxes);
void halo_free(struct halo *halo);

/* Return where a vector has a point that is the own box's or touches it. */
int halo_place(const struct halo *halo, const int point[AXES]);

/* Set where a vector has the points around an own point, itself among them; -1 for those that are
 * not of the whole lattice. */
void halo_around(const struct halo *halo, const struct box *whole, const int centre[AXES],
                 int32_t places[AROUND]);

/* Bring the neighbours' values: one message from and to each neighbour. */
void halo_exchange(struct run *run, struct halo *halo, double *values);

/* Return a vector of zeros with room for own and taken points; the matrix may read one place before
 * the first and some behind the last. */
double *vector_make(const struct halo *halo);
void vector_free(double *vector);

#endif
