/* The socket between the first and the last rank, and what goes over it. */
#include "common/check.h"
#include "net/net.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAG_PORT = 2, TAG_TALLY, PATIENCE_MS = 20000, MS_A_SECOND = 1000, RANKS_LEAST = 2 };

/* What one side tells the other before they meet. */
struct meeting {
    uint64_t token;
    in_port_t port;
};

static unsigned char body_byte(size_t place)
{
    return (unsigned char)(place * 131 + (place >> 8));
}

static struct net_link make_link(const struct run *run, size_t bytes)
{
    struct net_link link = {.socket = -1, .bytes = bytes};
    link.leads = run->rank == 0;
    link.idle = run->rank != 0 && run->rank != run->ranks - 1;
    link.other = link.leads ? run->ranks - 1 : 0;
    link.message = app_allocate(bytes, 1);
    for (size_t i = sizeof(struct net_head); i < bytes; i++)
        link.message[i] = body_byte(i);
    return link;
}

void net_patience(const struct net_link *link, long milliseconds)
{
    const struct timeval limit = {.tv_sec = milliseconds / MS_A_SECOND,
                                  .tv_usec = milliseconds % MS_A_SECOND * 1000};
    if (setsockopt(link->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(link->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
        net_fail("a time limit for a socket");
}

/* Open a socket on the own address and a port of the kernel's choice; return its port. */
static in_port_t open_socket(struct net_link *link, int type, struct in_addr own)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = own};
    socklen_t size = sizeof name;
    link->socket = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (link->socket < 0)
        net_fail("no socket");
    if (bind(link->socket, (const struct sockaddr *)&name, size) != 0 ||
        getsockname(link->socket, (struct sockaddr *)&name, &size) != 0)
        net_fail("a socket cannot have the chosen address");
    net_patience(link, PATIENCE_MS);
    return name.sin_port;
}

/* Wait for a connection whose call was interrupted: the kernel makes it all the same. */
static bool connects_after_all(int socket)
{
    struct pollfd wait = {.fd = socket, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    int ready = 0;
    do
        ready = poll(&wait, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 1 && getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
        errno = error;
    return ready == 1 && error == 0;
}

static void connect_to(const struct net_link *link, struct in_addr peer, in_port_t port)
{
    const struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = port, .sin_addr = peer};
    if (connect(link->socket, (const struct sockaddr *)&name, sizeof name) == 0)
        return;
    if (errno == EINTR && connects_after_all(link->socket))
        return;
    net_fail("the other rank's address cannot be connected to");
}

void net_send_all(const struct net_link *link, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t some = send(link->socket, from + sent, bytes - sent, MSG_NOSIGNAL);
        if (some < 0 && errno != EINTR)
            net_fail("the connection does not take data");
        sent += some > 0 ? (size_t)some : 0;
    }
}

size_t net_receive_all(const struct net_link *link, void *data, size_t bytes)
{
    unsigned char *to = data;
    size_t got = 0;
    while (got < bytes) {
        const ssize_t some = recv(link->socket, to + got, bytes - got, MSG_WAITALL);
        if (some == 0)
            break;
        if (some < 0 && errno != EINTR)
            net_fail("nothing comes over the connection");
        got += some > 0 ? (size_t)some : 0;
    }
    return got;
}

/* Take the connection of the other rank, and no one else's: it begins with the token. */
static void accept_other(struct net_link *link, struct in_addr peer)
{
    const int listener = link->socket;
    for (;;) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        socklen_t size = sizeof from;
        uint64_t token = 0;
        do
            link->socket = accept4(listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
        while (link->socket < 0 && errno == EINTR);
        if (link->socket < 0)
            net_fail("the first rank did not connect");
        net_patience(link, PATIENCE_MS);
        if (from.sin_addr.s_addr == peer.s_addr &&
            net_receive_all(link, &token, sizeof token) == sizeof token && token == link->token)
            break;
        close(link->socket);
    }
    close(listener);
}

/* Tell the other rank the own port, and hear its; the leader's token holds. */
static in_port_t meet(const struct run *run, struct net_link *link, in_port_t port)
{
    struct meeting own = {.port = port};
    struct meeting theirs = {.port = 0};
    if (getrandom(&own.token, sizeof own.token, 0) != (ssize_t)sizeof own.token)
        net_fail("no random number");
    CHECK_MPI(PMPI_Sendrecv(&own, (int)sizeof own, MPI_BYTE, link->other, TAG_PORT, &theirs,
                            (int)sizeof theirs, MPI_BYTE, link->other, TAG_PORT, run->comm,
                            MPI_STATUS_IGNORE));
    link->token = link->leads ? own.token : theirs.token;
    return theirs.port;
}

struct net_link net_open_tcp(struct run *run, size_t bytes, bool at_once)
{
    struct net_link link = make_link(run, bytes);
    if (link.idle)
        return link;
    struct in_addr own;
    struct in_addr peer;
    net_choose(run, link.other, &own, &peer);
    const in_port_t port = open_socket(&link, SOCK_STREAM, own);
    if (!link.leads && listen(link.socket, 1) != 0)
        net_fail("no listening socket");
    const in_port_t theirs = meet(run, &link, port);
    if (link.leads) {
        connect_to(&link, peer, theirs);
        net_send_all(&link, &link.token, sizeof link.token);
    } else {
        accept_other(&link, peer);
    }
    const int on = at_once;
    if (setsockopt(link.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        net_fail("TCP_NODELAY");
    return link;
}

struct net_link net_open_udp(struct run *run, size_t bytes)
{
    struct net_link link = make_link(run, bytes);
    if (link.idle)
        return link;
    struct in_addr own;
    struct in_addr peer;
    net_choose(run, link.other, &own, &peer);
    const in_port_t port = open_socket(&link, SOCK_DGRAM, own);
    connect_to(&link, peer, meet(run, &link, port)); /* from now on only its datagrams come */
    return link;
}

void net_close(struct net_link *link)
{
    if (link->socket >= 0)
        close(link->socket);
    free(link->message);
}

void net_number(struct net_link *link, uint64_t number)
{
    const struct net_head head = {.token = link->token, .number = number};
    memcpy(link->message, &head, sizeof head);
}

uint64_t net_read_number(const struct net_link *link, bool *ours)
{
    struct net_head head;
    memcpy(&head, link->message, sizeof head);
    *ours = head.token == link->token;
    return head.number;
}

bool net_body_is_right(const struct net_link *link)
{
    bool right = true;
    for (size_t i = sizeof(struct net_head); i < link->bytes; i++)
        right &= link->message[i] == body_byte(i);
    return right;
}

struct net_tally net_swap(const struct run *run, const struct net_link *link,
                          const struct net_tally *own)
{
    struct net_tally theirs = {.elapsed_s = 0.0};
    if (!link->idle)
        CHECK_MPI(PMPI_Sendrecv(own, (int)sizeof *own, MPI_BYTE, link->other, TAG_TALLY, &theirs,
                                (int)sizeof theirs, MPI_BYTE, link->other, TAG_TALLY, run->comm,
                                MPI_STATUS_IGNORE));
    return theirs;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

void net_tell_round_trips(struct run *run, double *samples, size_t count)
{
    if (count == 0)
        return;
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i];
    result_series(run, "round trip", samples, count, "s");
    qsort(samples, count, sizeof samples[0], compare);
    result_figure(run, "shortest round trip", 1e6 * samples[0], "us");
    result_figure(run, "median round trip", 1e6 * samples[count / 2], "us");
    result_figure(run, "mean round trip", 1e6 * sum / (double)count, "us");
    result_figure(run, "99th percentile of round trips", 1e6 * samples[(count - 1) * 99 / 100],
                  "us");
    result_figure(run, "longest round trip", 1e6 * samples[count - 1], "us");
}

bool net_suits(const struct run *run, char reason[APP_REASON])
{
    if (run->ranks >= RANKS_LEAST)
        return true;
    snprintf(reason, APP_REASON,
             "%s cannot run on 1 rank; allowed: 2 and more, of which the first and the last talk",
             run->app->name);
    return false;
}
