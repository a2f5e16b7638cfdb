#include "common/turns.h"

#include "common/check.h"
#include "common/output.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEY_LENGTH = 16, HELLO_BYTES = KEY_LENGTH + 1 + 8 + 1 }; /* key, blank, rank, newline */

bool turns_parse(const char *text, struct turns_request *request)
{
    struct in_addr address;
    char end = '\0';
    *request = (struct turns_request){0};
    const int found = sscanf(text, "%5d@%15[0-9.]:%5d/%16[0-9a-f]%c", &request->count,
                             request->address, &request->port, request->name, &end);
    return found == 4 && request->count > 0 && request->count <= TURNS_MOST && request->port > 0 &&
           request->port <= UINT16_MAX && strlen(request->name) == TURNS_NAME_LENGTH &&
           inet_pton(AF_INET, request->address, &address) == 1;
}

static _Noreturn void fail(const char *what)
{
    char reason[128];
    snprintf(reason, sizeof reason, "cannot take turns with other jobs: %s: %s", what,
             strerror(errno));
    FATAL(reason);
}

static void write_all(int socket, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = send(socket, bytes, count, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail("send");
        bytes += written;
        count -= (size_t)written;
    }
}

static int connected(const struct turns_request *request)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)request->port)};
    const int on = 1;
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0)
        fail("socket");
    if (inet_pton(AF_INET, request->address, &where.sin_addr) != 1)
        FATAL("--turns has no address");
    if (connect(made, (const struct sockaddr *)&where, sizeof where) != 0)
        fail(request->address);
    if (setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("TCP_NODELAY");
    return made;
}

struct turns turns_open(const struct turns_request *request, MPI_Comm world)
{
    struct turns turns = {.count = request->count, .socket = -1, .world = world};
    char hello[HELLO_BYTES + 1];
    char key[OUTPUT_KEY_SIZE];
    output_key(key);
    if (strlen(key) != 1 + KEY_LENGTH)
        FATAL("cannot take turns with other jobs: TARE_PADDING has no key");
    CHECK_MPI(PMPI_Comm_rank(world, &turns.rank));
    turns.socket = connected(request);
    snprintf(hello, sizeof hello, "%.*s %8d\n", KEY_LENGTH, key + 1, turns.rank);
    write_all(turns.socket, hello, HELLO_BYTES);
    return turns;
}

static void read_turn(const struct turns *turns)
{
    char byte = '\0';
    ssize_t got = 0;
    do
        got = recv(turns->socket, &byte, 1, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        fail("recv");
    if (got == 0)
        FATAL("whoever gives the turns has gone");
}

void turns_next(const struct turns *turns)
{
    CHECK_MPI(PMPI_Barrier(turns->world));
    if (turns->rank == 0)
        write_all(turns->socket, "d", 1);
    read_turn(turns);
    CHECK_MPI(PMPI_Barrier(turns->world));
}

void turns_pass(const struct turns *turns, int many)
{
    for (int i = 0; i < many; i++)
        read_turn(turns);
}

void turns_close(struct turns *turns)
{
    if (turns->socket >= 0)
        close(turns->socket);
    turns->socket = -1;
}
