/* No MPI program: it loads a library with RTLD_LOCAL, as Python loads a module, and calls its
 * run(). */
#include <dlfcn.h>
#include <stdio.h>

typedef void run_function(void);

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    run_function *run = NULL;
    if (library != NULL)
        *(void **)&run = dlsym(library, "run");
    if (run == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    run();
    return 0;
}
