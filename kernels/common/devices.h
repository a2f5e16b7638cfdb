#ifndef TARE_COMMON_DEVICES_H
#define TARE_COMMON_DEVICES_H

#include "common/json.h"

/* Put the devices that this process may open, but for those that every container has, into a line
 * under the key `devices`: their names below /dev, with a blank between them. */
void devices_put(struct json *line);

#endif
