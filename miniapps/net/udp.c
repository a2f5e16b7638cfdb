/* net-udp-stream, net-udp-rtt: datagrams after HPCBENCH (Huang, Bauer, Katchabaw, HPCS 2005). */
#include "common/check.h"
#include "common/clock.h"
#include "net/net.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    NS_A_MS = 1000000,
    BYTES_LEAST = 1024 * 1024, /* a stream is at least so long */
    DATAGRAMS_A_MS = 4000,     /* more than any kernel sends */
    DATAGRAM_MOST = 65507,     /* of IPv4 */
    ENDS = 10,                 /* end marks, of which one must arrive */
    ENDS_PAUSE_NS = 1000000,
    PATIENCE_MS = 200, /* silences are counted in these: a machine that stands still is none */
    START_PATIENCE_MS = 10000, /* for the first datagram */
    SILENCE_MS = 2000,         /* that ends a test whose end marks were lost */
    DRAIN_MS = 20,
    WARM_UP = 16,
    WORD_BITS = 64
};

static const double bits_of_byte = 8e-6; /* in Mb */

/* Return whether the datagram left; the kernel may have no room for it, or the other side nobody
 * who listens any more. */
static bool send_datagram(const struct net_link *link)
{
    ssize_t sent = 0;
    do
        sent = send(link->socket, link->message, link->bytes, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != ENOBUFS && errno != EAGAIN && errno != ECONNREFUSED)
        net_fail("a datagram cannot be sent");
    return sent == (ssize_t)link->bytes;
}

/* Return whether one came before patience ended; *number is NET_END for an end mark. */
static bool receive_datagram(const struct net_link *link, struct net_tally *tally, uint64_t *number)
{
    for (;;) {
        bool ours = false;
        const ssize_t got = recv(link->socket, link->message, link->bytes, MSG_TRUNC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == ECONNREFUSED))
            return false;
        if (got < 0)
            net_fail("datagrams cannot be received");
        if (got == (ssize_t)link->bytes)
            *number = net_read_number(link, &ours);
        if (ours)
            return true;
        tally->wrong++;
    }
}

static void send_end_marks(struct net_link *link)
{
    net_number(link, NET_END);
    for (int i = 0; i < ENDS; i++) {
        send_datagram(link);
        clock_sleep_ns(ENDS_PAUSE_NS);
    }
}

static uint64_t most_datagrams(const struct run *run)
{
    return (uint64_t)run_value(run, "milliseconds") * DATAGRAMS_A_MS + BYTES_LEAST;
}

/* Send for the given time, but not less than 1 MiB. */
static void send_stream(const struct run *run, struct net_link *link, struct net_tally *tally)
{
    const uint64_t deadline_ns =
        run->started_ns + (uint64_t)run_value(run, "milliseconds") * NS_A_MS;
    const uint64_t most = most_datagrams(run);
    uint64_t now_ns = run->started_ns;
    while ((now_ns < deadline_ns || tally->sent * link->bytes < BYTES_LEAST) &&
           tally->sent < most) {
        net_number(link, tally->sent);
        if (send_datagram(link))
            tally->sent++;
        else
            tally->retries++;
        now_ns = clock_now_ns();
    }
    tally->elapsed_s = clock_difference_s(now_ns, run->started_ns);
    send_end_marks(link);
}

static void take_number(struct net_tally *tally, uint64_t *seen, uint64_t most, uint64_t number)
{
    if (number >= most) {
        tally->wrong++;
        return;
    }
    const uint64_t bit = UINT64_C(1) << (number % WORD_BITS);
    if ((seen[number / WORD_BITS] & bit) != 0) {
        tally->twice++;
        return;
    }
    seen[number / WORD_BITS] |= bit;
    tally->late += tally->received > 0 && number < tally->highest;
    if (number > tally->highest)
        tally->highest = number;
    tally->received++;
}

