#include "npb/pseudo_operator.h"

#include <stdlib.h>

enum { AXES = PSEUDO_AXES };

/* What is derived of the state at each point: velocities, what heat conduction levels, pressure. */
enum { VELOCITY, HEAT = VELOCITY + AXES, PRESSURE, DERIVED };

/* A row of points and the rows around it. */
struct row_terms {
    const double *state;      /* the row's densities; the other components are `row` apart */
    const double *own;        /* derived values of the row, as far apart */
    const double *low[AXES];  /* of the rows before, along y and z */
    const double *high[AXES]; /* of the next rows */
    ptrdiff_t row;
    ptrdiff_t y; /* to the next row's state, along y and along z */
    ptrdiff_t z;
    int count;
    double convection;           /* 1 / (2 h) */
    double viscosity;            /* c3 c4 / h^2 */
    const double *dissipation_x; /* factors of both orders, PSEUDO_STENCIL rows of them */
    double dissipation_y[PSEUDO_STENCIL];
    double dissipation_z[PSEUDO_STENCIL];
    const double *scale; /* 0 on the cube's faces */
};

/* Dissipation of both orders along all axes, of one component. */
LANE_FUNCTION double dissipation(const struct row_terms *t, const double *u, int i)
{
    const double *x = t->dissipation_x + i;
    const double *y = t->dissipation_y;
    const double *z = t->dissipation_z;
    const ptrdiff_t row = t->row;
    const double *at = u + i;
    return x[0] * at[-2] + x[row] * at[-1] + x[2 * row] * at[0] + x[3 * row] * at[1] +
           x[4 * row] * at[2] + y[0] * at[-2 * t->y] + y[1] * at[-t->y] + y[3] * at[t->y] +
           y[4] * at[2 * t->y] + (y[2] + z[2]) * at[0] + z[0] * at[-2 * t->z] + z[1] * at[-t->z] +
           z[3] * at[t->z] + z[4] * at[2 * t->z];
}

static void mass_row(const struct row_terms *terms, const double *forcing, double *restrict change)
{
    const struct row_terms t = *terms;
    const double *density = t.state;
    const double *x = t.state + t.row;
    const double *y = x + t.row;
    const double *z = y + t.row;
#pragma omp simd
    for (int i = 0; i < t.count; i++)
        change[i] = t.scale[i] * (forcing[i] + dissipation(&t, density, i) -
                                  t.convection * (x[i + 1] - x[i - 1] + y[i + t.y] - y[i - t.y] +
                                                  z[i + t.z] - z[i - t.z]));
}

/* The momentum along `axis`; it differs from the others by the pressure and by the factor of its
 * own axis' viscosity. */
static void momentum_row(const struct row_terms *terms, int axis, const double *forcing,
                         double *restrict change)
{
    const struct row_terms t = *terms;
    const double *u = t.state + (1 + axis) * t.row;
    const double *v = t.own + (VELOCITY + axis) * t.row;
    const double *y_low = t.low[Y] + (VELOCITY + axis) * t.row;
    const double *y_high = t.high[Y] + (VELOCITY + axis) * t.row;
    const double *z_low = t.low[Z] + (VELOCITY + axis) * t.row;
    const double *z_high = t.high[Z] + (VELOCITY + axis) * t.row;
    const double *along_x = t.own + VELOCITY * t.row;
    const double *along_y[2] = {t.low[Y] + (VELOCITY + Y) * t.row,
                                t.high[Y] + (VELOCITY + Y) * t.row};
    const double *along_z[2] = {t.low[Z] + (VELOCITY + Z) * t.row,
                                t.high[Z] + (VELOCITY + Z) * t.row};
    const double *pressure[2] = {t.low[axis] + PRESSURE * t.row, t.high[axis] + PRESSURE * t.row};
    const double *y0 = along_y[0], *y1 = along_y[1], *z0 = along_z[0], *z1 = along_z[1];
    const double *p0 = pressure[0], *p1 = pressure[1];
    double factor[AXES] = {t.viscosity, t.viscosity, t.viscosity};
    factor[axis] *= PSEUDO_CON43;
    const double fx = factor[X], fy = factor[Y], fz = factor[Z];
    const double centre = 2.0 * (fx + fy + fz);
#pragma omp simd
    for (int i = 0; i < t.count; i++) {
        const double flux = u[i + 1] * along_x[i + 1] - u[i - 1] * along_x[i - 1] +
                            u[i + t.y] * y1[i] - u[i - t.y] * y0[i] + u[i + t.z] * z1[i] -
                            u[i - t.z] * z0[i] + p1[i] - p0[i];
        const double stress = fx * (v[i + 1] + v[i - 1]) + fy * (y_high[i] + y_low[i]) +
                              fz * (z_high[i] + z_low[i]) - centre * v[i];
        change[i] =
            t.scale[i] * (forcing[i] + dissipation(&t, u, i) - t.convection * flux + stress);
    }
}

