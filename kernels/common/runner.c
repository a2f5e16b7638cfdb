#include "common/runner.h"

#include "common/check.h"
#include "common/sync.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_WINDOW_WARMUP = 10, MOST_LEAD = 5, PACE_MARGIN_NS = 1000000 };

static bool takes_part(const struct kernel *kernel, int rank, int ranks)
{
    return kernel->members == MEMBERS_ALL || rank == 0 || rank == ranks - 1;
}

static void *allocate_touched(size_t count, size_t size)
{
    void *memory = malloc(count * size + 1);
    if (memory != NULL)
        memset(memory, 1, count * size + 1); /* calloc would leave the pages to the timed loop */
    return memory;
}

bool runner_prepare(struct measurement *measurement, const struct request *request, MPI_Comm world)
{
    const struct kernel *kernel = request->kernel;
    const struct settings *settings = &request->settings;
    int rank = 0;
    int ranks = 0;
    CHECK_MPI(PMPI_Comm_rank(world, &rank));
    CHECK_MPI(PMPI_Comm_size(world, &ranks));
    *measurement = (struct measurement){.request = request, .warmup = settings->warmup};
    if (settings->sync == SYNC_WINDOW && settings->warmup < MIN_WINDOW_WARMUP)
        measurement->warmup = MIN_WINDOW_WARMUP; /* the window's length is taken from them */

    struct job *job = &measurement->job;
    const int color = takes_part(kernel, rank, ranks) ? 0 : MPI_UNDEFINED;
    CHECK_MPI(PMPI_Comm_split(world, color, rank, &job->comm));
    if (job->comm == MPI_COMM_NULL)
        return true;
    job->settings = *settings;
    CHECK_MPI(PMPI_Comm_rank(job->comm, &job->rank));
    CHECK_MPI(PMPI_Comm_size(job->comm, &job->ranks));
    const size_t iterations = (size_t)settings->iterations;
    measurement->samples = allocate_touched(iterations, sizeof measurement->samples[0]);
    measurement->late = allocate_touched(iterations, sizeof measurement->late[0]);
    measurement->warmup_s =
        allocate_touched((size_t)measurement->warmup, sizeof measurement->warmup_s[0]);
    if (measurement->late != NULL)
        memset(measurement->late, 0, iterations);
    return measurement->samples != NULL && measurement->late != NULL &&
           measurement->warmup_s != NULL;
}

void runner_share(struct measurement *measurement, int turns)
{
    int own = (measurement->warmup + turns - 1) / turns;
    if (measurement->request->settings.sync == SYNC_WINDOW && own < MIN_WINDOW_WARMUP)
        own = MIN_WINDOW_WARMUP;
    if (own < MOST_LEAD) /* never more than were asked for before all of them */
        own = measurement->warmup < MOST_LEAD ? measurement->warmup : MOST_LEAD;
    measurement->turn_warmup = own;
}

/* Run one operation on fresh data and count what is wrong. */
static void verify_once(struct measurement *measurement, const struct fault *fault)
{
    const struct kernel *kernel = measurement->request->kernel;
    struct job *job = &measurement->job;
    const bool corrupt = fault_meant(fault, FAULT_CORRUPT, kernel);
    const bool has_data = job->settings.message_bytes > 0;
    job->nonce++;
    job->verifying = true;
    kernel->prepare(job);
    /* No rank may send before all have poisoned. A barrier checks itself and needs no help. */
    if (has_data)
        CHECK_MPI(PMPI_Barrier(job->comm));
    if (!corrupt || has_data)
        kernel->run(job); /* a kernel without data is corrupted by not doing it */
    if (corrupt && has_data && job->rank == job->ranks - 1)
        job->recv[0] ^= 0xFF;
    measurement->verify_errors += kernel->verify(job);
    job->verifying = false;
    measurement->barriers++;
    measurement->operations++;
}

/* Time each operation alone. Without synchronisation each begins where the one before ended, so
 * that the samples add up to the time of the whole loop and the clock is read once an iteration. */
