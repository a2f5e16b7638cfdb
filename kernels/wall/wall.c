/* Wrappers of the calls that begin and end an MPI program.
 *
 * Both names of a call are wrapped, MPI_ and PMPI_, because a tool before this library, and Open
 * MPI's Fortran, call the second at once. Each goes on to the next definition of its own name: a
 * tool after this library has its turn. The outermost wrapper of MPI_Init ends last, and its times
 * stay; the first of MPI_Finalize reports. */
#include "wall/wall.h"

#include "common/clock.h"
#include "wall/family.h"
#include "wall/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in every mpi.h; this file is compiled without one. */
enum { MPI_SUCCESS = 0 };
typedef int init_function(int *argc, char ***argv);
typedef int init_thread_function(int *argc, char ***argv, int required, int *provided);
typedef int finalize_function(void);
typedef void *thread_function(void *argument);
typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes,
                            thread_function *start, void *argument);

static const char report_library[] = "libtare_wall_report.so";

/* A wrapper has no place of its own, so this is the one variable that outlives a call. */
static struct {
    struct wall_times times;
    struct work since; /* what was done when the counting last began */
    atomic_uint threads;
    bool reported;
    bool other; /* the program has brought an MPI of another family */
} wall;

static struct work work_now(void)
{
    return work_so_far(atomic_load(&wall.threads));
}

/* The libraries of the program are loaded and initialised by then: this one is initialised last. */
__attribute__((constructor)) static void loaded(void)
{
    wall.since = work_now();
}

/* Return whether code is of an MPI or of what it sends messages with: their threads, which start
 * when they are loaded, when the first message is sent, or never, are not the program's. */
static bool is_of_mpi(const void *code)
{
    static const char *const names[] = {"libmpi",  "libopen-",  "libpmix", "mca_",
                                        "libucs.", "libucp.",   "libuct",  "libucm",
                                        "libucc.", "libfabric", "libpsm",  "libevent"};
    Dl_info info;
    if (dladdr(code, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash == NULL ? info.dli_fname : slash + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(file, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Threads of OpenMP, of C++ and of BLAS are created by this call, too. */
EXPORTED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            thread_function *start, void *argument)
{
    create_function *next;
    *(void **)&next = next_definition("pthread_create");
    if (next == NULL)
        return EAGAIN;
    if (!is_of_mpi(__builtin_return_address(0)))
        atomic_fetch_add(&wall.threads, 1U);
    return next(thread, attributes, start, argument);
}

/* Return the next definition; ISO C has no cast from object to function pointer. */
static void *next_or_end(const char *name)
{
    void *function = next_definition(name);
    if (function == NULL) {
        fprintf(stderr, "tare-wall: %s was called and no MPI library is loaded\n", name);
        abort();
    }
    return function;
}

/* What MPI_Init reads, writes and starts is the MPI's, which images have in other versions. The
 * inner of two wrappers finds that nothing was done since the outer one, so nothing counts twice.
 */
static uint64_t initializing(void)
{
    const struct work now = work_now();
    work_add(&wall.times.work, &wall.since, &now);
    wall.since = now;
    return clock_now_ns();
}

/* The report would load a second MPI into the process. */
static void look_at_mpi(const void *function)
{
    Dl_info info;
    wall.other = !family_is_own(function);
    if (wall.other && dladdr(function, &info) != 0)
        fprintf(stderr, "tare-wall: the program has another MPI: %s\n", info.dli_fname);
}

static void initialized(uint64_t start_ns, const void *function)
{
    look_at_mpi(function);
    wall.times.ready_ns = clock_now_ns();
    wall.times.init_s = clock_difference_s(wall.times.ready_ns, start_ns);
    wall.since = work_now();
}

/* Return the function that reports, NULL if its library cannot be loaded; it lies beside this one.
 */
static wall_report_function *load_report(void)
{
    Dl_info own;
    char path[PATH_MAX];
    wall_report_function *report = NULL;
    if (dladdr(&wall, &own) == 0 || own.dli_fname == NULL)
        return NULL;
    const char *slash = strrchr(own.dli_fname, '/');
    const int folder = slash == NULL ? 0 : (int)(slash + 1 - own.dli_fname);
    const int length = snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, report_library);
    if (length < 0 || (size_t)length >= sizeof path)
        return NULL;
    family_show(next_definition("MPI_Finalize"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        *(void **)&report = dlsym(library, "tare_wall_report");
    if (report == NULL)
        fprintf(stderr, "tare-wall: the wall time cannot be reported: %s\n", dlerror());
    return report;
}

static void finalizing(void)
{
    wall.times.end_ns = clock_now_ns();
    if (wall.times.ready_ns == 0 || wall.reported || wall.other)
        return;
    wall.reported = true;
    fflush(NULL); /* what it has written so far, to files that it closes later, too */
    const struct work now = work_now();
    work_add(&wall.times.work, &wall.since, &now);
    wall_report_function *report = load_report();
    if (report != NULL)
        report(&wall.times);
}

static int init(const char *name, int *argc, char ***argv)
{
    const uint64_t start_ns = initializing();
    init_function *next;
    *(void **)&next = next_or_end(name);
    const int code = next(argc, argv);
    if (code == MPI_SUCCESS)
        initialized(start_ns, *(void **)&next);
    return code;
}

static int init_thread(const char *name, int *argc, char ***argv, int required, int *provided)
{
    const uint64_t start_ns = initializing();
    init_thread_function *next;
    *(void **)&next = next_or_end(name);
    const int code = next(argc, argv, required, provided);
    if (code == MPI_SUCCESS)
        initialized(start_ns, *(void **)&next);
    return code;
}

static int finalize(const char *name)
{
    finalizing();
    finalize_function *next;
    *(void **)&next = next_or_end(name);
    return next();
}

#define WRAP_INIT(name)                                                                            \
    EXPORTED init_function name;                                                                   \
    int name(int *argc, char ***argv)                                                              \
    {                                                                                              \
        return init(#name, argc, argv);                                                            \
    }
#define WRAP_INIT_THREAD(name)                                                                     \
    EXPORTED init_thread_function name;                                                            \
    int name(int *argc, char ***argv, int required, int *provided)                                 \
    {                                                                                              \
        return init_thread(#name, argc, argv, required, provided);                                 \
    }
#define WRAP_FINALIZE(name)                                                                        \
    EXPORTED finalize_function name;                                                               \
    int name(void)                                                                                 \
    {                                                                                              \
        return finalize(#name);                                                                    \
    }

WRAP_INIT(MPI_Init)
WRAP_INIT(PMPI_Init)
WRAP_INIT_THREAD(MPI_Init_thread)
WRAP_INIT_THREAD(PMPI_Init_thread)
WRAP_FINALIZE(MPI_Finalize)
WRAP_FINALIZE(PMPI_Finalize)
