/* LU: the space operator R(u) (RNR-94-007, 3.4), computed vector by vector of a plane's diagonals.
 */
#include "npb/lu_point.h"

enum { BACK2, BACK1, HERE, AHEAD1, AHEAD2 };

/* Factors that go with the distance of points. */
struct factors {
    double flux;    /* 1 / (2 h) */
    double viscous; /* c3 c4 / h^2 */
};

/* Velocities, energies of the mass and pressure at a point. */
struct flow {
    double x;
    double y;
    double z;
    double kinetic;
    double energy;
    double pressure;
};

void lu_dissipation(int n, int axis, int at, double weight[LU_STENCIL])
{
    static const double second[LU_STENCIL] = {0.0, 1.0, -2.0, 1.0, 0.0};
    double fourth[LU_STENCIL];
    pseudo_fourth_difference(at, n, fourth);
    const double scale = pseudo_diffusion[axis] * (n - 1.0) * (n - 1.0);
    for (int i = 0; i < LU_STENCIL; i++)
        weight[i] = scale * second[i] - PSEUDO_DISSIPATION * fourth[i];
}

/* Compute the flow of a plane, all that is stored of it. */
static void make_flow(struct lu *lu, int k)
{
    const size_t stride = lu->box.stride;
    const double *restrict u = lu->u + (size_t)k * lu->box.plane;
    double *restrict flow = lu->flow + (size_t)(k % LU_FLOW_PLANES) * LU_FLOW * stride;
#pragma omp simd
    for (size_t at = 0; at < stride; at++) {
        const double volume = 1.0 / u[at];
        const double x = u[stride + at] * volume;
        const double y = u[2 * stride + at] * volume;
        const double z = u[3 * stride + at] * volume;
        const double energy = u[4 * stride + at];
        const double kinetic = 0.5 * (x * x + y * y + z * z);
        flow[at] = x;
        flow[stride + at] = y;
        flow[2 * stride + at] = z;
        flow[3 * stride + at] = kinetic;
        flow[4 * stride + at] = energy * volume;
        flow[5 * stride + at] = PSEUDO_C2 * (energy - u[at] * kinetic);
    }
}

LU_INLINE struct flow load_flow(const double *at, size_t stride)
{
    return (struct flow){at[0],          at[stride],     at[2 * stride],
                         at[3 * stride], at[4 * stride], at[5 * stride]};
}

LU_INLINE double curvature(double back, double here, double ahead)
{
    return back - 2.0 * here + ahead;
}

/* Convection and viscosity along an axis. */
LU_INLINE struct lu_five flux(int axis, struct factors h, struct lu_five back, struct lu_five ahead,
                              struct flow from, struct flow here, struct flow to)
{
    const double back_v = lu_component(axis, from.x, from.y, from.z);
    const double here_v = lu_component(axis, here.x, here.y, here.z);
    const double ahead_v = lu_component(axis, to.x, to.y, to.z);
    const double push = h.flux * (to.pressure - from.pressure);
    const double normal = PSEUDO_CON43 * h.viscous;
    return (struct lu_five){
        .density = -h.flux * (lu_component(axis, ahead.x, ahead.y, ahead.z) -
                              lu_component(axis, back.x, back.y, back.z)),
        .x = (axis == LU_X ? normal : h.viscous) * curvature(from.x, here.x, to.x) -
             h.flux * (ahead.x * ahead_v - back.x * back_v) - (axis == LU_X ? push : 0.0),
        .y = (axis == LU_Y ? normal : h.viscous) * curvature(from.y, here.y, to.y) -
             h.flux * (ahead.y * ahead_v - back.y * back_v) - (axis == LU_Y ? push : 0.0),
        .z = (axis == LU_Z ? normal : h.viscous) * curvature(from.z, here.z, to.z) -
             h.flux * (ahead.z * ahead_v - back.z * back_v) - (axis == LU_Z ? push : 0.0),
        .energy = h.viscous * (PSEUDO_CONZ1 * curvature(from.kinetic, here.kinetic, to.kinetic) +
                               PSEUDO_CON16 *
                                   curvature(back_v * back_v, here_v * here_v, ahead_v * ahead_v) +
                               PSEUDO_C1C5 * curvature(from.energy, here.energy, to.energy)) -
                  h.flux * ((ahead.energy + to.pressure) * ahead_v -
                            (back.energy + from.pressure) * back_v),
    };
}

/* Where the neighbours of a vector are along an axis, relative to it. */
struct reach {
    ptrdiff_t u[LU_STENCIL];
    ptrdiff_t flow[LU_STENCIL]; /* BACK1 and AHEAD1 are used */
};

LU_INLINE struct lu_five smoothing(const double *u, size_t stride, const ptrdiff_t *reach,
                                   struct lu_five back, struct lu_five here, struct lu_five ahead,
                                   const double *weight, size_t size, struct lu_five sum)
{
    const struct lu_five back2 = lu_load(u + reach[BACK2], stride);
    const struct lu_five ahead2 = lu_load(u + reach[AHEAD2], stride);
    sum = lu_add(sum, weight[0], back2);
    sum = lu_add(sum, weight[size], back);
    sum = lu_add(sum, weight[2 * size], here);
    sum = lu_add(sum, weight[3 * size], ahead);
    return lu_add(sum, weight[4 * size], ahead2);
}

