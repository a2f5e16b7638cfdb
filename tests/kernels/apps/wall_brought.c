/* An application that loads its MPI late and for itself, as Python's extension modules do. Built
 * twice: as the program, and with -DPART as the library that it loads. */
#ifdef PART
#include <mpi.h>

int part(int *argc, char ***argv);

int part(int *argc, char ***argv)
{
    return MPI_Init(argc, argv) != MPI_SUCCESS || MPI_Finalize() != MPI_SUCCESS;
}
#else
#include <dlfcn.h>
#include <stdio.h>

typedef int part_function(int *argc, char ***argv);

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    part_function *part = NULL;
    if (library != NULL)
        *(void **)&part = dlsym(library, "part");
    if (part == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return part(&argc, &argv);
}
#endif
