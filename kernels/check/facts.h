/* What a process sees of its node, its container and its launcher before any MPI is asked. */
#ifndef TARE_CHECK_FACTS_H
#define TARE_CHECK_FACTS_H

#include "common/json.h"

/* Put the facts into an open object: host, namespaces, cores, quota, interfaces, what the launcher
 * told, and what surrounds the process (common/surroundings.h). */
void facts_put(struct json *line);

#endif
