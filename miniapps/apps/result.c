#include "apps/app.h"
#include "common/check.h"
#include "common/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, LARGE_PAGE = 2 << 20, IDLE_NS = 1000000 };

long run_value(const struct run *run, const char *name)
{
    for (int i = 0; i < APP_PARAMETERS && run->app->parameters[i].name != NULL; i++)
        if (strcmp(run->app->parameters[i].name, name) == 0)
            return run->value[i];
    FATAL("a parameter that the application does not have was asked for");
}

double run_pace(const struct run *run)
{
    return run->app->official_pace == 0 ? 1.0 : (double)run_value(run, "pace") / APP_PACE;
}

enum problem_class run_class(const struct run *run)
{
    static const char letters[] = "SWABCDE";
    const char *found = strchr(letters, run->problem_class);
    if (found == NULL || *found == '\0')
        FATAL("a class that is not known was asked for");
    return (enum problem_class)(found - letters);
}

static void open_section(struct run *run)
{
    CHECK_MPI(PMPI_Barrier(run->comm));
    messages_open(&run->messages);
    run->started_ns = clock_now_ns();
}

/* Keep the time of the parts since the last turn; the first call of a job makes room for all. */
static void add_share(struct run *run, double elapsed_s)
{
    struct shares *shares = &run->result.shares;
    if (run->turns.count == 0 || run->part == run->first_part)
        return;
    if (shares->parts == NULL) {
        shares->parts = app_allocate((size_t)run->turns.count + 1, sizeof shares->parts[0]);
        shares->elapsed_s = app_allocate((size_t)run->turns.count + 1, sizeof shares->elapsed_s[0]);
    }
    shares->parts[shares->count] = run->part - run->first_part;
    shares->elapsed_s[shares->count++] = elapsed_s;
    run->first_part = run->part;
}

static void close_section(struct run *run)
{
    messages_close(&run->messages);
    const double own_s = clock_difference_s(clock_now_ns(), run->started_ns);
    const double elapsed_s = run_longest_s(run, own_s);
    run->worked_s += elapsed_s;
    add_share(run, elapsed_s);
}

void run_start(struct run *run)
{
    run->worked_s = 0.0;
    run->timed = true;
    run->first_part = run->part;
    run->result.shares.count = 0;
    open_section(run);
}

void run_stop(struct run *run)
{
    close_section(run);
    run->timed = false;
    run->result.elapsed_s = run->worked_s;
}

double run_worked_s(const struct run *run)
{
    return run->worked_s + clock_difference_s(clock_now_ns(), run->started_ns);
}

void run_divide(struct run *run, int parts)
{
    run->parts = parts;
    run->part = 0;
    run->first_part = 0;
}

/* Return whether the next part is the first of another turn. */
static bool turn_is_due(const struct run *run)
{
    return run->turn < run->turns.count &&
           run->part >= (int)((int64_t)run->parts * run->turn / run->turns.count);
}

bool run_next_part(struct run *run)
{
    if (run->part >= run->parts)
        return false;
    const bool waits = turn_is_due(run);
    if (waits && run->timed)
        close_section(run);
    for (; turn_is_due(run); run->turn++)
        turns_next(&run->turns);
    if (waits && run->timed)
        open_section(run);
    run->part++;
    return waits;
}

int run_shares(const struct run *run)
{
    return run->turns.count > 0 ? run->turns.count : 1;
}

void run_narrow_turns(struct run *run, bool idle)
{
    run->turns.world = run->comm;
    if (!idle)
        return;
    turns_pass(&run->turns, run->turns.count - run->turn);
    run->turn = run->turns.count;
}

void run_end_turns(struct run *run)
{
    if (run->turns.count == 0)
        return;
    for (; run->turn < run->turns.count; run->turn++)
        turns_next(&run->turns);
    turns_next(&run->turns); /* the last: to end */
    turns_close(&run->turns);
    run->turns.count = 0;
}

void run_join(const struct run *run, bool idle)
{
    MPI_Request all = MPI_REQUEST_NULL;
    int here = 0;
    CHECK_MPI(PMPI_Ibarrier(run->comm, &all));
    while (idle && here == 0) {
        clock_sleep_ns(IDLE_NS);
        CHECK_MPI(PMPI_Test(&all, &here, MPI_STATUS_IGNORE));
    }
    CHECK_MPI(PMPI_Wait(&all, MPI_STATUS_IGNORE));
}

double run_longest_s(const struct run *run, double own_s)
{
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &own_s, 1, MPI_DOUBLE, MPI_MAX, run->comm));
    return own_s;
}

bool result_check(struct run *run, const char *name, double value, double expected,
                  double tolerance)
{
    struct result *result = &run->result;
    if (result->checks == APP_CHECKS)
        FATAL("more checks than there is room for");
    const double scale = expected == 0.0 ? 1.0 : fabs(expected);
    const bool passed = isfinite(value) && fabs(value - expected) <= tolerance * scale;
    result->check[result->checks++] = (struct check){name, value, expected, tolerance, passed};
    return passed;
}

void result_figure(struct run *run, const char *name, double value, const char *unit)
{
    struct result *result = &run->result;
    if (result->figures == APP_FIGURES)
        FATAL("more figures than there is room for");
    result->figure[result->figures++] = (struct figure){name, unit, value};
}

void result_series(struct run *run, const char *name, const double *values, size_t count,
                   const char *unit)
{
    struct result *result = &run->result;
    if (result->all_series == APP_SERIES)
        FATAL("more series than there is room for");
    double *copy = app_allocate(count, sizeof copy[0]);
    memcpy(copy, values, count * sizeof copy[0]);
    result->series[result->all_series++] = (struct series){name, unit, copy, count};
}

void result_note(struct run *run, const char *name, const char *text)
{
    struct result *result = &run->result;
    if (result->notes == APP_NOTES)
        FATAL("more notes than there is room for");
    struct note *note = &result->note[result->notes++];
    note->name = name;
    snprintf(note->text, sizeof note->text, "%s", text);
}

void result_free(struct result *result)
{
    for (int i = 0; i < result->all_series; i++)
        free(result->series[i].values);
    result->all_series = 0;
    free(result->shares.parts);
    free(result->shares.elapsed_s);
    result->shares = (struct shares){0, NULL, NULL};
}

bool run_is_struck(const struct run *run)
{
    static const char wish[] = "corrupt:";
    int struck = 0;
    const char *found = run->rank == 0 ? getenv("TARE_FAULT") : NULL;
    if (found != NULL && strncmp(found, wish, sizeof wish - 1) == 0)
        struck = strcmp(found + sizeof wish - 1, run->app->name) == 0;
    CHECK_MPI(PMPI_Bcast(&struck, 1, MPI_INT, 0, run->comm));
    return struck != 0;
}

static void *allocate(size_t count, size_t size, size_t alignment)
{
    const size_t bytes = count * size;
    const size_t whole = (bytes / alignment + 1) * alignment;
    void *memory = size != 0 && bytes / size != count ? NULL : aligned_alloc(alignment, whole);
    if (memory == NULL)
        FATAL("out of memory");
#ifdef MADV_HUGEPAGE
    if (alignment == LARGE_PAGE)
        madvise(memory, whole, MADV_HUGEPAGE); /* a wish only */
#endif
    memset(memory, 0, whole);
    return memory;
}

void *app_allocate(size_t count, size_t size)
{
    return allocate(count, size, CACHE_LINE);
}

void *app_allocate_large(size_t count, size_t size)
{
    return allocate(count, size, count * size < LARGE_PAGE ? CACHE_LINE : LARGE_PAGE);
}
