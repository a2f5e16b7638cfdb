/* Which addresses the two sides use.
 *
 * TARE_NET_ADDRESS names an address, a subnet (10.0.0.0/24) or an interface; each side takes the
 * address of its own that fits. Without it, sides with one network namespace take its loopback, and
 * others the network that the MPI was told to use, as that is what a study measures; where it was
 * told none, the first pair of addresses in one subnet, or else those by which the kernel would
 * reach the other. */
#include "net/address.h"

#include "common/check.h"
#include "common/locality.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ADDRESSES_MOST = 32,
    TAG_ADDRESS = 1,
    PROBE_PORT = 9,
    ID_SIZE = 2 * BOOT_ID_SIZE,
    BITS = 32
};

/* The IPv4 addresses of this network namespace. */
struct addresses {
    int count;
    struct in_addr address[ADDRESSES_MOST];
    struct in_addr mask[ADDRESSES_MOST];
    char interface[ADDRESSES_MOST][IF_NAMESIZE];
    char loopback[ADDRESSES_MOST];
};

_Noreturn void net_fail(const char *what)
{
    char text[4 * APP_TEXT];
    snprintf(text, sizeof text, "%.120s: %.80s", what, strerror(errno));
    FATAL(text);
}

static struct in_addr address_of(const struct sockaddr *from)
{
    struct sockaddr_in in;
    memcpy(&in, from, sizeof in);
    return in.sin_addr;
}

static struct addresses list_addresses(void)
{
    struct addresses list = {.count = 0};
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        net_fail("the addresses of this host cannot be listed");
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_netmask == NULL || list.count == ADDRESSES_MOST ||
            one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0)
            continue;
        list.address[list.count] = address_of(one->ifa_addr);
        list.mask[list.count] = address_of(one->ifa_netmask);
        list.loopback[list.count] = (one->ifa_flags & IFF_LOOPBACK) != 0;
        snprintf(list.interface[list.count++], IF_NAMESIZE, "%s", one->ifa_name);
    }
    freeifaddrs(all);
    return list;
}

/* Return whether the i-th address is what is wished: an address, a subnet or an interface. */
static bool fits(const struct addresses *list, int i, const char *wish)
{
    char text[APP_TEXT];
    struct in_addr network;
    const char *slash = strchr(wish, '/');
    if (slash == NULL)
        return strcmp(list->interface[i], wish) == 0 || (inet_pton(AF_INET, wish, &network) == 1 &&
                                                         network.s_addr == list->address[i].s_addr);
    snprintf(text, sizeof text, "%.*s", (int)(slash - wish), wish);
    const long bits = strtol(slash + 1, NULL, 10);
    if (inet_pton(AF_INET, text, &network) != 1 || bits < 1 || bits > BITS)
        return false;
    const in_addr_t mask = htonl((uint32_t)(UINT64_MAX << (BITS - bits)));
    return (list->address[i].s_addr & mask) == (network.s_addr & mask);
}

static struct in_addr wished(const struct addresses *list, const char *wish)
{
    for (int i = 0; i < list->count; i++)
        if (fits(list, i, wish))
            return list->address[i];
    char text[4 * APP_TEXT];
    snprintf(text, sizeof text,
             "TARE_NET_ADDRESS=%.80s is no address, subnet or interface of this host; allowed: one "
             "that is up and has an IPv4 address",
             wish);
    FATAL(text);
}

/* Find the own address in what the MPI was told: words with commas between them. */
static bool told_to_mpi(const struct addresses *list, struct in_addr *own)
{
    static const char *const variables[] = {"OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES",
                                            "FI_TCP_IFACE"};
    for (size_t v = 0; v < sizeof variables / sizeof variables[0]; v++) {
        const char *value = getenv(variables[v]);
        char *words = strdup(value == NULL ? "" : value);
        char *rest = words;
        bool found = false;
        if (words == NULL)
            FATAL("out of memory");
        for (const char *word = strtok_r(words, ",", &rest); word != NULL && !found;
             word = strtok_r(NULL, ",", &rest)) {
            for (int i = 0; i < list->count && !found; i++) {
                found = !list->loopback[i] && fits(list, i, word);
                *own = list->address[i];
            }
        }
        free(words);
        if (found)
            return true;
    }
    return false;
}

/* What two ranks have in common that share a network namespace. */
static void name_namespace(char name[ID_SIZE])
{
    struct stat found = {.st_ino = 0};
    memset(name, 0, ID_SIZE);
    locality_boot_id(name);
    if (stat("/proc/self/ns/net", &found) == 0)
        snprintf(name + BOOT_ID_SIZE, ID_SIZE - BOOT_ID_SIZE, "%lu", (unsigned long)found.st_ino);
}

