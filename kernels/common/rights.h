#ifndef TARE_COMMON_RIGHTS_H
#define TARE_COMMON_RIGHTS_H

#include "common/json.h"

/* Put what this process may do, as the kernel tells it, into a line under the key `rights`:
 * capabilities, seccomp, no_new_privs, speculation control, the mapping of its user namespace,
 * which devices it may open, and what it has mounted where. */
void rights_put(struct json *line);

#endif
