/* Stop the job with a message that says where, when an MPI call fails. */
#ifndef TARE_CHECK_H
#define TARE_CHECK_H

#include "common/fatal.h"

#include <mpi.h>

/* The test is inline so that a call inside a measured operation costs one comparison. */
#define CHECK_MPI(call)                                                                            \
    do {                                                                                           \
        const int check_code_ = (call);                                                            \
        if (check_code_ != MPI_SUCCESS)                                                            \
            check_mpi_failed(check_code_, #call, __FILE__, __LINE__);                              \
    } while (0)

/* Print rank, call, place and MPI's text on stderr, then abort the job. */
_Noreturn void check_mpi_failed(int code, const char *call, const char *file, int line);

#endif
