/* EP, embarrassingly parallel: pairs of Gaussian deviates by the polar method, counted in square
 * rings (RNR-94-007, 2.3). */
#include "apps/app.h"
#include "apps/lcg46.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 271828183, RINGS = 10 };
/* Pairs of one batch; batches are dealt to ranks, each found by a jump. */
enum { BATCH_LOG2 = 16, BATCH = 1 << BATCH_LOG2 };
/* Pairs that are worked on at once: their numbers stay in the first cache. */
enum { BLOCK = 512 };

struct reference {
    int log2_pairs;
    double sx;
    double sy;
};

static const struct reference references[CLASSES] = {
    [CLASS_S] = {24, -3.247834652034740e3, -6.958407078382297e3},
    [CLASS_W] = {25, -2.863319731645753e3, -6.320053679109499e3},
    [CLASS_A] = {28, -4.295875165629892e3, -1.580732573678431e4},
    [CLASS_B] = {30, 4.033815542441498e4, -2.660669192809235e4},
    [CLASS_C] = {32, 4.764367927995374e4, -8.084072988043731e4},
    [CLASS_D] = {36, 1.982481200946593e5, -1.020596636361769e5},
};

struct sums {
    double sx;
    double sy;
    double ring[RINGS];
};

/* Turn the uniform numbers of a block into deviates; those of rejected pairs are 0 and in ring -1.
 * No branch, so that all lanes of a vector stay busy. */
static void deviates(size_t pairs, const double *uniform, double *restrict x, double *restrict y,
                     double *restrict largest)
{
#pragma omp simd
    for (size_t i = 0; i < pairs; i++) {
        const double a = 2.0 * uniform[2 * i] - 1.0;
        const double b = 2.0 * uniform[2 * i + 1] - 1.0;
        const double t = a * a + b * b;
        const double inside = t <= 1.0 ? t : 1.0; /* log(1) is 0, and so are the deviates */
        const double factor = sqrt(-2.0 * log(inside) / inside);
        x[i] = a * factor;
        y[i] = b * factor;
        largest[i] = t <= 1.0 ? fmax(fabs(x[i]), fabs(y[i])) : -1.0;
    }
}

static void batch(uint64_t state, struct sums *sums)
{
    double uniform[2 * BLOCK];
    double x[BLOCK];
    double y[BLOCK];
    double largest[BLOCK];
    for (int at = 0; at < BATCH; at += BLOCK) {
        state = lcg46_fill(state, 2 * (size_t)BLOCK, uniform);
        deviates(BLOCK, uniform, x, y, largest);
        double sx = 0.0;
        double sy = 0.0;
        /* Ring 0 holds nearly half of all pairs and each further one far fewer, so rings are
         * counted by comparing. */
        double beyond[RINGS] = {0};
#pragma omp simd reduction(+ : sx, sy)
        for (int i = 0; i < BLOCK; i++) {
            sx += x[i];
            sy += y[i];
        }
        for (int ring = 0; ring < RINGS; ring++) {
            double count = 0.0;
            const double low = ring;
#pragma omp simd reduction(+ : count)
            for (int i = 0; i < BLOCK; i++)
                count += largest[i] >= low ? 1.0 : 0.0;
            beyond[ring] = count;
            if (count == 0.0)
                break;
        }
        for (int ring = 0; ring < RINGS; ring++)
            sums->ring[ring] += beyond[ring] - (ring + 1 < RINGS ? beyond[ring + 1] : 0.0);
        sums->sx += sx;
        sums->sy += sy;
    }
}

/* Work on the rank's batches, which are every ranks-th of all. */
static void own_batches(struct run *run, uint64_t batches, struct sums *sums)
{
    const uint64_t ranks = (uint64_t)run->ranks;
    const uint64_t own = (batches - (uint64_t)run->rank + ranks - 1) / ranks;
    const uint64_t stride = lcg46_power(2 * (uint64_t)BATCH * ranks);
    const int shares = run_shares(run);
    uint64_t state = lcg46_jump(SEED, 2 * (uint64_t)BATCH * (uint64_t)run->rank);
    uint64_t done = 0;
    for (int share = 1; share <= shares; share++) {
        run_next_part(run);
        for (; done < own * (uint64_t)share / (uint64_t)shares; done++) {
            batch(state, sums);
            state = (stride * state) & LCG46_MASK;
        }
    }
}

static void execute(struct run *run)
{
    const struct reference *reference = &references[run_class(run)];
    const uint64_t batches = UINT64_C(1) << (reference->log2_pairs - BATCH_LOG2);
    struct sums sums = {0};
    batch(SEED, &sums); /* untimed: code and the vector unit are warm then */
    sums = (struct sums){0};
    const bool struck = run_is_struck(run);
    run_divide(run, run_shares(run));
    run_start(run);
    own_batches(run, batches, &sums);
    if (struck && run->rank == run->ranks - 1)
        sums.sx += 1.0; /* as one pair more */
    message_allreduce(run, &sums.sx, 1, MPI_DOUBLE, MPI_SUM);
    message_allreduce(run, &sums.sy, 1, MPI_DOUBLE, MPI_SUM);
    message_allreduce(run, sums.ring, RINGS, MPI_DOUBLE, MPI_SUM);
    run_stop(run);
    run->result.operations = ldexp(1.0, reference->log2_pairs + 1) / 1e6;
    result_check(run, "sx", sums.sx, reference->sx, 1e-8);
    result_check(run, "sy", sums.sy, reference->sy, 1e-8);
    double pairs = 0.0;
    for (int ring = 0; ring < RINGS; ring++)
        pairs += sums.ring[ring];
    result_figure(run, "pairs", pairs, "");
    result_figure(run, "ring 0", sums.ring[0], "");
    result_figure(run, "ring 1", sums.ring[1], "");
    result_figure(run, "ring 2", sums.ring[2], "");
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const long batches = 1L << (references[run_class(run)].log2_pairs - BATCH_LOG2);
    if (run->ranks <= batches)
        return true;
    snprintf(reason, APP_REASON,
             "npb-ep class %c has %ld parts for %d ranks; allowed: 1 to %ld ranks",
             run->problem_class, batches, run->ranks, batches);
    return false;
}

static double memory_bytes(const struct run *run)
{
    (void)run;
    return 6.0 * BLOCK * sizeof(double);
}

const struct app app_npb_ep = {
    .name = "npb-ep",
    .description =
        "embarrassingly parallel: Gaussian deviates, no communication but sums at the end",
    .rate = "Mop/s",
    .timed = "all numbers and the three sums",
    .pattern = "three allreduce at the end",
    .classes = "SWABCD",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 480,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
