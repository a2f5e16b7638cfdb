#include "npb/mg_operators.h"

#include <stdlib.h>

struct mg_rows mg_rows_make(const struct mg_grid *grid)
{
    const size_t length = (size_t)grid->level[grid->levels].count[X] + 2;
    return (struct mg_rows){app_allocate(length, sizeof(double)),
                            app_allocate(length, sizeof(double))};
}

void mg_rows_free(struct mg_rows *rows)
{
    free(rows->faces);
    free(rows->edges);
}

/* Sums over the four neighbours of a row of points by a face (`faces`) and the four by an edge
 * (`edges`), for each x from -1 to n. */
static void sum_rows(const double *restrict at, size_t y, size_t z, int n, double *restrict faces,
                     double *restrict edges)
{
    const double *restrict below = at - z;
    const double *restrict above = at + z;
    const ptrdiff_t up = (ptrdiff_t)y;
    for (ptrdiff_t i = 0; i < n + 2; i++) {
        faces[i] = (at[i - up] + at[i + up]) + (below[i] + above[i]);
        edges[i] = (below[i - up] + below[i + up]) + (above[i - up] + above[i + up]);
    }
}

static void residual_row(int n, const double *restrict u, const double *restrict faces,
                         const double *restrict edges, const double *v, double *r)
{
    for (int i = 1; i <= n; i++)
        r[i] = v[i] + 8.0 / 3.0 * u[i] - 1.0 / 6.0 * (edges[i] + faces[i - 1] + faces[i + 1]) -
               1.0 / 12.0 * (edges[i - 1] + edges[i + 1]);
}

static void smooth_row(int n, const double c[AXES], const double *restrict r,
                       const double *restrict faces, const double *restrict edges,
                       double *restrict u)
{
    for (int i = 1; i <= n; i++)
        u[i] += c[0] * r[i] + c[1] * (r[i - 1] + r[i + 1] + faces[i]) +
                c[2] * (edges[i] + faces[i - 1] + faces[i + 1]);
}

void mg_residual(const struct mg_level *level, const struct mg_rows *rows, const double *v, int k)
{
    const size_t y = mg_stride(level, Y);
    const size_t z = mg_stride(level, Z);
    for (int j = 1; j <= level->count[Y]; j++) {
        const size_t at = (size_t)k * z + (size_t)j * y;
        sum_rows(level->u + at, y, z, level->count[X], rows->faces, rows->edges);
        residual_row(level->count[X], level->u + at, rows->faces, rows->edges, v + at,
                     level->r + at);
    }
}

void mg_smooth(const struct mg_level *level, const struct mg_rows *rows, const double c[AXES],
               int k)
{
    const size_t y = mg_stride(level, Y);
    const size_t z = mg_stride(level, Z);
    for (int j = 1; j <= level->count[Y]; j++) {
        const size_t at = (size_t)k * z + (size_t)j * y;
        sum_rows(level->r + at, y, z, level->count[X], rows->faces, rows->edges);
        smooth_row(level->count[X], c, level->r + at, rows->faces, rows->edges, level->u + at);
    }
}

void mg_restrict(const struct mg_level *fine, const struct mg_level *coarse,
                 const struct mg_rows *rows, int k)
{
    const size_t y = mg_stride(fine, Y);
    const size_t z = mg_stride(fine, Z);
    const int fine_k = 2 * (coarse->first[Z] + k - 1) + 1 - fine->first[Z] + 1;
    const int first = 2 * coarse->first[X] + 1 - fine->first[X] + 1;
    const double *restrict faces = rows->faces + first;
    const double *restrict edges = rows->edges + first;
    for (int j = 0; j < coarse->count[Y]; j++) {
        const int fine_j = 2 * (coarse->first[Y] + j) + 1 - fine->first[Y] + 1;
        const double *restrict from = fine->r + (size_t)fine_k * z + (size_t)fine_j * y;
        double *restrict to = coarse->r + (size_t)k * mg_stride(coarse, Z) +
                              (size_t)(j + 1) * mg_stride(coarse, Y) + 1;
        sum_rows(from, y, z, fine->count[X], rows->faces, rows->edges);
        from += first;
        for (ptrdiff_t i = 0; i < coarse->count[X]; i++)
            to[i] = 0.5 * from[2 * i] + 0.25 * (from[2 * i - 1] + from[2 * i + 1] + faces[2 * i]) +
                    0.125 * (faces[2 * i - 1] + faces[2 * i + 1] + edges[2 * i]) +
                    0.0625 * (edges[2 * i - 1] + edges[2 * i + 1]);
    }
}

/* The coarse rows around a fine one: the own twice where the fine one lies on it. */
static void coarse_pair(const struct mg_level *fine, const struct mg_level *coarse, int axis,
                        int at, size_t pair[2])
{
    const int point = fine->first[axis] + at - 1; /* may be one outside at both ends */
    const int low = point % 2 == 0 ? point / 2 - 1 : (point + 1) / 2 - 1;
    const int high = point % 2 == 0 ? point / 2 : low;
    pair[0] = (size_t)(low - coarse->first[axis] + 1);
    pair[1] = (size_t)(high - coarse->first[axis] + 1);
}

/* Add a coarse row to a fine one: in turn a point between two coarse ones and one on the second. */
static void spread_row(const double *restrict coarse, double *restrict fine, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        fine[2 * i] += 0.5 * (coarse[i] + coarse[i + 1]);
        fine[2 * i + 1] += coarse[i + 1];
    }
}

void mg_interpolate(const struct mg_level *coarse, const struct mg_level *fine,
                    const struct mg_rows *rows, int k)
{
    const size_t y = mg_stride(coarse, Y);
    const size_t z = mg_stride(coarse, Z);
    const int points = fine->count[X] + 2;
    const int alone = fine->first[X] % 2 == 0 ? 1 : 0; /* the first lies on a coarse point */
    size_t first[2];
    size_t last[2];
    size_t level_k[2];
    coarse_pair(fine, coarse, X, alone, first);
    coarse_pair(fine, coarse, X, points - 1, last);
    coarse_pair(fine, coarse, Z, k, level_k);
    for (int j = 0; j < fine->count[Y] + 2; j++) {
        size_t level_j[2];
        coarse_pair(fine, coarse, Y, j, level_j);
        const double *const corner[4] = {coarse->u + level_k[0] * z + level_j[0] * y,
                                         coarse->u + level_k[0] * z + level_j[1] * y,
                                         coarse->u + level_k[1] * z + level_j[0] * y,
                                         coarse->u + level_k[1] * z + level_j[1] * y};
        double *restrict mean = rows->faces;
        for (int i = 0; i < coarse->count[X] + 2; i++)
            mean[i] = 0.25 * ((corner[0][i] + corner[1][i]) + (corner[2][i] + corner[3][i]));
        double *to = fine->u + (size_t)k * mg_stride(fine, Z) + (size_t)j * mg_stride(fine, Y);
        if (alone)
            to[0] += mean[first[0]];
        spread_row(mean + first[0], to + alone, (points - alone) / 2);
        if ((points - alone) % 2 == 1)
            to[points - 1] += 0.5 * (mean[last[0]] + mean[last[1]]);
    }
}
