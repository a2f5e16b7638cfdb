/* Wall time of an unmodified MPI application, from the end of MPI_Init to the start of
 * MPI_Finalize.
 *
 * Two libraries: libtare_wall.so is preloaded into everything that a launch starts, shells among
 * them, and knows no MPI; libtare_wall_report.so, which is linked with one, is loaded by it at
 * MPI_Finalize, when the process has that MPI already. */
#ifndef TARE_WALL_H
#define TARE_WALL_H

#include "wall/work.h"

#include <stdint.h>

/* What a library shows; all else is hidden. */
#define EXPORTED __attribute__((visibility("default")))

struct wall_times {
    uint64_t ready_ns; /* end of MPI_Init; 0 before */
    uint64_t end_ns;   /* start of MPI_Finalize */
    double init_s;
    struct work work; /* from the start of the process, without MPI_Init */
};

/* Gather all ranks' times and write the report; collective over MPI_COMM_WORLD. */
typedef void wall_report_function(const struct wall_times *times);
EXPORTED wall_report_function tare_wall_report;

#endif
