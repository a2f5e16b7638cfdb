/* The address by which other hosts of a job reach this one, and ports on it. */
#ifndef TARE_PAIR_ADDRESS_H
#define TARE_PAIR_ADDRESS_H

#include <stdbool.h>

enum { ADDRESS_BYTES = 64, INTERFACE_BYTES = 32 };

/* One IPv4 address of this host and the interface that has it. */
struct address {
    char text[ADDRESS_BYTES];
    char interface[INTERFACE_BYTES];
};

/* Return the address on the network that the MPI was told to use (Open MPI: btl_tcp_if_include,
 * UCX: UCX_NET_DEVICES), else the first one that is not loopback's, else loopback's. */
struct address address_own(void);

/* Return a TCP port that nothing uses now, or 0. */
int address_free_port(void);

/* Tell whether something in this network namespace listens on a TCP port. Nothing is sent: a server
 * that serves one client only must not be used up. */
bool address_listened(int port);

#endif
