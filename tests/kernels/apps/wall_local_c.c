/* The MPI part of a program that loads it with RTLD_LOCAL. */
#include <mpi.h>
#include <stddef.h>

void run(void);
void run(void)
{
    MPI_Init(NULL, NULL);
    MPI_Finalize();
}
