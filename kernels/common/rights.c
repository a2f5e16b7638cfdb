#include "common/rights.h"

#include "common/devices.h"
#include "common/mounts.h"
#include "common/surroundings.h"
#include "common/system_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE_SIZE = 512 };

static const struct {
    const char *field;
    const char *key;
} fields[] = {
    {"CapEff:", "capabilities"},
    {"Seccomp:", "seccomp"},
    {"Seccomp_filters:", "seccomp_filters"},
    {"NoNewPrivs:", "no_new_privs"},
    {"Speculation_Store_Bypass:", "speculation_store_bypass"},
};

/* Return the value of a line of /proc/self/status without the blanks around it. */
static char *value_of(char *line, const char *field)
{
    char *value = line + strlen(field);
    value += strspn(value, " \t");
    value[strcspn(value, "\n")] = '\0';
    return value;
}

static void put_status(struct json *line)
{
    char text[LINE_SIZE];
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL)
        return;
    while (fgets(text, sizeof text, file) != NULL) {
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (strncmp(text, fields[i].field, strlen(fields[i].field)) == 0)
                json_put_string(line, fields[i].key, value_of(text, fields[i].field));
        }
    }
    fclose(file);
}

/* The first line says whom root inside is outside, and how many users there are. */
static void put_users(struct json *line)
{
    char text[LINE_SIZE];
    unsigned inside = 0, outside = 0, count = 0;
    FILE *file = fopen("/proc/self/uid_map", "re");
    if (file == NULL)
        return;
    if (fgets(text, sizeof text, file) != NULL &&
        sscanf(text, "%u %u %u", &inside, &outside, &count) == 3) {
        snprintf(text, sizeof text, "%u %u %u", inside, outside, count);
        json_put_string(line, "uid_map", text);
    }
    fclose(file);
}

/* Rounded to steps of a tenth, so that launches that are alike have the same value. */
static void put_system_call(struct json *line)
{
    char text[LINE_SIZE];
    double steps = round(log(system_call_ns()) / log(1.1));
    snprintf(text, sizeof text, "%.0f", pow(1.1, steps));
    json_put_string(line, "system_call_ns", text);
}

void rights_put(struct json *line)
{
    struct stat status;
    json_key(line, "rights");
    json_open(line, '{');
    put_status(line);
    put_system_call(line);
    put_users(line);
    json_put_bool(line, "infiniband", stat("/dev/infiniband", &status) == 0);
    devices_put(line);
    mounts_put(line);
    surroundings_put(line);
    json_close(line, '}');
}
