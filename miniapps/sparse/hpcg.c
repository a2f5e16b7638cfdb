/* HPCG-like: conjugate gradients, preconditioned by a multigrid V-cycle, for a sparse matrix.
 *
 * The problem, the order of its operations, its checks and the count of its operations are those of
 * HPCG 3.1 (SAND2013-8752). Sets of 50 iterations are repeated until the time asked for is over.
 * Smoothing keeps the natural order, so that residuals are those of the reference; that is why no
 * more iterations than its own are ever needed. */
#include "sparse/hpcg.h"

#include "common/check.h"
#include "common/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE_STEP = 8, SIZE_LOW = 16, SIZE_HIGH = 1024, MOST_ASPECT = 8, SETUP_SHARE = 10 };

#define MOST_VARIANCE 1e-6
#define ROUNDING      1e-14 /* relative residuals below are decided by the order of sums */

/* Relative residuals of the reference on cubes of n points a rank. */
static const struct known {
    int n;
    int ranks;
    int iteration;
    double residual;
    double tolerance; /* half of the last digit that is known, or what rounding does */
} known[] = {
    {16, 1, 1, 0.175288, 5e-6},     {16, 1, 5, 4.17347e-4, 5e-6},   {16, 1, 10, 1.63531e-7, 5e-6},
    {16, 1, 15, 1.25057e-11, 5e-6}, {16, 1, 20, 2.01269e-15, 5e-6}, {32, 1, 1, 0.183273, 5e-6},
    {32, 1, 5, 0.033451, 2e-5},     {32, 1, 10, 9.42444e-5, 5e-6},  {32, 1, 15, 1.76166e-6, 5e-6},
    {32, 1, 20, 1.0310e-8, 5e-5},   {64, 1, 50, 1.13589e-11, 5e-6}, {64, 2, 50, 7.76155e-9, 5e-6},
    {64, 4, 50, 7.35709e-8, 5e-6},  {32, 4, 50, 2.9e-13, 0.02},
};

/* Return the operations of so many sets as HPCG counts them, whatever is really done. */
static double operations(const struct run *run, const int grid[AXES], int sets)
{
    const double iterations = (double)sets * HPCG_ITERATIONS;
    const double rows = hpcg_rows(run, grid);
    const double dots = (3.0 * iterations + sets) * 2.0 * rows;
    const double updates = dots;
    const double products = (iterations + sets) * 2.0 * hpcg_entries(run, grid, 0);
    double cycles = 0.0;
    for (int level = 0; level < HPCG_LEVELS; level++) {
        const double sweeps = level < HPCG_LEVELS - 1 ? 4.0 + 2.0 + 4.0 : 4.0;
        cycles += sweeps * hpcg_entries(run, grid, level) * iterations;
    }
    return dots + updates + products + cycles;
}

static void check_history(struct run *run, const double *history)
{
    const long n = run_value(run, "nx");
    if (n != run_value(run, "ny") || n != run_value(run, "nz"))
        return;
    static const char *const names[] = {[1] = "relative residual after 1 iteration",
                                        [5] = "relative residual after 5 iterations",
                                        [10] = "relative residual after 10 iterations",
                                        [15] = "relative residual after 15 iterations",
                                        [20] = "relative residual after 20 iterations",
                                        [50] = "relative residual after 50 iterations"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].n == n && known[i].ranks == run->ranks)
            result_check(run, names[known[i].iteration], history[known[i].iteration],
                         known[i].residual, known[i].tolerance);
}

/* Compare x with the exact solution, all ones: |x - 1| <= |r| / (least eigenvalue of A), where A is
 * 27 less the product of three matrices of ones on three diagonals. Rounding keeps |r| above some
 * 1e-12 of an entry. */
static void check_solution(struct run *run, struct hpcg *hpcg, const struct hpcg_outcome *outcome)
{
    const struct halo *halo = &hpcg->level[0].halo;
    double product = 1.0;
    double sum = 0.0;
    for (int axis = 0; axis < AXES; axis++)
        product *=
            1.0 + 2.0 * cos(acos(-1.0) / (hpcg->grid[axis] * box_length(&halo->own, axis) + 1));
    for (int i = 0; i < halo->own_points; i++)
        sum += (hpcg->x[i] - 1.0) * (hpcg->x[i] - 1.0);
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, run->comm));
    const double rounding = 1e-12 * sqrt(hpcg_rows(run, hpcg->grid));
    const double allowed = (outcome->residual * outcome->first + rounding) / (27.0 - product);
    result_check(run, "error of the solution, of what the residual allows", sqrt(sum) / allowed,
                 0.0, 1.0);
}

