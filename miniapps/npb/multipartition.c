#include "npb/multipartition.h"

#include <stdlib.h>

enum { UP, DOWN, WAYS };
enum { TAG_HALO = 10 };

int multipartition_parts(int ranks)
{
    int parts = 1;
    while ((parts + 1) * (parts + 1) <= ranks)
        parts++;
    return parts;
}

static ptrdiff_t whole_lanes(ptrdiff_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

/* Rows begin LANES before the first point, so that it and the lanes after it begin cache lines. */
static ptrdiff_t row_of(int count)
{
    return LANES + whole_lanes(count + HALO_LAYERS);
}

/* An odd number of cache lines: neighbours along any axis then never share few sets of a cache. */
static ptrdiff_t odd_lines(ptrdiff_t doubles)
{
    return ((doubles / LANES) | 1) * LANES;
}

static ptrdiff_t field_doubles(const struct cell *cell)
{
    return odd_lines(cell->step[Z] * (cell->count[Z] + 2 * HALO_LAYERS));
}

double multipartition_doubles(int points, int parts)
{
    const int largest = (points + parts - 1) / parts;
    const double around = largest + 2.0 * HALO_LAYERS;
    const double fields = FIELDS * PSEUDO_COMPONENTS * (double)(row_of(largest) + 1) * around;
    const double halos = parts == 1 ? 0.0 : 120.0 * largest * largest;
    return parts * (fields * around + halos);
}

/* Give density and energy 1 to every place of the state. */
static void fill_outside(const struct cell *cell)
{
    for (int k = -HALO_LAYERS; k < cell->count[Z] + HALO_LAYERS; k++) {
        for (int j = -HALO_LAYERS; j < cell->count[Y] + HALO_LAYERS; j++) {
            double *density = cell->field[FIELD_STATE] + cell_at(cell, -LANES, j, k);
            double *energy = density + (PSEUDO_COMPONENTS - 1) * cell->row;
            for (ptrdiff_t i = 0; i < cell->row; i++)
                density[i] = energy[i] = 1.0;
        }
    }
}

static void allocate_fields(struct cell *cell)
{
    cell->row = row_of(cell->count[X]);
    cell->step[X] = 1;
    cell->step[Y] = odd_lines(PSEUDO_COMPONENTS * cell->row);
    cell->step[Z] = odd_lines(cell->step[Y] * (cell->count[Y] + 2 * HALO_LAYERS));
    const ptrdiff_t doubles = field_doubles(cell);
    cell->memory = app_allocate((size_t)(FIELDS * doubles), sizeof(double));
    for (int field = 0; field < FIELDS; field++)
        cell->field[field] =
            cell->memory + field * doubles + HALO_LAYERS * (cell->step[Y] + cell->step[Z]) + LANES;
    fill_outside(cell);
}

static void make_cell(const struct multipartition *grid, struct cell *cell)
{
    const int least = grid->points / grid->parts;
    const int larger = grid->points % grid->parts;
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        const int place = cell->place[axis];
        cell->count[axis] = least + (place < larger);
        cell->first[axis] = place * least + (place < larger ? place : larger);
        cell->low[axis] = place == 0;
        cell->high[axis] = cell->count[axis] - (place == grid->parts - 1);
    }
    allocate_fields(cell);
}

/* Return the values of the two layers of all own cells that are not in that slab. */
static int count_halo(const struct multipartition *grid, int axis, int but)
{
    int values = 0;
    for (int i = 0; i < grid->parts; i++) {
        const struct cell *cell = &grid->cell[i];
        const int face =
            cell->count[(axis + 1) % PSEUDO_AXES] * cell->count[(axis + 2) % PSEUDO_AXES];
        if (cell->place[axis] != but)
            values += HALO_LAYERS * PSEUDO_COMPONENTS * face;
    }
    return values;
}

static int rank_at(const struct multipartition *grid, int first, int second)
{
    const int parts = grid->parts;
    return (grid->diagonal[0] + first + parts) % parts +
           parts * ((grid->diagonal[1] + second + parts) % parts);
}

struct multipartition multipartition_make(const struct run *run, int points)
{
    struct multipartition grid = {.points = points, .parts = multipartition_parts(run->ranks)};
    const int parts = grid.parts;
    grid.largest = (points + parts - 1) / parts;
    grid.diagonal[0] = run->rank % parts;
    grid.diagonal[1] = run->rank / parts;
    const int up[PSEUDO_AXES][2] = {{1, 0}, {0, 1}, {-1, 1}};
    grid.cell = app_allocate((size_t)parts, sizeof grid.cell[0]);
    for (int slab = 0; slab < parts; slab++) {
        struct cell *cell = &grid.cell[slab];
        cell->place[X] = (grid.diagonal[0] + slab) % parts;
        cell->place[Y] = (grid.diagonal[1] - slab + parts) % parts;
        cell->place[Z] = slab;
        make_cell(&grid, cell);
    }
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        grid.up[axis] = rank_at(&grid, up[axis][0], up[axis][1]);
        grid.down[axis] = rank_at(&grid, -up[axis][0], -up[axis][1]);
        grid.halo_values[axis][UP] = count_halo(&grid, axis, parts - 1);
        grid.halo_values[axis][DOWN] = count_halo(&grid, axis, 0);
        for (int way = 0; way < WAYS; way++) {
            grid.outgoing[axis][way] =
                app_allocate((size_t)grid.halo_values[axis][way], sizeof(double));
            grid.incoming[axis][way] =
                app_allocate((size_t)grid.halo_values[axis][1 - way], sizeof(double));
        }
    }
    return grid;
}

