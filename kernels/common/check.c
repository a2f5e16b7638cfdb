#include "common/check.h"

#include <stdio.h>
#include <stdlib.h>

static int world_rank(void)
{
    int initialized = 0;
    int finalized = 0;
    int rank = -1;
    PMPI_Initialized(&initialized);
    PMPI_Finalized(&finalized);
    if (initialized && !finalized)
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

_Noreturn void check_mpi_failed(int code, const char *call, const char *file, int line)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    PMPI_Error_string(code, text, &length);
    fprintf(stderr, "tare: rank %d: %s:%d: %s: %s\n", world_rank(), file, line, call, text);
    PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

_Noreturn void check_fatal(const char *reason, const char *file, int line)
{
    const int rank = world_rank();
    fprintf(stderr, "tare: rank %d: %s:%d: %s\n", rank, file, line, reason);
    if (rank >= 0)
        PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}
