/* With PART: a library that starts a thread when it is loaded. Without: an application that loads
 * the library that its first argument names. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#ifdef PART

static void *nothing(void *argument)
{
    return argument;
}

__attribute__((constructor)) static void loaded(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0)
        pthread_join(thread, NULL);
}

#else
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 2 || dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == NULL)
        fprintf(stderr, "no library\n");
    MPI_Finalize();
    return 0;
}

#endif
