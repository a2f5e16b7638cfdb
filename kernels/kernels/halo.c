/* Compute and exchange: every rank owns a part of a field, gives its edges to both neighbours of
 * the ring, and sweeps a five-point stencil over it.
 *
 * Rows are helical, as in lattice simulations: the cell right of a row's last one is the next row's
 * first. So the field is one line of cells, its neighbours lie at distances 1 and `row`, and a
 * sweep is one loop of the same length whatever the size of a row, which is what is sent. */
#include "common/buffers.h"
#include "common/check.h"
#include "common/pattern.h"
#include "kernels/registry.h"

#include <stdlib.h>
#include <string.h>

/* 1 MiB of cells a rank: a sweep of it takes longer than the exchange of a few KiB, as in an
 * application. */
enum { CELLS = 131072, CELL_BYTES = (int)sizeof(double) };
enum { TAG_TO_RIGHT = TAG_DATA, TAG_TO_LEFT = TAG_REPLY };

/* A field of `cells`, with `row` cells of the left neighbour before it and of the right one behind.
 * An operation reads `now` and writes `next`, which then change places. */
struct field {
    size_t cells;
    size_t row;
    double *now;
    double *next;
};

/* Whole numbers that are exact in any order of summing: at most 16 bits, weights are eighths. The
 * field closes to a ring of all ranks' cells. */
static double initial(const struct job *job, int64_t index)
{
    const struct field *field = job->state;
    const uint64_t all = (uint64_t)field->cells * (uint64_t)job->ranks;
    const uint64_t cell = (uint64_t)(index + (int64_t)all) % all;
    const uint64_t mixed = (cell + job->nonce * 0x9E37U) * UINT64_C(0x9E3779B97F4A7C15);
    return (double)(mixed >> 48);
}

static int64_t first_cell(const struct job *job)
{
    const struct field *field = job->state;
    return (int64_t)job->rank * (int64_t)field->cells;
}

static double next_of(double here, double left, double right, double above, double below)
{
    return 0.5 * here + 0.125 * ((left + right) + (above + below));
}

static bool init(struct job *job)
{
    struct field *field = calloc(1, sizeof *field);
    job->state = field;
    if (field == NULL)
        return false;
    field->row = (size_t)job->settings.message_bytes / CELL_BYTES;
    field->cells = field->row > CELLS ? field->row : CELLS;
    const size_t bytes = (field->cells + 2 * field->row) * CELL_BYTES;
    return buffers_allocate(job, bytes, bytes);
}

static void prepare(struct job *job)
{
    struct field *field = job->state;
    field->now = (void *)job->recv;
    field->next = (void *)job->send;
    pattern_poison(job->recv, job->recv_bytes);
    pattern_poison(job->send, job->send_bytes);
    for (size_t i = 0; i < field->cells; i++)
        field->now[field->row + i] = initial(job, first_cell(job) + (int64_t)i);
}

static void exchange(const struct job *job, const struct field *field)
{
    const int bytes = job->settings.message_bytes;
    const int right = (job->rank + 1) % job->ranks;
    const int left = (job->rank + job->ranks - 1) % job->ranks;
    double *own = field->now + field->row;
    MPI_Request requests[4];
    CHECK_MPI(MPI_Irecv(field->now, bytes, MPI_BYTE, left, TAG_TO_RIGHT, job->comm, &requests[0]));
    CHECK_MPI(MPI_Irecv(own + field->cells, bytes, MPI_BYTE, right, TAG_TO_LEFT, job->comm,
                        &requests[1]));
    CHECK_MPI(MPI_Isend(own + field->cells - field->row, bytes, MPI_BYTE, right, TAG_TO_RIGHT,
                        job->comm, &requests[2]));
    CHECK_MPI(MPI_Isend(own, bytes, MPI_BYTE, left, TAG_TO_LEFT, job->comm, &requests[3]));
    CHECK_MPI(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
}

enum { TOGETHER = 8 };

/* So many cells at once: a loop of fixed length, which compilers make vectors of at -O2. */
static void sweep_group(const double *restrict above, const double *restrict here,
                        const double *restrict below, double *restrict next)
{
    for (int k = 0; k < TOGETHER; k++)
        next[k] = next_of(here[k], here[k - 1], here[k + 1], above[k], below[k]);
}

static void sweep(size_t cells, size_t row, const double *restrict now, double *restrict next)
{
    size_t i = row;
    for (; i + TOGETHER <= row + cells; i += TOGETHER)
        sweep_group(now + i - row, now + i, now + i + row, next + i);
    for (; i < row + cells; i++)
        next[i] = next_of(now[i], now[i - 1], now[i + 1], now[i - row], now[i + row]);
}

static void run(struct job *job)
{
    struct field *field = job->state;
    exchange(job, field);
    sweep(field->cells, field->row, field->now, field->next);
    double *const read = field->now;
    field->now = field->next;
    field->next = read;
}

/* Compute every cell anew from the whole field's initial values, and look at what was received. */
static uint64_t verify(struct job *job)
{
    const struct field *field = job->state;
    const int64_t cells = (int64_t)field->cells;
    const int64_t row = (int64_t)field->row;
    uint64_t errors = 0;
    for (int64_t i = -row; i < cells + row; i++) {
        const int64_t at = first_cell(job) + i;
        const double here = initial(job, at);
        errors += memcmp(&field->next[row + i], &here, sizeof here) != 0; /* it was read from */
        if (i < 0 || i >= cells)
            continue;
        const double expected = next_of(here, initial(job, at - 1), initial(job, at + 1),
                                        initial(job, at - row), initial(job, at + row));
        errors += memcmp(&field->now[row + i], &expected, sizeof expected) != 0;
    }
    return errors;
}

/* Two messages out and two in. */
static uint64_t bytes_per_sample(const struct job *job)
{
    return 4 * (uint64_t)job->settings.message_bytes;
}

static struct traffic bytes_moved(const struct job *job, const int *host_of)
{
    uint64_t messages = 0;
    for (int i = 0; i < job->ranks; i++)
        if (host_of[i] != host_of[(i + 1) % job->ranks])
            messages += 2;
    const uint64_t bytes = messages * (uint64_t)job->settings.message_bytes;
    return (struct traffic){bytes, bytes, messages};
}

static void cleanup(struct job *job)
{
    free(job->state);
    job->state = NULL;
    buffers_free(job);
}

const struct kernel kernel_halo = {
    .name = "halo",
    .description =
        "compute and exchange: halos of bytes to both neighbours of a ring, stencil sweep",
    .metric = "cost",
    .reduction = "per iteration: maximum and mean over ranks",
    .members = MEMBERS_ALL,
    .samples = SAMPLES_ALL_RANKS,
    .keys = KEY_BYTES | KEY_ITERATIONS | KEY_WARMUP | KEY_SYNC,
    .min_ranks = 1,
    .bytes_multiple = 8,
    .bytes_min = 8,
    .sample_scale = 1.0,
    .defaults = {.message_bytes = 8, .iterations = 1000, .warmup = 100, .sync = SYNC_NONE},
    .iterations_large = 100,
    .warmup_large = 10,
    .init = init,
    .prepare = prepare,
    .run = run,
    .verify = verify,
    .bytes_per_sample = bytes_per_sample,
    .bytes_moved = bytes_moved,
    .cleanup = cleanup,
};