/* Check what the sets gave: all the same, and as far as the first, untimed run. */
static void check_sets(struct run *run, const double *residuals, int sets, double target)
{
    double mean = 0.0;
    double variance = 0.0;
    double worst = 0.0;
    for (int set = 0; set < sets; set++) {
        mean += residuals[set] / sets;
        worst = residuals[set] > worst || isnan(residuals[set]) ? residuals[set] : worst;
    }
    for (int set = 0; set < sets; set++)
        variance += (residuals[set] - mean) * (residuals[set] - mean) / sets;
    result_check(run, "variance of the sets' residuals", variance, 0.0, MOST_VARIANCE);
    result_check(run, "largest residual of the sets", worst, 0.0,
                 fmax(target * (1.0 + MOST_VARIANCE), ROUNDING));
}

static void tell_figures(struct run *run, const struct hpcg *hpcg, int sets, double setup_s)
{
    const struct hpcg_times *times = &hpcg->times;
    uint64_t exchanges_ns = 0;
    for (int level = 0; level < HPCG_LEVELS; level++)
        exchanges_ns += hpcg->level[level].halo.spent_ns;
    const double elapsed_s = run->result.elapsed_s;
    result_figure(run, "sets", sets, "");
    result_figure(run, "iterations of a set", HPCG_ITERATIONS, "");
    result_figure(run, "rate with the share of the set-up",
                  run->result.operations / (elapsed_s + sets * setup_s / SETUP_SHARE), "GFLOP/s");
    result_figure(run, "set-up", setup_s, "s");
    result_figure(run, "multiplication", run_longest_s(run, (double)times->multiply_ns * 1e-9),
                  "s");
    result_figure(run, "preconditioner", run_longest_s(run, (double)times->precondition_ns * 1e-9),
                  "s");
    result_figure(run, "halo exchanges", run_longest_s(run, (double)exchanges_ns * 1e-9), "s");
    result_figure(run, "allreduce", run_longest_s(run, (double)times->allreduce_ns * 1e-9), "s");
}

/* Forget the times of what came before. */
static void reset_times(struct hpcg *hpcg)
{
    hpcg->times = (struct hpcg_times){0, 0, 0};
    for (int level = 0; level < HPCG_LEVELS; level++)
        hpcg->level[level].halo.spent_ns = 0;
}

/* What the sets gave, one after the other. */
struct sets {
    int count;
    double *residuals;
    double *times_s;
};

static struct sets make_sets(const struct run *run, double set_s)
{
    struct sets sets = {.count =
                            (int)((double)run_value(run, "seconds") / (set_s * run_pace(run))) + 1};
    sets.residuals = app_allocate((size_t)sets.count, sizeof sets.residuals[0]);
    sets.times_s = app_allocate((size_t)sets.count, sizeof sets.times_s[0]);
    return sets;
}

static void free_sets(struct sets *sets)
{
    free(sets->residuals);
    free(sets->times_s);
}

/* Do the timed sets; return what the last gave. */
static struct hpcg_outcome run_sets(struct run *run, struct hpcg *hpcg, struct sets *sets)
{
    struct hpcg_outcome outcome = {0, 1.0, 1.0};
    reset_times(hpcg);
    double begun_s = 0.0;
    run_divide(run, sets->count * HPCG_ITERATIONS);
    run_start(run);
    for (int set = 0; set < sets->count; set++) {
        outcome = hpcg_solve(run, hpcg, true, HPCG_ITERATIONS, 0.0, NULL);
        const double done_s = run_worked_s(run);
        sets->residuals[set] = outcome.residual;
        sets->times_s[set] = done_s - begun_s;
        begun_s = done_s;
    }
    run_stop(run);
    return outcome;
}

