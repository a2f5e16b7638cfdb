#include "common/clock.h"
#include "sparse/hpcg.h"

#include <math.h>
#include <string.h>

/* --- the preconditioner
 * ----------------------------------------------------------------------------------------- */

static void cycle(struct run *run, struct hpcg *hpcg, int number, const double *b, double *x)
{
    struct hpcg_level *level = &hpcg->level[number];
    memset(x, 0, (size_t)level->halo.points * sizeof x[0]);
    halo_exchange(run, &level->halo, x);
    if (number == HPCG_LEVELS - 1) {
        matrix_smooth(&level->matrix, b, x);
        return;
    }
    matrix_smooth_multiply(&level->matrix, b, x, level->ax);
    halo_exchange(run, &level->halo, x);
    matrix_multiply_border(&level->matrix, x, level->ax);
    struct hpcg_level *coarse = level + 1;
    for (int i = 0; i < coarse->halo.own_points; i++)
        coarse->b[i] = b[coarse->finer[i]] - level->ax[coarse->finer[i]];
    cycle(run, hpcg, number + 1, coarse->b, coarse->x);
    for (int i = 0; i < coarse->halo.own_points; i++)
        x[coarse->finer[i]] += coarse->x[i];
    halo_exchange(run, &level->halo, x);
    matrix_smooth(&level->matrix, b, x);
}

void hpcg_precondition(struct run *run, struct hpcg *hpcg, const double *r, double *z)
{
    const uint64_t begun_ns = clock_now_ns();
    cycle(run, hpcg, 0, r, z);
    hpcg->times.precondition_ns += clock_now_ns() - begun_ns;
}

/* --- conjugate gradients
 * ---------------------------------------------------------------------------------------- */

static double sum_of_all(struct run *run, struct hpcg *hpcg, double own)
{
    const uint64_t begun_ns = clock_now_ns();
    message_allreduce(run, &own, 1, MPI_DOUBLE, MPI_SUM);
    hpcg->times.allreduce_ns += clock_now_ns() - begun_ns;
    return own;
}

double hpcg_dot(struct run *run, struct hpcg *hpcg, const double *a, const double *b)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < hpcg->level[0].halo.own_points; i++)
        sum += a[i] * b[i];
    return sum_of_all(run, hpcg, sum);
}

/* Set ap = A p and return the own part of p A p. */
static double multiply(struct run *run, struct hpcg *hpcg, double *p, double *ap)
{
    const uint64_t begun_ns = clock_now_ns();
    halo_exchange(run, &hpcg->level[0].halo, p);
    const double product = matrix_multiply(&hpcg->level[0].matrix, p, ap);
    hpcg->times.multiply_ns += clock_now_ns() - begun_ns;
    return product;
}

double hpcg_multiply(struct run *run, struct hpcg *hpcg, double *p, double *ap)
{
    return sum_of_all(run, hpcg, multiply(run, hpcg, p, ap));
}

/* Set r = b - A x and return its norm. */
static double begin(struct run *run, struct hpcg *hpcg)
{
    double sum = 0.0;
    multiply(run, hpcg, hpcg->x, hpcg->ap);
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < hpcg->level[0].halo.own_points; i++) {
        hpcg->r[i] = hpcg->b[i] - hpcg->ap[i];
        sum += hpcg->r[i] * hpcg->r[i];
    }
    return sqrt(sum_of_all(run, hpcg, sum));
}

static void turn(struct hpcg *hpcg, double beta)
{
    const double *restrict z = hpcg->z;
    double *restrict p = hpcg->p;
    for (int i = 0; i < hpcg->level[0].halo.own_points; i++)
        p[i] = z[i] + beta * p[i];
}

/* Go along p and return the norm of the residual there. */
static double step(struct run *run, struct hpcg *hpcg, double alpha)
{
    const double *restrict p = hpcg->p;
    const double *restrict ap = hpcg->ap;
    double *restrict x = hpcg->x;
    double *restrict r = hpcg->r;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < hpcg->level[0].halo.own_points; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * ap[i];
        sum += r[i] * r[i];
    }
    return sqrt(sum_of_all(run, hpcg, sum));
}

struct hpcg_outcome hpcg_solve(struct run *run, struct hpcg *hpcg, bool preconditioned,
                               int iterations, double tolerance, double *history)
{
    const size_t bytes = (size_t)hpcg->level[0].halo.own_points * sizeof(double);
    double before = 0.0; /* r z of the last iteration */
    memset(hpcg->x, 0, bytes);
    memset(hpcg->p, 0, bytes);
    struct hpcg_outcome outcome = {0, 1.0, begin(run, hpcg)};
    while (outcome.iterations < iterations && outcome.residual > tolerance) {
        run_next_part(run);
        if (preconditioned)
            hpcg_precondition(run, hpcg, hpcg->r, hpcg->z);
        else
            memcpy(hpcg->z, hpcg->r, bytes);
        const double rz = hpcg_dot(run, hpcg, hpcg->r, hpcg->z);
        turn(hpcg, outcome.iterations == 0 ? 0.0 : rz / before);
        before = rz;
        const double alpha = rz / hpcg_multiply(run, hpcg, hpcg->p, hpcg->ap);
        outcome.residual = step(run, hpcg, alpha) / outcome.first;
        outcome.iterations++;
        if (history != NULL)
            history[outcome.iterations] = outcome.residual;
    }
    return outcome;
}
