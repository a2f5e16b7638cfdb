/* Run one kernel: verify, warm up, measure (at once or in turns), verify. */
#ifndef TARE_RUNNER_H
#define TARE_RUNNER_H

#include "common/fault.h"
#include "common/kernel.h"
#include "common/options.h"

/* One kernel of the command line and what became of it. */
struct measurement {
    const struct request *request;
    struct job job;      /* comm is MPI_COMM_NULL on ranks that do not take part */
    double *samples;     /* one an iteration, seconds */
    double *warmup_s;    /* scratch: times of discarded iterations */
    unsigned char *late; /* per iteration: this rank began after its instant */
    int warmup;          /* iterations really discarded before the first that counts */
    int turn_warmup;     /* iterations discarded before each share of them, 0 where there is one */
    int position;        /* as which it ran in its launch, from 0 */
    double loop_s;       /* this rank's time of an iteration of the back-to-back loop */
    double window_s;     /* length of a start window, 0 without */
    uint64_t barriers;   /* of the harness, for the payload bound */
    uint64_t operations; /* timed, discarded and verified */
    uint64_t verify_errors;
    double elapsed_s;
    uint64_t began_ns; /* CLOCK_MONOTONIC, where the iterations that count begin and end */
    uint64_t ended_ns;
};

/* Make the communicator and get, and touch, the memory of all samples; collective over world. False
 * when this rank has no memory for them. */
bool runner_prepare(struct measurement *measurement, const struct request *request, MPI_Comm world);

/* Say that the iterations will be measured in so many shares, each after a few that are discarded.
 */
void runner_share(struct measurement *measurement, int turns);

/* Get memory for the messages, verify and warm up; collective over world. False, on every rank,
 * when some rank has no memory for the messages. */
bool runner_open(struct measurement *measurement, const struct fault *fault, MPI_Comm world);

/* Measure share `turn` of `turns` equal shares of the iterations; collective over world. */
void runner_measure(struct measurement *measurement, int turn, int turns, MPI_Comm world);

/* Verify and give the memory of the messages back; collective over world. */
void runner_close(struct measurement *measurement, const struct fault *fault, MPI_Comm world);

void runner_free(struct measurement *measurement);

#endif
