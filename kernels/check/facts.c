#include "check/facts.h"

#include "check/files.h"
#include "common/cpus.h"
#include "common/surroundings.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_SIZE = 512,
    NAME_SIZE = 128,
    MOST_INTERFACES = 16,
    LONGEST_VALUE = 100,
};

/* What rules read: which rank this is, by whose launcher, and what the user asked of the MPI. No
 * others: a line of facts has little room, and what launchers tell their own parts may be secret.
 */
static const char *const wanted[] = {
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "PMI_SIZE",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "FLUX_JOB_SIZE",
    "OMP_NUM_THREADS",
    "UCX_TLS",
    "OMPI_MCA_btl",
    "OMPI_MCA_pml",
    "I_MPI_FABRICS",
};

static void put_variables(struct json *line)
{
    json_key(line, "variables");
    json_open(line, '{');
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const char *given = getenv(wanted[i]);
        char value[LONGEST_VALUE];
        if (given == NULL)
            continue;
        snprintf(value, sizeof value, "%s", given);
        json_put_string(line, wanted[i], value);
    }
    json_close(line, '}');
}

static void put_namespaces(struct json *line)
{
    static const char *const names[] = {"net", "ipc", "pid", "mnt"};
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
    json_put_integer(line, "online", (int64_t)sysconf(_SC_NPROCESSORS_ONLN));
    if (files_line("/sys/fs/cgroup/cpu.max", text, sizeof text)) {
        if (sscanf(text, "%lf %lf", &quota, &length) == 2 && length > 0.0)
            json_put_number(line, "quota_cores", quota / length);
    } else if (files_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text) &&
               files_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) {
        quota = strtod(text, NULL);
        length = strtod(period, NULL);
        if (quota > 0.0 && length > 0.0)
            json_put_number(line, "quota_cores", quota / length);
    }
}

/* The first device by which a process may use InfiniBand, after its limits and /dev/shm. */
static void put_rights(struct json *line)
{
    static const char folder_name[] = "/dev/infiniband";
    char path[PATH_SIZE];
    DIR *folder = opendir(folder_name);
    json_key(line, "rights");
    json_open(line, '{');
    surroundings_put(line);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder_name, entry->d_name);
        if (strncmp(entry->d_name, "uverbs", 6) == 0 && access(path, R_OK | W_OK) == 0) {
            json_put_string(line, "devices", path + strlen("/dev/"));
            break;
        }
    }
    if (folder != NULL)
        closedir(folder);
    json_close(line, '}');
}

static void put_interface(struct json *line, const char *name)
{
    char path[PATH_SIZE];
    static const char *const keys[] = {"mtu", "operstate"};
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
    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = '\0';
    json_put_string(line, "host", name);
    put_text(line, "boot_id", "/proc/sys/kernel/random/boot_id");
    put_container(line);
    put_namespaces(line);
    put_cores(line);
    put_interfaces(line);
    put_variables(line);
    put_rights(line);
}
