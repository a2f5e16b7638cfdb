/* Wall time of an unmodified MPI application, from the end of MPI_Init to the start of
 * MPI_Finalize. */
#ifndef TARE_WALL_H
#define TARE_WALL_H

#include <stdint.h>

/* What the preload library shows; all else is hidden. */
#define EXPORTED __attribute__((visibility("default")))

/* Note that an initialisation that began at `start_ns` has ended. Wrappers may nest (MPICH's
 * Fortran mpi_init_ calls the C name): the outermost ends last and its times stay. */
void wall_initialized(uint64_t start_ns);

/* Report, the first time it is called; collective over MPI_COMM_WORLD. */
void wall_finalizing(void);

#endif
