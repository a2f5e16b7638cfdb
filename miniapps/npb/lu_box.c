/* LU: how the cube is cut and stored, and the exchange of layers. */
#include "npb/lu.h"

#include <stdlib.h>

enum { TAG = 1 };

bool lu_cut(int ranks, int n, int parts[2])
{
    int smaller = 1;
    for (int divisor = 1; divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            smaller = divisor;
    parts[LU_X] = ranks / smaller;
    parts[LU_Y] = smaller;
    const int fewest = 3;
    return parts[LU_X] <= 2 * parts[LU_Y] && n / parts[LU_X] >= fewest;
}

/* Return the first point of a part; the first n mod parts of them have one point more. */
static int first_of(int n, int parts, int part)
{
    const int more = n % parts;
    return part * (n / parts) + (part < more ? part : more);
}

static int at_least(int value, int low)
{
    return value > low ? value : low;
}

static int at_most(int value, int high)
{
    return value < high ? value : high;
}

/* Lay out the diagonals of a plane, the layers around it included; return the doubles that it takes
 * with a margin for vectors that begin before, or end behind, a diagonal's. */
static size_t lay_out(const int own[2], int *row)
{
    const int margin = 2 * LU_LANES;
    int at = margin;
    for (int s = -2 * LU_HALO; s < own[LU_X] + own[LU_Y] + 2 * LU_HALO - 1; s++) {
        const int low = at_least(-LU_HALO, s - own[LU_Y] - LU_HALO + 1);
        const int high = at_most(own[LU_X] + LU_HALO - 1, s + LU_HALO);
        const int first = (low + LU_LANES) / LU_LANES * LU_LANES;
        const int end = (high + 2 * LU_LANES) / LU_LANES * LU_LANES;
        if (row != NULL)
            row[s + 2 * LU_HALO] = at - first;
        at += end - first;
    }
    /* an odd number of cache lines, lest the components of a point share a set of the cache */
    const int lines = (at + margin) / LU_LANES;
    return (size_t)((lines | 1) * LU_LANES);
}

size_t lu_plane_size(const int own[2])
{
    return lay_out(own, NULL);
}

static struct lu_box make_box(const struct run *run, int n)
{
    struct lu_box box = {.n = n};
    lu_cut(run->ranks, n, box.parts);
    box.place[LU_X] = run->rank % box.parts[LU_X];
    box.place[LU_Y] = run->rank / box.parts[LU_X];
    const int step[2] = {1, box.parts[LU_X]};
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        const int place = box.place[axis];
        const int parts = box.parts[axis];
        const int first = at_least(first_of(n, parts, place), 1);
        const int end = at_most(first_of(n, parts, place + 1), n - 1);
        box.first[axis] = first;
        box.own[axis] = end - first;
        box.neighbour[axis][LU_BELOW] = place > 0 ? run->rank - step[axis] : -1;
        box.neighbour[axis][LU_ABOVE] = place < parts - 1 ? run->rank + step[axis] : -1;
    }
    const int diagonals = box.own[LU_X] + box.own[LU_Y] + 4 * LU_HALO - 1;
    box.row = app_allocate((size_t)diagonals, sizeof(int));
    box.stride = lay_out(box.own, box.row);
    box.plane = LU_COMPONENTS * box.stride;
    return box;
}

/* Fill the tables of an axis: place `at` of own point 0, going `step` a point. */
static void fill_tables(struct lu *lu, int axis)
{
    const struct lu_box *box = &lu->box;
    const int own = box->own[axis];
    const size_t size = lu->table[axis];
    for (int point = 0; point < own; point++) {
        const size_t at = (size_t)LU_LANES + (size_t)(axis == LU_X ? point : own - 1 - point);
        double weight[LU_STENCIL];
        lu_dissipation(box->n, axis, box->first[axis] + point, weight);
        for (size_t i = 0; i < LU_STENCIL; i++)
            lu->dissipation[axis][i * size + at] = weight[i];
        lu->inside[axis][at] = 1.0;
    }
}

static double *numbers(size_t count)
{
    return app_allocate(count, sizeof(double));
}

static void make_edges(struct lu *lu)
{
    const struct lu_box *box = &lu->box;
    size_t largest = 0;
    size_t longest = 0;
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        const size_t places = (size_t)box->own[1 - axis];
        const size_t size = (size_t)box->n * LU_HALO * LU_COMPONENTS * (places + 2);
        for (int side = 0; side < LU_SIDES; side++) {
            lu->halo[axis][side] = box->neighbour[axis][side] < 0 ? NULL : numbers(size);
            lu->edge[axis][side] = numbers(LU_COMPONENTS * places);
        }
        largest = size > largest ? size : largest;
        longest = places > longest ? places : longest;
    }
    lu->outgoing = numbers(largest);
    lu->message = numbers(LU_COMPONENTS * longest);
}

