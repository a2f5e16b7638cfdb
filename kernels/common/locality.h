/* Where every rank is: host, processors, namespaces and shared memory. */
#ifndef TARE_LOCALITY_H
#define TARE_LOCALITY_H

#include <mpi.h>
#include <stdbool.h>

enum { BOOT_ID_SIZE = 64 };

/* Read the kernel's boot_id, empty where there is none: machines that were made from one image
 * differ in it. */
void locality_boot_id(char text[BOOT_ID_SIZE]);

struct locality {
    int ranks;
    int *host_of; /* rank 0 only: the host of each rank, numbered from 0 in order of appearance */
    char *lines;  /* rank 0 only: the rank lines, ready to be written */
};

/* Gather the report to rank 0 of the communicator; collective. It calls PMPI_ names only, so that a
 * profiler sees the application's calls and not these. */
struct locality locality_gather(MPI_Comm comm);

/* Write the rank lines; return false when stdout takes no more. */
bool locality_write(const struct locality *locality);

void locality_free(struct locality *locality);

#endif
