/* The trilinear hexahedron with eight nodes, integrated at 2x2x2 Gauss points (Hughes, The Finite
 * Element Method, 3.5). */
#include "sparse/minife.h"

#include <string.h>

enum { GAUSS_POINTS = 8 };

#define GAUSS_PLACE 0.577350269

/* Set the shape functions at a point of the reference cube, [-1, 1] along each axis, and their
 * derivatives there. Corner c lies at +1 along axis a if bit a of c is set. */
static void shape_functions(const double at[AXES], double value[ELEMENT_NODES],
                            double derivative[AXES][ELEMENT_NODES])
{
    for (int corner = 0; corner < ELEMENT_NODES; corner++) {
        double factor[AXES];
        double sign[AXES];
        for (int axis = 0; axis < AXES; axis++) {
            sign[axis] = (corner >> axis & 1) == 1 ? 1.0 : -1.0;
            factor[axis] = 0.5 * (1.0 + sign[axis] * at[axis]);
        }
        value[corner] = factor[X] * factor[Y] * factor[Z];
        derivative[X][corner] = 0.5 * sign[X] * factor[Y] * factor[Z];
        derivative[Y][corner] = 0.5 * sign[Y] * factor[X] * factor[Z];
        derivative[Z][corner] = 0.5 * sign[Z] * factor[X] * factor[Y];
    }
}

/* Set the inverse of a matrix; return its determinant. */
static double invert(const double m[AXES][AXES], double inverse[AXES][AXES])
{
    for (int i = 0; i < AXES; i++) {
        for (int k = 0; k < AXES; k++) {
            const int r = (k + 1) % AXES;
            const int s = (k + 2) % AXES;
            const int c = (i + 1) % AXES;
            const int d = (i + 2) % AXES;
            inverse[i][k] = m[r][c] * m[s][d] - m[r][d] * m[s][c];
        }
    }
    const double determinant =
        m[X][X] * inverse[X][X] + m[X][Y] * inverse[Y][X] + m[X][Z] * inverse[Z][X];
    for (int i = 0; i < AXES; i++)
        for (int k = 0; k < AXES; k++)
            inverse[i][k] /= determinant;
    return determinant;
}

static void add_point(const double corner[ELEMENT_NODES][AXES], const double at[AXES],
                      double stiffness[ELEMENT_NODES][ELEMENT_NODES], double load[ELEMENT_NODES])
{
    double value[ELEMENT_NODES];
    double derivative[AXES][ELEMENT_NODES];
    double jacobian[AXES][AXES] = {{0.0}}; /* of the place by the reference coordinates */
    double inverse[AXES][AXES];
    double gradient[AXES][ELEMENT_NODES];
    shape_functions(at, value, derivative);
    for (int i = 0; i < AXES; i++)
        for (int k = 0; k < AXES; k++)
            for (int c = 0; c < ELEMENT_NODES; c++)
                jacobian[i][k] += corner[c][i] * derivative[k][c];
    const double volume = invert(jacobian, inverse);
    for (int i = 0; i < AXES; i++)
        for (int c = 0; c < ELEMENT_NODES; c++)
            gradient[i][c] = inverse[X][i] * derivative[X][c] + inverse[Y][i] * derivative[Y][c] +
                             inverse[Z][i] * derivative[Z][c];
    for (int r = 0; r < ELEMENT_NODES; r++) {
        for (int c = 0; c < ELEMENT_NODES; c++)
            stiffness[r][c] +=
                volume * (gradient[X][r] * gradient[X][c] + gradient[Y][r] * gradient[Y][c] +
                          gradient[Z][r] * gradient[Z][c]);
        load[r] += volume * value[r];
    }
}

void element_compute(const double corner[ELEMENT_NODES][AXES],
                     double stiffness[ELEMENT_NODES][ELEMENT_NODES], double load[ELEMENT_NODES])
{
    memset(stiffness, 0, ELEMENT_NODES * sizeof stiffness[0]);
    memset(load, 0, ELEMENT_NODES * sizeof load[0]);
    for (int point = 0; point < GAUSS_POINTS; point++) {
        double at[AXES];
        for (int axis = 0; axis < AXES; axis++)
            at[axis] = (point >> axis & 1) == 1 ? GAUSS_PLACE : -GAUSS_PLACE;
        add_point(corner, at, stiffness, load);
    }
}
