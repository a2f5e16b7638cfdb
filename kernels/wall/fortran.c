/* Fortran's names for the same three calls.
 *
 * Open MPI's Fortran library calls PMPI_Init itself, so the C wrappers never see it; MPICH's calls
 * MPI_Init and both wrappers run. Each name goes on to the next definition of itself: this library
 * is not linked with a Fortran MPI library, which a C application need not have. The plain name
 * `mpi_init` is left out: a shared library of the application's may well call a function of its own
 * so. */
#include "common/check.h"
#include "common/clock.h"
#include "wall/wall.h"

#include <dlfcn.h>

typedef void init_function(MPI_Fint *error);
typedef void init_thread_function(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error);

/* Return the next definition of a name; ISO C has no cast from object to function pointer. */
static void *next_definition(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        FATAL("a Fortran MPI name was called that no library after libtare_wall.so defines");
    return function;
}

/* `error` is optional in mpi_f08, and then NULL: the call has come back, so it went well. */
static void init(const char *name, MPI_Fint *error)
{
    const uint64_t start_ns = clock_now_ns();
    init_function *function;
    *(void **)&function = next_definition(name);
    function(error);
    if (error == NULL || *error == MPI_SUCCESS)
        wall_initialized(start_ns);
}

static void init_thread(const char *name, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error)
{
    const uint64_t start_ns = clock_now_ns();
    init_thread_function *function;
    *(void **)&function = next_definition(name);
    function(required, provided, error);
    if (error == NULL || *error == MPI_SUCCESS)
        wall_initialized(start_ns);
}

static void finalize(const char *name, MPI_Fint *error)
{
    wall_finalizing();
    init_function *function;
    *(void **)&function = next_definition(name);
    function(error);
}

#define WRAP_INIT(name)                                                                            \
    EXPORTED void name(MPI_Fint *error);                                                           \
    EXPORTED void name(MPI_Fint *error)                                                            \
    {                                                                                              \
        init(#name, error);                                                                        \
    }
#define WRAP_INIT_THREAD(name)                                                                     \
    EXPORTED void name(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error);                   \
    EXPORTED void name(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error)                    \
    {                                                                                              \
        init_thread(#name, required, provided, error);                                             \
    }
#define WRAP_FINALIZE(name)                                                                        \
    EXPORTED void name(MPI_Fint *error);                                                           \
    EXPORTED void name(MPI_Fint *error)                                                            \
    {                                                                                              \
        finalize(#name, error);                                                                    \
    }

WRAP_INIT(mpi_init_)
WRAP_INIT(mpi_init__)
WRAP_INIT(MPI_INIT)
WRAP_INIT(mpi_init_f08_)
WRAP_INIT_THREAD(mpi_init_thread_)
WRAP_INIT_THREAD(mpi_init_thread__)
WRAP_INIT_THREAD(MPI_INIT_THREAD)
WRAP_INIT_THREAD(mpi_init_thread_f08_)
WRAP_FINALIZE(mpi_finalize_)
WRAP_FINALIZE(mpi_finalize__)
WRAP_FINALIZE(MPI_FINALIZE)
WRAP_FINALIZE(mpi_finalize_f08_)
