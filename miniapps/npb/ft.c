/* FT: a diffusion equation solved with three-dimensional Fourier transforms (RNR-94-007, 2.6).
 *
 * Space is cut into slabs along z; the transform along x and y is local, then one alltoall cuts
 * along y instead. Both layouts have x fastest: [z of own][y][x] in space, [z][y of own][x] in wave
 * numbers. */
#include "apps/app.h"
#include "apps/lcg46.h"
#include "npb/published.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 314159265, PROBES = 1024 };
#define DIFFUSION 1e-6

struct problem {
    int nx;
    int ny;
    int nz;
    int steps;
};

static const struct problem problems[CLASSES] = {
    [CLASS_S] = {64, 64, 64, 6},        [CLASS_W] = {128, 128, 32, 6},
    [CLASS_A] = {256, 256, 128, 6},     [CLASS_B] = {512, 256, 256, 20},
    [CLASS_C] = {512, 512, 512, 20},    [CLASS_D] = {2048, 1024, 1024, 25},
    [CLASS_E] = {4096, 2048, 2048, 25},
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

static struct field make_field(const struct run *run)
{
    struct field f = {.problem = &problems[run_class(run)]};
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

static void solve(struct run *run, struct field *f, int steps, struct complex sum[PUBLISHED_STEPS])
{
    run_next_part(run);
    make_plans(f);
    draw_field(run, f);
    forward(run, f);
    for (int i = 0; i < steps; i++) {
        run_next_part(run);
        sum[i] = field_after(run, f, i + 1);
    }
    free_plans(f);
}

static void check_sums(struct run *run, const struct problem *p,
                       const struct complex sum[PUBLISHED_STEPS])
{
    static const char *const names[PUBLISHED_STEPS] = {
        "checksum 1",  "checksum 2",  "checksum 3",  "checksum 4",  "checksum 5",
        "checksum 6",  "checksum 7",  "checksum 8",  "checksum 9",  "checksum 10",
        "checksum 11", "checksum 12", "checksum 13", "checksum 14", "checksum 15",
        "checksum 16", "checksum 17", "checksum 18", "checksum 19", "checksum 20",
        "checksum 21", "checksum 22", "checksum 23", "checksum 24", "checksum 25"};
    const struct complex *published = published_ft[run_class(run)];
    for (int i = 0; i < p->steps; i++) {
        const double size = hypot(published[i].re, published[i].im);
        const double error = hypot(sum[i].re - published[i].re, sum[i].im - published[i].im) / size;
        result_check(run, names[i], error, 0.0, 1e-12);
    }
}

static void execute(struct run *run)
{
    struct field f = make_field(run);
    const struct problem *p = f.problem;
    struct complex sum[PUBLISHED_STEPS];
    solve(run, &f, 1, sum); /* untimed */
    run_divide(run, p->steps + 1);
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

/* Return the least ranks that keep the doubles of one pair in an int, as MPI counts them. */
static int least_ranks(const struct problem *p)
{
    const double doubles = 2.0 * p->nx * p->ny * p->nz;
    int ranks = 1;
    while (doubles / ranks / ranks > INT_MAX)
        ranks *= 2;
    return ranks;
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    const struct problem *p = &problems[run_class(run)];
    const int least = least_ranks(p);
    const int most = p->ny < p->nz ? p->ny : p->nz;
    if ((run->ranks & (run->ranks - 1)) == 0 && run->ranks >= least && run->ranks <= most)
        return true;
    snprintf(reason, APP_REASON,
             "npb-ft class %c cannot run on %d ranks; allowed: powers of two from %d to %d",
             run->problem_class, run->ranks, least, most);
    return false;
}

static double memory_bytes(const struct run *run)
{
    const struct problem *p = &problems[run_class(run)];
    return 3.0 * sizeof(struct complex) * p->nx * p->ny * p->nz / run->ranks;
}

const struct app app_npb_ft = {
    .name = "npb-ft",
    .description = "three-dimensional Fourier transforms of a diffusing field",
    .rate = "Mop/s",
    .timed = "roots and decay tables, initial field, forward transform, steps with their checksums",
    .pattern =
        "one alltoall a transform, each rank gives each 1 / ranks^2 of the field; a reduce a step",
    .classes = "SWABCDE",
    .parameters = {APP_PACE_PARAMETER},
    .official_pace = 270,
    .divides = true,
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
