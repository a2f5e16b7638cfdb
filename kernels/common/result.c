#include "common/result.h"

#include "common/check.h"
#include "common/output.h"
#include "common/traffic.h"

#include <stdlib.h>

/* Statistics of one rank's samples, or of all ranks' on rank 0. */
enum { MEAN, MIN, MAX, LOOP, STATISTICS };

struct gathered {
    double *columns[2];
    const char *names[2];
    int column_count;
    int timed_ranks;    /* ranks whose samples mean something, from rank 0 on */
    double *statistics; /* [STATISTICS][timed_ranks] */
    unsigned char *late;
    uint64_t verify_errors;
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory == NULL)
        FATAL("out of memory for the results");
    return memory;
}

static void own_statistics(const struct measurement *measurement, double own[STATISTICS])
{
    const int iterations = measurement->request->settings.iterations;
    const double *samples = measurement->samples;
    double sum = 0.0;
    own[MIN] = samples[0];
    own[MAX] = samples[0];
    for (int i = 0; i < iterations; i++) {
        sum += samples[i];
        own[MIN] = samples[i] < own[MIN] ? samples[i] : own[MIN];
        own[MAX] = samples[i] > own[MAX] ? samples[i] : own[MAX];
    }
    own[MEAN] = sum / iterations;
    own[LOOP] = measurement->loop_s;
}

/* Per-iteration maximum and mean over all ranks. */
static void reduce_columns(const struct measurement *measurement, struct gathered *gathered)
{
    const struct job *job = &measurement->job;
    const int iterations = measurement->request->settings.iterations;
    CHECK_MPI(PMPI_Reduce(measurement->samples, gathered->columns[0], iterations, MPI_DOUBLE,
                          MPI_MAX, 0, job->comm));
    CHECK_MPI(PMPI_Reduce(measurement->samples, gathered->columns[1], iterations, MPI_DOUBLE,
                          MPI_SUM, 0, job->comm));
    for (int i = 0; job->rank == 0 && i < iterations; i++)
        gathered->columns[1][i] /= job->ranks;
}

/* Bring rank 1's gaps beside rank 0's. */
static void fetch_gaps(const struct measurement *measurement, struct gathered *gathered)
{
    const struct job *job = &measurement->job;
    const int iterations = measurement->request->settings.iterations;
    if (job->rank == 1)
        CHECK_MPI(
            PMPI_Send(measurement->samples, iterations, MPI_DOUBLE, 0, TAG_CONTROL, job->comm));
    else
        CHECK_MPI(PMPI_Recv(gathered->columns[1], iterations, MPI_DOUBLE, 1, TAG_CONTROL, job->comm,
                            MPI_STATUS_IGNORE));
}

static void gather_samples(const struct measurement *measurement, struct gathered *gathered)
{
    const struct job *job = &measurement->job;
    const size_t iterations = (size_t)measurement->request->settings.iterations;
    gathered->column_count = 2;
    gathered->timed_ranks = job->ranks;
    for (int i = 0; job->rank == 0 && i < 2; i++)
        gathered->columns[i] = allocate(iterations, sizeof gathered->columns[i][0]);
    gathered->names[0] = "max_s";
    gathered->names[1] = "mean_s";
    switch (measurement->request->kernel->samples) {
    case SAMPLES_ALL_RANKS:
        reduce_columns(measurement, gathered);
        return;
    case SAMPLES_GAPS:
        gathered->names[0] = "send_gap_s";
        gathered->names[1] = "receive_gap_s";
        fetch_gaps(measurement, gathered);
        break;
    case SAMPLES_FIRST_RANK:
        gathered->column_count = 1;
        gathered->timed_ranks = 1;
        break;
    }
    for (size_t i = 0; job->rank == 0 && i < iterations; i++)
        gathered->columns[0][i] = measurement->samples[i];
}

static void gather_statistics(const struct measurement *measurement, struct gathered *gathered)
{
    const struct job *job = &measurement->job;
    const int iterations = measurement->request->settings.iterations;
    double own[STATISTICS];
    own_statistics(measurement, own);
    gathered->statistics =
        allocate((size_t)job->ranks * STATISTICS, sizeof gathered->statistics[0]);
    for (int i = 0; i < STATISTICS; i++)
        CHECK_MPI(PMPI_Gather(&own[i], 1, MPI_DOUBLE, gathered->statistics + i * job->ranks, 1,
                              MPI_DOUBLE, 0, job->comm));
    gathered->late = allocate((size_t)iterations, sizeof gathered->late[0]);
    CHECK_MPI(PMPI_Reduce(measurement->late, gathered->late, iterations, MPI_UNSIGNED_CHAR, MPI_MAX,
                          0, job->comm));
    CHECK_MPI(PMPI_Reduce(&measurement->verify_errors, &gathered->verify_errors, 1, MPI_UINT64_T,
                          MPI_SUM, 0, job->comm));
}

