#include "npb/fft.h"

#include "apps/app.h"

#include <math.h>
#include <stdlib.h>

struct fft_plan fft_plan_make(int length)
{
    struct fft_plan plan = {.length = length};
    plan.re = app_allocate((size_t)length, sizeof(double));
    plan.im = app_allocate((size_t)length, sizeof(double));
    for (int i = 0; i < length; i++) {
        const double angle = 2.0 * M_PI * i / length;
        plan.re[i] = cos(angle);
        plan.im[i] = sin(angle);
    }
    return plan;
}

void fft_plan_free(struct fft_plan *plan)
{
    free(plan->re);
    free(plan->im);
}

struct fft_block fft_block_make(int longest)
{
    const size_t room = (size_t)longest * FFT_LANES;
    return (struct fft_block){
        app_allocate(room, sizeof(double)), app_allocate(room, sizeof(double)),
        app_allocate(room, sizeof(double)), app_allocate(room, sizeof(double))};
}

void fft_block_free(struct fft_block *block)
{
    free(block->re);
    free(block->im);
    free(block->other_re);
    free(block->other_im);
}

/* A loop with a call left in it cannot become one over vectors. */
#define INLINE static inline __attribute__((always_inline))

struct four {
    struct complex y0;
    struct complex y1;
    struct complex y2;
    struct complex y3;
};

