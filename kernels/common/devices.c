/* No device is opened to see whether it can be: a watchdog would start, a tape rewind. access()
 * asks for the same rights, those of the device cgroup among them; that a mount forbids devices is
 * told apart. */
#include "common/devices.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PATH_SIZE = 512, DEEPEST = 4 };

static const char top[] = "/dev/";
static const char *const usual[] = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"};
/* Terminals come and go, and the others are file systems of their own without devices. */
static const char *const passed_over[] = {"pts", "shm", "mqueue", "hugepages", "fd"};

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool can_be_opened(const char *path)
{
    struct statvfs mount;
    if (statvfs(path, &mount) != 0 || (mount.f_flag & ST_NODEV) != 0)
        return false;
    return access(path, R_OK) == 0 || access(path, W_OK) == 0;
}

/* Add the devices of a folder of /dev, and of the folders in it, to the names. */
static void look_into(struct json *names, const char *folder, int depth)
{
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return;
    const struct dirent *entry = NULL;
    while ((entry = readdir(listing)) != NULL) {
        char path[PATH_SIZE];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const int length = snprintf(path, sizeof path, "%s%s", folder, entry->d_name);
        if (length < 0 || (size_t)length + 1 >= sizeof path || lstat(path, &status) != 0)
            continue;
        const char *name = path + sizeof top - 1;
        if (S_ISDIR(status.st_mode)) {
            if (depth < DEEPEST &&
                !is_one_of(name, passed_over, sizeof passed_over / sizeof passed_over[0])) {
                memcpy(path + length, "/", 2);
                look_into(names, path, depth + 1);
            }
        } else if ((S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) &&
                   !is_one_of(name, usual, sizeof usual / sizeof usual[0]) && can_be_opened(path)) {
            if (names->length > 0)
                json_raw(names, " ", 1);
            json_raw(names, name, strlen(name));
        }
    }
    closedir(listing);
}

void devices_put(struct json *line)
{
    struct json names = {0};
    json_raw(&names, "", 0);
    look_into(&names, top, 0);
    json_put_string(line, "devices", names.text);
    json_free(&names);
}
