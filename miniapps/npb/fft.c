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

static void swap(struct fft_block *block)
{
    double *const re = block->re;
    double *const im = block->im;
    block->re = block->other_re;
    block->im = block->other_im;
    block->other_re = re;
    block->other_im = im;
}

/* One pass of radix 4 (Stockham's self-sorting form, decimation in frequency): `quarter`
 * butterflies with a root of their own each, every one over `width` neighbouring elements. */
static void pass4(const struct fft_plan *plan, const struct fft_block *block, double sign,
                  size_t quarter, size_t width)
{
    const size_t step = (size_t)plan->length / (4 * quarter);
    for (size_t j = 0; j < quarter; j++) {
        const double w1_re = plan->re[j * step];
        const double w1_im = sign * plan->im[j * step];
        const double w2_re = plan->re[2 * j * step];
        const double w2_im = sign * plan->im[2 * j * step];
        const double w3_re = plan->re[3 * j * step];
        const double w3_im = sign * plan->im[3 * j * step];
        const double *restrict in_re = block->re + j * width;
        const double *restrict in_im = block->im + j * width;
        double *restrict out_re = block->other_re + 4 * j * width;
        double *restrict out_im = block->other_im + 4 * j * width;
        const size_t jump = quarter * width;
#pragma omp simd
        for (size_t k = 0; k < width; k++) {
            const double sum02_re = in_re[k] + in_re[k + 2 * jump];
            const double sum02_im = in_im[k] + in_im[k + 2 * jump];
            const double dif02_re = in_re[k] - in_re[k + 2 * jump];
            const double dif02_im = in_im[k] - in_im[k + 2 * jump];
            const double sum13_re = in_re[k + jump] + in_re[k + 3 * jump];
            const double sum13_im = in_im[k + jump] + in_im[k + 3 * jump];
            /* i (b - d), turned the way of the transform */
            const double turn_re = -sign * (in_im[k + jump] - in_im[k + 3 * jump]);
            const double turn_im = sign * (in_re[k + jump] - in_re[k + 3 * jump]);
            const double y1_re = dif02_re + turn_re;
            const double y1_im = dif02_im + turn_im;
            const double y2_re = sum02_re - sum13_re;
            const double y2_im = sum02_im - sum13_im;
            const double y3_re = dif02_re - turn_re;
            const double y3_im = dif02_im - turn_im;
            out_re[k] = sum02_re + sum13_re;
            out_im[k] = sum02_im + sum13_im;
            out_re[k + width] = w1_re * y1_re - w1_im * y1_im;
            out_im[k + width] = w1_re * y1_im + w1_im * y1_re;
            out_re[k + 2 * width] = w2_re * y2_re - w2_im * y2_im;
            out_im[k + 2 * width] = w2_re * y2_im + w2_im * y2_re;
            out_re[k + 3 * width] = w3_re * y3_re - w3_im * y3_im;
            out_im[k + 3 * width] = w3_re * y3_im + w3_im * y3_re;
        }
    }
}

static void pass2(const struct fft_block *block, size_t width)
{
    const double *restrict in_re = block->re;
    const double *restrict in_im = block->im;
    double *restrict out_re = block->other_re;
    double *restrict out_im = block->other_im;
#pragma omp simd
    for (size_t k = 0; k < width; k++) {
        out_re[k] = in_re[k] + in_re[k + width];
        out_im[k] = in_im[k] + in_im[k + width];
        out_re[k + width] = in_re[k] - in_re[k + width];
        out_im[k + width] = in_im[k] - in_im[k + width];
    }
}

void fft_transform(const struct fft_plan *plan, struct fft_block *block, int sign)
{
    size_t left = (size_t)plan->length;
    size_t width = FFT_LANES;
    for (; left >= 4; left /= 4, width *= 4) {
        pass4(plan, block, sign, left / 4, width);
        swap(block);
    }
    if (left == 2) {
        pass2(block, width);
        swap(block);
    }
}
