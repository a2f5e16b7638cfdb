/* CG: the smallest eigenvalue of a sparse matrix by inverse iteration with conjugate gradients
 * (RNR-94-007, 2.4).
 *
 * Ranks form a grid of rows and columns, rank = row x columns + column. A rank has a block of the
 * matrix; vectors are cut by columns of the grid and are the same in all of its rows. A x p gives
 * parts of a block of rows, which the ranks of a grid row sum by pairwise exchange; a transpose
 * exchange brings what is needed to the columns. Where there are twice as many columns as rows, a
 * rank gives on one half of its block only: the first exchange swaps halves, the others carry the
 * kept half. */
#include "apps/app.h"
#include "npb/cg_matrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 25, TAG = 1, PAIR = 2 };

static const struct cg_problem problems[CLASSES] = {
    [CLASS_S] = {1400, 7, 15, 10.0, 8.5971775078648},
    [CLASS_W] = {7000, 8, 15, 12.0, 10.362595087124},
    [CLASS_A] = {14000, 11, 15, 20.0, 17.130235054029},
    [CLASS_B] = {75000, 13, 75, 60.0, 22.712745482631},
    [CLASS_C] = {150000, 15, 75, 110.0, 28.973605592845},
    [CLASS_D] = {1500000, 21, 100, 500.0, 52.514532105794},
};

struct solver {
    const struct cg_problem *problem;
    int grid_rows;
    int grid_columns;
    int grid_row;
    int grid_column;
    int ratio; /* columns of vectors for each block of rows, 1 or 2 */
    int row;   /* first of the own rows */
    int row_count;
    int column; /* first of the own columns */
    int column_count;
    int give_to; /* partner of the transpose exchange that needs a piece of the own rows */
    int give_at; /* where that piece begins in them */
    int give_count;
    int take_from;
    struct cg_matrix matrix;
    double *partial; /* of the own rows */
    double *incoming;
    double *x; /* of the own columns, as those below */
    double *z;
    double *p;
    double *q;
    double *r;
};

static int cut(int size, int part, int parts)
{
    return (int)((int64_t)size * part / parts);
}

static struct solver make_solver(const struct run *run)
{
    struct solver s = {.problem = &problems[run_class(run)], .grid_rows = 1, .grid_columns = 1};
    while (s.grid_rows * s.grid_columns < run->ranks) {
        if (s.grid_columns == s.grid_rows)
            s.grid_columns *= 2;
        else
            s.grid_rows *= 2;
    }
    s.ratio = s.grid_columns / s.grid_rows;
    const int ratio = s.ratio;
    s.grid_row = run->rank / s.grid_columns;
    s.grid_column = run->rank % s.grid_columns;
    s.row = cut(s.problem->size, s.grid_row * ratio, s.grid_columns);
    s.row_count = cut(s.problem->size, (s.grid_row + 1) * ratio, s.grid_columns) - s.row;
    s.column = cut(s.problem->size, s.grid_column, s.grid_columns);
    s.column_count = cut(s.problem->size, s.grid_column + 1, s.grid_columns) - s.column;

    const int half = s.grid_column % ratio;
    const int given =
        s.grid_row * ratio + half; /* the column of vectors that is cut out of the own rows */
    s.give_to = s.grid_column / ratio * s.grid_columns + given;
    s.give_at = cut(s.problem->size, given, s.grid_columns) - s.row;
    s.give_count = cut(s.problem->size, given + 1, s.grid_columns) - s.row - s.give_at;
    s.take_from = s.grid_column / ratio * s.grid_columns + s.grid_row * ratio + half;

    s.matrix =
        cg_matrix_make(s.problem, s.row, s.row + s.row_count, s.column, s.column + s.column_count);
    s.partial = app_allocate((size_t)s.row_count, sizeof(double));
    s.incoming = app_allocate((size_t)s.row_count, sizeof(double));
    double **const vectors[] = {&s.x, &s.z, &s.p, &s.q, &s.r};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        *vectors[i] = app_allocate((size_t)s.column_count, sizeof(double));
    return s;
}

