#include "common/sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_EXCHANGES = 50, CLOCK_SLACK_NS = 5000, START_MARGIN_NS = 1000000 };

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

struct schedule sync_plan_windows(MPI_Comm comm, double *warmup_s, int warmup)
{
    int rank = 0;
    CHECK_MPI(PMPI_Comm_rank(comm, &rank));
    double *settled = warmup_s + warmup / 2;
    const int count = warmup - warmup / 2;
    qsort(settled, (size_t)count, sizeof settled[0], compare_doubles);
    double longest_s[2] = {settled[count - 1], settled[count / 2]};
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, longest_s, 2, MPI_DOUBLE, MPI_MAX, comm));
    const double bound_s = 10.0 * longest_s[1];
    const double slowest_s = longest_s[0] < bound_s ? longest_s[0] : bound_s;

    struct schedule schedule = {.mode = SYNC_WINDOW, .length_ns = 2.0 * slowest_s * 1e9 + 1000.0};
    schedule.start_ns = clock_now_ns() + START_MARGIN_NS + 2 * (uint64_t)schedule.length_ns;
    CHECK_MPI(PMPI_Bcast(&schedule.start_ns, 1, MPI_UINT64_T, 0, comm));
    return schedule;
}

/* Rank 0: return how far the peer's clock is beyond what half a round trip explains, in ns; 0 if
 * not. */
static int64_t excess_of(MPI_Comm comm, int peer, int64_t skew_ns)
{
    uint64_t best_trip_ns = UINT64_MAX;
    int64_t offset_ns = 0;
    for (int i = 0; i < CLOCK_EXCHANGES; i++) {
        uint64_t theirs = 0;
        const uint64_t before = clock_now_ns() + (uint64_t)skew_ns;
        CHECK_MPI(PMPI_Send(NULL, 0, MPI_BYTE, peer, TAG_CONTROL, comm));
        CHECK_MPI(PMPI_Recv(&theirs, 1, MPI_UINT64_T, peer, TAG_CONTROL, comm, MPI_STATUS_IGNORE));
        const uint64_t trip_ns = clock_now_ns() + (uint64_t)skew_ns - before;
        if (trip_ns < best_trip_ns) {
            best_trip_ns = trip_ns;
            offset_ns = (int64_t)(theirs - before - trip_ns / 2);
        }
    }
    const int64_t allowed_ns = (int64_t)(best_trip_ns / 2) + CLOCK_SLACK_NS;
    return llabs(offset_ns) > allowed_ns ? offset_ns : 0;
}

static void answer(MPI_Comm comm, int64_t skew_ns)
{
    for (int i = 0; i < CLOCK_EXCHANGES; i++) {
        CHECK_MPI(PMPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_CONTROL, comm, MPI_STATUS_IGNORE));
        const uint64_t now = clock_now_ns() + (uint64_t)skew_ns;
        CHECK_MPI(PMPI_Send(&now, 1, MPI_UINT64_T, 0, TAG_CONTROL, comm));
    }
}

bool sync_clocks_agree(MPI_Comm comm, int64_t skew_ns, char text[CLOCK_TEXT_SIZE])
{
    int rank = 0;
    int ranks = 0;
    CHECK_MPI(PMPI_Comm_rank(comm, &rank));
    CHECK_MPI(PMPI_Comm_size(comm, &ranks));
    int64_t worst[2] = {0, 0}; /* excess, rank */
    for (int peer = 1; rank == 0 && peer < ranks; peer++) {
        const int64_t excess = excess_of(comm, peer, skew_ns);
        if (llabs(excess) > llabs(worst[0])) {
            worst[0] = excess;
            worst[1] = peer;
        }
    }
    if (rank != 0)
        answer(comm, skew_ns);
    CHECK_MPI(PMPI_Bcast(worst, 2, MPI_INT64_T, 0, comm));
    snprintf(text, CLOCK_TEXT_SIZE,
             "sync=window needs one clock and CLOCK_MONOTONIC of rank %d is off by %.6f s; "
             "allowed here: sync=barrier",
             (int)worst[1], (double)worst[0] * 1e-9);
    return worst[0] == 0;
}

void sync_sleeping_barrier(MPI_Comm comm)
{
    enum { SHORTEST_NS = 20000, LONGEST_NS = 1000000 };
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    CHECK_MPI(PMPI_Ibarrier(comm, &request));
    for (long pause_ns = SHORTEST_NS;; pause_ns *= 2) {
        CHECK_MPI(PMPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (done)
            return;
        pause_ns = pause_ns < LONGEST_NS ? pause_ns : LONGEST_NS;
        clock_sleep_ns(pause_ns);
    }
}
