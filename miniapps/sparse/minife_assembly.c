#include "common/clock.h"
#include "sparse/minife.h"

#include <stdlib.h>

/* Rows before they are stored: for each own node the coefficients of the 27 nodes around it, in
 * natural order. */
struct rows {
    const struct minife *fe;
    double (*around)[AROUND];
};

static void cut(const struct box *box, int first, int ranks, struct box *boxes)
{
    if (ranks == 1) {
        boxes[first] = *box;
        return;
    }
    int axis = X;
    for (int other = Y; other < AXES; other++)
        axis = box_length(box, other) >= box_length(box, axis) ? other : axis;
    const int low_ranks = ranks / 2;
    const int64_t length = box_length(box, axis);
    const int at = box->low[axis] + (int)(length * low_ranks / ranks);
    struct box low = *box;
    struct box high = *box;
    low.high[axis] = high.low[axis] = at;
    cut(&low, first, low_ranks, boxes);
    cut(&high, first + low_ranks, ranks - low_ranks, boxes);
}

bool minife_cut(const int elements[AXES], int ranks, struct box *boxes)
{
    const struct box all = {.high = {elements[X], elements[Y], elements[Z]}};
    bool whole = true;
    cut(&all, 0, ranks, boxes);
    for (int rank = 0; rank < ranks; rank++)
        whole &= box_points(&boxes[rank]) > 0;
    return whole;
}

/* Find out which nodes a rank has: the low corners of its elements, and the last nodes of the cube
 * where its elements end there. */
static void cut_nodes(struct minife *fe, const struct run *run)
{
    struct box *boxes = app_allocate((size_t)run->ranks, sizeof boxes[0]);
    minife_cut(fe->elements, run->ranks, boxes);
    for (int rank = 0; rank < run->ranks; rank++)
        for (int axis = 0; axis < AXES; axis++)
            boxes[rank].high[axis] += boxes[rank].high[axis] == fe->elements[axis];
    fe->halo = halo_make(run, boxes);
    free(boxes);
}

static void set_corners(const struct minife *fe, const int element[AXES],
                        double corner[ELEMENT_NODES][AXES])
{
    for (int c = 0; c < ELEMENT_NODES; c++)
        for (int axis = 0; axis < AXES; axis++)
            corner[c][axis] = (double)(element[axis] + (c >> axis & 1)) / fe->elements[axis];
}

/* Return the place of corner `other` among the 27 nodes around corner `own` of an element. */
static int slot_of(int own, int other)
{
    int slot = 0;
    for (int axis = Z; axis >= X; axis--)
        slot = 3 * slot + 1 + (other >> axis & 1) - (own >> axis & 1);
    return slot;
}

/* Compute an element and add what falls on own nodes. */
static void add_element(struct rows *rows, const int element[AXES],
                        int slots[ELEMENT_NODES][ELEMENT_NODES])
{
    const struct minife *fe = rows->fe;
    double corner[ELEMENT_NODES][AXES];
    double stiffness[ELEMENT_NODES][ELEMENT_NODES];
    double load[ELEMENT_NODES];
    set_corners(fe, element, corner);
    element_compute((const double(*)[AXES])corner, stiffness, load);
    for (int r = 0; r < ELEMENT_NODES; r++) {
        const int node[AXES] = {element[X] + (r & 1), element[Y] + (r >> 1 & 1),
                                element[Z] + (r >> 2 & 1)};
        if (!box_has(&fe->halo.own, node))
            continue;
        const int64_t row = box_index(&fe->halo.own, node);
        for (int c = 0; c < ELEMENT_NODES; c++)
            rows->around[row][slots[r][c]] += stiffness[r][c];
        fe->b[row] += load[r];
    }
}

/* Go through all elements with own nodes. Those that ranks share are computed by each of them: it
 * saves the messages, and sums the same for any number of ranks. */
static void add_elements(struct rows *rows)
{
    const struct minife *fe = rows->fe;
    const struct box all = {.high = {fe->elements[X], fe->elements[Y], fe->elements[Z]}};
    struct box touched = fe->halo.own;
    int slots[ELEMENT_NODES][ELEMENT_NODES];
    for (int axis = 0; axis < AXES; axis++)
        touched.low[axis]--;
    touched = box_overlap(&touched, 0, &all);
    for (int r = 0; r < ELEMENT_NODES; r++)
        for (int c = 0; c < ELEMENT_NODES; c++)
            slots[r][c] = slot_of(r, c);
    for (int z = touched.low[Z]; z < touched.high[Z]; z++)
        for (int y = touched.low[Y]; y < touched.high[Y]; y++)
            for (int x = touched.low[X]; x < touched.high[X]; x++)
                add_element(rows, (const int[]){x, y, z}, slots);
}

