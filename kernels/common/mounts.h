#ifndef TARE_COMMON_MOUNTS_H
#define TARE_COMMON_MOUNTS_H

#include "common/json.h"

/* Put what this process has mounted, but for the kernel's own file systems, into a line under the
 * key `mounts`: one a line, `rw MAJOR:MINOR FOLDER` or `ro ...`, as /proc/self/mountinfo writes
 * them, the later over the earlier. */
void mounts_put(struct json *line);

#endif
