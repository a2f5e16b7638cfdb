/* Reads a file before and after MPI_Init, creates three threads, and writes a file on rank 0: it is
 * not closed. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *rests(void *argument)
{
    return argument;
}

static FILE *file_in(const char *folder, const char *name, const char *mode)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, mode);
    if (file == NULL)
        abort();
    return file;
}

static void reads(FILE *file, size_t bytes)
{
    static char text[30000];
    setvbuf(file, NULL, _IONBF, 0);
    if (fread(text, 1, bytes, file) != bytes)
        abort();
}

int main(int argc, char **argv)
{
    int rank;
    pthread_t threads[3];
    FILE *input = file_in(argv[1], "input", "r"), *output = NULL;
    reads(input, 10000);
    MPI_Init(&argc, &argv);
    reads(input, 20000);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, rests, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (rank == 0) {
        static char text[70000];
        output = file_in(argv[1], "output", "w");
        fwrite(text, 1, sizeof text, output);
    }
    MPI_Finalize();
    return 0;
}
