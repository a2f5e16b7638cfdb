/* What a kernel is: one constant struct, and the job that the harness hands to its functions. */
#ifndef TARE_KERNEL_H
#define TARE_KERNEL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_BYTES = 4096 };
enum { TAG_DATA = 1, TAG_REPLY = 2, TAG_CONTROL = 3 };

enum sync_mode { SYNC_NONE, SYNC_BARRIER, SYNC_WINDOW };

enum members {
    MEMBERS_ALL,
    MEMBERS_PAIR /* rank 0 and the last rank; the others sleep */
};

enum samples {
    SAMPLES_ALL_RANKS,  /* every rank's time of one iteration */
    SAMPLES_FIRST_RANK, /* the time of one iteration on rank 0, the only one that means anything */
    SAMPLES_GAPS        /* rank 0: between starts; rank 1: between completions */
};

/* The keys that a kernel's specification may hold. */
enum key {
    KEY_BYTES = 1 << 0,
    KEY_ITERATIONS = 1 << 1,
    KEY_WARMUP = 1 << 2,
    KEY_WINDOW = 1 << 3,
    KEY_RATE = 1 << 4,
    KEY_SYNC = 1 << 5,
    KEY_SKEW = 1 << 6,
    KEYS_COMMON = KEY_BYTES | KEY_ITERATIONS | KEY_WARMUP | KEY_SYNC | KEY_SKEW
};

struct settings {
    int message_bytes; /* what one rank gives to one peer in one message */
    int buffer_skew;   /* bytes from a page boundary to where a receive buffer begins */
    int iterations;
    int warmup;
    int window;     /* messages in flight; 0 where there is no window */
    double rate_hz; /* messages a second; 0 where they are not paced */
    enum sync_mode sync;
    bool loop; /* before the windows, time the same iterations back to back */
};

/* One kernel at work on one communicator. `state` belongs to the kernel. */
struct job {
    MPI_Comm comm;
    int rank;
    int ranks;
    struct settings settings;
    unsigned char *send; /* NULL where there is none */
    unsigned char *recv;
    size_t send_bytes;
    size_t recv_bytes;
    uint64_t nonce; /* changes with every verified operation */
    bool verifying; /* this operation is verified, hence not timed */
    void *state;
};

/* What one operation sends between ranks of different hosts, summed over ranks. */
struct traffic {
    uint64_t bytes_min; /* no algorithm can send less */
    uint64_t bytes_max; /* generous: no sensible algorithm sends more */
    uint64_t messages;  /* no algorithm can send fewer */
};

struct kernel {
    const char *name;
    const char *description;
    const char *metric;    /* "cost" or "rate" */
    const char *reduction; /* how iterations of several ranks become one sample */
    enum members members;
    enum samples samples;
    unsigned keys;
    int min_ranks;
    int bytes_multiple; /* message_bytes must be a multiple of this */
    int bytes_min;
    bool bytes_times_ranks; /* the buffer holds one message for each rank */
    bool two_readings;      /* with sync=none: a back-to-back loop, then start windows */
    double sample_scale;    /* time of run() times this is one sample */

    /* Defaults; small is up to 8192 bytes. */
    struct settings defaults;
    int iterations_large;
    int warmup_large;

    bool (*init)(struct job *job);       /* get memory; false when there is none */
    void (*prepare)(struct job *job);    /* fill what is sent, poison what is received */
    void (*run)(struct job *job);        /* the measured operation and nothing else */
    uint64_t (*verify)(struct job *job); /* return the number of wrong elements received */
    uint64_t (*bytes_per_sample)(const struct job *job);
    struct traffic (*bytes_moved)(const struct job *job, const int *host_of);
    void (*cleanup)(struct job *job); /* also after a failed init */
};

const char *sync_name(enum sync_mode sync);

/* The registry: every kernel, in the order of the documentation. */
size_t registry_count(void);
const struct kernel *registry_at(size_t index);
const struct kernel *registry_find(const char *name, size_t length); /* NULL if there is none */

#endif
