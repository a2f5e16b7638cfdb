#include "common/fault.h"

#include "common/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULT_EXIT_CODE = 7 };

static const char *const names[] = {
    [FAULT_NONE] = "none", [FAULT_CORRUPT] = "corrupt", [FAULT_CRASH] = "crash",
    [FAULT_HANG] = "hang", [FAULT_EXIT] = "exit",       [FAULT_CLOCK] = "clock",
};

static struct fault parse(const char *wish)
{
    struct fault fault = {.kind = FAULT_NONE};
    const char *colon = wish == NULL ? NULL : strchr(wish, ':');
    if (colon == NULL || strlen(colon + 1) >= sizeof fault.kernel)
        return fault;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i]);
        if (length == (size_t)(colon - wish) && strncmp(wish, names[i], length) == 0)
            fault.kind = (enum fault_kind)i;
    }
    memcpy(fault.kernel, colon + 1, strlen(colon + 1) + 1);
    return fault;
}

struct fault fault_read(MPI_Comm comm)
{
    int rank = 0;
    CHECK_MPI(PMPI_Comm_rank(comm, &rank));
    struct fault fault = {.kind = FAULT_NONE};
    if (rank == 0)
        fault = parse(getenv("TARE_FAULT"));
    CHECK_MPI(PMPI_Bcast(&fault, (int)sizeof fault, MPI_BYTE, 0, comm));
    return fault;
}

bool fault_meant(const struct fault *fault, enum fault_kind kind, const struct kernel *kernel)
{
    return fault->kind == kind && strcmp(fault->kernel, kernel->name) == 0;
}

void fault_strike(const struct fault *fault, const struct kernel *kernel, const struct job *job)
{
    if (job->rank != job->ranks - 1)
        return;
    if (fault_meant(fault, FAULT_CRASH, kernel)) {
        signal(SIGSEGV, SIG_DFL); /* MPI libraries catch it to print a stack */
        raise(SIGSEGV);
    }
    if (fault_meant(fault, FAULT_EXIT, kernel))
        _exit(FAULT_EXIT_CODE);
    while (fault_meant(fault, FAULT_HANG, kernel))
        pause();
}
