/* net-tcp-stream, net-tcp-pingpong, net-tcp-rtt: a TCP connection after HPCBENCH (Huang, Bauer,
 * Katchabaw, HPCS 2005). */
#include "common/check.h"
#include "common/clock.h"
#include "net/net.h"

#include <stdlib.h>
#include <sys/socket.h>

enum { WARM_UP = 16, NS_A_MS = 1000000 };

static const double bits_of_byte = 8e-6; /* in Mb */

static void send_message(const struct net_link *link)
{
    net_send_all(link, link->message, link->bytes);
}

/* Return whether a whole message came; a part of one counts as wrong. */
static bool receive_message(const struct net_link *link, struct net_tally *tally)
{
    const size_t got = net_receive_all(link, link->message, link->bytes);
    tally->wrong += got > 0 && got != link->bytes;
    return got == link->bytes;
}

static void take_message(const struct net_link *link, struct net_tally *tally)
{
    bool ours = false;
    const uint64_t number = net_read_number(link, &ours);
    tally->wrong += !ours || number != tally->received;
    tally->received++;
}

static uint64_t deadline_of(const struct run *run)
{
    return run->started_ns + (uint64_t)run_value(run, "milliseconds") * NS_A_MS;
}

static void stream(const struct run *run, struct net_link *link, struct net_tally *tally)
{
    const uint64_t deadline_ns = deadline_of(run);
    if (link->leads) {
        do {
            net_number(link, tally->sent++);
            send_message(link);
        } while (clock_now_ns() < deadline_ns);
        if (shutdown(link->socket, SHUT_WR) != 0)
            net_fail("the connection cannot be ended");
    } else {
        while (receive_message(link, tally))
            take_message(link, tally);
    }
    tally->elapsed_s = clock_difference_s(clock_now_ns(), run->started_ns);
}

/* Give messages back until none comes, or until so many were. */
static void echo(const struct net_link *link, struct net_tally *tally, uint64_t most)
{
    while (tally->sent < most && receive_message(link, tally)) {
        take_message(link, tally);
        send_message(link);
        tally->sent++;
    }
}

static void go_and_return(struct net_link *link, struct net_tally *tally)
{
    net_number(link, tally->sent++);
    send_message(link);
    if (receive_message(link, tally))
        take_message(link, tally);
    else
        FATAL("the connection ended in the middle");
}

static void check_messages(struct run *run, const struct net_link *link,
                           const struct net_tally *own, const struct net_tally *theirs,
                           bool both_ways)
{
    const double bytes = (double)link->bytes;
    const uint64_t struck = run_is_struck(run);
    result_check(run, "bytes received", (double)(theirs->received - struck) * bytes,
                 (double)own->sent * bytes, 0.0);
    result_check(run, "messages that are not what was sent", (double)(own->wrong + theirs->wrong),
                 0.0, 0.0);
    if (both_ways)
        result_check(run, "bytes that came back", (double)own->received * bytes,
                     (double)theirs->sent * bytes, 0.0);
    result_figure(run, "messages", (double)own->sent, "messages");
}

static void execute_stream(struct run *run)
{
    struct net_link link = net_open_tcp(run, (size_t)run_value(run, "bytes"), false);
    struct net_tally own = {.elapsed_s = 0.0};
    run_start(run);
    if (!link.idle)
        stream(run, &link, &own);
    run_join(run, link.idle);
    run_stop(run);
    own.wrong += !link.idle && !net_body_is_right(&link); /* of the last message */
    const struct net_tally theirs = net_swap(run, &link, &own);
    if (link.leads) {
        message_socket(run, link.bytes, own.sent, own.sent, link.other);
        run->result.elapsed_s = theirs.elapsed_s; /* the rate is the receiver's */
        run->result.operations = (double)theirs.received * (double)link.bytes * bits_of_byte;
        result_figure(run, "throughput of the sender",
                      (double)own.sent * (double)link.bytes * bits_of_byte / own.elapsed_s, "Mb/s");
    }
    check_messages(run, &link, &own, &theirs, false);
    net_close(&link);
}

/* Let messages go and return: for a time, or so many whose times are kept. */
static void ask(struct run *run, struct net_link *link, struct net_tally *tally, double *samples,
                uint64_t count)
{
    const uint64_t deadline_ns = samples == NULL ? deadline_of(run) : 0;
    uint64_t before_ns = run->started_ns;
    for (uint64_t i = 0; samples == NULL ? before_ns < deadline_ns : i < count; i++) {
        go_and_return(link, tally);
        const uint64_t now_ns = clock_now_ns();
        if (samples != NULL)
            samples[i] = clock_difference_s(now_ns, before_ns);
        before_ns = now_ns;
    }
    tally->elapsed_s = clock_difference_s(clock_now_ns(), run->started_ns);
}

