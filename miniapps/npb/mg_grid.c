#include "npb/mg_grid.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_UP = 10, TAG_DOWN = 20 };

/* Return the first point, at a level, of part `part` of `parts` of an axis; part `parts` begins
 * behind the last. */
static int first_of(int levels, int level, int part, int parts)
{
    int first = (int)(((int64_t)1 << levels) * part / parts);
    for (int above = levels; above > level; above--)
        first /= 2; /* the coarse points j with 2 j + 1 >= first begin at first / 2 */
    return first;
}

static int count_of(int levels, int level, int part, int parts)
{
    return first_of(levels, level, part + 1, parts) - first_of(levels, level, part, parts);
}

/* Whether a part hears of its neighbours at a level: it has points there, or finer ones between
 * theirs. */
static bool hears(int levels, int level, int part, int parts)
{
    return count_of(levels, level, part, parts) > 0 ||
           (level < levels && count_of(levels, level + 1, part, parts) > 0);
}

static int rank_at(const struct mg_grid *grid, int axis, int part)
{
    int place[AXES] = {grid->place[X], grid->place[Y], grid->place[Z]};
    place[axis] = part;
    return (place[Z] * grid->parts[Y] + place[Y]) * grid->parts[X] + place[X];
}

/* Return the next part in a direction that has points, `from` itself last. */
static int next_with_points(const struct mg_grid *grid, int level, int axis, int from,
                            int direction)
{
    const int parts = grid->parts[axis];
    int part = from;
    do
        part = (part + direction + parts) % parts;
    while (part != from && count_of(grid->levels, level, part, parts) == 0);
    return part;
}

/* Find who needs a layer of this rank: going in a direction, all parts that hear, up to the first
 * with points. */
static void find_listeners(const struct mg_grid *grid, int level, int axis, int direction,
                           int to[2])
{
    const int parts = grid->parts[axis];
    const int own = grid->place[axis];
    int found = 0;
    to[0] = to[1] = -1;
    for (int part = (own + direction + parts) % parts; part != own && found < 2;
         part = (part + direction + parts) % parts) {
        if (hears(grid->levels, level, part, parts))
            to[found++] = rank_at(grid, axis, part);
        if (count_of(grid->levels, level, part, parts) > 0)
            break;
    }
}

static struct mg_links make_links(const struct mg_grid *grid, int level, int axis)
{
    const int parts = grid->parts[axis];
    const int own = grid->place[axis];
    struct mg_links links = {
        .from_low = -1, .from_high = -1, .low_to = {-1, -1}, .high_to = {-1, -1}};
    links.local = parts == 1;
    if (links.local)
        return links;
    if (hears(grid->levels, level, own, parts)) {
        links.from_low = rank_at(grid, axis, next_with_points(grid, level, axis, own, -1));
        links.from_high = rank_at(grid, axis, next_with_points(grid, level, axis, own, 1));
    }
    if (count_of(grid->levels, level, own, parts) > 0) {
        find_listeners(grid, level, axis, -1, links.low_to);
        find_listeners(grid, level, axis, 1, links.high_to);
    }
    return links;
}

static void make_level(struct mg_grid *grid, int number)
{
    struct mg_level *level = &grid->level[number];
    level->points = 1 << number;
    level->takes_part = true;
    for (int axis = 0; axis < AXES; axis++) {
        const int parts = grid->parts[axis];
        level->first[axis] = first_of(grid->levels, number, grid->place[axis], parts);
        level->count[axis] = count_of(grid->levels, number, grid->place[axis], parts);
        level->takes_part &= hears(grid->levels, number, grid->place[axis], parts);
        level->links[axis] = make_links(grid, number, axis);
    }
    level->u = app_allocate_large(mg_elements(level), sizeof(double));
    level->r = app_allocate_large(mg_elements(level), sizeof(double));
}

struct mg_grid mg_grid_make(const struct run *run, int levels)
{
    struct mg_grid grid = {.levels = levels, .parts = {1, 1, 1}};
    for (int left = run->ranks, axis = Z; left > 1; left /= 2, axis = (axis + AXES - 1) % AXES)
        grid.parts[axis] *= 2;
    grid.place[X] = run->rank % grid.parts[X];
    grid.place[Y] = run->rank / grid.parts[X] % grid.parts[Y];
    grid.place[Z] = run->rank / (grid.parts[X] * grid.parts[Y]);
    grid.level = app_allocate((size_t)levels + 1, sizeof grid.level[0]);
    for (int number = 1; number <= levels; number++)
        make_level(&grid, number);
    const struct mg_level *top = &grid.level[levels];
    grid.v = app_allocate_large(mg_elements(top), sizeof(double));
    size_t layer = 0;
    for (int axis = 0; axis < AXES; axis++) {
        const size_t size = mg_elements(top) / ((size_t)top->count[axis] + 2);
        layer = size > layer ? size : layer;
    }
    grid.outgoing = app_allocate(layer, sizeof(double));
    grid.incoming = app_allocate(2 * layer, sizeof(double));
    return grid;
}

