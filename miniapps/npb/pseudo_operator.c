#include "npb/pseudo_operator.h"

#include <stdlib.h>

/* What is derived of the state at each point: velocities, what heat conduction levels, pressure. */
enum { VELOCITY, HEAT = VELOCITY + PSEUDO_AXES, PRESSURE, DERIVED };

/* A row of points, and its neighbours along one axis. */
struct terms {
    const double *state;
    const double *low; /* derived values of the row before, of this one and of the next */
    const double *own;
    const double *high;
    ptrdiff_t step; /* between states along the axis */
    ptrdiff_t row;  /* between components of state and derived values */
    int axis;
    int count;
    double first;  /* 1 / (2 h) */
    double second; /* 1 / h^2 */
};

static void add_mass(const struct terms *t, double *restrict sum)
{
    const double *density = t->state;
    const double *momentum = t->state + (1 + t->axis) * t->row;
    const ptrdiff_t step = t->step;
    const double diffusion = pseudo_diffusion[t->axis] * t->second;
    const double first = t->first;
#pragma omp simd
    for (int i = 0; i < t->count; i++)
        sum[i] += diffusion * (density[i + step] - 2.0 * density[i] + density[i - step]) -
                  first * (momentum[i + step] - momentum[i - step]);
}

static void add_momentum(const struct terms *t, int component, double *restrict sum)
{
    const double *momentum = t->state + (1 + component) * t->row;
    const double *low = t->low + (VELOCITY + component) * t->row;
    const double *own = t->own + (VELOCITY + component) * t->row;
    const double *high = t->high + (VELOCITY + component) * t->row;
    const double *along_low = t->low + (VELOCITY + t->axis) * t->row;
    const double *along_high = t->high + (VELOCITY + t->axis) * t->row;
    const ptrdiff_t step = t->step;
    const double diffusion = pseudo_diffusion[t->axis] * t->second;
    const double viscosity = (component == t->axis ? PSEUDO_CON43 : 1.0) * PSEUDO_C3C4 * t->second;
    const double first = t->first;
#pragma omp simd
    for (int i = 0; i < t->count; i++)
        sum[i] += diffusion * (momentum[i + step] - 2.0 * momentum[i] + momentum[i - step]) +
                  viscosity * (high[i] - 2.0 * own[i] + low[i]) -
                  first * (momentum[i + step] * along_high[i] - momentum[i - step] * along_low[i]);
}

static void add_pressure(const struct terms *t, double *restrict sum)
{
    const double *low = t->low + PRESSURE * t->row;
    const double *high = t->high + PRESSURE * t->row;
    const double first = t->first;
#pragma omp simd
    for (int i = 0; i < t->count; i++)
        sum[i] -= first * (high[i] - low[i]);
}

/* The flux is (c1 E - c2 K) v = (E + p) v. */
static void add_energy(const struct terms *t, double *restrict sum)
{
    const double *energy = t->state + (PSEUDO_COMPONENTS - 1) * t->row;
    const double *const derived[3] = {t->low, t->own, t->high};
    const double *velocity[3];
    const double *heat[3];
    for (int side = 0; side < 3; side++) {
        velocity[side] = derived[side] + (VELOCITY + t->axis) * t->row;
        heat[side] = derived[side] + HEAT * t->row;
    }
    const double *low = t->low + PRESSURE * t->row;
    const double *high = t->high + PRESSURE * t->row;
    const double *v0 = velocity[0], *v1 = velocity[1], *v2 = velocity[2];
    const double *h0 = heat[0], *h1 = heat[1], *h2 = heat[2];
    const ptrdiff_t step = t->step;
    const double diffusion = pseudo_diffusion[t->axis] * t->second;
    const double viscosity = PSEUDO_C3C4 * t->second;
    const double normal = PSEUDO_CON16 * viscosity;
    const double first = t->first;
#pragma omp simd
    for (int i = 0; i < t->count; i++)
        sum[i] +=
            diffusion * (energy[i + step] - 2.0 * energy[i] + energy[i - step]) +
            viscosity * (h2[i] - 2.0 * h1[i] + h0[i]) +
            normal * (v2[i] * v2[i] - 2.0 * v1[i] * v1[i] + v0[i] * v0[i]) -
            first * ((energy[i + step] + high[i]) * v2[i] - (energy[i - step] + low[i]) * v0[i]);
}

/* Along y and z the fourth difference has one set of factors for a row, along x one for a point. */
static void add_fourth(const struct terms *t, int component, const double factor[PSEUDO_STENCIL],
                       double *restrict sum)
{
    const double *state = t->state + component * t->row;
    const ptrdiff_t step = t->step;
    const double f0 = factor[0], f1 = factor[1], f2 = factor[2], f3 = factor[3], f4 = factor[4];
#pragma omp simd
    for (int i = 0; i < t->count; i++)
        sum[i] -=
            PSEUDO_DISSIPATION * (f0 * state[i - 2 * step] + f1 * state[i - step] + f2 * state[i] +
                                  f3 * state[i + step] + f4 * state[i + 2 * step]);
}

