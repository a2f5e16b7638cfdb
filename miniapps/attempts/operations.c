#include "attempts/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { OWN_FILE = 0600, OTHER_USER = 1, ANOTHER_USER = 2 };

/* Return what the error of a call that failed says: only some mean that it is forbidden. */
static enum outcome outcome_of(int error)
{
    /* The last: the owner has no number in this user namespace. */
    const bool denied = error == EPERM || error == EACCES || error == EROFS || error == EOVERFLOW;
    return denied ? OUTCOME_DENIED : OUTCOME_UNTRIED;
}

/* The same for calls that take a user, who may have no number in this user namespace. */
static enum outcome outcome_for_user(int error)
{
    return error == EINVAL ? OUTCOME_DENIED : outcome_of(error);
}

/* Return the outcome of a call that opens something, and close it. */
static enum outcome opened(int descriptor)
{
    if (descriptor < 0)
        return outcome_of(errno);
    return close(descriptor) == 0 ? OUTCOME_ALLOWED : OUTCOME_LEFT;
}

static enum outcome try_mount(const char *file)
{
    (void)file;
    char folder[] = "/tmp/tare-attempt-XXXXXX";
    if (mkdtemp(folder) == NULL)
        return OUTCOME_UNTRIED;
    /* A precaution where it is allowed: nobody else sees the mount, and it ends with this. */
    if (unshare(CLONE_NEWNS) == 0)
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    enum outcome found = OUTCOME_ALLOWED;
    if (mount("tare-attempt", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k") != 0)
        found = outcome_of(errno);
    else if (umount2(folder, MNT_DETACH) != 0)
        found = OUTCOME_LEFT;
    return rmdir(folder) == 0 ? found : OUTCOME_LEFT;
}

static enum outcome try_raw_socket(const char *file)
{
    (void)file;
    return opened(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
}

/* An empty image is no module: who may load one is told so (ENOEXEC), others are told before that
 * they may not. */
static enum outcome try_module(const char *file)
{
    (void)file;
    if (syscall(SYS_init_module, "", 0UL, "") == 0)
        return OUTCOME_LEFT;
    return errno == ENOEXEC ? OUTCOME_ALLOWED : outcome_of(errno);
}

/* A file in memory is given to another user, and ends. */
static enum outcome try_owner(const char *file)
{
    (void)file;
    const int own = memfd_create("tare-attempt", MFD_CLOEXEC);
    if (own < 0)
        return OUTCOME_UNTRIED;
    const uid_t other = geteuid() == OTHER_USER ? ANOTHER_USER : OTHER_USER;
    const enum outcome found =
        fchown(own, other, (gid_t)-1) == 0 ? OUTCOME_ALLOWED : outcome_for_user(errno);
    return close(own) == 0 ? found : OUTCOME_LEFT;
}

static enum outcome try_shadow(const char *file)
{
    (void)file;
    return opened(open("/etc/shadow", O_RDONLY | O_CLOEXEC));
}

/* It is opened for reading, and nothing is read, so nothing is taken from other readers. */
static enum outcome try_log(const char *file)
{
    (void)file;
    return opened(open("/proc/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static enum outcome try_change(const char *file)
{
    return is_file(file) ? opened(open(file, O_WRONLY | O_CLOEXEC)) : OUTCOME_UNTRIED;
}

/* Write a path that nothing else has, in the folder of a file; return whether there is room. */
static bool name_beside(const char *file, char path[PATH_MAX])
{
    uint64_t number = 0;
    const char *slash = strrchr(file, '/');
    if (slash == NULL || getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return false;
    const int folder = (int)(slash - file);
    const int length =
        snprintf(path, PATH_MAX, "%.*s/.tare-attempt-%016" PRIx64, folder, file, number);
    return length > 0 && length < PATH_MAX;
}

static enum outcome try_create(const char *file)
{
    char path[PATH_MAX];
    if (!is_file(file) || !name_beside(file, path))
        return OUTCOME_UNTRIED;
    const int own = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, OWN_FILE);
    if (own < 0)
        return outcome_of(errno);
    const bool is_closed = close(own) == 0;
    return unlink(path) == 0 && is_closed ? OUTCOME_ALLOWED : OUTCOME_LEFT;
}

/* The kernel looks whether a name may be taken out of its folder before it looks what has the name:
 * only who may delete the file is told that it is no folder (ENOTDIR), and it stays. Renaming it to
 * itself would tell nothing: that is allowed to all. */
static enum outcome try_delete(const char *file)
{
    if (!is_file(file))
        return OUTCOME_UNTRIED;
    if (rmdir(file) == 0)
        return OUTCOME_LEFT;
    return errno == ENOTDIR ? OUTCOME_ALLOWED : outcome_of(errno);
}

/* Connect to the daemon that Docker's client would connect to, and say nothing. */
static enum outcome try_docker(const char *file)
{
    (void)file;
    static const char scheme[] = "unix://";
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/run/docker.sock"};
    const char *host = getenv("DOCKER_HOST");
    if (host != NULL && host[0] != '\0') {
        if (strncmp(host, scheme, sizeof scheme - 1) != 0)
            return OUTCOME_UNTRIED;
        const char *path = host + sizeof scheme - 1;
        if (strlen(path) >= sizeof name.sun_path)
            return OUTCOME_UNTRIED;
        memset(name.sun_path, 0, sizeof name.sun_path);
        memcpy(name.sun_path, path, strlen(path));
    }
    const int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (own < 0)
        return OUTCOME_UNTRIED;
    const enum outcome found = connect(own, (const struct sockaddr *)&name, sizeof name) == 0
                                   ? OUTCOME_ALLOWED
                                   : outcome_of(errno);
    return close(own) == 0 ? found : OUTCOME_LEFT;
}

/* The process that tries it ends soon, so nothing is to be undone. */
static enum outcome try_root(const char *file)
{
    (void)file;
    if (geteuid() == 0)
        return OUTCOME_UNTRIED;
    return setresuid(0, 0, 0) == 0 ? OUTCOME_ALLOWED : outcome_for_user(errno);
}

const struct operation operations[OPERATIONS] = {
    {"mount", try_mount},
    {"raw socket", try_raw_socket},
    {"kernel module", try_module},
    {"change of owner", try_owner},
    {"shadow", try_shadow},
    {"kernel log", try_log},
    {"change of a file", try_change},
    {"new file", try_create},
    {"deletion of a file", try_delete},
    {"docker socket", try_docker},
    {"becoming root", try_root},
};
