#include "apps/app.h"
#include "common/check.h"
#include "common/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64 };

long run_value(const struct run *run, const char *name)
{
    for (int i = 0; i < APP_PARAMETERS && run->app->parameters[i].name != NULL; i++)
        if (strcmp(run->app->parameters[i].name, name) == 0)
            return run->value[i];
    FATAL("a parameter that the application does not have was asked for");
}

void run_start(struct run *run)
{
    CHECK_MPI(PMPI_Barrier(run->comm));
    run->messages.counting = true;
    run->started_ns = clock_now_ns();
}

void run_stop(struct run *run)
{
    double elapsed_s = clock_difference_s(clock_now_ns(), run->started_ns);
    run->messages.counting = false;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &elapsed_s, 1, MPI_DOUBLE, MPI_MAX, run->comm));
    run->result.elapsed_s = elapsed_s;
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

void *app_allocate(size_t count, size_t size)
{
    const size_t bytes = count * size;
    const size_t whole = (bytes / CACHE_LINE + 1) * CACHE_LINE;
    void *memory = size != 0 && bytes / size != count ? NULL : aligned_alloc(CACHE_LINE, whole);
    if (memory == NULL)
        FATAL("out of memory");
    memset(memory, 0, whole);
    return memory;
}
