/* Bring a measurement's samples together and write its line. */
#ifndef TARE_RESULT_H
#define TARE_RESULT_H

#include "common/locality.h"
#include "common/runner.h"

/* Write the kernel line on rank 0 of the measurement's communicator; collective over it, and to be
 * called by its members only. Return false when stdout takes no more. */
bool result_write(const struct measurement *measurement, int index, bool with_samples,
                  const struct locality *locality);

#endif
