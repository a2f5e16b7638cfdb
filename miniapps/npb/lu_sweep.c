/* LU: the sweeps of SSOR (RNR-94-007, 4.5; Yoon and Jameson, AIAA 87-0600).
 *
 * The blocks Lo, Up and D of the operator are never stored. D is lower triangular and is solved
 * from the state at the point; Lo and Up are applied to a point's correction as soon as it is
 * known, and the products are laid out for the neighbours on the next diagonal and in the next
 * plane. */
#include "npb/lu_point.h"

enum { TAG_UP = 2, TAG_DOWN = 3 };

#define OMEGA 1.2

/* Numbers that are the same everywhere. */
struct factors {
    double dt;
    double flux;      /* of the flux's derivative in omega Lo (negative) and omega Up */
    double viscous;   /* of the viscous one, likewise: - omega dt / h^2 */
    double spread[3]; /* of u itself, by axis: `viscous` times its diffusion */
    double diagonal;  /* of D without viscosity */
    double shear;     /* of viscosity in D: for momentum and for energy */
    double conduction;
    double relaxation; /* of what is added to u */
};

/* What the blocks at a point are made of. */
struct point {
    double volume; /* of the mass: 1 / density */
    double x;      /* velocity */
    double y;
    double z;
    double kinetic; /* energies of the mass */
    double energy;
};

static struct factors make_factors(const struct lu *lu, bool upper)
{
    const double per_length = lu->box.n - 1.0;
    const double over_square = lu->dt * per_length * per_length;
    struct factors f = {.dt = lu->dt, .viscous = -OMEGA * over_square};
    double diffusion = 0.0;
    for (int axis = LU_X; axis <= LU_Z; axis++) {
        f.spread[axis] = f.viscous * pseudo_diffusion[axis];
        diffusion += pseudo_diffusion[axis];
    }
    f.flux = (upper ? 0.5 : -0.5) * OMEGA * lu->dt * per_length;
    f.diagonal = 1.0 + 2.0 * over_square * diffusion;
    f.shear = 2.0 * over_square * PSEUDO_C3C4 * (2.0 + PSEUDO_CON43);
    f.conduction = 2.0 * over_square * 3.0 * PSEUDO_C1C5 * PSEUDO_C3C4;
    f.relaxation = 1.0 / (OMEGA * (2.0 - OMEGA));
    return f;
}

LU_INLINE struct point point_of(struct lu_five u)
{
    const double volume = 1.0 / u.density;
    const double x = u.x * volume;
    const double y = u.y * volume;
    const double z = u.z * volume;
    return (struct point){volume, x, y, z, 0.5 * (x * x + y * y + z * z), u.energy * volume};
}

/* Return the change of momentum that is not one of mass alone, as work: v . (dm - v drho). */
LU_INLINE double work_of(struct point p, struct lu_five v)
{
    return p.x * (v.x - p.x * v.density) + p.y * (v.y - p.y * v.density) +
           p.z * (v.z - p.z * v.density);
}

/* Return D^-1 b: density first, from it momentum, from both energy. */
LU_INLINE struct lu_five solve(struct factors f, struct point p, struct lu_five b)
{
    const double shear = f.shear * p.volume;
    const double conduction = f.conduction * p.volume;
    const double over_momentum = 1.0 / (f.diagonal + shear);
    struct lu_five v = {.density = b.density * (1.0 / f.diagonal)};
    v.x = (b.x + shear * p.x * v.density) * over_momentum;
    v.y = (b.y + shear * p.y * v.density) * over_momentum;
    v.z = (b.z + shear * p.z * v.density) * over_momentum;
    v.energy =
        (b.energy + conduction * p.energy * v.density - (shear - conduction) * work_of(p, v)) /
        (f.diagonal + conduction);
    return v;
}

/* What the products along all axes have in common. */
struct change {
    double x; /* of momentum, beyond that of mass: dm - v drho */
    double y;
    double z;
    double pressure;
    double enthalpy; /* of the mass, c1 e - c2 K / rho */
    double heat;     /* the viscous terms of energy but the part of the axis */
};

LU_INLINE struct change change_of(struct point p, struct lu_five v)
{
    const double work = work_of(p, v);
    return (struct change){
        .x = v.x - p.x * v.density,
        .y = v.y - p.y * v.density,
        .z = v.z - p.z * v.density,
        .pressure = PSEUDO_C2 * (v.energy - work - p.kinetic * v.density),
        .enthalpy = PSEUDO_C1 * p.energy - PSEUDO_C2 * p.kinetic,
        .heat = PSEUDO_C3C4 * p.volume *
                ((1.0 - PSEUDO_C1C5) * work + PSEUDO_C1C5 * (v.energy - p.energy * v.density)),
    };
}

