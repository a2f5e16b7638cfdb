/* The published values that BT, SP, LU and FT must reproduce, by class. */
#ifndef TARE_PUBLISHED_H
#define TARE_PUBLISHED_H

#include "apps/app.h"
#include "npb/fft.h"

enum { PUBLISHED_COMPONENTS = 5, PUBLISHED_STEPS = 25 };

struct published_norms {
    double dt; /* the time step with which the values were made */
    double residual[PUBLISHED_COMPONENTS];
    double error[PUBLISHED_COMPONENTS];
    double surface; /* the surface integral, of LU only */
};

extern const struct published_norms published_bt[CLASSES];
extern const struct published_norms published_sp[CLASSES];
extern const struct published_norms published_lu[CLASSES];

/* A checksum for each step of the class. */
extern const struct complex published_ft[CLASSES][PUBLISHED_STEPS];

#endif