INLINE struct complex product(struct complex a, struct complex b)
{
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

INLINE struct complex sum(struct complex a, struct complex b)
{
    return (struct complex){a.re + b.re, a.im + b.im};
}

INLINE struct complex difference(struct complex a, struct complex b)
{
    return (struct complex){a.re - b.re, a.im - b.im};
}

/* The transform of four elements. */
INLINE struct four butterfly(struct complex a, struct complex b, struct complex c, struct complex d,
                             double sign)
{
    const struct complex even = sum(a, c);
    const struct complex odd = sum(b, d);
    const struct complex straight = difference(a, c);
    const struct complex across = difference(b, d);
    const struct complex turned = {-sign * across.im, sign * across.re};
    return (struct four){sum(even, odd), sum(straight, turned), difference(even, odd),
                         difference(straight, turned)};
}

/* Roots that the outputs of butterfly j are turned by. */
struct roots {
    struct complex w1;
    struct complex w2;
    struct complex w3;
};

static struct roots roots_of(const struct fft_plan *plan, size_t at, double sign)
{
    return (struct roots){{plan->re[at], sign * plan->im[at]},
                          {plan->re[2 * at], sign * plan->im[2 * at]},
                          {plan->re[3 * at], sign * plan->im[3 * at]}};
}

INLINE struct complex *row(const struct fft_rows *rows, size_t i)
{
    const size_t chunk = i >> rows->log2_chunk;
    return rows->at + chunk * rows->jump + (i - (chunk << rows->log2_chunk)) * rows->step;
}

INLINE struct complex scaled(struct complex value, double scale)
{
    return (struct complex){scale * value.re, scale * value.im};
}

INLINE void put(double *restrict re, double *restrict im, size_t at, struct complex value)
{
    re[at] = value.re;
    im[at] = value.im;
}

INLINE struct complex get(const double *restrict re, const double *restrict im, size_t at)
{
    return (struct complex){re[at], im[at]};
}

/* One butterfly over all lanes, out of where the lines are. */
INLINE void first_butterfly(const struct complex *restrict in[4], const double s[4],
                            const double *restrict lanes, struct roots w, double sign,
                            double *restrict re, double *restrict im)
{
    const struct complex *restrict a = in[0];
    const struct complex *restrict b = in[1];
    const struct complex *restrict c = in[2];
    const struct complex *restrict d = in[3];
#pragma omp simd
    for (size_t k = 0; k < FFT_LANES; k++) {
        const double scale = lanes == NULL ? 1.0 : lanes[k];
        const struct four y =
            lanes == NULL ? butterfly(a[k], b[k], c[k], d[k], sign)
                          : butterfly(scaled(a[k], s[0] * scale), scaled(b[k], s[1] * scale),
                                      scaled(c[k], s[2] * scale), scaled(d[k], s[3] * scale), sign);
        put(re, im, k, y.y0);
        put(re, im, k + FFT_LANES, product(w.w1, y.y1));
        put(re, im, k + 2 * FFT_LANES, product(w.w2, y.y2));
        put(re, im, k + 3 * FFT_LANES, product(w.w3, y.y3));
    }
}

/* The first pass of radix 4 (Stockham's self-sorting form, decimation in frequency): a quarter of
 * the length butterflies with a root of their own each. */
static void first_pass(const struct fft_plan *plan, const struct fft_block *block,
                       struct fft_rows from, const struct fft_scale *scale, double sign)
{
    const size_t quarter = (size_t)plan->length / 4;
    for (size_t j = 0; j < quarter; j++) {
        const struct roots w = roots_of(plan, j, sign);
        const struct complex *in[4] = {row(&from, j), row(&from, j + quarter),
                                       row(&from, j + 2 * quarter), row(&from, j + 3 * quarter)};
        double *re = block->re + 4 * j * FFT_LANES;
        double *im = block->im + 4 * j * FFT_LANES;
        if (scale == NULL) {
            first_butterfly(in, NULL, NULL, w, sign, re, im);
            continue;
        }
        const double *of = scale->row;
        const double s[4] = {of[j], of[j + quarter], of[j + 2 * quarter], of[j + 3 * quarter]};
        first_butterfly(in, s, scale->lane, w, sign, re, im);
    }
}

/* A pass in the middle: `quarter` butterflies with a root of their own each, every one over `width`
 * neighbouring elements. */
static void pass(const struct fft_plan *plan, struct fft_block *block, double sign, size_t quarter,
                 size_t width)
{
    const size_t step = (size_t)plan->length / (4 * quarter);
    const size_t jump = quarter * width;
    for (size_t j = 0; j < quarter; j++) {
        const struct roots w = roots_of(plan, j * step, sign);
        const double *restrict in_re = block->re + j * width;
        const double *restrict in_im = block->im + j * width;
        double *restrict re = block->other_re + 4 * j * width;
        double *restrict im = block->other_im + 4 * j * width;
#pragma omp simd
        for (size_t k = 0; k < width; k++) {
            const struct four y =
                butterfly(get(in_re, in_im, k), get(in_re, in_im, k + jump),
                          get(in_re, in_im, k + 2 * jump), get(in_re, in_im, k + 3 * jump), sign);
            put(re, im, k, y.y0);
            put(re, im, k + width, product(w.w1, y.y1));
            put(re, im, k + 2 * width, product(w.w2, y.y2));
            put(re, im, k + 3 * width, product(w.w3, y.y3));
        }
    }
    double *const other_re = block->re;
    double *const other_im = block->im;
    block->re = block->other_re;
    block->im = block->other_im;
    block->other_re = other_re;
    block->other_im = other_im;
}

/* The last pass, to where the lines shall be: no roots but 1. */
static void last_pass4(const struct fft_block *block, struct fft_rows to, size_t quarter,
                       double sign)
{
    const size_t jump = quarter * FFT_LANES;
    for (size_t j = 0; j < quarter; j++) {
        const double *restrict re = block->re + j * FFT_LANES;
        const double *restrict im = block->im + j * FFT_LANES;
        struct complex *restrict out0 = row(&to, j);
        struct complex *restrict out1 = row(&to, j + quarter);
        struct complex *restrict out2 = row(&to, j + 2 * quarter);
        struct complex *restrict out3 = row(&to, j + 3 * quarter);
#pragma omp simd
        for (size_t k = 0; k < FFT_LANES; k++) {
            const struct four y =
                butterfly(get(re, im, k), get(re, im, k + jump), get(re, im, k + 2 * jump),
                          get(re, im, k + 3 * jump), sign);
            out0[k] = y.y0;
            out1[k] = y.y1;
            out2[k] = y.y2;
            out3[k] = y.y3;
        }
    }
}

static void last_pass2(const struct fft_block *block, struct fft_rows to, size_t half)
{
    const size_t jump = half * FFT_LANES;
    for (size_t j = 0; j < half; j++) {
        const double *restrict re = block->re + j * FFT_LANES;
        const double *restrict im = block->im + j * FFT_LANES;
        struct complex *restrict low = row(&to, j);
        struct complex *restrict high = row(&to, j + half);
#pragma omp simd
        for (size_t k = 0; k < FFT_LANES; k++) {
            low[k] = sum(get(re, im, k), get(re, im, k + jump));
            high[k] = difference(get(re, im, k), get(re, im, k + jump));
        }
    }
}

void fft_lines(const struct fft_plan *plan, struct fft_block *block, struct fft_rows from,
               const struct fft_scale *scale, struct fft_rows to, int sign)
{
    const size_t length = (size_t)plan->length;
    first_pass(plan, block, from, scale, sign);
    size_t left = length / 4;
    for (size_t width = 4 * FFT_LANES; left > 4; left /= 4, width *= 4)
        pass(plan, block, sign, left / 4, width);
    if (left == 4)
        last_pass4(block, to, length / 4, sign);
    else
        last_pass2(block, to, length / 2);
}