/* Return omega Lo v or omega Up v for an axis: the Jacobians of flux and viscosity applied to v. */
LU_INLINE struct lu_five product(int axis, struct factors f, struct point p, struct lu_five v,
                                 struct change d)
{
    const double along = lu_component(axis, p.x, p.y, p.z);
    const double flow = lu_component(axis, v.x, v.y, v.z);
    const double beyond = lu_component(axis, d.x, d.y, d.z);
    const double viscous = f.viscous * PSEUDO_C3C4 * p.volume;
    const double normal = PSEUDO_CON43 * viscous;
    const double spread = f.spread[axis];
    return (struct lu_five){
        .density = f.flux * flow + spread * v.density,
        .x = f.flux * (along * d.x + p.x * flow + (axis == LU_X ? d.pressure : 0.0)) +
             (axis == LU_X ? normal : viscous) * d.x + spread * v.x,
        .y = f.flux * (along * d.y + p.y * flow + (axis == LU_Y ? d.pressure : 0.0)) +
             (axis == LU_Y ? normal : viscous) * d.y + spread * v.y,
        .z = f.flux * (along * d.z + p.z * flow + (axis == LU_Z ? d.pressure : 0.0)) +
             (axis == LU_Z ? normal : viscous) * d.z + spread * v.z,
        .energy = f.flux * (along * (v.energy + d.pressure) + d.enthalpy * beyond) +
                  f.viscous * d.heat + (normal - viscous) * along * beyond + spread * v.energy,
    };
}

/* A vector's place in all that it needs. */
struct vector {
    double *u;
    double *r;
    const double *from_x; /* products of the diagonal before */
    const double *from_y;
    double *to_x; /* products for the next one */
    double *to_y;
    double *along_z; /* of the plane before, then for the next one */
    const double *inside_x;
    const double *inside_y;
};

LU_INLINE void sweep_vector(struct factors f, size_t stride, size_t line, struct vector at,
                            const bool upper)
{
#pragma omp simd
    for (int lane = 0; lane < LU_LANES; lane++) {
        const struct lu_five u = lu_load(at.u + lane, stride);
        const struct lu_five r = lu_load(at.r + lane, stride);
        struct lu_five sum = lu_load(at.along_z + lane, stride);
        sum = lu_add(sum, 1.0, lu_load(at.from_x + lane, line));
        sum = lu_add(sum, 1.0, lu_load(at.from_y + lane, line));
        const struct point p = point_of(u);
        struct lu_five v;
        if (upper) {
            v = lu_add(r, -1.0, solve(f, p, sum));
            const double scale = f.relaxation * at.inside_x[lane] * at.inside_y[lane];
            lu_store(at.u + lane, stride, lu_add(u, scale, v));
        } else {
            const struct lu_five none = {0.0, 0.0, 0.0, 0.0, 0.0};
            v = solve(f, p, lu_add(lu_add(none, -1.0, sum), f.dt, r));
        }
        const struct change d = change_of(p, v);
        lu_store(at.r + lane, stride, v);
        lu_store(at.to_x + lane, line, product(LU_X, f, p, v, d));
        lu_store(at.to_y + lane, line, product(LU_Y, f, p, v, d));
        lu_store(at.along_z + lane, stride, product(LU_Z, f, p, v, d));
    }
}

/* Put the products of the neighbours' points where the diagonal s begins or ends beside them. */
static void enter_edges(struct lu *lu, int s, bool upper)
{
    const struct lu_box *box = &lu->box;
    const int own_x = box->own[LU_X];
    const int own_y = box->own[LU_Y];
    const int j = upper ? s - (own_x - 1) : s; /* of the point on the edge along y */
    const int i = upper ? s - (own_y - 1) : s;
    const int side = upper ? LU_ABOVE : LU_BELOW;
    const size_t before = (size_t)(upper ? LU_LANES + own_x : LU_LANES - 1);
    for (size_t c = 0; c < LU_COMPONENTS; c++) {
        if (j >= 0 && j < own_y)
            lu->along_x[0][c * lu->line + before] =
                lu->edge[LU_X][side][c * (size_t)own_y + (size_t)j];
        if (i >= 0 && i < own_x)
            lu->along_y[0][c * lu->line + (size_t)(LU_LANES + i)] =
                lu->edge[LU_Y][side][c * (size_t)own_x + (size_t)i];
    }
}

static void swap(double *pair[2])
{
    double *const first = pair[0];
    pair[0] = pair[1];
    pair[1] = first;
}

