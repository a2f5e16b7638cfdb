#include "npb/pseudo.h"

enum { COEFFICIENTS = 13 };

const double pseudo_diffusion[PSEUDO_AXES] = {0.75, 0.75, 1.0};

/* Of 1, x, y, z, x^2, y^2, z^2, ..., x^4, y^4, z^4, for each component. */
static const double coefficients[PSEUDO_COMPONENTS][COEFFICIENTS] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

double pseudo_coordinate(int index, int points)
{
    return index == points - 1 ? 1.0 : index * (1.0 / (points - 1));
}

static double along(const double *c, double x)
{
    return x * (c[1] + x * (c[4] + x * (c[7] + x * c[10])));
}

void pseudo_exact(double x, double y, double z, double state[PSEUDO_COMPONENTS])
{
    for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
        const double *c = coefficients[m];
        state[m] = c[0] + along(c, x) + along(c + 1, y) + along(c + 2, z);
    }
}

static bool on_face(double coordinate)
{
    return coordinate <= 0.0 || coordinate >= 1.0;
}

void pseudo_start(double x, double y, double z, double state[PSEUDO_COMPONENTS])
{
    if (on_face(x) || on_face(y) || on_face(z)) {
        pseudo_exact(x, y, z, state);
        return;
    }
    double low[PSEUDO_AXES][PSEUDO_COMPONENTS];
    double high[PSEUDO_AXES][PSEUDO_COMPONENTS];
    pseudo_exact(0.0, y, z, low[0]);
    pseudo_exact(1.0, y, z, high[0]);
    pseudo_exact(x, 0.0, z, low[1]);
    pseudo_exact(x, 1.0, z, high[1]);
    pseudo_exact(x, y, 0.0, low[2]);
    pseudo_exact(x, y, 1.0, high[2]);
    for (int m = 0; m < PSEUDO_COMPONENTS; m++) {
        const double px = (1.0 - x) * low[0][m] + x * high[0][m];
        const double py = (1.0 - y) * low[1][m] + y * high[1][m];
        const double pz = (1.0 - z) * low[2][m] + z * high[2][m];
        state[m] = px + py + pz - px * py - px * pz - py * pz + px * py * pz;
    }
}

void pseudo_fourth_difference(int index, int points, double factor[PSEUDO_STENCIL])
{
    const bool inside = index > 0 && index < points - 1;
    const bool next_to_end = index == 1 || index == points - 2;
    factor[0] = inside && index >= 3 ? 1.0 : 0.0;
    factor[1] = inside && index >= 2 ? -4.0 : 0.0;
    factor[2] = !inside ? 0.0 : next_to_end ? 5.0 : 6.0;
    factor[3] = inside && index <= points - 3 ? -4.0 : 0.0;
    factor[4] = inside && index <= points - 4 ? 1.0 : 0.0;
}

void pseudo_check(struct run *run, const struct published_norms *published,
                  const double residual[PSEUDO_COMPONENTS], const double error[PSEUDO_COMPONENTS])
{
    static const char *const residual_names[PSEUDO_COMPONENTS] = {
        "residual 1", "residual 2", "residual 3", "residual 4", "residual 5"};
    static const char *const error_names[PSEUDO_COMPONENTS] = {"error 1", "error 2", "error 3",
                                                               "error 4", "error 5"};
    for (int m = 0; m < PSEUDO_COMPONENTS; m++)
        result_check(run, residual_names[m], residual[m], published->residual[m], 1e-8);
    for (int m = 0; m < PSEUDO_COMPONENTS; m++)
        result_check(run, error_names[m], error[m], published->error[m], 1e-8);
}