/* Round trips: `count` of them with samples, else as many as the time allows. */
static void execute_round_trips(struct run *run, double *samples, uint64_t count)
{
    struct net_link link = net_open_tcp(run, (size_t)run_value(run, "bytes"), true);
    struct net_tally own = {.elapsed_s = 0.0};
    for (int i = 0; i < WARM_UP && link.leads; i++)
        go_and_return(&link, &own);
    if (!link.idle && !link.leads)
        echo(&link, &own, WARM_UP);
    run_start(run);
    if (link.leads) {
        ask(run, &link, &own, samples, count);
        if (shutdown(link.socket, SHUT_WR) != 0)
            net_fail("the connection cannot be ended");
    } else if (!link.idle) {
        echo(&link, &own, UINT64_MAX);
    }
    run_join(run, link.idle);
    run_stop(run);
    own.wrong += !link.idle && !net_body_is_right(&link);
    const struct net_tally theirs = net_swap(run, &link, &own);
    if (!link.idle)
        message_socket(run, link.bytes, own.sent - WARM_UP, own.sent - WARM_UP, link.other);
    if (link.leads) {
        const double round_trips = (double)(own.sent - WARM_UP);
        run->result.elapsed_s = own.elapsed_s;
        run->result.operations =
            samples == NULL ? 2.0 * round_trips * (double)link.bytes * bits_of_byte : round_trips;
    }
    check_messages(run, &link, &own, &theirs, true);
    net_close(&link);
}

static void execute_pingpong(struct run *run)
{
    execute_round_trips(run, NULL, 0);
}

static void execute_rtt(struct run *run)
{
    const size_t count = (size_t)run_value(run, "round_trips");
    double *samples = app_allocate(count, sizeof samples[0]);
    execute_round_trips(run, samples, count);
    net_tell_round_trips(run, samples, count);
    free(samples);
}

static double memory_bytes(const struct run *run)
{
    return (double)run_value(run, "bytes") + 4096.0;
}

static double rtt_memory_bytes(const struct run *run)
{
    return memory_bytes(run) + 2.0 * sizeof(double) * (double)run_value(run, "round_trips");
}

const struct app app_net_tcp_stream = {
    .name = "net-tcp-stream",
    .description = "TCP throughput one way, from the first rank to the last",
    .rate = "Mb/s",
    .timed = "from the common start to the last byte at the receiver; payload only",
    .pattern = "messages of 64 KiB over a socket past MPI; all other ranks wait",
    .parameters =
        {
            {"bytes", "of a message", 65536, NET_MESSAGE_LEAST, NET_MESSAGE_MOST},
            {"milliseconds", "how long messages are sent", 5000, 1, NET_MS_MOST},
        },
    .suits = net_suits,
    .memory_bytes = memory_bytes,
    .execute = execute_stream,
};

const struct app app_net_tcp_pingpong = {
    .name = "net-tcp-pingpong",
    .description = "TCP throughput both ways, one message at a time",
    .rate = "Mb/s",
    .timed = "round trips, until the time is over; payload of both directions",
    .pattern = "a message of 64 KiB goes and returns over a socket past MPI; all other ranks wait",
    .parameters =
        {
            {"bytes", "of a message", 65536, NET_MESSAGE_LEAST, NET_MESSAGE_MOST},
            {"milliseconds", "how long messages are sent", 5000, 1, NET_MS_MOST},
        },
    .suits = net_suits,
    .memory_bytes = memory_bytes,
    .execute = execute_pingpong,
};

const struct app app_net_tcp_rtt = {
    .name = "net-tcp-rtt",
    .description = "TCP round trips of small messages",
    .rate = "round trips/s",
    .timed = "all round trips, each with a time of its own",
    .pattern =
        "a message of 64 bytes goes and returns over a socket past MPI; all other ranks wait",
    .parameters =
        {
            {"bytes", "of a message", 64, NET_MESSAGE_LEAST, NET_MESSAGE_MOST},
            {"round_trips", "that are timed", 10000, 1, NET_SAMPLES_MOST},
        },
    .suits = net_suits,
    .memory_bytes = rtt_memory_bytes,
    .execute = execute_rtt,
};