void mg_grid_free(struct mg_grid *grid)
{
    for (int number = 1; number <= grid->levels; number++) {
        free(grid->level[number].u);
        free(grid->level[number].r);
    }
    free(grid->level);
    free(grid->v);
    free(grid->outgoing);
    free(grid->incoming);
}

size_t mg_stride(const struct mg_level *level, int axis)
{
    size_t stride = 1;
    for (int lower = 0; lower < axis; lower++)
        stride *= (size_t)level->count[lower] + 2;
    return stride;
}

size_t mg_elements(const struct mg_level *level)
{
    return mg_stride(level, AXES);
}

/* What of a layer is exchanged along an axis: `count` rows of `length` elements. Layers along y and
 * z have the ends that came along x, and along y, with them, so that edges and corners arrive as
 * well. */
struct layer {
    size_t rows;
    size_t length;
    size_t row_stride;
    size_t element_stride;
    size_t origin; /* of the first element of layer 0 */
    size_t stride; /* from layer to layer */
};

static struct layer layer_of(const struct mg_level *level, int axis)
{
    const size_t count[AXES] = {(size_t)level->count[X], (size_t)level->count[Y],
                                (size_t)level->count[Z]};
    const size_t y = mg_stride(level, Y);
    const size_t z = mg_stride(level, Z);
    if (axis == X)
        return (struct layer){count[Z], count[Y], z, y, z + y, 1};
    if (axis == Y)
        return (struct layer){count[Z], count[X] + 2, z, 1, z, y};
    return (struct layer){count[Y] + 2, count[X] + 2, y, 1, 0, z};
}

static void copy_out(const struct layer *layer, const double *values, size_t at,
                     double *restrict packed)
{
    const double *from = values + layer->origin + at * layer->stride;
    for (size_t row = 0; row < layer->rows; row++)
        for (size_t i = 0; i < layer->length; i++)
            packed[row * layer->length + i] =
                from[row * layer->row_stride + i * layer->element_stride];
}

static void copy_in(const struct layer *layer, double *values, size_t at,
                    const double *restrict packed)
{
    double *to = values + layer->origin + at * layer->stride;
    for (size_t row = 0; row < layer->rows; row++)
        for (size_t i = 0; i < layer->length; i++)
            to[row * layer->row_stride + i * layer->element_stride] =
                packed[row * layer->length + i];
}

static void send_layer(struct run *run, struct mg_grid *grid, const int to[2], int size, int tag)
{
    for (int i = 0; i < 2; i++)
        if (to[i] >= 0)
            message_send(run, grid->outgoing, size, MPI_DOUBLE, to[i], tag);
}

static void exchange_axis(struct run *run, struct mg_grid *grid, struct mg_level *level,
                          double *values, int axis)
{
    const struct mg_links *links = &level->links[axis];
    const struct layer layer = layer_of(level, axis);
    const size_t count = (size_t)level->count[axis];
    const int size = (int)(layer.rows * layer.length);
    if (links->local) {
        copy_out(&layer, values, count, grid->outgoing);
        copy_in(&layer, values, 0, grid->outgoing);
        copy_out(&layer, values, 1, grid->outgoing);
        copy_in(&layer, values, count + 1, grid->outgoing);
        return;
    }
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    double *const low = grid->incoming;
    double *const high = grid->incoming + size;
    if (links->from_low >= 0)
        message_irecv(run, low, size, MPI_DOUBLE, links->from_low, TAG_UP + axis, &requests[0]);
    if (links->from_high >= 0)
        message_irecv(run, high, size, MPI_DOUBLE, links->from_high, TAG_DOWN + axis, &requests[1]);
    if (count > 0) {
        copy_out(&layer, values, count, grid->outgoing);
        send_layer(run, grid, links->high_to, size, TAG_UP + axis);
        copy_out(&layer, values, 1, grid->outgoing);
        send_layer(run, grid, links->low_to, size, TAG_DOWN + axis);
    }
    message_waitall(run, 2, requests);
    if (links->from_low >= 0)
        copy_in(&layer, values, 0, low);
    if (links->from_high >= 0)
        copy_in(&layer, values, count + 1, high);
}

void mg_exchange(struct run *run, struct mg_grid *grid, struct mg_level *level, double *values)
{
    if (!level->takes_part)
        return;
    for (int axis = X; axis < AXES; axis++)
        exchange_axis(run, grid, level, values, axis);
}

bool mg_wraps(const struct mg_level *level)
{
    return level->takes_part && level->links[X].local && level->links[Y].local;
}

void mg_wrap(const struct mg_level *level, double *values, int k)
{
    const size_t x = (size_t)level->count[X];
    const size_t y = (size_t)level->count[Y];
    const size_t row = mg_stride(level, Y);
    double *plane = values + (size_t)k * mg_stride(level, Z);
    for (size_t j = 1; j <= y; j++) {
        plane[j * row] = plane[j * row + x];
        plane[j * row + x + 1] = plane[j * row + 1];
    }
    memcpy(plane, plane + y * row, row * sizeof plane[0]);
    memcpy(plane + (y + 1) * row, plane + row, row * sizeof plane[0]);
}

void mg_exchange_z(struct run *run, struct mg_grid *grid, struct mg_level *level, double *values)
{
    exchange_axis(run, grid, level, values, Z);
}
