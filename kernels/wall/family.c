#include "wall/family.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

#ifdef OPEN_MPI
static const bool is_open_mpi = true;
#else
static const bool is_open_mpi = false;
#endif

/* Return a loaded library by a function of it; NULL for the program itself, if its MPI is static.
 */
static void *library_of(const void *function, int flags)
{
    Dl_info info;
    if (dladdr(function, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | flags);
}

bool family_is_own(const void *function)
{
    void *library = library_of(function, RTLD_LOCAL);
    if (library == NULL)
        return true;
    const bool is = dlsym(library, "ompi_mpi_comm_world") != NULL;
    dlclose(library);
    return is == is_open_mpi;
}

void family_show(const void *function)
{
    void *library = library_of(function, RTLD_GLOBAL);
    if (library != NULL)
        dlclose(library);
}
