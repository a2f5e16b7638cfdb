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

struct fft_plan fft_plan_make(int length);
void fft_plan_free(struct fft_plan *plan);
struct fft_block fft_block_make(int longest);
void fft_block_free(struct fft_block *block);

/* Transform all lanes of the block; `sign` of the exponent is -1 or 1. The result is in re and im.
 */
void fft_transform(const struct fft_plan *plan, struct fft_block *block, int sign);

#endif
