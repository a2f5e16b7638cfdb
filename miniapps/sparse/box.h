/* Boxes of a lattice of points: what a rank owns of a global grid. */
#ifndef TARE_BOX_H
#define TARE_BOX_H

#include <stdbool.h>
#include <stdint.h>

enum { X, Y, Z, AXES };

/* The points with low <= point < high along every axis. */
struct box {
    int low[AXES];
    int high[AXES];
};

static inline int box_length(const struct box *box, int axis)
{
    return box->high[axis] - box->low[axis];
}

static inline int64_t box_points(const struct box *box)
{
    int64_t points = 1;
    for (int axis = 0; axis < AXES; axis++)
        points *= box_length(box, axis) > 0 ? box_length(box, axis) : 0;
    return points;
}

static inline bool box_has(const struct box *box, const int point[AXES])
{
    return point[X] >= box->low[X] && point[X] < box->high[X] && point[Y] >= box->low[Y] &&
           point[Y] < box->high[Y] && point[Z] >= box->low[Z] && point[Z] < box->high[Z];
}

/* Whether a point and all around it belong to a box. */
static inline bool box_surrounds(const struct box *box, const int point[AXES])
{
    return point[X] > box->low[X] && point[X] < box->high[X] - 1 && point[Y] > box->low[Y] &&
           point[Y] < box->high[Y] - 1 && point[Z] > box->low[Z] && point[Z] < box->high[Z] - 1;
}

/* Return the number of a point in natural order: x runs fastest, z slowest. */
static inline int64_t box_index(const struct box *box, const int point[AXES])
{
    const int64_t plane = (int64_t)(point[Z] - box->low[Z]) * box_length(box, Y);
    return (plane + point[Y] - box->low[Y]) * box_length(box, X) + point[X] - box->low[X];
}

/* Set the point of a number in natural order. */
static inline void box_point(const struct box *box, int64_t index, int point[AXES])
{
    for (int axis = X; axis < AXES; axis++) {
        point[axis] = box->low[axis] + (int)(index % box_length(box, axis));
        index /= box_length(box, axis);
    }
}

/* Return what two boxes share, after the first has grown by `margin` points on every side. */
static inline struct box box_overlap(const struct box *grown, int margin, const struct box *other)
{
    struct box shared;
    for (int axis = 0; axis < AXES; axis++) {
        const int low = grown->low[axis] - margin;
        const int high = grown->high[axis] + margin;
        shared.low[axis] = low > other->low[axis] ? low : other->low[axis];
        shared.high[axis] = high < other->high[axis] ? high : other->high[axis];
    }
    return shared;
}

#endif
