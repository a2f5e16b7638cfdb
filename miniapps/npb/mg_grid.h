/* The grids of MG: n^3 points at each level, n = 2^level, cut into boxes; every box has one layer
 * of its neighbours'.
 *
 * Point j of a coarse grid lies on point 2 j + 1 of the next finer one. A rank has those coarse
 * points that lie on fine points of its own; deep down some ranks have none along an axis, but
 * still hear from both neighbours, because the fine points between need them. */
#ifndef TARE_MG_GRID_H
#define TARE_MG_GRID_H

#include "apps/app.h"

enum { AXES = 3, X = 0, Y = 1, Z = 2 };

/* A partner of the exchange along one axis, as ranks of the run; -1 where there is none. */
struct mg_links {
    bool local;    /* one rank has the whole axis: its own far end is its neighbour */
    int from_low;  /* who has the layer below the own first one */
    int from_high; /* who has the layer above the own last one */
    int low_to[2]; /* who needs the own first layer: the next rank, and one without points between
                    */
    int high_to[2];
};

struct mg_level {
    int points; /* along each axis */
    int first[AXES];
    int count[AXES];
    bool takes_part; /* it has points or hears of its neighbours' */
    struct mg_links links[AXES];
    double *u;
    double *r;
};

struct mg_grid {
    int levels; /* numbered from 1 */
    int parts[AXES];
    int place[AXES];
    struct mg_level *level;
    double *v;        /* right-hand side on the finest level */
    double *outgoing; /* room for one layer */
    double *incoming;
};

struct mg_grid mg_grid_make(const struct run *run, int levels);
void mg_grid_free(struct mg_grid *grid);

/* Distance between neighbours along an axis in a level's arrays, and the number of their elements.
 */
size_t mg_stride(const struct mg_level *level, int axis);
size_t mg_elements(const struct mg_level *level);

/* Fill the layers around a level's own points from the neighbours, along x, then y, then z. */
void mg_exchange(struct run *run, struct mg_grid *grid, struct mg_level *level, double *values);

/* The same in two steps, where one rank has all of x and y: for those axes plane by plane, then
 * along z. */
bool mg_wraps(const struct mg_level *level);
void mg_wrap(const struct mg_level *level, double *values, int k);
void mg_exchange_z(struct run *run, struct mg_grid *grid, struct mg_level *level, double *values);

#endif
