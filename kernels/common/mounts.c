#include "common/mounts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Those in which no file can be kept; devtmpfs is told by the devices in it. */
static const char *const of_the_kernel[] = {
    "proc",        "sysfs",   "cgroup",     "cgroup2",  "devpts",  "devtmpfs",   "mqueue",
    "debugfs",     "tracefs", "securityfs", "pstore",   "bpf",     "configfs",   "hugetlbfs",
    "binfmt_misc", "nsfs",    "autofs",     "efivarfs", "fusectl", "rpc_pipefs", "selinuxfs",
};

static bool is_of_the_kernel(const char *type)
{
    for (size_t i = 0; i < sizeof of_the_kernel / sizeof of_the_kernel[0]; i++) {
        if (strcmp(type, of_the_kernel[i]) == 0)
            return true;
    }
    return false;
}

/* Tell whether a list of options, as `rw,nosuid`, has this one. */
static bool has_option(const char *options, const char *option)
{
    const size_t length = strlen(option);
    for (const char *at = options; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, option, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* A line is `ID PARENT MAJOR:MINOR ROOT FOLDER OPTIONS [FIELDS] - TYPE SOURCE OPTIONS`. */
static void add(struct json *mounts, char *text)
{
    char *words[6] = {0}, *rest = NULL;
    char *second = strstr(text, " - ");
    if (second == NULL)
        return;
    *second = '\0';
    char *word = strtok_r(text, " ", &rest);
    for (size_t i = 0; i < 6 && word != NULL; i++, word = strtok_r(NULL, " ", &rest))
        words[i] = word;
    const char *type = strtok_r(second + 3, " ", &rest);
    const char *source = strtok_r(NULL, " ", &rest);
    const char *options = strtok_r(NULL, " \n", &rest);
    if (words[5] == NULL || type == NULL || source == NULL || is_of_the_kernel(type))
        return;
    const bool fixed = has_option(words[5], "ro") || (options != NULL && has_option(options, "ro"));
    if (mounts->length > 0)
        json_raw(mounts, "\n", 1);
    json_raw(mounts, fixed ? "ro " : "rw ", 3);
    json_raw(mounts, words[2], strlen(words[2]));
    json_raw(mounts, " ", 1);
    json_raw(mounts, words[4], strlen(words[4]));
}

void mounts_put(struct json *line)
{
    struct json mounts = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL)
        return;
    json_raw(&mounts, "", 0);
    while (getline(&text, &size, file) > 0)
        add(&mounts, text);
    free(text);
    fclose(file);
    json_put_string(line, "mounts", mounts.text);
    json_free(&mounts);
}
