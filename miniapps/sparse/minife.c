/* miniFE-like: assembly of a heat conduction problem on a box of hexahedra, then conjugate
 * gradients without preconditioner.
 *
 * The problem and the count of operations are those of the miniFE 2.0 reference. */
#include "sparse/minife.h"

#include "common/check.h"
#include "common/clock.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITERATIONS = 200, SHOWN = 5 };

/* Norms of the residual of cubes with n elements a side, on any number of ranks. The reference
 * prints the norm at the begin of an iteration and counts from 1: its 20th is ours after 19. */
static const struct known {
    int n;
    int done;
    const char *name;
    double residual;
    double tolerance; /* of the last digit; of one value, what rounding added in the reference */
} known[] = {
    {32, 0, "norm of the residual at the start", 33.0132, 1e-5},
    {32, 19, "norm of the residual at iteration 20", 0.0213628, 1e-5},
    {32, 39, "norm of the residual at iteration 40", 2.20577e-4, 1e-5},
    {64, 0, "norm of the residual at the start", 65.0072, 1e-5},
    {64, 19, "norm of the residual at iteration 20", 0.0409684, 2e-4},
    {64, 39, "norm of the residual at iteration 40", 0.0116308, 1e-5},
};

/* What each iteration began with. */
struct history {
    double norm[ITERATIONS + 1];  /* of the residual */
    double fixed[ITERATIONS + 1]; /* residual of each of the rows at x = 1: they are all the same */
    double time_s[ITERATIONS];    /* of the iteration */
};

struct solver {
    struct minife fe;
    double *x;
    double *r;
    double *p;
    double *ap;
    uint64_t multiply_ns;
    uint64_t allreduce_ns;
    int fixed_row; /* an own row at x = 1, or -1 */
};

static double sum_of_all(struct run *run, struct solver *solver, double own)
{
    const uint64_t begun_ns = clock_now_ns();
    message_allreduce(run, &own, 1, MPI_DOUBLE, MPI_SUM);
    solver->allreduce_ns += clock_now_ns() - begun_ns;
    return own;
}

/* Set ap = A p and return the own part of p A p. */
static double multiply(struct run *run, struct solver *solver, double *p)
{
    const uint64_t begun_ns = clock_now_ns();
    halo_exchange(run, &solver->fe.halo, p);
    const double product = matrix_multiply(&solver->fe.matrix, p, solver->ap);
    solver->multiply_ns += clock_now_ns() - begun_ns;
    return product;
}

/* Set r = b - A x and return the own part of r r. */
static double begin(struct run *run, struct solver *solver)
{
    const double *restrict b = solver->fe.b;
    const double *restrict ap = solver->ap;
    double *restrict r = solver->r;
    double sum = 0.0;
    multiply(run, solver, solver->x);
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < solver->fe.halo.own_points; i++) {
        r[i] = b[i] - ap[i];
        sum += r[i] * r[i];
    }
    return sum;
}

static void turn(struct solver *solver, double beta)
{
    const double *restrict r = solver->r;
    double *restrict p = solver->p;
    for (int i = 0; i < solver->fe.halo.own_points; i++)
        p[i] = r[i] + beta * p[i];
}

/* Go along p and return the own part of r r there. */
static double step(struct solver *solver, double alpha)
{
    const double *restrict p = solver->p;
    const double *restrict ap = solver->ap;
    double *restrict x = solver->x;
    double *restrict r = solver->r;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < solver->fe.halo.own_points; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * ap[i];
        sum += r[i] * r[i];
    }
    return sum;
}

/* Solve from x = 0; return the iterations. */
static int solve(struct run *run, struct solver *solver, struct history *history)
{
    double own = begin(run, solver);
    double before = 0.0;
    int done = 0;
    uint64_t begun_ns = clock_now_ns();
    run_divide(run, ITERATIONS);
    for (; done < ITERATIONS; done++) {
        if (run_next_part(run))
            begun_ns = clock_now_ns();
        const double rr = sum_of_all(run, solver, own);
        history->norm[done] = sqrt(rr);
        history->fixed[done] = solver->fixed_row < 0 ? 0.0 : solver->r[solver->fixed_row];
        if (!(history->norm[done] > DBL_EPSILON))
            break;
        turn(solver, done == 0 ? 0.0 : rr / before);
        before = rr;
        const double pap = sum_of_all(run, solver, multiply(run, solver, solver->p));
        own = step(solver, rr / pap);
        const uint64_t done_ns = clock_now_ns();
        history->time_s[done] = clock_difference_s(done_ns, begun_ns);
        begun_ns = done_ns;
    }
    return done;
}

/* Return the operations as miniFE counts them: with elements for the length of vectors. */
static double operations(const struct minife *fe, double entries, int iterations)
{
    const double length =
        (double)fe->elements[X] * (double)fe->elements[Y] * (double)fe->elements[Z];
    const double products = 2.0 * entries * (iterations + 1.0);
    const double dots = 2.0 * length * 2.0 * iterations;
    const double updates = 3.0 * length * (3.0 * iterations + 2.0);
    return products + dots + updates;
}

static double entries_of(const struct minife *fe)
{
    double entries = 1.0;
    for (int axis = 0; axis < AXES; axis++)
        entries *= 3.0 * fe->elements[axis] + 1.0;
    return entries;
}

/* Compare with the reference. The rows at x = 1 are an eigenspace whose eigenvalue is far from the
 * others and that holds nearly all of the first residual. It is solved at once; then rounding comes
 * back there, fifty times larger each iteration, until it is found anew: a peak of some iterations,
 * now and then, that depends on the order of sums. Where one is met, its share is allowed. */
