/* LU: what is computed at a point; all of it is inlined into loops over the lanes of a vector. */
#ifndef TARE_LU_POINT_H
#define TARE_LU_POINT_H

#include "npb/lu.h"
#include "npb/pseudo.h"

/* A loop with a call left in it cannot become one over vectors. */
#define LU_INLINE static inline __attribute__((always_inline))

/* The five components at a point, of u or of what is added to it. */
struct lu_five {
    double density;
    double x; /* momentum */
    double y;
    double z;
    double energy;
};

LU_INLINE struct lu_five lu_load(const double *at, size_t stride)
{
    return (struct lu_five){at[0], at[stride], at[2 * stride], at[3 * stride], at[4 * stride]};
}

LU_INLINE void lu_store(double *at, size_t stride, struct lu_five value)
{
    at[0] = value.density;
    at[stride] = value.x;
    at[2 * stride] = value.y;
    at[3 * stride] = value.z;
    at[4 * stride] = value.energy;
}

/* a + scale b */
LU_INLINE struct lu_five lu_add(struct lu_five a, double scale, struct lu_five b)
{
    return (struct lu_five){a.density + scale * b.density, a.x + scale * b.x, a.y + scale * b.y,
                            a.z + scale * b.z, a.energy + scale * b.energy};
}

LU_INLINE double lu_component(int axis, double x, double y, double z)
{
    return axis == LU_X ? x : axis == LU_Y ? y : z;
}

#endif
