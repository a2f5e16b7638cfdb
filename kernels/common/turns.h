/* Take turns with other jobs on the same cores: a job that waits for its turn sleeps in the kernel.
 *
 * Every rank has a connection to whoever gives the turns. It says the launch's key and its rank,
 * then reads one byte for each turn; rank 0 answers one byte when the job has got ready, and one
 * when its turn is over. The key is that of its records (common/output.h): other users of the
 * machine can read a program's arguments, but not its variables. */
#ifndef TARE_TURNS_H
#define TARE_TURNS_H

#include <mpi.h>
#include <stdbool.h>

enum { TURNS_NAME_LENGTH = 16, TURNS_ADDRESS_SIZE = 16, TURNS_MOST = 10000 };

/* What `--turns` says; count 0: the job takes no turns. `name` tells its processes from those of
 * other jobs, and is public. */
struct turns_request {
    int count;
    char address[TURNS_ADDRESS_SIZE]; /* IPv4 */
    int port;
    char name[TURNS_NAME_LENGTH + 1];
};

struct turns {
    int count;
    int socket;
    int rank;
    MPI_Comm world;
};

/* Read `N@ADDRESS:PORT/NAME`; false when it is something else. */
bool turns_parse(const char *text, struct turns_request *request);

/* Connect; collective over world. The program ends where nobody answers, or the launch has no
 * key. */
struct turns turns_open(const struct turns_request *request, MPI_Comm world);

/* Say that what was to be done is done, then sleep until the next turn; collective. */
void turns_next(const struct turns *turns);

/* Sleep through so many turns, of a rank that has nothing to do in them and is not in the others'
 * world. */
void turns_pass(const struct turns *turns, int many);

void turns_close(struct turns *turns);

#endif