/* Receive until an end mark or silence, then what may have been overtaken by the mark. */
static void receive_stream(const struct run *run, struct net_link *link, struct net_tally *tally,
                           uint64_t *seen)
{
    const uint64_t most = most_datagrams(run);
    uint64_t last_ns = run->started_ns;
    int silence_ms = 0;
    bool ended = false;
    for (;;) {
        uint64_t number = 0;
        if (!receive_datagram(link, tally, &number)) {
            silence_ms += PATIENCE_MS;
            if (ended || silence_ms > (tally->received > 0 ? SILENCE_MS : START_PATIENCE_MS))
                break;
        } else if (number == NET_END) {
            if (!ended)
                net_patience(link, DRAIN_MS);
            ended = true;
        } else {
            take_number(tally, seen, most, number);
            last_ns = clock_now_ns();
            silence_ms = 0;
        }
    }
    tally->elapsed_s = clock_difference_s(last_ns, run->started_ns);
}

static void tell_stream(struct run *run, const struct net_link *link, const struct net_tally *own,
                        const struct net_tally *theirs)
{
    const double megabits = (double)link->bytes * bits_of_byte;
    const double sent = (double)own->sent;
    const double received = (double)theirs->received;
    message_socket(run, link->bytes, own->sent, theirs->received, link->other);
    run->result.elapsed_s = theirs->elapsed_s; /* the rate is the receiver's */
    run->result.operations = received * megabits;
    result_figure(run, "throughput of the sender", sent * megabits / own->elapsed_s, "Mb/s");
    result_figure(run, "loss", 100.0 * (sent - received) / sent, "%");
    result_figure(run, "datagrams sent", sent, "datagrams");
    result_figure(run, "datagrams received", received, "datagrams");
    result_figure(run, "datagrams after a later one", (double)theirs->late, "datagrams");
    result_figure(run, "sends that found no room", (double)own->retries, "datagrams");
}

static void execute_stream(struct run *run)
{
    struct net_link link = net_open_udp(run, (size_t)run_value(run, "bytes"));
    struct net_tally own = {.elapsed_s = 0.0};
    uint64_t *seen = app_allocate(most_datagrams(run) / WORD_BITS + 1, sizeof seen[0]);
    if (!link.idle)
        net_patience(&link, PATIENCE_MS);
    run_start(run);
    if (link.leads)
        send_stream(run, &link, &own);
    else if (!link.idle)
        receive_stream(run, &link, &own, seen);
    run_join(run, link.idle);
    run_stop(run);
    own.wrong += !link.idle && !net_body_is_right(&link);
    own.twice += run_is_struck(run);
    const struct net_tally theirs = net_swap(run, &link, &own);
    if (link.leads)
        tell_stream(run, &link, &own, &theirs);
    result_check(run, "datagrams that came twice", (double)theirs.twice, 0.0, 0.0);
    result_check(run, "datagrams that are not what was sent",
                 (double)(theirs.wrong + (theirs.received > 0 && theirs.highest >= own.sent)), 0.0,
                 0.0);
    result_check(run, "whether any datagram came", theirs.received > 0, 1.0, 0.0);
    free(seen);
    net_close(&link);
}

/* Send a datagram and wait until it is back; return whether it is. Answers to earlier ones that
 * were given up are passed over. */
static bool go_and_return(struct net_link *link, struct net_tally *tally, uint64_t number)
{
    uint64_t back = 0;
    net_number(link, number);
    while (!send_datagram(link))
        tally->retries++;
    tally->sent++;
    while (receive_datagram(link, tally, &back)) {
        if (back == number) {
            tally->received++;
            return true;
        }
        tally->late += back < number;
        tally->wrong += back > number;
    }
    return false;
}

/* Give every datagram back until an end mark or silence. */
static void echo(struct net_link *link, struct net_tally *tally)
{
    uint64_t number = 0;
    int silence_ms = 0;
    while (silence_ms <= START_PATIENCE_MS) {
        if (!receive_datagram(link, tally, &number)) {
            silence_ms += PATIENCE_MS;
            continue;
        }
        if (number == NET_END)
            return;
        silence_ms = 0;
        tally->received++;
        tally->sent += send_datagram(link);
    }
}

