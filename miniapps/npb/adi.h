/* What BT and SP share beside their equations: a step is the space operator's change, solved along
 * x, y and z one after the other (alternating directions, implicit), and added to the state. */
#ifndef TARE_ADI_H
#define TARE_ADI_H

#include "npb/line_sweep.h"

struct adi_method {
    const struct pseudo_problem *problems;
    double operations[4]; /* nominal, of a step: factors of n^3, n^2, n and 1 */
    const struct line_solver *solver;
    /* For the check of the solver: change a right side as the solver does before it solves along an
     * axis, or NULL, and apply the implicit operator of an axis to the values around a point:
     * `state` of the point before, its own and of the one behind, x from two before to two behind.
     */
    void (*enter)(int axis, const double state[PSEUDO_COMPONENTS], double right[PSEUDO_COMPONENTS]);
    void (*apply)(const struct line_work *work, int axis, int index,
                  double state[3][PSEUDO_COMPONENTS], double x[PSEUDO_STENCIL][PSEUDO_COMPONENTS],
                  double made[PSEUDO_COMPONENTS]);
};

/* Those of struct app. */
bool adi_suits(const struct run *run, const struct adi_method *method, char reason[APP_REASON]);
double adi_memory_bytes(const struct run *run, const struct adi_method *method);
void adi_execute(struct run *run, const struct adi_method *method);

/* Solve along every axis for what is in FIELD_CHANGE, with the state around it, multiply back, and
 * note the largest difference, of the largest right side, as a check. Overwrites the forcing. */
void adi_check_systems(struct run *run, const struct adi_method *method,
                       struct multipartition *grid, struct line_sweep *sweep);

#endif
