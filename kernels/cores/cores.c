/* tare-cores: how far apart are these cores, and how fast, while something else runs on them?
 *
 *     tare-cores INTERVAL_MS CORE CORE...
 *
 * A virtual machine's cores are threads of its host, which moves them: two that shared a cache are
 * on two chips a moment later, and every message between ranks on them takes three times as long.
 * Nothing in the machine tells of it but the time that a cache line takes from core to core. So one
 * thread a core hands a counter on, in the order of the cores and back to the first, and before
 * that counts a little: where another guest computes on the other half of a core, that takes half
 * as long again. Each line of the output is `SECONDS HAND-OVER COUNTING`: when the sample was due
 * by CLOCK_MONOTONIC, the shortest time of one hand-over in a few bursts, and that of the counting,
 * the mean of all cores, both in nanoseconds. A sample is over in some ten microseconds.
 *
 * The threads have real-time priority, so that all of them come up together beside a job that keeps
 * the cores busy; one that does not come up in time costs the sample, not the job. It ends when its
 * output is closed, or by a signal. */
#include "common/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_CORES = 1024,
    BURSTS = 4,
    HAND_OVERS = 16, /* at least so many in a burst: whole rounds of the ring */
    COUNTINGS = 4,
    STEPS = 800, /* of one counting: a microsecond */
    CACHE_LINE = 128,
    EXIT_USAGE = 2,
    EXIT_NO_RIGHT = 77, /* no real-time priority: not to be measured here */
    EXIT_FAILED = 1
};
static const uint64_t PATIENCE_NS = 300000;

/* The counter that is handed on: 1 + the last core that had it, over all rounds of a sample. */
struct ring {
    _Alignas(CACHE_LINE) atomic_ullong counter;
    _Alignas(CACHE_LINE) atomic_ullong counting_ns; /* of all cores together, in this sample */
    atomic_uint counted;                            /* by so many cores */
    _Alignas(CACHE_LINE) uint64_t first_ns;         /* when the first sample is due */
    uint64_t interval_ns;
    unsigned cores;
    unsigned rounds; /* of the whole ring, in a burst */
};

struct member {
    struct ring *ring;
    unsigned place;
    int core;
};

/* Return the shortest time of a few countings, each of which keeps several units of the core busy
 * at once: only then does it take longer beside another thread of the same core. */
static uint64_t count(void)
{
    uint64_t shortest_ns = UINT64_MAX;
    for (int i = 0; i < COUNTINGS; i++) {
        const uint64_t begun_ns = clock_now_ns();
        uint64_t a = begun_ns, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5;
        for (int step = 0; step < STEPS; step++) {
            a = a * 3 + 1;
            b = b * 5 + 1;
            c = c * 7 + 1;
            d = d * 9 + 1;
            e ^= e << 1;
            f += f >> 3;
            __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
        }
        const uint64_t took_ns = clock_now_ns() - begun_ns;
        shortest_ns = took_ns < shortest_ns ? took_ns : shortest_ns;
    }
    return shortest_ns;
}

static void note_counting(struct ring *ring, unsigned long long own_ns)
{
    atomic_fetch_add(&ring->counting_ns, own_ns);
    atomic_fetch_add(&ring->counted, 1);
}

/* Wait until the counter is at least `wanted`; return false where the deadline passes first. */
static bool await(struct ring *ring, unsigned long long wanted, uint64_t deadline_ns)
{
    unsigned spins = 0;
    while (atomic_load_explicit(&ring->counter, memory_order_acquire) < wanted)
        if (++spins % 64 == 0 && clock_now_ns() > deadline_ns)
            return false;
    return true;
}

