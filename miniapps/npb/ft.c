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
    struct complex *lanes; /* rows of x, turned */
    double *decay[3];      /* since the start, by wave number along x, y, z */
    double *decay_yz;      /* of one y and all z */
    int log2_rows;
    int log2_all; /* of more elements than any line has */
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
    f.space = app_allocate_large(f.elements, sizeof(struct complex));
    f.packed = app_allocate_large(f.elements, sizeof(struct complex));
    f.waves = app_allocate_large(f.elements, sizeof(struct complex));
    int longest = p->nx > p->ny ? p->nx : p->ny;
    longest = p->nz > longest ? p->nz : longest;
    f.block = fft_block_make(longest);
    f.lanes = app_allocate((size_t)p->nx * FFT_LANES, sizeof(struct complex));
    f.decay[0] = app_allocate((size_t)p->nx, sizeof(double));
    f.decay[1] = app_allocate((size_t)p->ny, sizeof(double));
    f.decay[2] = app_allocate((size_t)p->nz, sizeof(double));
    f.decay_yz = app_allocate((size_t)p->nz, sizeof(double));
    while ((1 << f.log2_rows) < f.rows)
        f.log2_rows++;
    f.log2_all = 30;
    return f;
}

static void free_plans(struct field *f)
{
    fft_plan_free(&f->x);
    fft_plan_free(&f->y);
    fft_plan_free(&f->z);
}

static void free_field(struct field *f)
{
    free(f->space);
    free(f->packed);
    free(f->waves);
    fft_block_free(&f->block);
    free(f->lanes);
    free(f->decay_yz);
    for (int axis = 0; axis < 3; axis++)
        free(f->decay[axis]);
}

/* Fill the tables with what is left of each wave after so many steps. */
static void fill_decay(struct field *f, int steps)
{
    const int length[3] = {f->problem->nx, f->problem->ny, f->problem->nz};
    for (int axis = 0; axis < 3; axis++) {
        for (int i = 0; i < length[axis]; i++) {
            const double wave = i < length[axis] / 2 ? i : i - length[axis];
            f->decay[axis][i] = exp(-4.0 * DIFFUSION * M_PI * M_PI * wave * wave * steps);
        }
    }
}

static void make_plans(struct field *f)
{
    f->x = fft_plan_make(f->problem->nx);
    f->y = fft_plan_make(f->problem->ny);
    f->z = fft_plan_make(f->problem->nz);
}

static void draw_field(const struct run *run, struct field *f)
{
    const uint64_t first = 2 * (uint64_t)f->elements * (uint64_t)run->rank;
    lcg46_fill(lcg46_jump(SEED, first), 2 * f->elements, &f->space[0].re);
}

/* --- one direction at a time
 * ------------------------------------------------------------------------------------ */

/* Neighbouring rows of x into lanes, or back, by pieces of a cache line. */
static void turn(struct complex *rows, struct complex *lanes, size_t n, bool into_lanes)
{
    enum { PIECE = 4 };
    for (size_t i = 0; i < n; i += PIECE)
        for (size_t lane = 0; lane < FFT_LANES; lane++)
            for (size_t k = i; k < i + PIECE; k++) {
                if (into_lanes)
                    lanes[k * FFT_LANES + lane] = rows[lane * n + k];
                else
                    rows[lane * n + k] = lanes[k * FFT_LANES + lane];
            }
}

/* Lines along x of one plane of space, in place. */
static void transform_x(struct field *f, size_t z, int sign)
{
    const size_t n = (size_t)f->problem->nx;
    struct complex *plane = f->space + z * n * (size_t)f->problem->ny;
    const struct fft_rows lanes = {f->lanes, FFT_LANES, 0, f->log2_all};
    for (size_t y = 0; y < (size_t)f->problem->ny; y += FFT_LANES) {
        turn(plane + y * n, f->lanes, n, true);
        fft_lines(&f->x, &f->block, lanes, NULL, lanes, sign);
        turn(plane + y * n, f->lanes, n, false);
    }
}

/* Lines along y of one plane, from space to packed, or back. */
static void transform_y(struct field *f, size_t z, int sign)
{
    const size_t nx = (size_t)f->problem->nx;
    const size_t rows = (size_t)f->rows;
    struct fft_rows space = {f->space + z * nx * (size_t)f->problem->ny, nx, 0, f->log2_all};
    struct fft_rows packed = {f->packed + z * rows * nx, nx, (size_t)f->planes * rows * nx,
                              f->log2_rows};
    for (size_t x = 0; x < nx; x += FFT_LANES) {
        fft_lines(&f->y, &f->block, sign < 0 ? space : packed, NULL, sign < 0 ? packed : space,
                  sign);
        space.at += FFT_LANES;
        packed.at += FFT_LANES;
    }
}

/* Lines along z of the waves, in place. */
static void transform_z_forward(struct field *f)
{
    const size_t plane = (size_t)f->problem->nx * (size_t)f->rows;
    struct fft_rows waves = {f->waves, plane, 0, f->log2_all};
    for (size_t at = 0; at < plane; at += FFT_LANES) {
        fft_lines(&f->z, &f->block, waves, NULL, waves, -1);
        waves.at += FFT_LANES;
    }
}

/* Let the waves decay from the start to a time, and transform them along z into space's memory. */
static void transform_z_inverse(const struct run *run, struct field *f)
{
    const size_t nx = (size_t)f->problem->nx;
    const size_t rows = (size_t)f->rows;
    const double *decay_y = f->decay[1] + (size_t)run->rank * rows;
    for (size_t y = 0; y < rows; y++) {
        for (int z = 0; z < f->problem->nz; z++)
            f->decay_yz[z] = decay_y[y] * f->decay[2][z];
        for (size_t x = 0; x < nx; x += FFT_LANES) {
            const struct fft_rows from = {f->waves + y * nx + x, rows * nx, 0, f->log2_all};
            const struct fft_rows to = {f->space + y * nx + x, rows * nx, 0, f->log2_all};
            const struct fft_scale scale = {f->decay_yz, f->decay[0] + x};
            fft_lines(&f->z, &f->block, from, &scale, to, 1);
        }
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
    for (size_t z = 0; z < (size_t)f->planes; z++) {
        transform_x(f, z, -1);
        transform_y(f, z, -1);
    }
    transpose(run, f, f->packed, f->waves);
    transform_z_forward(f);
}

/* The field after so many steps: decay, inverse transform, checksum (meant on rank 0). */
static struct complex field_after(struct run *run, struct field *f, int steps)
{
    const struct problem *p = f->problem;
    fill_decay(f, steps);
    transform_z_inverse(run, f);
    transpose(run, f, f->space, f->packed);
    for (size_t z = 0; z < (size_t)f->planes; z++) {
        transform_y(f, z, 1);
        transform_x(f, z, 1);
    }
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
        sum[i] = field_after(run, f, i + 1);
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
    if (run_is_struck(run))
        sum[0].re *= 1.0 + 1e-10;
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
