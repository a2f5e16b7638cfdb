/* Fourier transforms of many lines at once: unnormalised, length a power of two. */
#ifndef TARE_FFT_H
#define TARE_FFT_H

#include <stddef.h>

/* Lines that are transformed together, each in a lane of the vector unit. */
enum { FFT_LANES = 16 };

struct complex {
    double re;
    double im;
};

/* Roots of unity for one length. */
struct fft_plan {
    int length;
    double *re;
    double *im;
};

/* Room for FFT_LANES lines, twice: element i of lane k is at [i * FFT_LANES + k]. */
struct fft_block {
    double *re;
    double *im;
    double *other_re;
    double *other_im;
};

/* Where FFT_LANES neighbouring lines are: the lanes of element i follow each other from
 * at + (i / chunk) jump + (i % chunk) step, with chunks of 2^log2_chunk elements. */
struct fft_rows {
    struct complex *at;
    size_t step;
    size_t jump;
    int log2_chunk;
};

/* What elements are multiplied by first: element i of lane k by row[i] * lane[k]. */
struct fft_scale {
    const double *row;
    const double *lane;
};

struct fft_plan fft_plan_make(int length);
void fft_plan_free(struct fft_plan *plan);
struct fft_block fft_block_make(int longest);
void fft_block_free(struct fft_block *block);

/* Transform lines of at least 8 elements from one place to another, or in place; `sign` of the
 * exponent is -1 or 1; `scale` may be NULL. The block is room to work in. */
void fft_lines(const struct fft_plan *plan, struct fft_block *block, struct fft_rows from,
               const struct fft_scale *scale, struct fft_rows to, int sign);

#endif