static void time_each(struct measurement *measurement, const struct schedule *schedule,
                      int iterations, double *times_s, unsigned char *late)
{
    const struct kernel *kernel = measurement->request->kernel;
    struct job *job = &measurement->job;
    uint64_t end = clock_now_ns();
    for (int i = 0; i < iterations; i++) {
        uint64_t start = end;
        if (schedule->mode != SYNC_NONE) {
            const bool begins_late = sync_begin(schedule, job->comm, i);
            if (late != NULL)
                late[i] = begins_late;
            start = clock_now_ns();
        }
        kernel->run(job);
        end = clock_now_ns();
        times_s[i] = clock_difference_s(end, start) * kernel->sample_scale;
    }
}

/* The rank that answers a ping-pong: reading the clock there would delay its answer. */
static void answer_each(struct measurement *measurement, int iterations)
{
    for (int i = 0; i < iterations; i++)
        measurement->request->kernel->run(&measurement->job);
}

static void run_iterations(struct measurement *measurement, const struct schedule *schedule,
                           int iterations, double *times_s, unsigned char *late)
{
    const bool answers = measurement->request->kernel->samples == SAMPLES_FIRST_RANK &&
                         measurement->job.rank > 0 && schedule->mode == SYNC_NONE;
    if (answers)
        answer_each(measurement, iterations);
    else
        time_each(measurement, schedule, iterations, times_s, late);
    measurement->operations += (uint64_t)iterations;
    if (schedule->mode == SYNC_BARRIER)
        measurement->barriers += (uint64_t)iterations;
}

/* Bring the ranks together before a loop. */
static void gather_ranks(struct measurement *measurement)
{
    CHECK_MPI(PMPI_Barrier(measurement->job.comm));
    measurement->barriers++;
}

/* Return how many iterations are discarded just before those of a share: the first two after a
 * pause take two to four times as long. */
static int lead_of(const struct measurement *measurement)
{
    return measurement->turn_warmup < MOST_LEAD ? measurement->turn_warmup : MOST_LEAD;
}

/* IMB's reading of a collective: the time of a loop without anything between its iterations. */
static void measure_loop(struct measurement *measurement, int iterations)
{
    const struct kernel *kernel = measurement->request->kernel;
    const int lead = lead_of(measurement);
    gather_ranks(measurement);
    for (int i = 0; i < lead; i++)
        kernel->run(&measurement->job);
    const uint64_t start = clock_now_ns();
    for (int i = 0; i < iterations; i++)
        kernel->run(&measurement->job);
    const double total_s = clock_difference_s(clock_now_ns(), start);
    measurement->loop_s +=
        total_s / measurement->request->settings.iterations * kernel->sample_scale;
    measurement->operations += (uint64_t)(lead + iterations);
}

static void warm_up(struct measurement *measurement, int iterations)
{
    struct schedule schedule = {.mode = measurement->request->settings.sync};
    if (schedule.mode == SYNC_WINDOW)
        schedule.mode = SYNC_BARRIER;
    gather_ranks(measurement);
    run_iterations(measurement, &schedule, iterations, measurement->warmup_s, NULL);
}

static void measure_durations(struct measurement *measurement, int first, int count)
{
    const struct request *request = measurement->request;
    struct schedule schedule = {.mode = request->settings.sync};
    const int discarded = measurement->turn_warmup;
    if (discarded > 0 && (request->settings.loop || schedule.mode == SYNC_WINDOW))
        warm_up(measurement, discarded); /* the window's length is taken from it */
    if (request->settings.loop)
        measure_loop(measurement, count);
    gather_ranks(measurement);
    if (schedule.mode == SYNC_WINDOW) {
        schedule = sync_plan_windows(measurement->job.comm, measurement->warmup_s,
                                     discarded > 0 ? discarded : measurement->warmup);
        measurement->window_s = schedule.length_ns * 1e-9;
    }
    const int lead = lead_of(measurement);
    if (lead > 0) {
        run_iterations(measurement, &schedule, lead, measurement->warmup_s, NULL);
        schedule.start_ns += (uint64_t)(lead * schedule.length_ns);
    }
    if (first == 0)
        measurement->began_ns = clock_now_ns();
    run_iterations(measurement, &schedule, count, measurement->samples + first,
                   measurement->late + first);
    measurement->ended_ns = clock_now_ns();
}

