/* Let IMB take turns with other programs (kernels/common/turns.h): preloaded, with what
 * `tare-kernels --turns=` is told in IMB_TURNS.
 *
 * IMB gathers the times of its ranks after each line of a table; that is where a turn ends. Before
 * the first line, and after the last, it waits as well. */
#include "common/check.h"
#include "common/turns.h"

#include <mpi.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

static struct turns turns = {.socket = -1};

static void begin(void)
{
    struct turns_request request;
    const char *text = getenv("IMB_TURNS");
    if (text == NULL)
        return;
    if (!turns_parse(text, &request))
        FATAL("IMB_TURNS is not N@ADDRESS:PORT/NAME");
    turns = turns_open(&request, MPI_COMM_WORLD);
    turns_next(&turns);
}

EXPORTED int MPI_Init(int *argc, char ***argv)
{
    const int code = PMPI_Init(argc, argv);
    begin();
    return code;
}

EXPORTED int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    begin();
    return code;
}

EXPORTED int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                        int receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    const int code =
        PMPI_Gather(send, send_count, send_type, receive, receive_count, receive_type, root, comm);
    if (turns.socket >= 0)
        turns_next(&turns);
    return code;
}

EXPORTED int MPI_Finalize(void)
{
    turns_close(&turns);
    return PMPI_Finalize();
}
