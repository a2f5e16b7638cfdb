/* Which processors this process may use, and which its cgroup allows. */
#ifndef TARE_CPUS_H
#define TARE_CPUS_H

/* Return the affinity mask as a Linux list ("0-3,8"); NULL when it cannot be read. Caller frees. */
char *cpus_affinity(void);

/* Return the effective cpuset of this process's cgroup, v1 or v2, as the kernel prints it; NULL
 * when there is none to read. Caller frees. */
char *cpus_cgroup(void);

#endif
