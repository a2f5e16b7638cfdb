/* Multiplies matrices with the BLAS that the dynamic linker finds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

extern void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
                   const int *, const double *, const int *, const double *, double *, const int *);

int main(int argc, char **argv)
{
    const int n = 500;
    const double one = 1.0, zero = 0.0;
    double *a = calloc((size_t)n * n, sizeof *a), *b = calloc((size_t)n * n, sizeof *b);
    double *c = calloc((size_t)n * n, sizeof *c);
    MPI_Init(&argc, &argv);
    if (a == NULL || b == NULL || c == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < n * n; i++)
        a[i] = b[i] = (double)(i % 7);
    for (int times = 0; times < 5; times++)
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    const int bad = printf("%g\n", c[n]) < 0;
    MPI_Finalize();
    return bad;
}
