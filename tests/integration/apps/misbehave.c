/* An MPI program that goes wrong as its argument says: crash, exit, abort,
 * hang, silent; anything else ends well. With a second argument, the name of a
 * file that is not there yet, the first launch makes the file and ends well;
 * with the name of another one as the third, all but the second launch do. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_first(const char *path)
{
    const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) {
        return false;
    }
    close(file);
    return true;
}

static bool goes_wrong(int argc, char **argv)
{
    if (argc > 2 && is_first(argv[2])) {
        return false;
    }
    return argc < 4 || is_first(argv[3]);
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(fault, "sleep") == 0) {
        sleep(1);
    }
    if (rank == 1 && goes_wrong(argc, argv)) {
        if (strcmp(fault, "crash") == 0) {
            raise(SIGSEGV);
        }
        if (strcmp(fault, "exit") == 0) {
            fprintf(stderr, "no input file\n");
            exit(7);
        }
        if (strcmp(fault, "abort") == 0) {
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
        if (strcmp(fault, "hang") == 0) {
            for (;;) {
                pause();
            }
        }
        if (strcmp(fault, "silent") == 0) {
            _exit(0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