void multipartition_free(struct multipartition *grid)
{
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        for (int way = 0; way < WAYS; way++) {
            free(grid->outgoing[axis][way]);
            free(grid->incoming[axis][way]);
        }
    }
    for (int slab = 0; slab < grid->parts; slab++)
        free(grid->cell[slab].memory);
    free(grid->cell);
}

const struct cell *multipartition_cell(const struct multipartition *grid, int axis, int slab)
{
    int cell = 0;
    while (grid->cell[cell].place[axis] != slab)
        cell++;
    return &grid->cell[cell];
}

void multipartition_spoil(const struct run *run, const struct multipartition *grid,
                          enum field field)
{
    if (run->rank == 0)
        grid->cell[0].field[field][cell_at(&grid->cell[0], 1, 1, 1)] *= 2.0;
}

/* --- the halo
 * ---------------------------------------------------------------------------------------------------
 */

/* Return a component of a layer's first point, and the axes that the layer spans. */
static double *layer_of(const struct cell *cell, enum field field, int axis, int layer, int m,
                        int span[2])
{
    span[0] = axis == X ? Y : X;
    span[1] = axis == Z ? Y : Z;
    return cell->field[field] + layer * cell->step[axis] + m * cell->row;
}

static double *pack_layers(const struct cell *cell, enum field field, int axis, int first,
                           double *message)
{
    int span[2];
    for (int layer = first; layer < first + HALO_LAYERS; layer++) {
        for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
            const double *from = layer_of(cell, field, axis, layer, m, span);
            for (int b = 0; b < cell->count[span[1]]; b++)
                for (int a = 0; a < cell->count[span[0]]; a++)
                    *message++ = from[a * cell->step[span[0]] + b * cell->step[span[1]]];
        }
    }
    return message;
}

static const double *unpack_layers(const struct cell *cell, enum field field, int axis, int first,
                                   const double *message)
{
    int span[2];
    for (int layer = first; layer < first + HALO_LAYERS; layer++) {
        for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
            double *to = layer_of(cell, field, axis, layer, m, span);
            for (int b = 0; b < cell->count[span[1]]; b++)
                for (int a = 0; a < cell->count[span[0]]; a++)
                    to[a * cell->step[span[0]] + b * cell->step[span[1]]] = *message++;
        }
    }
    return message;
}

static void pack(struct multipartition *grid, enum field field, int axis)
{
    double *up = grid->outgoing[axis][UP];
    double *down = grid->outgoing[axis][DOWN];
    for (int slab = 0; slab < grid->parts; slab++) {
        const struct cell *cell = &grid->cell[slab];
        if (cell->place[axis] != grid->parts - 1)
            up = pack_layers(cell, field, axis, cell->count[axis] - HALO_LAYERS, up);
        if (cell->place[axis] != 0)
            down = pack_layers(cell, field, axis, 0, down);
    }
}

static void unpack(struct multipartition *grid, enum field field, int axis)
{
    const double *up = grid->incoming[axis][UP];
    const double *down = grid->incoming[axis][DOWN];
    for (int slab = 0; slab < grid->parts; slab++) {
        const struct cell *cell = &grid->cell[slab];
        if (cell->place[axis] != 0)
            up = unpack_layers(cell, field, axis, -HALO_LAYERS, up);
        if (cell->place[axis] != grid->parts - 1)
            down = unpack_layers(cell, field, axis, cell->count[axis], down);
    }
}

void multipartition_exchange(struct run *run, struct multipartition *grid, enum field field)
{
    if (grid->parts == 1)
        return;
    MPI_Request request[2 * WAYS * PSEUDO_AXES];
    MPI_Request *next = request;
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        const int *values = grid->halo_values[axis];
        message_irecv(run, grid->incoming[axis][UP], values[DOWN], MPI_DOUBLE, grid->down[axis],
                      TAG_HALO + WAYS * axis + UP, next++);
        message_irecv(run, grid->incoming[axis][DOWN], values[UP], MPI_DOUBLE, grid->up[axis],
                      TAG_HALO + WAYS * axis + DOWN, next++);
    }
    for (int axis = 0; axis < PSEUDO_AXES; axis++) {
        const int *values = grid->halo_values[axis];
        pack(grid, field, axis);
        message_isend(run, grid->outgoing[axis][UP], values[UP], MPI_DOUBLE, grid->up[axis],
                      TAG_HALO + WAYS * axis + UP, next++);
        message_isend(run, grid->outgoing[axis][DOWN], values[DOWN], MPI_DOUBLE, grid->down[axis],
                      TAG_HALO + WAYS * axis + DOWN, next++);
    }
    message_waitall(run, (int)(next - request), request);
    for (int axis = 0; axis < PSEUDO_AXES; axis++)
        unpack(grid, field, axis);
}
