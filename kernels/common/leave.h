/* Come to MPI_Finalize together. */
#ifndef TARE_LEAVE_H
#define TARE_LEAVE_H

/* Wait until every rank is about to call MPI_Finalize; collective over MPI_COMM_WORLD.
 *
 * MPICH 4.0 over UCX needs it. There a rank closes its connections, which waits for answers of the
 * other ranks, and then sits in a barrier of the launcher, where it answers nobody. A rank that
 * comes late, but answered before, waits for ever. Under another MPI nothing is done. */
void leave_together(void);

#endif
