/* What BT and SP share beside their equations: a step is the space operator's change, solved along
 * x, y and z one after the other (alternating directions, implicit), and added to the state. */
#ifndef TARE_ADI_H
#define TARE_ADI_H

#include "npb/line_sweep.h"

struct adi_method {
    const struct pseudo_problem *problems;
    double operations[4]; /* nominal, of a step: factors of n^3, n^2, n and 1 */
    const struct line_solver *solver;
};

/* Those of struct app. */
bool adi_suits(const struct run *run, const struct adi_method *method, char reason[APP_REASON]);
double adi_memory_bytes(const struct run *run, const struct adi_method *method);
void adi_execute(struct run *run, const struct adi_method *method);

#endif
