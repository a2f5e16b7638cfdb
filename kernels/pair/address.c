#include "pair/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTENING = 0x0A, LINE_BYTES = 512, NETWORKS_BYTES = 1024 };

/* Tell whether an address is in `network`, as 10.0.0.0/24. */
static bool in_subnet(struct in_addr address, const char *network)
{
    char text[ADDRESS_BYTES] = "";
    const char *slash = strchr(network, '/');
    if (slash == NULL || (size_t)(slash - network) >= sizeof text)
        return false;
    memcpy(text, network, (size_t)(slash - network));
    struct in_addr wanted;
    const int bits = atoi(slash + 1);
    if (inet_pton(AF_INET, text, &wanted) != 1 || bits < 1 || bits > 32)
        return false;
    const uint32_t mask = UINT32_MAX << (32 - bits);
    return (ntohl(address.s_addr) & mask) == (ntohl(wanted.s_addr) & mask);
}

/* Tell whether an interface is among `networks`, names and subnets with commas between them. */
static bool named(const char *networks, const char *interface, struct in_addr address)
{
    char list[NETWORKS_BYTES];
    char *rest = NULL;
    if ((size_t)snprintf(list, sizeof list, "%s", networks) >= sizeof list)
        return false;
    for (char *one = strtok_r(list, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
        if (strcmp(one, interface) == 0 || in_subnet(address, one))
            return true;
    }
    return false;
}

/* Return how well an interface serves: 3 the MPI was told of it, 2 another, 1 loopback, 0 none. */
static int rank_interface(const struct ifaddrs *item)
{
    static const char *const told[] = {"OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES",
                                       "FI_TCP_IFACE", "FI_SOCKETS_IFACE"};
    if (item->ifa_addr == NULL || item->ifa_addr->sa_family != AF_INET ||
        (item->ifa_flags & IFF_UP) == 0)
        return 0;
    const struct sockaddr_in *socket_address = (const void *)item->ifa_addr;
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const char *networks = getenv(told[i]);
        if (networks != NULL && named(networks, item->ifa_name, socket_address->sin_addr))
            return 3;
    }
    return (item->ifa_flags & IFF_LOOPBACK) != 0 ? 1 : 2;
}

struct address address_own(void)
{
    struct address own = {.text = "127.0.0.1", .interface = "lo"};
    struct ifaddrs *items = NULL;
    int best = 1;
    if (getifaddrs(&items) != 0)
        return own;
    for (const struct ifaddrs *item = items; item != NULL; item = item->ifa_next) {
        const int rank = rank_interface(item);
        if (rank <= best)
            continue;
        best = rank;
        const struct sockaddr_in *socket_address = (const void *)item->ifa_addr;
        inet_ntop(AF_INET, &socket_address->sin_addr, own.text, sizeof own.text);
        snprintf(own.interface, sizeof own.interface, "%s", item->ifa_name);
    }
    freeifaddrs(items);
    return own;
}

int address_free_port(void)
{
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof any;
    int port = 0;
    if (descriptor < 0)
        return 0;
    if (bind(descriptor, (const struct sockaddr *)&any, sizeof any) == 0 &&
        getsockname(descriptor, (struct sockaddr *)&any, &length) == 0)
        port = ntohs(any.sin_port);
    close(descriptor);
    return port;
}

bool address_listened(int port)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    bool found = false;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        FILE *table = fopen(tables[i], "re");
        char line[LINE_BYTES];
        while (table != NULL && !found && fgets(line, sizeof line, table) != NULL) {
            unsigned int local = 0;
            unsigned int state = 0;
            const int read =
                sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state);
            found = read == 2 && local == (unsigned int)port && state == LISTENING;
        }
        if (table != NULL)
            fclose(table);
    }
    return found;
}