/* Send a stream at a constant rate; warm-up and measurement are one stream. Rank 0 notes when each
 * send call begins, rank 1 when each receive call returns; a sample is the gap to the message
 * before. */
static void measure_gaps(struct measurement *measurement, int first, int count)
{
    const struct request *request = measurement->request;
    const struct kernel *kernel = request->kernel;
    struct job *job = &measurement->job;
    const int warmup =
        measurement->turn_warmup > 0 ? measurement->turn_warmup : measurement->warmup;
    const int messages = warmup + count;
    const bool sends = job->rank == 0;
    gather_ranks(measurement);
    const struct schedule schedule = {.start_ns = clock_now_ns() + PACE_MARGIN_NS,
                                      .length_ns = 1e9 / request->settings.rate_hz};
    uint64_t before = 0;
    for (int i = 0; i < messages; i++) {
        const bool late = sends && sync_wait(&schedule, i);
        const uint64_t start = clock_now_ns();
        kernel->run(job);
        const uint64_t noted = sends ? start : clock_now_ns();
        if (i == warmup && first == 0)
            measurement->began_ns = start;
        if (i >= warmup) {
            measurement->samples[first + i - warmup] = clock_difference_s(noted, before);
            measurement->late[first + i - warmup] = late;
        }
        before = noted;
    }
    measurement->ended_ns = before;
    measurement->operations += (uint64_t)messages;
}

static bool is_member(const struct measurement *measurement)
{
    return measurement->job.comm != MPI_COMM_NULL;
}

/* Let ranks that do not take part wait without using their cores. */
static void rejoin(const struct measurement *measurement, MPI_Comm world)
{
    if (measurement->request->kernel->members == MEMBERS_PAIR)
        sync_sleeping_barrier(world);
}

bool runner_open(struct measurement *measurement, const struct fault *fault, MPI_Comm world)
{
    const struct kernel *kernel = measurement->request->kernel;
    struct job *job = &measurement->job;
    const uint64_t start = clock_now_ns();
    int ready = !is_member(measurement) || kernel->init(job);
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, world));
    if (ready && is_member(measurement)) {
        verify_once(measurement, fault);
        if (kernel->samples != SAMPLES_GAPS) /* its warm-up is the beginning of its stream */
            warm_up(measurement, measurement->warmup);
        fault_strike(fault, kernel, job);
    }
    if (!ready && is_member(measurement))
        kernel->cleanup(job);
    measurement->elapsed_s += clock_difference_s(clock_now_ns(), start);
    return ready;
}

void runner_measure(struct measurement *measurement, int turn, int turns, MPI_Comm world)
{
    const int64_t iterations = measurement->request->settings.iterations;
    const int first = (int)(iterations * turn / turns);
    const int count = (int)(iterations * (turn + 1) / turns) - first;
    const uint64_t start = clock_now_ns();
    if (count == 0)
        return;
    if (is_member(measurement)) {
        if (measurement->request->kernel->samples == SAMPLES_GAPS)
            measure_gaps(measurement, first, count);
        else
            measure_durations(measurement, first, count);
    }
    rejoin(measurement, world);
    measurement->elapsed_s += clock_difference_s(clock_now_ns(), start);
}

void runner_close(struct measurement *measurement, const struct fault *fault, MPI_Comm world)
{
    const uint64_t start = clock_now_ns();
    if (is_member(measurement)) {
        verify_once(measurement, fault);
        measurement->request->kernel->cleanup(&measurement->job);
    }
    rejoin(measurement, world);
    measurement->elapsed_s += clock_difference_s(clock_now_ns(), start);
}

void runner_free(struct measurement *measurement)
{
    free(measurement->samples);
    free(measurement->late);
    free(measurement->warmup_s);
    if (measurement->job.comm != MPI_COMM_NULL)
        CHECK_MPI(PMPI_Comm_free(&measurement->job.comm));
}
