/* FT: a diffusion equation solved with three-dimensional Fourier transforms (RNR-94-007, 2.6).
 *
 * Space is cut into slabs along z; the transform along x and y is local, then one alltoall cuts
 * along y instead. Both layouts have x fastest: [z of own][y][x] in space, [z][y of own][x] in wave
 * numbers. */
#include "apps/app.h"
#include "apps/lcg46.h"
#include "npb/fft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 314159265, PROBES = 1024, MOST_STEPS = 25 };
#define DIFFUSION 1e-6

struct problem {
    char letter;
    int nx;
    int ny;
    int nz;
    int steps;
    int known; /* checksums that are listed: the first ones, or the first and the last */
    struct complex sum[6];
};

static const struct problem problems[] = {
    {'S',
     64,
     64,
     64,
     6,
     6,
     {{554.6087004964, 484.5363331978},
      {554.6385409189, 486.5304269511},
      {554.6148406171, 488.3910722336},
      {554.5423607415, 490.1273169046},
      {554.4255039624, 491.7475857993},
      {554.2683411902, 493.2597244941}}},
    {'W',
     128,
     128,
     32,
     6,
     6,
     {{567.3612178944, 529.3246849175},
      {563.1436885271, 528.2149986629},
      {559.4024089970, 527.0996558037},
      {556.0698047020, 526.0027904925},
      {553.0898991250, 524.9400845633},
      {550.4159734538, 523.9212247086}}},
    {'A',
     256,
     256,
     128,
     6,
     6,
     {{504.6735008193, 511.4047905510},
      {505.9412319734, 509.8809666433},
      {506.9376896287, 509.8144042213},
      {507.7892868474, 510.1336130759},
      {508.5233095391, 510.4914655194},
      {509.1487099959, 510.7917842803}}},
    {'B',
     512,
     256,
     256,
     20,
     2,
     {{517.7643571579, 507.7803458597}, {512.4146770029, 511.5744692211}}},
    {'C',
     512,
     512,
     512,
     20,
     2,
     {{519.5078707457, 514.9019699238}, {512.9714421109, 512.3465164008}}},
};

struct field {
    const struct problem *problem;
    int planes; /* of z, in space */
    int rows;   /* of y, in wave numbers */
    size_t elements;
    struct complex *space;
    struct complex *packed; /* on its way: [rank][z of own][y of that rank][x] */
    struct complex *waves;
    struct fft_plan x;
    struct fft_plan y;
    struct fft_plan z;
    struct fft_block block;
    double *decay[3]; /* of one step, by wave number along x, y, z */
};

static const struct problem *problem_of(char letter)
{
    const struct problem *found = problems;
    while (found->letter != letter)
        found++;
    return found;
}

static struct field make_field(const struct run *run)
{
    struct field f = {.problem = problem_of(run->problem_class)};
    const struct problem *p = f.problem;
    f.planes = p->nz / run->ranks;
    f.rows = p->ny / run->ranks;
    f.elements = (size_t)p->nx * (size_t)p->ny * (size_t)f.planes;
    f.space = app_allocate(f.elements, sizeof(struct complex));
    f.packed = app_allocate(f.elements, sizeof(struct complex));
    f.waves = app_allocate(f.elements, sizeof(struct complex));
    int longest = p->nx > p->ny ? p->nx : p->ny;
    longest = p->nz > longest ? p->nz : longest;
    f.block = fft_block_make(longest);
    return f;
}

static void free_plans(struct field *f)
{
    fft_plan_free(&f->x);
    fft_plan_free(&f->y);
    fft_plan_free(&f->z);
    for (int axis = 0; axis < 3; axis++)
        free(f->decay[axis]);
}

static void free_field(struct field *f)
{
    free(f->space);
    free(f->packed);
    free(f->waves);
    fft_block_free(&f->block);
}

static double *make_decay(int length)
{
    double *decay = app_allocate((size_t)length, sizeof(double));
    for (int i = 0; i < length; i++) {
        const double wave = i < length / 2 ? i : i - length;
        decay[i] = exp(-4.0 * DIFFUSION * M_PI * M_PI * wave * wave);
    }
    return decay;
}

static void make_plans(struct field *f)
{
    f->x = fft_plan_make(f->problem->nx);
    f->y = fft_plan_make(f->problem->ny);
    f->z = fft_plan_make(f->problem->nz);
    f->decay[0] = make_decay(f->problem->nx);
    f->decay[1] = make_decay(f->problem->ny);
    f->decay[2] = make_decay(f->problem->nz);
}