/* Return the bounds for the whole kernel, from those of one operation and one barrier. */
static struct traffic total_traffic(const struct measurement *measurement,
                                    const struct locality *locality)
{
    const struct kernel *kernel = measurement->request->kernel;
    const struct job *job = &measurement->job;
    const int ends[2] = {locality->host_of[0], locality->host_of[locality->ranks - 1]};
    const int *host_of = kernel->members == MEMBERS_PAIR ? ends : locality->host_of;
    const struct traffic once = kernel->bytes_moved(job, host_of);
    const struct traffic barrier = traffic_barrier(host_of, job->ranks);
    const uint64_t operations = measurement->operations;
    return (struct traffic){
        .bytes_min = operations * once.bytes_min,
        .bytes_max = operations * once.bytes_max + measurement->barriers * barrier.bytes_max,
        .messages = operations * once.messages,
    };
}

static void put_payload(struct json *line, struct traffic traffic)
{
    json_key(line, "payload");
    json_open(line, '{');
    json_put_integer(line, "bytes_min", (int64_t)traffic.bytes_min);
    json_put_integer(line, "bytes_max", (int64_t)traffic.bytes_max);
    json_put_integer(line, "messages", (int64_t)traffic.messages);
    json_close(line, '}');
}

static void put_settings(struct json *line, const struct measurement *measurement)
{
    const struct kernel *kernel = measurement->request->kernel;
    const struct settings *settings = &measurement->request->settings;
    json_put_integer(line, "message_bytes", settings->message_bytes);
    json_put_integer(line, "buffer_skew", settings->buffer_skew);
    json_put_integer(line, "iterations", settings->iterations);
    json_put_integer(line, "warmup", measurement->warmup);
    json_key(line, "window");
    kernel->keys &KEY_WINDOW ? json_integer(line, settings->window) : json_null(line);
    json_key(line, "rate_hz");
    kernel->keys &KEY_RATE ? json_number(line, settings->rate_hz) : json_null(line);
    json_put_integer(line, "ranks", measurement->job.ranks);
    json_put_string(line, "sync", sync_name(settings->sync));
    json_key(line, "sync_window_s");
    measurement->window_s > 0.0 ? json_number(line, measurement->window_s) : json_null(line);
    json_put_string(line, "metric", kernel->metric);
    json_put_integer(line, "bytes_per_sample",
                     (int64_t)kernel->bytes_per_sample(&measurement->job));
}

static void put_late(struct json *line, const unsigned char *late, int iterations)
{
    int count = 0;
    for (int i = 0; i < iterations; i++)
        count += late[i] != 0;
    json_put_integer(line, "late", count);
    json_key(line, "late_iterations");
    json_open(line, '[');
    for (int i = 0; i < iterations; i++)
        if (late[i])
            json_integer(line, i);
    json_close(line, ']');
}

static void put_samples(struct json *line, const struct gathered *gathered, int iterations,
                        bool with_samples)
{
    json_key(line, "columns");
    json_open(line, '[');
    for (int i = 0; i < gathered->column_count; i++)
        json_string(line, gathered->names[i]);
    json_close(line, ']');
    json_put_string(line, "encoding", "base64-float64-le");
    if (!with_samples)
        return;
    json_key(line, "data");
    json_open(line, '[');
    for (int i = 0; i < gathered->column_count; i++)
        json_base64_doubles(line, gathered->columns[i], (size_t)iterations);
    json_close(line, ']');
}

static bool write_line(const struct measurement *measurement, int index, bool with_samples,
                       const struct locality *locality, const struct gathered *gathered)
{
    const int iterations = measurement->request->settings.iterations;
    const size_t timed = (size_t)gathered->timed_ranks;
    const size_t ranks = (size_t)measurement->job.ranks;
    const double span_s[] = {(double)measurement->began_ns * 1e-9,
                             (double)measurement->ended_ns * 1e-9};
    struct json line = output_begin("kernel");
    json_put_integer(&line, "index", index);
    json_put_integer(&line, "position", measurement->position);
    json_put_string(&line, "spec", measurement->request->spec);
    json_put_string(&line, "kernel", measurement->request->kernel->name);
    put_settings(&line, measurement);
    json_put_bool(&line, "verified", gathered->verify_errors == 0);
    json_put_integer(&line, "verify_errors", (int64_t)gathered->verify_errors);
    put_late(&line, gathered->late, iterations);
    json_put_numbers(&line, "rank_mean_s", gathered->statistics + MEAN * ranks, timed);
    json_put_numbers(&line, "rank_min_s", gathered->statistics + MIN * ranks, timed);
    json_put_numbers(&line, "rank_max_s", gathered->statistics + MAX * ranks, timed);
    if (measurement->request->settings.loop)
        json_put_numbers(&line, "rank_loop_s", gathered->statistics + LOOP * ranks, timed);
    else
        json_put_null(&line, "rank_loop_s");
    put_payload(&line, total_traffic(measurement, locality));
    json_put_number(&line, "elapsed_s", measurement->elapsed_s);
    json_put_numbers(&line, "span_s", span_s, 2);
    put_samples(&line, gathered, iterations, with_samples);
    return output_finish(&line);
}

bool result_write(const struct measurement *measurement, int index, bool with_samples,
                  const struct locality *locality)
{
    struct gathered gathered = {0};
    gather_samples(measurement, &gathered);
    gather_statistics(measurement, &gathered);
    bool written = true;
    if (measurement->job.rank == 0)
        written = write_line(measurement, index, with_samples, locality, &gathered);
    free(gathered.columns[0]);
    free(gathered.columns[1]);
    free(gathered.statistics);
    free(gathered.late);
    return written;
}