static void check_history(struct run *run, const struct minife *fe, struct history *history)
{
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, history->fixed, ITERATIONS + 1, MPI_DOUBLE, MPI_SUM,
                             run->comm));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct known *at = &known[i];
        if (at->n != fe->elements[X] || at->n != fe->elements[Y] || at->n != fe->elements[Z])
            continue;
        const double rows = (at->n + 1.0) * (at->n + 1.0);
        const double noise =
            at->done == 0 ? 0.0 : rows * pow(history->fixed[at->done] / at->residual, 2);
        result_check(run, at->name, history->norm[at->done], at->residual,
                     at->tolerance + 3.0 * noise);
    }
}

/* Check that the residual that was carried along is that of the solution, and the matrix's size. */
static void verify(struct run *run, struct solver *solver, struct history *history, int iterations)
{
    int64_t entries = solver->fe.matrix.entries;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &entries, 1, MPI_INT64_T, MPI_SUM, run->comm));
    result_check(run, "entries of the matrix", (double)entries, entries_of(&solver->fe), 0.0);
    check_history(run, &solver->fe, history);
    double own = 0.0;
    for (int i = 0; i < solver->fe.halo.own_points; i++)
        own += solver->r[i] * solver->r[i];
    const double carried = sqrt(sum_of_all(run, solver, own));
    const double true_norm = sqrt(sum_of_all(run, solver, begin(run, solver)));
    result_check(run, "residual of the solution less the one carried along",
                 (true_norm - carried) / history->norm[0], 0.0, 1e-12);
    result_figure(run, "iterations", iterations, "");
    const int shown = iterations < SHOWN ? iterations : SHOWN;
    result_figure(run, "norm of the residual after 5 iterations", history->norm[shown], "");
    result_figure(run, "last norm of the residual", carried, "");
}

static void tell_times(struct run *run, const struct solver *solver)
{
    const struct minife *fe = &solver->fe;
    result_figure(run, "assembly", run_longest_s(run, fe->assembly_s), "s");
    result_figure(run, "matrix structure", run_longest_s(run, fe->structure_s), "s");
    result_figure(run, "multiplication", run_longest_s(run, (double)solver->multiply_ns * 1e-9),
                  "s");
    result_figure(run, "halo exchanges", run_longest_s(run, (double)fe->halo.spent_ns * 1e-9), "s");
    result_figure(run, "allreduce", run_longest_s(run, (double)solver->allreduce_ns * 1e-9), "s");
}

/* Let the rank that has the last corner of the cube look at its row. */
static void find_fixed_row(struct solver *solver)
{
    const struct box *own = &solver->fe.halo.own;
    const int corner[AXES] = {solver->fe.elements[X], solver->fe.elements[Y],
                              solver->fe.elements[Z]};
    if (box_has(own, corner))
        solver->fixed_row = (int)box_index(own, corner);
}

static void execute(struct run *run)
{
    struct history history = {.norm = {0.0}};
    struct solver solver = {.fe = minife_make(run), .fixed_row = -1};
    find_fixed_row(&solver);
    double **const vectors[] = {&solver.x, &solver.r, &solver.p, &solver.ap};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        *vectors[i] = vector_make(&solver.fe.halo);
    run_start(run);
    const int iterations = solve(run, &solver, &history);
    run_stop(run);
    if (run_is_struck(run) && run->rank == run->ranks - 1)
        solver.x[0] += 1.0;
    run->result.operations = operations(&solver.fe, entries_of(&solver.fe), iterations) * 1e-6;
    tell_times(run, &solver);
    verify(run, &solver, &history, iterations);
    result_series(run, "time of an iteration", history.time_s, (size_t)iterations, "s");
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        vector_free(*vectors[i]);
    minife_free(&solver.fe);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const int elements[AXES] = {(int)run_value(run, "nx"), (int)run_value(run, "ny"),
                                (int)run_value(run, "nz")};
    const double nodes = (elements[X] + 1.0) * (elements[Y] + 1.0) * (elements[Z] + 1.0);
    struct box *boxes = app_allocate((size_t)run->ranks, sizeof boxes[0]);
    const bool whole = minife_cut(elements, run->ranks, boxes);
    free(boxes);
    if (whole && nodes / run->ranks < 1e9)
        return true;
    snprintf(reason, APP_REASON,
             "minife cannot cut %dx%dx%d elements for %d ranks; allowed: at least one element and "
             "fewer than 1e9 nodes a rank",
             elements[X], elements[Y], elements[Z], run->ranks);
    return false;
}

/* Of a node: 27 coefficients before they are stored; then 27 values, 8 columns, the shape and five
 * vectors. */
static double memory_bytes(const struct run *run)
{
    const double nodes = ((double)run_value(run, "nx") + 1.0) *
                         ((double)run_value(run, "ny") + 1.0) *
                         ((double)run_value(run, "nz") + 1.0);
    return nodes / run->ranks * (27.0 * 8.0 + 27.0 * 8.0 + 8.0 * 4.0 + 2.0 + 5.0 * 8.0) * 1.1;
}

const struct app app_minife = {
    .name = "minife",
    .description = "miniFE-like: finite elements for heat conduction, conjugate gradients",
    .rate = "Mflop/s",
    .timed = "200 iterations of conjugate gradients; not the assembly, whose time is a figure",
    .pattern = "one halo exchange with the neighbours and two allreduces of a double an iteration",
    .parameters = {{"nx", "elements along x", 64, 2, 4096},
                   {"ny", "elements along y", 64, 2, 4096},
                   {"nz", "elements along z", 64, 2, 4096},
                   APP_PACE_PARAMETER},
    .official_pace = 150,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
