#include "sparse/hpcg.h"

#include <stdlib.h>

enum { DIAGONAL = 26 };

/* What the rows of a level are made from. */
struct stencil {
    const struct halo *halo;
    struct box global;
};

void hpcg_cut_ranks(int ranks, int grid[AXES])
{
    int64_t best = INT64_MAX;
    for (int z = 1; z <= ranks / z; z++) {
        for (int y = z; ranks % z == 0 && y <= ranks / z / y; y++) {
            const int64_t x = ranks / z / y;
            const int64_t faces = x * y + x * z + (int64_t)y * z;
            if (ranks / z % y == 0 && faces < best) {
                best = faces;
                grid[X] = (int)x;
                grid[Y] = y;
                grid[Z] = z;
            }
        }
    }
}

static void local_size(const struct run *run, int level, int size[AXES])
{
    const char *const names[AXES] = {"nx", "ny", "nz"};
    for (int axis = 0; axis < AXES; axis++)
        size[axis] = (int)(run_value(run, names[axis]) >> level);
}

double hpcg_entries(const struct run *run, const int grid[AXES], int level)
{
    int size[AXES];
    double entries = 1.0;
    local_size(run, level, size);
    for (int axis = 0; axis < AXES; axis++)
        entries *= 3.0 * grid[axis] * size[axis] - 2.0;
    return entries;
}

double hpcg_rows(const struct run *run, const int grid[AXES])
{
    int size[AXES];
    double rows = 1.0;
    local_size(run, 0, size);
    for (int axis = 0; axis < AXES; axis++)
        rows *= (double)grid[axis] * size[axis];
    return rows;
}

/* Return the boxes of all ranks at a level, rank = x + columns (y + rows z). */
static struct box *make_boxes(const struct run *run, const int grid[AXES], int level)
{
    struct box *boxes = app_allocate((size_t)run->ranks, sizeof boxes[0]);
    const struct box ranks = {.high = {grid[X], grid[Y], grid[Z]}};
    int size[AXES];
    local_size(run, level, size);
    for (int rank = 0; rank < run->ranks; rank++) {
        int place[AXES];
        box_point(&ranks, rank, place);
        for (int axis = 0; axis < AXES; axis++) {
            boxes[rank].low[axis] = place[axis] * size[axis];
            boxes[rank].high[axis] = (place[axis] + 1) * size[axis];
        }
    }
    return boxes;
}

/* Give a row: 26 on the diagonal, -1 for each of the neighbours that exist. */
static int give_row(const void *context, int row, int32_t columns[MATRIX_ROW],
                    double values[MATRIX_ROW])
{
    const struct stencil *stencil = context;
    int centre[AXES];
    int32_t places[AROUND];
    int count = 0;
    box_point(&stencil->halo->own, row, centre);
    halo_around(stencil->halo, &stencil->global, centre, places);
    for (int slot = 0; slot < AROUND; slot++) {
        if (places[slot] < 0)
            continue;
        columns[count] = places[slot];
        values[count++] = places[slot] == row ? DIAGONAL : -1.0;
    }
    return count;
}

static void make_level(struct hpcg *hpcg, const struct run *run, int number)
{
    struct hpcg_level *level = &hpcg->level[number];
    struct box *boxes = make_boxes(run, hpcg->grid, number);
    level->halo = halo_make(run, boxes);
    const struct stencil stencil = {
        &level->halo,
        {.high = {boxes[run->ranks - 1].high[X], boxes[run->ranks - 1].high[Y],
                  boxes[run->ranks - 1].high[Z]}}};
    level->matrix = matrix_make(level->halo.own_points, give_row, &stencil);
    free(boxes);
    if (number < HPCG_LEVELS - 1)
        level->ax = vector_make(&level->halo);
    if (number == 0)
        return;
    level->x = vector_make(&level->halo);
    level->b = vector_make(&level->halo);
    level->finer = app_allocate((size_t)level->halo.own_points, sizeof level->finer[0]);
    for (int row = 0; row < level->halo.own_points; row++) {
        int point[AXES];
        box_point(&level->halo.own, row, point);
        for (int axis = 0; axis < AXES; axis++)
            point[axis] *= 2;
        level->finer[row] = halo_place(&hpcg->level[number - 1].halo, point);
    }
}

/* Set b so that all ones is the solution. */
static void fill_right_side(struct hpcg *hpcg)
{
    const struct hpcg_level *top = &hpcg->level[0];
    for (int i = 0; i < top->halo.points; i++)
        hpcg->x[i] = 1.0;
    matrix_multiply(&top->matrix, hpcg->x, hpcg->b);
}

struct hpcg hpcg_make(const struct run *run)
{
    struct hpcg hpcg = {.grid = {0}};
    hpcg_cut_ranks(run->ranks, hpcg.grid);
    for (int number = 0; number < HPCG_LEVELS; number++)
        make_level(&hpcg, run, number);
    double **const vectors[] = {&hpcg.b, &hpcg.x, &hpcg.r, &hpcg.z, &hpcg.p, &hpcg.ap};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        *vectors[i] = vector_make(&hpcg.level[0].halo);
    fill_right_side(&hpcg);
    return hpcg;
}

void hpcg_free(struct hpcg *hpcg)
{
    double *const vectors[] = {hpcg->b, hpcg->x, hpcg->r, hpcg->z, hpcg->p, hpcg->ap};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        vector_free(vectors[i]);
    for (int number = 0; number < HPCG_LEVELS; number++) {
        struct hpcg_level *level = &hpcg->level[number];
        halo_free(&level->halo);
        matrix_free(&level->matrix);
        vector_free(level->x);
        vector_free(level->b);
        vector_free(level->ax);
        free(level->finer);
    }
}
