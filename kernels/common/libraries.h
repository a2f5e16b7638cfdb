#ifndef TARE_COMMON_LIBRARIES_H
#define TARE_COMMON_LIBRARIES_H

#include "common/json.h"

/* Put the paths of the MPI's, the fabrics' and the C library's files that this process has loaded
 * into a line under the key `libraries`, in order of their names. */
void libraries_put(struct json *line);

#endif