static void add_fourth_x(const struct terms *t, int component, const double *factor,
                         double *restrict sum)
{
    const double *state = t->state + component * t->row;
    const ptrdiff_t row = t->row;
#pragma omp simd
    for (int i = 0; i < t->count; i++)
        sum[i] -= PSEUDO_DISSIPATION *
                  (factor[i] * state[i - 2] + factor[row + i] * state[i - 1] +
                   factor[2 * row + i] * state[i] + factor[3 * row + i] * state[i + 1] +
                   factor[4 * row + i] * state[i + 2]);
}

static void add_terms(const struct terms *t, double *sum)
{
    add_mass(t, sum);
    for (int component = 0; component < PSEUDO_AXES; component++)
        add_momentum(t, component, sum + (1 + component) * t->row);
    add_pressure(t, sum + (1 + t->axis) * t->row);
    add_energy(t, sum + (PSEUDO_COMPONENTS - 1) * t->row);
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

static void finish_row(const struct cell *cell, const struct pseudo_operator *space, ptrdiff_t at,
                       double scale)
{
    const double *inside = space->inside;
    for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
        const double *sum = space->sum + m * cell->row;
        double *restrict change = cell->field[FIELD_CHANGE] + at + m * cell->row;
#pragma omp simd
        for (int i = 0; i < cell->count[X]; i++)
            change[i] = scale * inside[i] * sum[i];
    }
}

static void begin_row(const struct cell *cell, const struct pseudo_operator *space, ptrdiff_t at)
{
    for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
        const double *forcing = cell->field[FIELD_FORCING] + at + m * cell->row;
        double *restrict sum = space->sum + m * cell->row;
#pragma omp simd
        for (int i = 0; i < cell->count[X]; i++)
            sum[i] = forcing[i];
    }
}

static void apply_row(const struct multipartition *grid, const struct pseudo_operator *space,
                      const struct cell *cell, int j, int k, double *const plane[3], double scale)
{
    const double inverse_spacing = grid->points - 1;
    const ptrdiff_t at = cell_at(cell, 0, j, k);
    const double *own = derived_row(cell, plane[1], j);
    struct terms terms = {.state = cell->field[FIELD_STATE] + at,
                          .own = own,
                          .row = cell->row,
                          .count = cell->count[X],
                          .first = 0.5 * inverse_spacing,
                          .second = inverse_spacing * inverse_spacing};
    const double *const low[PSEUDO_AXES] = {own - 1, derived_row(cell, plane[1], j - 1),
                                            derived_row(cell, plane[0], j)};
    const double *const high[PSEUDO_AXES] = {own + 1, derived_row(cell, plane[1], j + 1),
                                             derived_row(cell, plane[2], j)};
    const int place[PSEUDO_AXES] = {0, j, k};
    begin_row(cell, space, at);
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        double factor[PSEUDO_STENCIL];
        terms.axis = axis;
        terms.step = cell->step[axis];
        terms.low = low[axis];
        terms.high = high[axis];
        add_terms(&terms, space->sum);
        pseudo_fourth_difference(cell->first[axis] + place[axis], grid->points, factor);
        for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
            double *sum = space->sum + m * cell->row;
            if (axis == X)
                add_fourth_x(&terms, m, space->fourth, sum);
            else
                add_fourth(&terms, m, factor, sum);
        }
    }
    finish_row(cell, space, at, scale);
}

static void prepare_rows(const struct multipartition *grid, const struct cell *cell,
                         const struct pseudo_operator *space)
{
    for (int i = 0; i < cell->count[X]; i++) {
        double factor[PSEUDO_STENCIL];
        pseudo_fourth_difference(cell->first[X] + i, grid->points, factor);
        for (int point = 0; point < PSEUDO_STENCIL; point++)
            space->fourth[point * cell->row + i] = factor[point];
        space->inside[i] = i >= cell->low[X] && i < cell->high[X] ? 1.0 : 0.0;
    }
}

void pseudo_operator_apply(const struct multipartition *grid, struct pseudo_operator *space,
                           double scale)
{
    for (int slab = 0; slab < grid->parts; slab++) {
        const struct cell *cell = &grid->cell[slab];
        prepare_rows(grid, cell, space);
        for (int k = cell->low[Z] - 1; k <= cell->high[Z]; k++) {
            derive_plane(cell, k, space->plane[2]);
            if (k > cell->low[Z])
                for (int j = cell->low[Y]; j < cell->high[Y]; j++)
                    apply_row(grid, space, cell, j, k - 1, space->plane, scale);
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
    return (3.0 * DERIVED * (largest + 2) + 11.0) * (double)longest_row(largest);
}

struct pseudo_operator pseudo_operator_make(const struct multipartition *grid)
{
    const size_t row = longest_row(grid->largest);
    struct pseudo_operator space = {.sum = app_allocate(PSEUDO_COMPONENTS * row, sizeof(double)),
                                    .inside = app_allocate(row, sizeof(double)),
                                    .fourth = app_allocate(PSEUDO_STENCIL * row, sizeof(double))};
    for (int plane = 0; plane < 3; plane++)
        space.plane[plane] =
            app_allocate(DERIVED * ((size_t)grid->largest + 2) * row, sizeof(double));
    return space;
}

void pseudo_operator_free(struct pseudo_operator *space)
{
    for (int plane = 0; plane < 3; plane++)
        free(space->plane[plane]);
    free(space->sum);
    free(space->inside);
    free(space->fourth);
}