/* The boundary: 0 on five faces, their edges included, then 1 on x = 1. */
static bool is_zero(const struct minife *fe, const int node[AXES])
{
    return node[X] == 0 || node[Y] == 0 || node[Y] == fe->elements[Y] || node[Z] == 0 ||
           node[Z] == fe->elements[Z];
}

static bool is_one(const struct minife *fe, const int node[AXES])
{
    return node[X] == fe->elements[X];
}

/* Make a row the identity where the node is fixed; elsewhere move the columns of fixed nodes to the
 * right-hand side. */
static void fix(struct rows *rows, const int node[AXES], double value,
                bool is_fixed(const struct minife *, const int[AXES]))
{
    const int64_t row = box_index(&rows->fe->halo.own, node);
    double *around = rows->around[row];
    double *b = rows->fe->b;
    const bool fixed = is_fixed(rows->fe, node);
    for (int slot = 0; slot < AROUND; slot++) {
        const int other[AXES] = {node[X] + slot % 3 - 1, node[Y] + slot / 3 % 3 - 1,
                                 node[Z] + slot / 9 - 1};
        if (fixed) {
            around[slot] = slot == AROUND / 2 ? 1.0 : 0.0;
        } else if (box_has(&rows->fe->nodes, other) && is_fixed(rows->fe, other)) {
            b[row] -= around[slot] * value;
            around[slot] = 0.0;
        }
    }
    if (fixed)
        b[row] = value;
}

/* Whether a node is fixed or has a fixed one around it. */
static bool near_boundary(const struct minife *fe, const int node[AXES])
{
    bool near = false;
    for (int axis = 0; axis < AXES; axis++)
        near |= node[axis] <= 1 || node[axis] >= fe->elements[axis] - 1;
    return near;
}

/* Put the boundary in. Zeros come first: nodes on the edges of x = 1 count as 0 for their
 * neighbours, and as 1 in their own rows. */
static void fix_boundary(struct rows *rows)
{
    const struct halo *halo = &rows->fe->halo;
    for (int row = 0; row < halo->own_points; row++) {
        int node[AXES];
        box_point(&halo->own, row, node);
        if (!near_boundary(rows->fe, node))
            continue;
        fix(rows, node, 0.0, is_zero);
        fix(rows, node, 1.0, is_one);
    }
}

/* Give a row: every node around that exists, zeros of the boundary among them. */
static int give_row(const void *context, int row, int32_t columns[MATRIX_ROW],
                    double values[MATRIX_ROW])
{
    const struct rows *rows = context;
    int node[AXES];
    int32_t places[AROUND];
    int count = 0;
    box_point(&rows->fe->halo.own, row, node);
    halo_around(&rows->fe->halo, &rows->fe->nodes, node, places);
    for (int slot = 0; slot < AROUND; slot++) {
        if (places[slot] < 0)
            continue;
        columns[count] = places[slot];
        values[count++] = rows->around[row][slot];
    }
    return count;
}

struct minife minife_make(const struct run *run)
{
    struct minife fe = {.assembly_s = 0.0};
    const char *const names[AXES] = {"nx", "ny", "nz"};
    for (int axis = 0; axis < AXES; axis++) {
        fe.elements[axis] = (int)run_value(run, names[axis]);
        fe.nodes.high[axis] = fe.elements[axis] + 1;
    }
    cut_nodes(&fe, run);
    fe.b = vector_make(&fe.halo);
    struct rows rows = {&fe, app_allocate((size_t)fe.halo.own_points, sizeof rows.around[0])};
    const uint64_t begun_ns = clock_now_ns();
    add_elements(&rows);
    fix_boundary(&rows);
    const uint64_t assembled_ns = clock_now_ns();
    fe.matrix = matrix_make(fe.halo.own_points, give_row, &rows);
    fe.assembly_s = clock_difference_s(assembled_ns, begun_ns);
    fe.structure_s = clock_difference_s(clock_now_ns(), assembled_ns);
    free(rows.around);
    return fe;
}

void minife_free(struct minife *fe)
{
    halo_free(&fe->halo);
    matrix_free(&fe->matrix);
    vector_free(fe->b);
}