/* All terms along an axis, added to `sum`. */
LU_INLINE struct lu_five terms(int axis, struct factors h, const double *u, const double *flow,
                               size_t stride, const struct reach *reach, const double *weight,
                               size_t size, struct lu_five sum)
{
    const struct lu_five back = lu_load(u + reach->u[BACK1], stride);
    const struct lu_five ahead = lu_load(u + reach->u[AHEAD1], stride);
    const struct lu_five fluxes =
        flux(axis, h, back, ahead, load_flow(flow + reach->flow[BACK1], stride),
             load_flow(flow, stride), load_flow(flow + reach->flow[AHEAD1], stride));
    return smoothing(u, stride, reach->u, back, lu_load(u, stride), ahead, weight, size,
                     lu_add(sum, 1.0, fluxes));
}

/* A vector's place in all that it needs. */
struct vector {
    const double *u;
    const double *flow;
    const double *f;
    double *r;
    const double *weight[3];
    size_t size[3]; /* from one weight of a lane to the next */
};

LU_INLINE void residual_of(struct factors h, size_t stride, const struct reach reach[3],
                           struct vector at)
{
#pragma omp simd
    for (int lane = 0; lane < LU_LANES; lane++) {
        struct lu_five sum = lu_load(at.f + lane, stride);
        sum = terms(LU_X, h, at.u + lane, at.flow + lane, stride, &reach[LU_X],
                    at.weight[LU_X] + lane, at.size[LU_X], sum);
        sum = terms(LU_Y, h, at.u + lane, at.flow + lane, stride, &reach[LU_Y],
                    at.weight[LU_Y] + lane, at.size[LU_Y], sum);
        sum = terms(LU_Z, h, at.u + lane, at.flow + lane, stride, &reach[LU_Z],
                    at.weight[LU_Z] + lane, at.size[LU_Z], sum);
        lu_store(at.r + lane, stride, sum);
    }
}

/* Find the neighbours within the plane of what lies on diagonal s. */
static void reach_in_plane(const struct lu_box *box, int s, struct reach reach[3])
{
    const int *row = box->row + s + 2 * LU_HALO;
    for (int i = 0; i < LU_STENCIL; i++) {
        const int step = i - HERE;
        const ptrdiff_t to = row[step] - row[0];
        reach[LU_X].u[i] = reach[LU_X].flow[i] = to + step;
        reach[LU_Y].u[i] = reach[LU_Y].flow[i] = to;
    }
}

/* Find the neighbours in the planes around k, and their weights. */
static void reach_planes(const struct lu_box *box, int k, struct reach *reach, double *weight)
{
    double of_plane[LU_STENCIL];
    lu_dissipation(box->n, LU_Z, k, of_plane);
    for (int i = 0; i < LU_STENCIL; i++) {
        const int to = k + i - HERE;
        const bool exists = to >= 0 && to < box->n; /* one that does not has no weight */
        reach->u[i] = exists ? (i - HERE) * (ptrdiff_t)box->plane : 0;
        const int turn = (to + LU_FLOW_PLANES) % LU_FLOW_PLANES - k % LU_FLOW_PLANES;
        reach->flow[i] = turn * (ptrdiff_t)(LU_FLOW * box->stride);
        for (int lane = 0; lane < LU_LANES; lane++)
            weight[i * LU_LANES + lane] = of_plane[i];
    }
}

static void residual_of_plane(struct lu *lu, int k)
{
    const struct lu_box *box = &lu->box;
    const double per_length = box->n - 1.0;
    const struct factors h = {0.5 * per_length, PSEUDO_C3C4 * per_length * per_length};
    const double *flow = lu->flow + (size_t)(k % LU_FLOW_PLANES) * LU_FLOW * box->stride;
    double weight[LU_STENCIL * LU_LANES];
    struct reach reach[3];
    reach_planes(box, k, &reach[LU_Z], weight);
    for (int s = 0; s <= box->own[LU_X] + box->own[LU_Y] - 2; s++) {
        int lane = 0;
        int end = 0;
        lu_lanes(box, s, &lane, &end);
        reach_in_plane(box, s, reach);
        for (; lane < end; lane += LU_LANES) {
            const size_t here = (size_t)(box->row[s + 2 * LU_HALO] + lane);
            const size_t in_field = (size_t)k * box->plane + here;
            const struct vector at = {
                .u = lu->u + in_field,
                .flow = flow + here,
                .f = lu->f + in_field,
                .r = lu->r + in_field,
                .weight = {lu->dissipation[LU_X] + lane,
                           lu->dissipation[LU_Y] + lu_along_y(box, s) + lane, weight},
                .size = {lu->table[LU_X], lu->table[LU_Y], LU_LANES},
            };
            residual_of(h, box->stride, reach, at);
        }
    }
}

void lu_residual(struct lu *lu)
{
    const int n = lu->box.n;
    make_flow(lu, 0);
    make_flow(lu, 1);
    for (int k = 1; k < n - 1; k++) {
        make_flow(lu, k + 1);
        residual_of_plane(lu, k);
    }
}