static uint64_t sleep_until_due(const struct ring *ring, uint64_t number)
{
    const uint64_t due_ns = ring->first_ns + number * ring->interval_ns;
    const struct timespec due = {.tv_sec = (time_t)(due_ns / UINT64_C(1000000000)),
                                 .tv_nsec = (long)(due_ns % UINT64_C(1000000000))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        ;
    return due_ns;
}

/* Take part in one sample as the member at `place`; the first of the ring gets the shortest
 * hand-over in seconds, 0 where somebody was late. Counters of a sample begin at `base`, so that
 * one who comes too late for a sample finds it over. */
static double take_part(struct ring *ring, unsigned place, unsigned long long base,
                        uint64_t deadline_ns)
{
    double shortest_s = 0.0;
    for (unsigned burst = 0; burst < BURSTS; burst++) {
        const uint64_t begun_ns = clock_now_ns();
        for (unsigned round = 0; round < ring->rounds; round++) {
            const unsigned long long turn =
                base + (unsigned long long)(burst * ring->rounds + round) * ring->cores + place;
            if (!await(ring, turn, deadline_ns))
                return 0.0;
            atomic_store_explicit(&ring->counter, turn + 1, memory_order_release);
        }
        if (place != 0)
            continue;
        const unsigned hand_overs = ring->rounds * ring->cores;
        if (!await(ring, base + (unsigned long long)(burst + 1) * hand_overs, deadline_ns))
            return 0.0;
        const double hand_over_s = clock_difference_s(clock_now_ns(), begun_ns) / hand_overs;
        if (burst > 0 && (shortest_s <= 0.0 || hand_over_s < shortest_s))
            shortest_s = hand_over_s; /* the first burst waits for all to come up */
    }
    return shortest_s;
}

/* Its folder goes with the run. A parent that is killed before PR_SET_PDEATHSIG is set sends no
 * signal. */
static bool is_read(void)
{
    struct stat output;
    return fstat(STDOUT_FILENO, &output) == 0 && (!S_ISREG(output.st_mode) || output.st_nlink > 0);
}

static bool write_sample(struct ring *ring, uint64_t due_ns, double hand_over_s)
{
    const double counting_ns = (double)atomic_exchange(&ring->counting_ns, 0);
    const unsigned counted = atomic_exchange(&ring->counted, 0);
    return printf("%.4f %.1f %.1f\n", (double)due_ns * 1e-9, hand_over_s * 1e9,
                  counting_ns / counted) > 0 &&
           fflush(stdout) == 0 && is_read();
}

static void *run_member(void *argument)
{
    const struct member *member = argument;
    struct ring *ring = member->ring;
    const unsigned long long hand_overs = (unsigned long long)BURSTS * ring->rounds * ring->cores;
    for (uint64_t number = 0;; number++) {
        const uint64_t due_ns = sleep_until_due(ring, number);
        const uint64_t deadline_ns = due_ns + PATIENCE_NS;
        if (clock_now_ns() > deadline_ns)
            continue; /* a whole sample late: the others have given up, too */
        const unsigned long long base = number * (hand_overs + 1);
        note_counting(ring, count());
        if (member->place == 0)
            atomic_store_explicit(&ring->counter, base, memory_order_release);
        const double hand_over_s = take_part(ring, member->place, base, deadline_ns);
        if (member->place == 0 && hand_over_s > 0.0 && !write_sample(ring, due_ns, hand_over_s))
            return NULL;
    }
}

/* Give the calling process one core and real-time priority; threads that it starts inherit the
 * second. */
static int pin(pthread_t thread, int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    return pthread_setaffinity_np(thread, sizeof one, &one);
}

static int watch(struct member *members, unsigned count)
{
    const struct sched_param priority = {.sched_priority = 1};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) { /* it must not outlive who asked for it */
        fprintf(stderr, "tare-cores: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
        fprintf(stderr, "tare-cores: no real-time priority: %s\n", strerror(errno));
        return EXIT_NO_RIGHT;
    }
    for (unsigned i = 1; i < count; i++) {
        pthread_t thread;
        int failed = pthread_create(&thread, NULL, run_member, &members[i]);
        failed = failed != 0 ? failed : pin(thread, members[i].core);
        if (failed != 0) {
            fprintf(stderr, "tare-cores: no thread on core %d: %s\n", members[i].core,
                    strerror(failed));
            return EXIT_FAILED;
        }
    }
    const int failed = pin(pthread_self(), members[0].core);
    if (failed != 0) {
        fprintf(stderr, "tare-cores: core %d cannot be used: %s\n", members[0].core,
                strerror(failed));
        return EXIT_FAILED;
    }
    run_member(&members[0]);
    return EXIT_SUCCESS; /* nobody reads any more; the other threads end with the process */
}

static bool read_number(const char *word, long low, long high, long *number)
{
    char *end = NULL;
    errno = 0;
    *number = strtol(word, &end, 10);
    return errno == 0 && end != word && *end == '\0' && *number >= low && *number <= high;
}

int main(int argc, char **argv)
{
    static struct ring ring;
    static struct member members[MOST_CORES];
    long interval_ms = 0;
    if (argc < 4 || argc - 2 > MOST_CORES || !read_number(argv[1], 1, 60000, &interval_ms)) {
        fprintf(stderr, "tare-cores: usage: tare-cores INTERVAL_MS CORE CORE...; 1 to 60000 ms\n");
        return EXIT_USAGE;
    }
    ring.cores = (unsigned)argc - 2;
    ring.rounds = ring.cores < HAND_OVERS ? HAND_OVERS / ring.cores : 1;
    ring.interval_ns = (uint64_t)interval_ms * UINT64_C(1000000);
    ring.first_ns = clock_now_ns() + UINT64_C(20000000);
    for (unsigned i = 0; i < ring.cores; i++) {
        long core = 0;
        if (!read_number(argv[i + 2], 0, CPU_SETSIZE - 1, &core)) {
            fprintf(stderr, "tare-cores: %s is not a core\n", argv[i + 2]);
            return EXIT_USAGE;
        }
        members[i] = (struct member){&ring, i, (int)core};
    }
    return watch(members, ring.cores);
}
