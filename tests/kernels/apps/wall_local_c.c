/* The MPI part of a program that loads it with RTLD_LOCAL. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <unistd.h>

void run(void);
void run(void)
{
    MPI_Init(NULL, NULL);
    usleep(200000);
    MPI_Finalize();
}
