/* The parts of the network tests: two ranks, the first and the last, talk over a socket of their
 * own. The others wait. */
#ifndef TARE_NET_H
#define TARE_NET_H

#include "net/address.h"

enum {
    NET_MESSAGE_LEAST = 16,
    NET_MESSAGE_MOST = 1 << 28,
    NET_SAMPLES_MOST = 1000000,
    NET_MS_MOST = 600000
};

/* What is at the beginning of every message. */
struct net_head {
    uint64_t token; /* of this run: what comes from elsewhere has another */
    uint64_t number;
};
#define NET_END UINT64_MAX /* the number of a datagram that ends a test */

struct net_link {
    bool idle;  /* this rank is neither the first nor the last */
    bool leads; /* it is the first: it sends, or asks */
    int other;  /* rank */
    int socket;
    uint64_t token;
    size_t bytes; /* of a message */
    unsigned char *message;
};

/* What one side has seen. */
struct net_tally {
    double elapsed_s;
    uint64_t sent;
    uint64_t received; /* each once */
    uint64_t wrong;    /* that are not what was sent */
    uint64_t twice;
    uint64_t late;    /* that came after a later one */
    uint64_t retries; /* of sends that found no room */
    uint64_t highest; /* number that came */
};

/* Connect the two ranks. Collective; sockets are bound to the chosen addresses and to ports that
 * the kernel chooses. */
struct net_link net_open_tcp(struct run *run, size_t bytes, bool at_once);
struct net_link net_open_udp(struct run *run, size_t bytes);
void net_close(struct net_link *link);

/* Let a receive fail with EAGAIN after so long. */
void net_patience(const struct net_link *link, long milliseconds);

/* Send and receive all of so many bytes over a TCP connection, however often a signal interrupts.
 * The second returns how many came before the other side ended the connection. */
void net_send_all(const struct net_link *link, const void *data, size_t bytes);
size_t net_receive_all(const struct net_link *link, void *data, size_t bytes);

/* Write the head of the message. */
void net_number(struct net_link *link, uint64_t number);
/* Return the number of the message; set *ours to whether it has our token. */
uint64_t net_read_number(const struct net_link *link, bool *ours);
/* Return whether the rest of the message is as it was made. */
bool net_body_is_right(const struct net_link *link);

/* Give the other side what this one has seen. */
struct net_tally net_swap(const struct run *run, const struct net_link *link,
                          const struct net_tally *own);

/* Round trips, as samples in seconds. */
void net_tell_round_trips(struct run *run, double *samples, size_t count);

bool net_suits(const struct run *run, char reason[APP_REASON]);

#endif
