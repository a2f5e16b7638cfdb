#include "check/facts.h"

#include "check/files.h"
#include "common/cpus.h"
#include "common/rights.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

extern char **environ;

enum {
    PATH_SIZE = 512,
    TEXT_SIZE = 4096,
    NAME_SIZE = 128,
    MOST_INTERFACES = 32,
    LONGEST_VALUE = 200,
};

/* Their values say which rank this is, by which protocol, and what the user asked of the MPI. */
static const char *const prefixes[] = {"OMPI_COMM_WORLD_",
                                       "OMPI_MCA_",
                                       "PMIX_RANK",
                                       "PMI_",
                                       "PMI2_",
                                       "SLURM_PROCID",
                                       "SLURM_NTASKS",
                                       "SLURM_STEP_NUM_",
                                       "SLURM_NNODES",
                                       "SLURM_CPUS_PER_TASK",
                                       "SLURM_MPI_TYPE",
                                       "FLUX_TASK_RANK",
                                       "FLUX_JOB_SIZE",
                                       "FLUX_JOB_NNODES",
                                       "PALS_RANKID",
                                       "MPI_LOCALNRANKS",
                                       "MPIR_",
                                       "I_MPI_",
                                       "UCX_",
                                       "FI_",
                                       "OMP_",
                                       "MV2_",
                                       "LD_PRELOAD",
                                       "LD_LIBRARY_PATH"};
/* What launchers tell their own parts. */
static const char *const internal[] = {
    "OMPI_MCA_orte_", "OMPI_MCA_ess",        "OMPI_MCA_shmem_RUNTIME",     "OMPI_MCA_initial_wdir",
    "OMPI_MCA_pmix",  "OMPI_MCA_rmaps_base", "OMPI_MCA_mpi_oversubscribe", "PMI_PORT",
    "PMI_FD"};
/* Keys of a launcher's own connection, and what fills pages: names are enough. */
static const char *const secret[] = {"KEY", "TOKEN", "SECRET", "PASS", "COOKIE", "CREDENTIAL"};

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_wanted(const char *variable)
{
    for (size_t i = 0; i < sizeof internal / sizeof internal[0]; i++)
        if (begins(variable, internal[i]))
            return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (begins(variable, prefixes[i]))
            return true;
    return false;
}

static bool is_secret(const char *name)
{
    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        if (strstr(name, secret[i]) != NULL)
            return true;
    return false;
}

static void put_variables(struct json *line)
{
    json_key(line, "variables");
    json_open(line, '{');
    for (char **each = environ; *each != NULL; each++) {
        const char *equals = strchr(*each, '=');
        char name[NAME_SIZE], value[LONGEST_VALUE];
        if (equals == NULL || !is_wanted(*each) || (size_t)(equals - *each) >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *each), *each);
        snprintf(value, sizeof value, "%s", is_secret(name) ? "" : equals + 1);
        json_put_string(line, name, value);
    }
    json_close(line, '}');
}

static void put_namespaces(struct json *line)
{
    static const char *const names[] = {"net", "ipc", "pid", "mnt", "user"};
    json_key(line, "namespaces");
    json_open(line, '{');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_SIZE];
        struct stat status;
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        if (stat(path, &status) == 0)
            json_put_integer(line, names[i], (int64_t)status.st_ino);
    }
    json_close(line, '}');
}

static void put_text(struct json *line, const char *key, const char *path)
{
    char text[NAME_SIZE];
    if (files_line(path, text, sizeof text))
        json_put_string(line, key, text);
}

/* The cores that the scheduler lets it use, and how many of them a quota leaves (cgroup v1 and v2).
 */
static void put_cores(struct json *line)
{
    char *allowed = cpus_affinity();
    char text[NAME_SIZE], period[NAME_SIZE];
    double quota = 0.0, length = 0.0;
    if (allowed != NULL)
        json_put_string(line, "cpus", allowed);
    free(allowed);
    json_put_integer(line, "cores_online", (int64_t)sysconf(_SC_NPROCESSORS_ONLN));
    if (files_line("/sys/fs/cgroup/cpu.max", text, sizeof text)) {
        if (sscanf(text, "%lf %lf", &quota, &length) == 2 && length > 0.0)
            json_put_number(line, "quota_cores", quota / length);
    } else if (files_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text) &&
               files_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) {
        quota = atof(text);
        length = atof(period);
        if (quota > 0.0 && length > 0.0)
            json_put_number(line, "quota_cores", quota / length);
    }
}

static void put_shared_memory(struct json *line)
{
    struct statvfs found;
    if (statvfs("/dev/shm", &found) != 0) {
        json_put_null(line, "shm_free_bytes");
        return;
    }
    json_put_number(line, "shm_free_bytes", (double)found.f_bavail * (double)found.f_frsize);
}

static void put_interface(struct json *line, const char *name)
{
    char path[PATH_SIZE];
    static const char *const keys[] = {"mtu", "operstate", "speed"};
    json_open(line, '{');
    json_put_string(line, "name", name);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, keys[i]);
        put_text(line, keys[i], path);
    }
    json_close(line, '}');
}

static void put_interfaces(struct json *line)
{
    DIR *folder = opendir("/sys/class/net");
    int left = MOST_INTERFACES;
    json_key(line, "interfaces");
    json_open(line, '[');
    for (struct dirent *entry; folder != NULL && left > 0 && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        put_interface(line, entry->d_name);
        left--;
    }
    json_close(line, ']');
    if (folder != NULL)
        closedir(folder);
}

static void put_container(struct json *line)
{
    const char *kind = "";
    if (access("/.dockerenv", F_OK) == 0)
        kind = "docker";
    else if (access("/run/.containerenv", F_OK) == 0)
        kind = "podman";
    else if (access("/.singularity.d", F_OK) == 0)
        kind = "apptainer";
    else if (access("/ch", F_OK) == 0)
        kind = "charliecloud";
    json_put_string(line, "container", kind);
}

void facts_put(struct json *line)
{
    char name[NAME_SIZE] = "";
    gethostname(name, sizeof name - 1);
    json_put_string(line, "host", name);
    json_put_integer(line, "pid", (int64_t)getpid());
    put_text(line, "boot_id", "/proc/sys/kernel/random/boot_id");
    put_text(line, "ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope");
    put_container(line);
    put_namespaces(line);
    put_cores(line);
    put_shared_memory(line);
    put_interfaces(line);
    put_variables(line);
    rights_put(line);
}