static size_t ask(struct net_link *link, struct net_tally *tally, double *samples, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t before_ns = clock_now_ns();
        if (go_and_return(link, tally, WARM_UP + i))
            samples[kept++] = clock_difference_s(clock_now_ns(), before_ns);
    }
    return kept;
}

static void execute_rtt(struct run *run)
{
    struct net_link link = net_open_udp(run, (size_t)run_value(run, "bytes"));
    struct net_tally own = {.elapsed_s = 0.0};
    const size_t count = (size_t)run_value(run, "round_trips");
    double *samples = app_allocate(count, sizeof samples[0]);
    size_t kept = 0;
    if (!link.idle)
        net_patience(&link, PATIENCE_MS);
    run_start(run);
    if (link.leads) {
        for (uint64_t i = 0; i < WARM_UP; i++)
            go_and_return(&link, &own, i);
        run->started_ns = clock_now_ns();
        kept = ask(&link, &own, samples, count);
        own.elapsed_s = clock_difference_s(clock_now_ns(), run->started_ns);
        send_end_marks(&link);
    } else if (!link.idle) {
        echo(&link, &own);
    }
    run_join(run, link.idle);
    run_stop(run);
    own.wrong += !link.idle && !net_body_is_right(&link);
    const struct net_tally theirs = net_swap(run, &link, &own);
    if (!link.idle)
        message_socket(run, link.bytes, own.sent, theirs.received, link.other);
    if (link.leads) {
        run->result.elapsed_s = own.elapsed_s;
        run->result.operations = (double)kept;
        result_figure(run, "loss", 100.0 * (double)(count - kept) / (double)count, "%");
        net_tell_round_trips(run, samples, kept);
    }
    own.wrong += (uint64_t)run_is_struck(run);
    result_check(run, "datagrams that are not what was sent", (double)(own.wrong + theirs.wrong),
                 0.0, 0.0);
    result_check(run, "whether any datagram came back", kept > 0, 1.0, 0.0);
    free(samples);
    net_close(&link);
}

static double stream_memory_bytes(const struct run *run)
{
    return (double)run_value(run, "bytes") + (double)most_datagrams(run) / 8.0;
}

static double rtt_memory_bytes(const struct run *run)
{
    return (double)run_value(run, "bytes") +
           2.0 * sizeof(double) * (double)run_value(run, "round_trips");
}

const struct app app_net_udp_stream = {
    .name = "net-udp-stream",
    .description = "UDP throughput one way, from the first rank to the last, and loss",
    .rate = "Mb/s",
    .timed = "from the common start to the last datagram at the receiver; payload only",
    .pattern =
        "datagrams over a socket past MPI, as fast as the kernel takes them; all other ranks "
        "wait",
    .parameters =
        {
            {"bytes", "of a datagram", 1460, NET_MESSAGE_LEAST, DATAGRAM_MOST},
            {"milliseconds", "how long datagrams are sent, if they are 1 MiB by then", 5000, 1,
             NET_MS_MOST},
        },
    .suits = net_suits,
    .memory_bytes = stream_memory_bytes,
    .execute = execute_stream,
};

const struct app app_net_udp_rtt = {
    .name = "net-udp-rtt",
    .description = "UDP round trips of small datagrams",
    .rate = "round trips/s",
    .timed = "all round trips, each with a time of its own",
    .pattern =
        "a datagram of 64 bytes goes and returns over a socket past MPI; all other ranks wait",
    .parameters =
        {
            {"bytes", "of a datagram", 64, NET_MESSAGE_LEAST, DATAGRAM_MOST},
            {"round_trips", "that are timed", 10000, 1, NET_SAMPLES_MOST},
        },
    .suits = net_suits,
    .memory_bytes = rtt_memory_bytes,
    .execute = execute_rtt,
};
