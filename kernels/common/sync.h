/* How ranks begin an iteration together, or not. */
#ifndef TARE_SYNC_H
#define TARE_SYNC_H

#include "common/check.h"
#include "common/clock.h"
#include "common/kernel.h"

/* When iteration i may begin: at start_ns + i * length_ns (windows and paced messages). */
struct schedule {
    enum sync_mode mode;
    uint64_t start_ns;
    double length_ns;
};

enum { CLOCK_TEXT_SIZE = 160 };

/* Wait for the instant of iteration i; return true, at once, when it has passed already. */
static inline bool sync_wait(const struct schedule *schedule, int iteration)
{
    const uint64_t deadline =
        schedule->start_ns + (uint64_t)((double)iteration * schedule->length_ns);
    if (clock_now_ns() > deadline)
        return true;
    clock_spin_until(deadline);
    return false;
}

/* Do what the mode asks for before an iteration; return whether this rank begins late. Bookkeeping
 * calls PMPI_ names, so that a profiler sees the measured operations only. */
static inline bool sync_begin(const struct schedule *schedule, MPI_Comm comm, int iteration)
{
    switch (schedule->mode) {
    case SYNC_NONE:
        return false;
    case SYNC_BARRIER:
        CHECK_MPI(PMPI_Barrier(comm));
        return false;
    case SYNC_WINDOW:
        return sync_wait(schedule, iteration);
    }
    return false;
}

/* Lay out start windows (Hunold & Carpen-Amarie, arXiv:1505.07734, section 4): long enough for the
 * slowest of the warm-up's second half, on any rank, twice over; one outlier may make iterations
 * late but not stretch every window, hence the bound of ten medians. Collective over comm. */
struct schedule sync_plan_windows(MPI_Comm comm, double *warmup_s, int warmup);

/* Return whether every rank's clock agrees with rank 0's within half a round trip and 5 us: start
 * windows mean nothing otherwise (other hosts, time namespaces). Else write which rank is off and
 * by how much. Collective over comm, same answer on all ranks. `skew_ns` is added to this rank's
 * clock (fault tests). */
bool sync_clocks_agree(MPI_Comm comm, int64_t skew_ns, char text[CLOCK_TEXT_SIZE]);

/* Wait for all ranks while sleeping, so that ranks without work leave their cores idle. */
void sync_sleeping_barrier(MPI_Comm comm);

#endif
