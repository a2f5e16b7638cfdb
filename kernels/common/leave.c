#include "common/leave.h"

#include "common/check.h"
#include "common/clock.h"

#ifdef MPICH
/* Longer than the ranks of a busy machine take to leave a barrier, and not to be felt in a launch.
 */
static const long pause_ns = 50000000;
#endif

void leave_together(void)
{
#ifdef MPICH
    CHECK_MPI(PMPI_Barrier(MPI_COMM_WORLD));
    clock_sleep_ns(pause_ns); /* without MPI: a rank still in the barrier must not answer one that
                                 is closing */
#endif
}
