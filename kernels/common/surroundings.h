#ifndef TARE_COMMON_SURROUNDINGS_H
#define TARE_COMMON_SURROUNDINGS_H

#include "common/json.h"

/* Put what surrounds this process and differs between containers into an open object: its soft
 * limits (numbers, or `unlimited`), the size of /dev/shm, and the first name servers. */
void surroundings_put(struct json *line);

#endif
