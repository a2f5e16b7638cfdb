#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>

enum { COST_BATCHES = 21, COST_READINGS = 100 };

double clock_resolution_s(void)
{
    struct timespec resolution = {0};
    clock_getres(CLOCK_MONOTONIC, &resolution);
    return (double)resolution.tv_sec + (double)resolution.tv_nsec * 1e-9;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

double clock_cost_s(void)
{
    double costs[COST_BATCHES];
    for (int batch = 0; batch < COST_BATCHES; batch++) {
        const uint64_t start = clock_now_ns();
        uint64_t end = start;
        for (int reading = 0; reading < COST_READINGS; reading++)
            end = clock_now_ns();
        costs[batch] = clock_difference_s(end, start) / COST_READINGS;
    }
    qsort(costs, COST_BATCHES, sizeof costs[0], compare_doubles);
    return costs[COST_BATCHES / 2];
}

void clock_sleep_ns(long nanoseconds)
{
    struct timespec left = {.tv_sec = nanoseconds / 1000000000L,
                            .tv_nsec = nanoseconds % 1000000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ; /* a signal does not shorten it */
}
