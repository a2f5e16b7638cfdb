/* Solving along all lines of an axis, several lines at once: a pencil is as many neighbouring lines
 * as a CPU has lanes, and arithmetic goes over its lanes.
 *
 * Elimination goes up the axis and keeps some values of every point; substitution comes back. On
 * more than one rank both go from slab to slab, and all ranks work in each. */
#ifndef TARE_LINE_SWEEP_H
#define TARE_LINE_SWEEP_H

#include "npb/multipartition.h"

#include <stdalign.h>

/* One value of each line of a pencil. */
typedef struct {
    alignas(LANES * sizeof(double)) double at[LANES];
} lanes;

struct pencil {
    const struct cell *cell;
    int axis;
    int lane_axis; /* along which the lines lie side by side: x where it can be */
    int lane;      /* of the first line, along that axis */
    int live;      /* lines inside the cell: the others only fill the lanes */
    int other_axis;
    int other;
    ptrdiff_t at; /* in a field, the first point of the first line */
};

/* What a solver works on and with. */
struct line_work {
    const struct pseudo_problem *problem;
    double first;   /* dt / (2 h): factor of the first difference of an implicit step */
    double second;  /* dt / h^2: of the second difference */
    bool update;    /* after the last axis add the change to the state, not to its own field */
    lanes *state;   /* room for five values a point, and two points more */
    lanes *derived; /* for six, and two points more */
    lanes *change;  /* for five, and two points more */
};

struct line_solver {
    int kept;          /* values kept of each point between the two passes */
    int rows;          /* points whose values the next point's elimination or substitution needs */
    bool padded_plane; /* messages have room for the lines of the largest cell */
    /* Fill kept[point * this->kept + ...] for all points that are not on the cube's faces; the rows
     * before the first one are there. */
    void (*eliminate)(struct line_work *work, const struct pencil *pencil, lanes *kept);
    /* Fill solution[point * 5 + ...] likewise, downwards; the rows behind the last are there. Then
     * store it. */
    void (*substitute)(struct line_work *work, const struct pencil *pencil, const lanes *kept,
                       lanes *solution);
};

struct line_sweep {
    const struct line_solver *solver;
    struct line_work work;
    size_t pencils;      /* of any cell and axis, at most */
    size_t pencil_lanes; /* kept of a pencil, the rows before the first point too */
    lanes *kept;
    lanes *solution;
    double *outgoing;
    double *incoming;
};

/* Return the doubles that it takes. */
double line_sweep_doubles(const struct line_solver *solver, int points, int parts);

struct line_sweep line_sweep_make(const struct line_solver *solver,
                                  const struct multipartition *grid,
                                  const struct pseudo_problem *problem);
void line_sweep_free(struct line_sweep *sweep);

/* Solve along all lines of an axis. */
void line_sweep_run(struct run *run, const struct multipartition *grid, struct line_sweep *sweep,
                    int axis);

/* Bring five components of the points from `first` to before `end`, in an order of components, to
 * five lanes a point, and back to a field. */
void pencil_load(const struct pencil *pencil, enum field field, const int order[PSEUDO_COMPONENTS],
                 int first, int end, lanes *to);
void pencil_store(const struct pencil *pencil, enum field field, const int order[PSEUDO_COMPONENTS],
                  int first, int end, const lanes *from);

/* Add them to a field instead; not along x. */
void pencil_add(const struct pencil *pencil, enum field field, const int order[PSEUDO_COMPONENTS],
                int first, int end, const lanes *from);

#endif
