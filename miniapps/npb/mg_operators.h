/* The operators of MG, a plane at a time, so that what follows one another can share the caches. */
#ifndef TARE_MG_OPERATORS_H
#define TARE_MG_OPERATORS_H

#include "npb/mg_grid.h"

/* Room for the sums over a row's neighbours, which serve three points each. */
struct mg_rows {
    double *faces;
    double *edges;
};

struct mg_rows mg_rows_make(const struct mg_grid *grid);
void mg_rows_free(struct mg_rows *rows);

/* r = v - A u in plane k; v may be r. */
void mg_residual(const struct mg_level *level, const struct mg_rows *rows, const double *v, int k);

/* u += S r in plane k, with the smoother's coefficients for centre, face and edge. */
void mg_smooth(const struct mg_level *level, const struct mg_rows *rows, const double c[AXES],
               int k);

/* The residual of the coarser level's plane k is the finer one's, fully weighted. */
void mg_restrict(const struct mg_level *fine, const struct mg_level *coarse,
                 const struct mg_rows *rows, int k);

/* u of the finer level's plane k += trilinear interpolation of the coarser one's, in the layers
 * around it as well: the coarse layers hold all that they need, so nothing is exchanged. */
void mg_interpolate(const struct mg_level *coarse, const struct mg_level *fine,
                    const struct mg_rows *rows, int k);

#endif
