/* A program that needs a library of the user's own. */
#include <mpi.h>

int borrowed(void);

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int status = borrowed();
    MPI_Finalize();
    return status;
}