static void free_solver(struct solver *s)
{
    cg_matrix_free(&s->matrix);
    double *const vectors[] = {s->partial, s->incoming, s->x, s->z, s->p, s->q, s->r};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        free(vectors[i]);
}

static int partner_of(const struct solver *s, int distance)
{
    return s->grid_row * s->grid_columns + (s->grid_column ^ distance);
}

/* Sum values over the ranks of a grid row that are a multiple of `nearest` apart, by pairwise
 * exchange. */
static void sum_over_row(struct run *run, const struct solver *s, double *values, double *incoming,
                         int count, int nearest)
{
    for (int distance = s->grid_columns / 2; distance >= nearest; distance /= 2) {
        const int partner = partner_of(s, distance);
        MPI_Request request = MPI_REQUEST_NULL;
        message_irecv(run, incoming, count, MPI_DOUBLE, partner, TAG, &request);
        message_send(run, values, count, MPI_DOUBLE, partner, TAG);
        message_wait(run, &request);
        for (int i = 0; i < count; i++)
            values[i] += incoming[i];
    }
}

/* Give the neighbour the half that it keeps, and add its part of the own one. */
static void swap_halves(struct run *run, struct solver *s)
{
    const int partner = partner_of(s, 1);
    const int other_at = s->give_at == 0 ? s->give_count : 0;
    const int other_count = s->row_count - s->give_count;
    double *own = s->partial + s->give_at;
    MPI_Request request = MPI_REQUEST_NULL;
    message_irecv(run, s->incoming, s->give_count, MPI_DOUBLE, partner, TAG, &request);
    message_send(run, s->partial + other_at, other_count, MPI_DOUBLE, partner, TAG);
    message_wait(run, &request);
    for (int i = 0; i < s->give_count; i++)
        own[i] += s->incoming[i];
}

/* q = A p */
static void multiply(struct run *run, struct solver *s, const double *p, double *q)
{
    cg_matrix_multiply(&s->matrix, p, s->partial);
    if (s->ratio > 1)
        swap_halves(run, s);
    sum_over_row(run, s, s->partial + s->give_at, s->incoming, s->give_count, s->ratio);
    if (s->give_to == run->rank) {
        for (int i = 0; i < s->column_count; i++)
            q[i] = s->partial[s->give_at + i];
        return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    message_irecv(run, q, s->column_count, MPI_DOUBLE, s->take_from, TAG, &request);
    message_send(run, s->partial + s->give_at, s->give_count, MPI_DOUBLE, s->give_to, TAG);
    message_wait(run, &request);
}

static double dot(int count, const double *restrict a, const double *restrict b)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static double norm2(int count, const double *a)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < count; i++)
        sum += a[i] * a[i];
    return sum;
}

static double summed(struct run *run, const struct solver *s, double value)
{
    double incoming = 0.0;
    sum_over_row(run, s, &value, &incoming, 1, 1);
    return value;
}

/* One of the steps of conjugate gradients on A z = x; return the new square of the residual. */
static double step(struct run *run, struct solver *s, double rho)
{
    const int n = s->column_count;
    multiply(run, s, s->p, s->q);
    const double alpha = rho / summed(run, s, dot(n, s->p, s->q));
    double *restrict z = s->z;
    double *restrict r = s->r;
    double *restrict p = s->p;
    const double *restrict q = s->q;
    double next = 0.0;
#pragma omp simd reduction(+ : next)
    for (int i = 0; i < n; i++) {
        z[i] += alpha * p[i];
        r[i] -= alpha * q[i];
        next += r[i] * r[i];
    }
    next = summed(run, s, next);
    const double beta = next / rho;
#pragma omp simd
    for (int i = 0; i < n; i++)
        p[i] = r[i] + beta * p[i];
    return next;
}