LU_INLINE void sweep_diagonal(struct lu *lu, struct factors f, int k, int s, const bool upper)
{
    const struct lu_box *box = &lu->box;
    int lane = 0;
    int end = 0;
    lu_lanes(box, s, &lane, &end);
    for (; lane < end; lane += LU_LANES) {
        const size_t here = (size_t)(box->row[s + 2 * LU_HALO] + lane);
        const size_t in_field = (size_t)k * box->plane + here;
        const struct vector at = {
            .u = lu->u + in_field,
            .r = lu->r + in_field,
            .from_x = lu->along_x[0] + lane + (upper ? 1 : -1),
            .from_y = lu->along_y[0] + lane,
            .to_x = lu->along_x[1] + lane,
            .to_y = lu->along_y[1] + lane,
            .along_z = lu->along_z + here,
            .inside_x = lu->inside[LU_X] + lane,
            .inside_y = lu->inside[LU_Y] + lu_along_y(box, s) + lane,
        };
        sweep_vector(f, box->stride, lu->line, at, upper);
    }
    swap(lu->along_x);
    swap(lu->along_y);
}

static void sweep_plane(struct lu *lu, struct factors f, int k, bool upper)
{
    const int diagonals = lu->box.own[LU_X] + lu->box.own[LU_Y] - 1;
    for (int count = 0; count < diagonals; count++) {
        const int s = upper ? diagonals - 1 - count : count;
        enter_edges(lu, s, upper);
        if (upper)
            sweep_diagonal(lu, f, k, s, true);
        else
            sweep_diagonal(lu, f, k, s, false);
    }
}

/* --- between ranks
 * ---------------------------------------------------------------------------------------------------
 */

/* Receive the corrections of a neighbour's points along the edge, and turn them into products. */
static void receive_edge(struct run *run, struct lu *lu, struct factors f, int axis, int side,
                         int k)
{
    const struct lu_box *box = &lu->box;
    const int from = box->neighbour[axis][side];
    if (from < 0)
        return;
    const size_t length = (size_t)box->own[1 - axis];
    const int tag = side == LU_BELOW ? TAG_UP : TAG_DOWN;
    message_recv(run, lu->message, LU_COMPONENTS * (int)length, MPI_DOUBLE, from, tag);
    int first = 0;
    int end = 0;
    lu_edge(box, axis, &first, &end);
    const size_t width = (size_t)(end - first);
    const double *u = lu->halo[axis][side] + (size_t)k * LU_HALO * LU_COMPONENTS * width - first;
    double *edge = lu->edge[axis][side];
#pragma omp simd
    for (size_t i = 0; i < length; i++) {
        const struct point p = point_of(lu_load(u + i, width));
        const struct lu_five v = lu_load(lu->message + i, length);
        const struct change d = change_of(p, v);
        lu_store(edge + i, length,
                 axis == LU_X ? product(LU_X, f, p, v, d) : product(LU_Y, f, p, v, d));
    }
}

/* Send the corrections of the own points next to a neighbour. */
static void send_edge(struct run *run, struct lu *lu, int axis, int side, int k)
{
    const struct lu_box *box = &lu->box;
    const int to = box->neighbour[axis][side];
    if (to < 0)
        return;
    const int length = box->own[1 - axis];
    const int across = side == LU_BELOW ? 0 : box->own[axis] - 1;
    const double *r = lu->r + (size_t)k * box->plane;
    for (int along = 0; along < length; along++) {
        const size_t at = axis == LU_X ? lu_at(box, across, along) : lu_at(box, along, across);
        for (size_t c = 0; c < LU_COMPONENTS; c++)
            lu->message[c * (size_t)length + (size_t)along] = r[c * box->stride + at];
    }
    message_send(run, lu->message, LU_COMPONENTS * length, MPI_DOUBLE, to,
                 side == LU_ABOVE ? TAG_UP : TAG_DOWN);
}

/* The products of the boundary, where nothing changes, are 0. */
static void clear_plane(struct lu *lu)
{
    for (size_t i = 0; i < lu->box.plane; i++)
        lu->along_z[i] = 0.0;
}

static void sweep(struct run *run, struct lu *lu, bool upper)
{
    const struct factors f = make_factors(lu, upper);
    const int n = lu->box.n;
    const int from = upper ? LU_ABOVE : LU_BELOW;
    const int to = 1 - from;
    clear_plane(lu);
    for (int count = 1; count < n - 1; count++) {
        const int k = upper ? n - 1 - count : count;
        receive_edge(run, lu, f, LU_X, from, k);
        receive_edge(run, lu, f, LU_Y, from, k);
        sweep_plane(lu, f, k, upper);
        send_edge(run, lu, LU_X, to, k);
        send_edge(run, lu, LU_Y, to, k);
    }
}

void lu_sweep_lower(struct run *run, struct lu *lu)
{
    sweep(run, lu, false);
}

void lu_sweep_upper(struct run *run, struct lu *lu)
{
    sweep(run, lu, true);
}
