#include "pair/child.h"

#include "common/check.h"
#include "common/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const long pause_ns = 10000000;
enum { STATUS_NOT_FOUND = 127, STATUS_SIGNAL = 128, TERM_S = 2 };

/* Return the environment without the library that makes a program one of tare's ranks. It is made
 * before the fork, after which memory may not be asked for. */
static char **plain_environment(void)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **plain = calloc(count + 1, sizeof plain[0]);
    if (plain == NULL)
        FATAL("out of memory for an environment");
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const bool preload = strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")) == 0;
        if (!preload || strstr(environ[i], "libtare_wall") == NULL)
            plain[kept++] = environ[i];
    }
    return plain;
}

static _Noreturn void become(char *const command[], char *const environment[], pid_t parent,
                             bool quiet)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before that took hold */
        _exit(STATUS_NOT_FOUND);
    if (quiet)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    execvpe(command[0], command, environment);
    static const char text[] = "tare-pair: a command cannot be started: ";
    const char *reason = strerror(errno);
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 ||
        write(STDERR_FILENO, command[0], strlen(command[0])) < 0 ||
        write(STDERR_FILENO, ": ", 2) < 0 || write(STDERR_FILENO, reason, strlen(reason)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        _exit(STATUS_NOT_FOUND);
    _exit(STATUS_NOT_FOUND);
}

struct child child_start(char *const command[], bool quiet)
{
    char **environment = plain_environment();
    const pid_t parent = getpid();
    fflush(NULL);
    struct child child = {.pid = fork(), .status = -1};
    if (child.pid < 0)
        FATAL("no process could be started");
    if (child.pid == 0)
        become(command, environment, parent, quiet);
    free(environment);
    return child;
}

void child_poll(struct child *child, bool wait)
{
    int status = 0;
    pid_t seen = 0;
    if (child->ended)
        return;
    do {
        seen = waitpid(child->pid, &status, wait ? 0 : WNOHANG);
    } while (seen < 0 && errno == EINTR);
    if (seen == 0)
        return;
    child->ended = true;
    child->status = seen < 0              ? STATUS_NOT_FOUND
                    : WIFEXITED(status)   ? WEXITSTATUS(status)
                    : WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status)
                                          : STATUS_NOT_FOUND;
}

static void wait_until(struct child *child, double seconds)
{
    const uint64_t start_ns = clock_now_ns();
    for (child_poll(child, false); !child->ended; child_poll(child, false)) {
        if (clock_difference_s(clock_now_ns(), start_ns) > seconds)
            return;
        clock_sleep_ns(pause_ns);
    }
}

void child_end(struct child *child, double patience_s)
{
    wait_until(child, patience_s);
    if (child->ended)
        return;
    kill(child->pid, SIGTERM);
    wait_until(child, TERM_S);
    if (child->ended)
        return;
    kill(child->pid, SIGKILL);
    child_poll(child, true);
}
