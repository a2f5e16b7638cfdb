/* Two ranks: after each barrier one sends an empty message and the other receives it, from
 * MPI_ANY_SOURCE (any: MPI_Recv, tested: MPI_Irecv and MPI_Test) or from the sender by name.
 * Arguments: receives, any|tested|named, probe|none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 7, PROBES = 4, PAUSE_NS = 50000 };

/* A failed call ends the job: MPI_ERRORS_ARE_FATAL is the communicator's own. */
static void probe(MPI_Comm comm)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (int i = 0; i < PROBES; i++) {
        int there = 0;
        nanosleep(&pause, NULL);
        MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &there, MPI_STATUS_IGNORE);
    }
}

static void receive(const char *how, int sender, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    if (strcmp(how, "named") == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, sender, TAG, comm, MPI_STATUS_IGNORE);
    else if (strcmp(how, "any") == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    else {
        MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm, &request);
        while (!done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int ranks = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (argc != 4 || ranks != 2) {
        fprintf(stderr, "any_source: RECEIVES any|tested|named probe|none, on two ranks\n");
        MPI_Abort(comm, 2);
    }
    const int receives = atoi(argv[1]);
    const int probes = strcmp(argv[3], "probe") == 0;
    for (int i = 0; i < receives; i++) {
        const int late = i % 2;
        long sum = i;
        if (rank == late && probes)
            probe(comm);
        MPI_Barrier(comm);
        if (rank == late)
            receive(argv[2], 1 - late, comm);
        else
            MPI_Send(NULL, 0, MPI_BYTE, late, TAG, comm);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, comm);
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