static void execute(struct run *run)
{
    double history[HPCG_ITERATIONS + 1] = {1.0};
    const uint64_t begun_ns = clock_now_ns();
    struct hpcg hpcg = hpcg_make(run);
    const double setup_s = run_longest_s(run, clock_difference_s(clock_now_ns(), begun_ns));
    const bool struck = run_is_struck(run);
    hpcg_validate(run, &hpcg);
    const uint64_t first_ns = clock_now_ns();
    struct hpcg_outcome outcome = hpcg_solve(run, &hpcg, true, HPCG_ITERATIONS, 0.0, history);
    const double set_s = run_longest_s(run, clock_difference_s(clock_now_ns(), first_ns));
    const double target = outcome.residual;
    struct sets sets = make_sets(run, set_s);
    outcome = run_sets(run, &hpcg, &sets);
    if (struck && run->rank == run->ranks - 1)
        hpcg.x[0] += 1.0;
    run->result.operations = operations(run, hpcg.grid, sets.count) * 1e-9;
    check_history(run, history);
    check_solution(run, &hpcg, &outcome);
    check_sets(run, sets.residuals, sets.count, target);
    tell_figures(run, &hpcg, sets.count, setup_s);
    result_figure(run, "set that chose their number", set_s, "s");
    result_series(run, "time of a set", sets.times_s, (size_t)sets.count, "s");
    free_sets(&sets);
    hpcg_free(&hpcg);
}

static bool sizes_suit(const long size[AXES], char reason[APP_REASON])
{
    long least = size[X];
    long most = size[X];
    for (int axis = 0; axis < AXES; axis++) {
        least = size[axis] < least ? size[axis] : least;
        most = size[axis] > most ? size[axis] : most;
        if (size[axis] % SIZE_STEP == 0)
            continue;
        snprintf(
            reason, APP_REASON,
            "hpcg cannot halve %ld points three times; allowed for nx, ny, nz: multiples of %d",
            size[axis], SIZE_STEP);
        return false;
    }
    if (most > MOST_ASPECT * least) {
        snprintf(reason, APP_REASON,
                 "hpcg does not take %ldx%ldx%ld points; allowed: the longest side at most %d "
                 "times the shortest",
                 size[X], size[Y], size[Z], MOST_ASPECT);
        return false;
    }
    return true;
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const long size[AXES] = {run_value(run, "nx"), run_value(run, "ny"), run_value(run, "nz")};
    int grid[AXES] = {1, 1, 1};
    hpcg_cut_ranks(run->ranks, grid);
    if (grid[X] > MOST_ASPECT * grid[Z]) {
        snprintf(reason, APP_REASON,
                 "hpcg cannot run on %d ranks, a grid of %dx%dx%d; allowed: the longest side at "
                 "most %d times the shortest",
                 run->ranks, grid[X], grid[Y], grid[Z], MOST_ASPECT);
        return false;
    }
    return sizes_suit(size, reason);
}

/* Of a row: 27 values, 8 columns, the shape, seven vectors on the finest level; a seventh more for
 * the coarse levels. */
static double memory_bytes(const struct run *run)
{
    const double rows =
        (double)run_value(run, "nx") * (double)run_value(run, "ny") * (double)run_value(run, "nz");
    return 8.0 / 7.0 * rows * (27.0 * 8.0 + 8.0 * 4.0 + 2.0 + 7.0 * 8.0) * 1.1;
}

const struct app app_hpcg = {
    .name = "hpcg",
    .description = "HPCG-like: conjugate gradients with a multigrid preconditioner (no rating)",
    .rate = "GFLOP/s",
    .timed = "sets of 50 iterations; not the set-up, the checks and a first set",
    .pattern =
        "halo exchange with up to 26 neighbours before each of 11 operators an iteration, on "
        "four levels; three allreduces of a double an iteration",
    .parameters = {{"nx", "points a rank along x", 32, SIZE_LOW, SIZE_HIGH},
                   {"ny", "points a rank along y", 32, SIZE_LOW, SIZE_HIGH},
                   {"nz", "points a rank along z", 32, SIZE_LOW, SIZE_HIGH},
                   {"seconds", "time for the sets; 0: one set", 10, 0, 86400},
                   APP_PACE_PARAMETER},
    .official_pace = 380,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