static void draw_field(const struct run *run, struct field *f)
{
    const uint64_t first = 2 * (uint64_t)f->elements * (uint64_t)run->rank;
    lcg46_fill(lcg46_jump(SEED, first), 2 * f->elements, &f->space[0].re);
}

/* --- one direction at a time
 * ------------------------------------------------------------------------------------ */

/* Lines along x: FFT_LANES rows together, in place. */
static void transform_x(struct field *f, int sign)
{
    const size_t n = (size_t)f->problem->nx;
    const size_t rows = f->elements / n;
    for (size_t row = 0; row < rows; row += FFT_LANES) {
        struct complex *at = f->space + row * n;
        const size_t lanes = rows - row < FFT_LANES ? rows - row : FFT_LANES;
        for (size_t lane = 0; lane < lanes; lane++) {
            for (size_t i = 0; i < n; i++) {
                f->block.re[i * FFT_LANES + lane] = at[lane * n + i].re;
                f->block.im[i * FFT_LANES + lane] = at[lane * n + i].im;
            }
        }
        fft_transform(&f->x, &f->block, sign);
        for (size_t lane = 0; lane < lanes; lane++)
            for (size_t i = 0; i < n; i++)
                at[lane * n + i] = (struct complex){f->block.re[i * FFT_LANES + lane],
                                                    f->block.im[i * FFT_LANES + lane]};
    }
}

static void load(struct fft_block *block, size_t line, const struct complex *restrict from)
{
    double *restrict re = block->re + line * FFT_LANES;
    double *restrict im = block->im + line * FFT_LANES;
    for (size_t lane = 0; lane < FFT_LANES; lane++) {
        re[lane] = from[lane].re;
        im[lane] = from[lane].im;
    }
}

static void store(const struct fft_block *block, size_t line, struct complex *restrict to)
{
    const double *restrict re = block->re + line * FFT_LANES;
    const double *restrict im = block->im + line * FFT_LANES;
    for (size_t lane = 0; lane < FFT_LANES; lane++)
        to[lane] = (struct complex){re[lane], im[lane]};
}

/* Where row y of plane z begins in the packed field. */
static size_t packed_at(const struct field *f, size_t plane, size_t y)
{
    const size_t rows = (size_t)f->rows;
    return (((y / rows) * (size_t)f->planes + plane) * rows + y % rows) * (size_t)f->problem->nx;
}

/* Lines along y: from space to packed, or back. */
static void transform_y(struct field *f, int sign)
{
    const size_t nx = (size_t)f->problem->nx;
    const size_t ny = (size_t)f->problem->ny;
    for (size_t plane = 0; plane < (size_t)f->planes; plane++) {
        for (size_t x = 0; x < nx; x += FFT_LANES) {
            struct complex *space = f->space + plane * nx * ny + x;
            for (size_t y = 0; y < ny; y++)
                load(&f->block, y,
                     sign < 0 ? space + y * nx : f->packed + packed_at(f, plane, y) + x);
            fft_transform(&f->y, &f->block, sign);
            for (size_t y = 0; y < ny; y++)
                store(&f->block, y,
                      sign < 0 ? f->packed + packed_at(f, plane, y) + x : space + y * nx);
        }
    }
}

/* Lines along z of the waves, in place. */
static void transform_z_forward(struct field *f)
{
    const size_t plane = (size_t)f->problem->nx * (size_t)f->rows;
    const size_t nz = (size_t)f->problem->nz;
    for (size_t at = 0; at < plane; at += FFT_LANES) {
        for (size_t z = 0; z < nz; z++)
            load(&f->block, z, f->waves + z * plane + at);
        fft_transform(&f->z, &f->block, -1);
        for (size_t z = 0; z < nz; z++)
            store(&f->block, z, f->waves + z * plane + at);
    }
}

/* Let the waves decay by one step, and transform them along z into `to`. */
static void step_z_inverse(const struct run *run, struct field *f, struct complex *to)
{
    const size_t nx = (size_t)f->problem->nx;
    const size_t plane = nx * (size_t)f->rows;
    const size_t nz = (size_t)f->problem->nz;
    for (size_t at = 0; at < plane; at += FFT_LANES) {
        const double along_y = f->decay[1][(size_t)run->rank * (size_t)f->rows + at / nx];
        const double *restrict along_x = f->decay[0] + at % nx;
        for (size_t z = 0; z < nz; z++) {
            const double along_yz = along_y * f->decay[2][z];
            struct complex *restrict wave = f->waves + z * plane + at;
            for (size_t lane = 0; lane < FFT_LANES; lane++) {
                const double decay = along_yz * along_x[lane];
                wave[lane].re *= decay;
                wave[lane].im *= decay;
            }
            load(&f->block, z, wave);
        }
        fft_transform(&f->z, &f->block, 1);
        for (size_t z = 0; z < nz; z++)
            store(&f->block, z, to + z * plane + at);
    }
}

