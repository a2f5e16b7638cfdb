/* The one table of kernels. To add one: write its file, declare it here, add a row. */
#include "kernels/registry.h"

#include <string.h>

static const struct kernel *const kernels[] = {
    &kernel_latency,   &kernel_bw,       &kernel_bibw,      &kernel_sendrecv,
    &kernel_barrier,   &kernel_alltoall, &kernel_alltoallv, &kernel_allgather,
    &kernel_allreduce, &kernel_halo,     &kernel_spacing,
};

size_t registry_count(void)
{
    return sizeof kernels / sizeof kernels[0];
}

const struct kernel *registry_at(size_t index)
{
    return kernels[index];
}

const struct kernel *registry_find(const char *name, size_t length)
{
    for (size_t i = 0; i < registry_count(); i++)
        if (strlen(kernels[i]->name) == length && strncmp(kernels[i]->name, name, length) == 0)
            return kernels[i];
    return NULL;
}