struct lu lu_make(const struct run *run, int n, double dt)
{
    struct lu lu = {.box = make_box(run, n), .dt = dt};
    const size_t field = (size_t)n * lu.box.plane;
    lu.u = numbers(field);
    lu.r = numbers(field);
    lu.f = numbers(field);
    lu.flow = numbers(LU_FLOW_PLANES * LU_FLOW * lu.box.stride);
    for (size_t i = 0; i < field; i++)
        lu.u[i] = 1.0; /* what no point is stored in is divided by, too */
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        lu.table[axis] = (size_t)(lu.box.own[axis] + 4 * LU_LANES) / LU_LANES * LU_LANES;
        lu.dissipation[axis] = numbers(LU_STENCIL * lu.table[axis]);
        lu.inside[axis] = numbers(lu.table[axis]);
        fill_tables(&lu, axis);
    }
    lu.line = lu.table[LU_X];
    for (int i = 0; i < 2; i++) {
        lu.along_x[i] = numbers(LU_COMPONENTS * lu.line);
        lu.along_y[i] = numbers(LU_COMPONENTS * lu.line);
    }
    lu.along_z = numbers(lu.box.plane);
    make_edges(&lu);
    return lu;
}

void lu_free(struct lu *lu)
{
    free(lu->box.row);
    double *const fields[] = {lu->u,       lu->r,        lu->f,      lu->flow,
                              lu->along_z, lu->outgoing, lu->message};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        free(fields[i]);
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        free(lu->dissipation[axis]);
        free(lu->inside[axis]);
        for (int side = 0; side < LU_SIDES; side++) {
            free(lu->halo[axis][side]);
            free(lu->edge[axis][side]);
        }
    }
    for (int i = 0; i < 2; i++) {
        free(lu->along_x[i]);
        free(lu->along_y[i]);
    }
}

/* --- the exchange of layers
 * ------------------------------------------------------------------------------------------ */

static size_t at_edge(const struct lu_box *box, int axis, int across, int along)
{
    return axis == LU_X ? lu_at(box, across, along) : lu_at(box, along, across);
}

static int halo_size(const struct lu_box *box, int axis)
{
    int first = 0;
    int end = 0;
    lu_edge(box, axis, &first, &end);
    return box->n * LU_HALO * LU_COMPONENTS * (end - first);
}

/* Pack the own layers next to a neighbour, the next one first. */
static void pack(const struct lu *lu, int axis, int side, double *restrict out)
{
    const struct lu_box *box = &lu->box;
    int first = 0;
    int end = 0;
    lu_edge(box, axis, &first, &end);
    for (int k = 0; k < box->n; k++) {
        for (int layer = 0; layer < LU_HALO; layer++) {
            const int across = side == LU_BELOW ? layer : box->own[axis] - 1 - layer;
            for (size_t c = 0; c < LU_COMPONENTS; c++) {
                const double *u = lu->u + (size_t)k * box->plane + c * box->stride;
                for (int along = first; along < end; along++)
                    *out++ = u[at_edge(box, axis, across, along)];
            }
        }
    }
}

static void unpack(const struct lu *lu, int axis, int side)
{
    const struct lu_box *box = &lu->box;
    const double *in = lu->halo[axis][side];
    int first = 0;
    int end = 0;
    lu_edge(box, axis, &first, &end);
    for (int k = 0; k < box->n; k++) {
        for (int layer = 0; layer < LU_HALO; layer++) {
            const int across = side == LU_BELOW ? -1 - layer : box->own[axis] + layer;
            for (size_t c = 0; c < LU_COMPONENTS; c++) {
                double *u = lu->u + (size_t)k * box->plane + c * box->stride;
                for (int along = first; along < end; along++)
                    u[at_edge(box, axis, across, along)] = *in++;
            }
        }
    }
}

void lu_exchange(struct run *run, struct lu *lu)
{
    for (int axis = LU_X; axis <= LU_Y; axis++) {
        const int size = halo_size(&lu->box, axis);
        for (int from = LU_BELOW; from <= LU_ABOVE; from++) {
            const int to = 1 - from;
            const int giver = lu->box.neighbour[axis][from];
            const int taker = lu->box.neighbour[axis][to];
            MPI_Request request = MPI_REQUEST_NULL;
            if (giver >= 0)
                message_irecv(run, lu->halo[axis][from], size, MPI_DOUBLE, giver, TAG, &request);
            if (taker >= 0) {
                pack(lu, axis, to, lu->outgoing);
                message_send(run, lu->outgoing, size, MPI_DOUBLE, taker, TAG);
            }
            message_wait(run, &request);
            if (giver >= 0)
                unpack(lu, axis, from);
        }
    }
}