static void transpose(struct run *run, const struct field *f, const struct complex *from,
                      struct complex *to)
{
    const int doubles = (int)(2 * f->elements / (size_t)run->ranks);
    message_alltoall(run, from, doubles, MPI_DOUBLE, to);
}

static void forward(struct run *run, struct field *f)
{
    transform_x(f, -1);
    transform_y(f, -1);
    transpose(run, f, f->packed, f->waves);
    transform_z_forward(f);
}

/* One step: decay, inverse transform, checksum (meant on rank 0). */
static struct complex step(struct run *run, struct field *f)
{
    const struct problem *p = f->problem;
    step_z_inverse(run, f, f->space);
    transpose(run, f, f->space, f->packed);
    transform_y(f, 1);
    transform_x(f, 1);
    double sum[2] = {0.0, 0.0};
    for (int j = 1; j <= PROBES; j++) {
        const int x = j % p->nx;
        const int y = 3 * j % p->ny;
        const int z = 5 * j % p->nz - run->rank * f->planes;
        if (z < 0 || z >= f->planes)
            continue;
        const struct complex *value =
            &f->space[((size_t)z * (size_t)p->ny + (size_t)y) * (size_t)p->nx + (size_t)x];
        sum[0] += value->re;
        sum[1] += value->im;
    }
    message_reduce(run, sum, 2, MPI_DOUBLE, MPI_SUM);
    const double points = (double)p->nx * p->ny * p->nz;
    return (struct complex){sum[0] / points, sum[1] / points};
}

static void solve(struct run *run, struct field *f, int steps, struct complex sum[MOST_STEPS])
{
    make_plans(f);
    draw_field(run, f);
    forward(run, f);
    for (int i = 0; i < steps; i++)
        sum[i] = step(run, f);
    free_plans(f);
}

static void check_sums(struct run *run, const struct problem *p,
                       const struct complex sum[MOST_STEPS])
{
    static const char *const names[] = {"checksum 1", "checksum 2", "checksum 3",
                                        "checksum 4", "checksum 5", "checksum 6"};
    for (int i = 0; i < p->known; i++) {
        const int at = p->known < p->steps && i == p->known - 1 ? p->steps - 1 : i;
        const double size = hypot(p->sum[i].re, p->sum[i].im);
        const double error = hypot(sum[at].re - p->sum[i].re, sum[at].im - p->sum[i].im) / size;
        result_check(run, at == i ? names[i] : "last checksum", error, 0.0, 1e-12);
    }
}

static void execute(struct run *run)
{
    struct field f = make_field(run);
    const struct problem *p = f.problem;
    struct complex sum[MOST_STEPS];
    solve(run, &f, 1, sum); /* untimed */
    run_start(run);
    solve(run, &f, p->steps, sum);
    run_stop(run);
    const double points = (double)p->nx * p->ny * p->nz;
    run->result.operations =
        1e-6 * points *
        (14.8157 + 7.19641 * log(points) + (5.23518 + 7.21113 * log(points)) * p->steps);
    check_sums(run, p, sum);
    free_field(&f);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const struct problem *p = problem_of(run->problem_class);
    const int most = p->ny < p->nz ? p->ny : p->nz;
    if ((run->ranks & (run->ranks - 1)) == 0 && run->ranks <= most)
        return true;
    snprintf(reason, APP_REASON,
             "npb-ft class %c cannot run on %d ranks; allowed: powers of two up to %d",
             run->problem_class, run->ranks, most);
    return false;
}

static double memory_bytes(const struct run *run)
{
    const struct problem *p = problem_of(run->problem_class);
    return 3.0 * sizeof(struct complex) * p->nx * p->ny * p->nz / run->ranks;
}

const struct app app_npb_ft = {
    .name = "npb-ft",
    .description = "three-dimensional Fourier transforms of a diffusing field",
    .rate = "Mop/s",
    .timed = "roots and decay tables, initial field, forward transform, steps with their checksums",
    .pattern =
        "one alltoall a transform, each rank gives each 1 / ranks^2 of the field; a reduce a step",
    .classes = "SWABC",
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
