/* Which addresses the two sides of a network test use. */
#ifndef TARE_ADDRESS_H
#define TARE_ADDRESS_H

#include "apps/app.h"

#include <netinet/in.h>

/* Choose the addresses of both sides; each gets its own and the other's. It notes them with the
 * result. Not for idle ranks. */
void net_choose(struct run *run, int other, struct in_addr *own, struct in_addr *peer);

/* End the job and say what failed, with errno's text. */
_Noreturn void net_fail(const char *what);

#endif