/* Solve A z = x approximately and return |x - A z|. */
static double solve(struct run *run, struct solver *s)
{
    const int n = s->column_count;
    for (int i = 0; i < n; i++) {
        s->z[i] = 0.0;
        s->q[i] = 0.0;
        s->r[i] = s->x[i];
        s->p[i] = s->x[i];
    }
    double rho = summed(run, s, norm2(n, s->r));
    for (int i = 0; i < STEPS; i++) {
        run_next_part(run);
        rho = step(run, s, rho);
    }
    multiply(run, s, s->z, s->r);
    double distance = 0.0;
#pragma omp simd reduction(+ : distance)
    for (int i = 0; i < n; i++)
        distance += (s->x[i] - s->r[i]) * (s->x[i] - s->r[i]);
    return sqrt(summed(run, s, distance));
}

/* One step of inverse iteration; return the estimate of the eigenvalue. */
static double iterate(struct run *run, struct solver *s, double *residual)
{
    const int n = s->column_count;
    *residual = solve(run, s);
    double products[PAIR] = {dot(n, s->x, s->z), norm2(n, s->z)};
    double incoming[PAIR];
    sum_over_row(run, s, products, incoming, PAIR, 1);
    const double scale = 1.0 / sqrt(products[1]);
    for (int i = 0; i < n; i++)
        s->x[i] = scale * s->z[i];
    return s->problem->shift + 1.0 / products[0];
}

static void fill_with_ones(struct solver *s)
{
    for (int i = 0; i < s->column_count; i++)
        s->x[i] = 1.0;
}

static void execute(struct run *run)
{
    struct solver s = make_solver(run);
    double zeta = 0.0;
    double residual = 0.0;
    fill_with_ones(&s);
    iterate(run, &s, &residual); /* untimed */
    fill_with_ones(&s);
    if (run_is_struck(run) && run->rank == run->ranks - 1)
        s.matrix.strip[0].value[0] += 1.0;
    run_divide(run, s.problem->iterations * STEPS);
    run_start(run);
    for (int i = 0; i < s.problem->iterations; i++)
        zeta = iterate(run, &s, &residual);
    run_stop(run);
    const double z = s.problem->nonzeros * (s.problem->nonzeros + 1.0);
    run->result.operations =
        2e-6 * s.problem->iterations * s.problem->size * (3.0 + z + STEPS * (5.0 + z) + 3.0);
    result_check(run, "zeta", zeta, s.problem->zeta, 1e-10);
    result_figure(run, "residual", residual, "");
    free_solver(&s);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const struct cg_problem *problem = &problems[run_class(run)];
    if ((run->ranks & (run->ranks - 1)) == 0 && run->ranks <= problem->size / 2)
        return true;
    snprintf(reason, APP_REASON, "npb-cg class %c cannot run on %d ranks; allowed: powers of two",
             run->problem_class, run->ranks);
    return false;
}

static double memory_bytes(const struct run *run)
{
    const struct cg_problem *problem = &problems[run_class(run)];
    const double entries =
        (double)problem->size * (problem->nonzeros + 1.0) * (problem->nonzeros + 1.0);
    const double vectors = (double)problem->size * (problem->nonzeros + 1.0);
    return 2.0 * 12.0 * entries / run->ranks + 12.0 * vectors + 64.0 * problem->size;
}

const struct app app_npb_cg = {
    .name = "npb-cg",
    .description = "conjugate gradients on a sparse matrix with a random pattern",
    .rate = "Mop/s",
    .timed = "the outer iterations, 25 steps of conjugate gradients in each",
    .pattern = "a step: log2(columns) exchanges of parts of A p, one transpose exchange (a copy "
               "where it is with oneself), sums of "
               "single numbers by "
               "pairwise exchange",
    .classes = "SWABCD",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 180,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