/* The flux is (c1 E - c2 K) v = (E + p) v. */
static void energy_row(const struct row_terms *terms, const double *forcing,
                       double *restrict change)
{
    const struct row_terms t = *terms;
    const double *u = t.state + (PSEUDO_COMPONENTS - 1) * t.row;
    const double *yl = t.low[Y], *yh = t.high[Y], *zl = t.low[Z], *zh = t.high[Z];
    const ptrdiff_t heat = HEAT * t.row;
    const ptrdiff_t pressure = PRESSURE * t.row;
    const double *vx = t.own, *vy = t.own + Y * t.row, *vz = t.own + Z * t.row;
    const double *vyl = yl + Y * t.row, *vyh = yh + Y * t.row;
    const double *vzl = zl + Z * t.row, *vzh = zh + Z * t.row;
    const double *h = t.own + heat, *hyl = yl + heat, *hyh = yh + heat, *hzl = zl + heat,
                 *hzh = zh + heat;
    const double *p = t.own + pressure, *pyl = yl + pressure, *pyh = yh + pressure,
                 *pzl = zl + pressure, *pzh = zh + pressure;
#pragma omp simd
    for (int i = 0; i < t.count; i++) {
        const double flux = (u[i + 1] + p[i + 1]) * vx[i + 1] - (u[i - 1] + p[i - 1]) * vx[i - 1] +
                            (u[i + t.y] + pyh[i]) * vyh[i] - (u[i - t.y] + pyl[i]) * vyl[i] +
                            (u[i + t.z] + pzh[i]) * vzh[i] - (u[i - t.z] + pzl[i]) * vzl[i];
        const double levelled =
            h[i + 1] + h[i - 1] + hyh[i] + hyl[i] + hzh[i] + hzl[i] - 6.0 * h[i];
        const double squares = vx[i + 1] * vx[i + 1] + vx[i - 1] * vx[i - 1] + vyh[i] * vyh[i] +
                               vyl[i] * vyl[i] + vzh[i] * vzh[i] + vzl[i] * vzl[i] -
                               2.0 * (vx[i] * vx[i] + vy[i] * vy[i] + vz[i] * vz[i]);
        change[i] = t.scale[i] * (forcing[i] + dissipation(&t, u, i) - t.convection * flux +
                                  t.viscosity * (levelled + PSEUDO_CON16 * squares));
    }
}

/* --- planes and rows
 * -------------------------------------------------------------------------------------------
 */

static void derive_row(const double *state, ptrdiff_t row, int count, double *restrict derived)
{
#pragma omp simd
    for (int i = -1; i <= count; i++) {
        const double inverse = 1.0 / state[i];
        const double x = state[row + i] * inverse;
        const double y = state[2 * row + i] * inverse;
        const double z = state[3 * row + i] * inverse;
        const double kinetic = 0.5 * (x * x + y * y + z * z);
        const double energy = state[4 * row + i] * inverse;
        derived[i] = x;
        derived[row + i] = y;
        derived[2 * row + i] = z;
        derived[HEAT * row + i] = PSEUDO_CONZ1 * kinetic + PSEUDO_C1C5 * energy;
        derived[PRESSURE * row + i] = PSEUDO_C2 * (state[4 * row + i] - state[i] * kinetic);
    }
}

/* Return where the derived values of a row begin in a plane; rows go from -1 to the cell's count.
 */
static double *derived_row(const struct cell *cell, double *plane, int j)
{
    return plane + (j + 1) * DERIVED * cell->row + LANES;
}

static void derive_plane(const struct cell *cell, int k, double *plane)
{
    for (int j = -1; j <= cell->count[Y]; j++)
        derive_row(cell->field[FIELD_STATE] + cell_at(cell, 0, j, k), cell->row, cell->count[X],
                   derived_row(cell, plane, j));
}

/* Give the factors of both orders of dissipation at a point of an axis. */
static void dissipation_factors(int index, int points, int axis, double factor[PSEUDO_STENCIL])
{
    const double inverse_spacing = points - 1;
    const double second = pseudo_diffusion[axis] * inverse_spacing * inverse_spacing;
    pseudo_fourth_difference(index, points, factor);
    for (int point = 0; point < PSEUDO_STENCIL; point++)
        factor[point] *= -PSEUDO_DISSIPATION;
    factor[1] += second;
    factor[2] -= 2.0 * second;
    factor[3] += second;
}