/* Return the address from which the kernel would send to another; false if there is no way. */
static bool source_for(struct in_addr to, struct in_addr *source)
{
    struct sockaddr_in peer = {
        .sin_family = AF_INET, .sin_port = htons(PROBE_PORT), .sin_addr = to};
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t size = sizeof own;
    const int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        net_fail("no socket");
    /* connecting a datagram socket sends nothing */
    const bool found = connect(probe, (const struct sockaddr *)&peer, sizeof peer) == 0 &&
                       getsockname(probe, (struct sockaddr *)&own, &size) == 0;
    close(probe);
    *source = own.sin_addr;
    return found && (ntohl(own.sin_addr.s_addr) >> 24) != IN_LOOPBACKNET;
}

/* Choose for both sides: the own address, then the other's. */
static void choose_pair(const struct addresses *own, const struct addresses *theirs,
                        struct in_addr pair[2])
{
    for (int i = 0; i < own->count; i++) {
        for (int j = 0; j < theirs->count; j++) {
            const in_addr_t one = own->address[i].s_addr;
            const in_addr_t other = theirs->address[j].s_addr;
            if (!own->loopback[i] && !theirs->loopback[j] && one != other &&
                own->mask[i].s_addr == theirs->mask[j].s_addr &&
                (one & own->mask[i].s_addr) == (other & own->mask[i].s_addr)) {
                pair[0] = own->address[i];
                pair[1] = theirs->address[j];
                return;
            }
        }
    }
    for (int j = 0; j < theirs->count; j++) {
        pair[1] = theirs->address[j];
        if (!theirs->loopback[j] && source_for(pair[1], &pair[0]) &&
            pair[0].s_addr != pair[1].s_addr)
            return;
    }
    FATAL("no address of the other host can be reached; name one by TARE_NET_ADDRESS");
}

static void swap(const struct run *run, int other, const void *own, void *theirs, size_t bytes)
{
    CHECK_MPI(PMPI_Sendrecv(own, (int)bytes, MPI_BYTE, other, TAG_ADDRESS, theirs, (int)bytes,
                            MPI_BYTE, other, TAG_ADDRESS, run->comm, MPI_STATUS_IGNORE));
}

/* Take what both sides' MPI was told; return whether there is such a thing. */
static bool choose_as_mpi(const struct run *run, int other, const struct addresses *list,
                          struct in_addr pair[2])
{
    struct told {
        struct in_addr address;
        int is_there;
    };
    struct told own = {.is_there = 0};
    struct told theirs = {.is_there = 0};
    own.is_there = told_to_mpi(list, &own.address);
    swap(run, other, &own, &theirs, sizeof own);
    pair[0] = own.address;
    pair[1] = theirs.address;
    return own.is_there && theirs.is_there && pair[0].s_addr != pair[1].s_addr;
}

static void choose_freely(const struct run *run, int other, const struct addresses *list,
                          struct in_addr pair[2])
{
    char own_name[ID_SIZE];
    char other_name[ID_SIZE];
    name_namespace(own_name);
    swap(run, other, own_name, other_name, sizeof own_name);
    if (memcmp(own_name, other_name, sizeof own_name) == 0) {
        pair[0].s_addr = pair[1].s_addr = htonl(INADDR_LOOPBACK);
        return;
    }
    if (choose_as_mpi(run, other, list, pair))
        return;
    struct addresses theirs;
    swap(run, other, list, &theirs, sizeof theirs);
    struct in_addr chosen[2] = {{0}, {0}};
    if (run->rank == 0)
        choose_pair(list, &theirs, chosen);
    swap(run, other, chosen, pair, sizeof chosen);
    if (run->rank == 0) {
        pair[0] = chosen[0];
        pair[1] = chosen[1];
    } else {
        const struct in_addr swapped = pair[0];
        pair[0] = pair[1];
        pair[1] = swapped;
    }
}

static void note_address(struct run *run, const char *name, struct in_addr address)
{
    char text[INET_ADDRSTRLEN] = "";
    if (inet_ntop(AF_INET, &address, text, sizeof text) != NULL)
        result_note(run, name, text);
}

void net_choose(struct run *run, int other, struct in_addr *own, struct in_addr *peer)
{
    const struct addresses list = list_addresses();
    const char *wish = getenv("TARE_NET_ADDRESS");
    const int has_wish = wish != NULL && wish[0] != '\0';
    int other_has = 0;
    struct in_addr pair[2] = {{0}, {0}};
    swap(run, other, &has_wish, &other_has, sizeof has_wish);
    if (has_wish != other_has)
        FATAL("TARE_NET_ADDRESS must be set for the first and the last rank, or for neither");
    if (has_wish) {
        pair[0] = wished(&list, wish);
        swap(run, other, &pair[0], &pair[1], sizeof pair[0]);
    } else {
        choose_freely(run, other, &list, pair);
    }
    *own = pair[0];
    *peer = pair[1];
    note_address(run, "address of the first rank", pair[0]);
    note_address(run, "address of the last rank", pair[1]);
}