static void apply_row(const struct multipartition *grid, const struct pseudo_operator *space,
                      const struct cell *cell, int j, int k)
{
    const double inverse_spacing = grid->points - 1;
    const ptrdiff_t at = cell_at(cell, 0, j, k);
    const double *own = derived_row(cell, space->plane[1], j);
    const double *forcing = cell->field[FIELD_FORCING] + at;
    double *change = cell->field[FIELD_CHANGE] + at;
    struct row_terms terms = {
        .state = cell->field[FIELD_STATE] + at,
        .own = own,
        .low = {own - 1, derived_row(cell, space->plane[1], j - 1),
                derived_row(cell, space->plane[0], j)},
        .high = {own + 1, derived_row(cell, space->plane[1], j + 1),
                 derived_row(cell, space->plane[2], j)},
        .row = cell->row,
        .y = cell->step[Y],
        .z = cell->step[Z],
        .count = cell->count[X],
        .convection = 0.5 * inverse_spacing,
        .viscosity = PSEUDO_C3C4 * inverse_spacing * inverse_spacing,
        .dissipation_x = space->dissipation,
        .scale = space->scale,
    };
    dissipation_factors(cell->first[Y] + j, grid->points, Y, terms.dissipation_y);
    dissipation_factors(cell->first[Z] + k, grid->points, Z, terms.dissipation_z);
    mass_row(&terms, forcing, change);
    for (int axis = 0; axis < AXES; axis++)
        momentum_row(&terms, axis, forcing + (1 + axis) * cell->row,
                     change + (1 + axis) * cell->row);
    energy_row(&terms, forcing + (PSEUDO_COMPONENTS - 1) * cell->row,
               change + (PSEUDO_COMPONENTS - 1) * cell->row);
}

static void prepare_rows(const struct multipartition *grid, const struct cell *cell,
                         const struct pseudo_operator *space, double scale)
{
    for (int i = 0; i < cell->count[X]; i++) {
        double factor[PSEUDO_STENCIL];
        dissipation_factors(cell->first[X] + i, grid->points, X, factor);
        for (int point = 0; point < PSEUDO_STENCIL; point++)
            space->dissipation[point * cell->row + i] = factor[point];
        space->scale[i] = i >= cell->low[X] && i < cell->high[X] ? scale : 0.0;
    }
}

void pseudo_operator_apply(const struct multipartition *grid, struct pseudo_operator *space,
                           double scale)
{
    for (int slab = 0; slab < grid->parts; slab++) {
        const struct cell *cell = &grid->cell[slab];
        prepare_rows(grid, cell, space, scale);
        for (int k = cell->low[Z] - 1; k <= cell->high[Z]; k++) {
            derive_plane(cell, k, space->plane[2]);
            if (k > cell->low[Z])
                for (int j = cell->low[Y]; j < cell->high[Y]; j++)
                    apply_row(grid, space, cell, j, k - 1);
            double *oldest = space->plane[0];
            space->plane[0] = space->plane[1];
            space->plane[1] = space->plane[2];
            space->plane[2] = oldest;
        }
    }
}

/* --- making it
 * -------------------------------------------------------------------------------------------------
 */

/* A row of the largest cell, as the cells lay it out; of a cell whose rows are shorter no more is
 * used. */
static size_t longest_row(int largest)
{
    return (size_t)((largest + HALO_LAYERS + LANES - 1) / LANES + 1) * LANES;
}

double pseudo_operator_doubles(int points, int parts)
{
    const int largest = (points + parts - 1) / parts;
    return (3.0 * DERIVED * (largest + 2) + 6.0) * (double)longest_row(largest);
}

struct pseudo_operator pseudo_operator_make(const struct multipartition *grid)
{
    const size_t row = longest_row(grid->largest);
    struct pseudo_operator space = {.scale = app_allocate(row, sizeof(double)),
                                    .dissipation =
                                        app_allocate(PSEUDO_STENCIL * row, sizeof(double))};
    for (int plane = 0; plane < 3; plane++)
        space.plane[plane] =
            app_allocate(DERIVED * ((size_t)grid->largest + 2) * row, sizeof(double));
    return space;
}

void pseudo_operator_free(struct pseudo_operator *space)
{
    for (int plane = 0; plane < 3; plane++)
        free(space->plane[plane]);
    free(space->scale);
    free(space->dissipation);
}
