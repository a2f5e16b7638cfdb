#include "check/child.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DROPPED_SIZE = 4096, EXEC_FAILED = 127, SLICE_MS = 50 };

struct output {
    char *text;
    size_t size;
};

static void start_in_child(char *const argv[], int output, int report)
{
    signal(SIGTERM, SIG_DFL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(argv[0], argv);
    const int number = errno;
    if (write(report, &number, sizeof number) < 0)
        _exit(EXEC_FAILED);
    _exit(EXEC_FAILED);
}

/* Read what is there; return false at the end. */
static bool read_some(int input, char *text, size_t size, size_t *length)
{
    char dropped[DROPPED_SIZE];
    const bool full = *length + 1 >= size;
    const ssize_t got =
        read(input, full ? dropped : text + *length, full ? sizeof dropped : size - 1 - *length);
    if (got < 0)
        return errno == EINTR;
    if (!full)
        *length += (size_t)got;
    return got > 0;
}

/* Read until the end of the outputs or of the child, which may have left others that hold them;
 * return whether the deadline came first. */
static bool follow(pid_t child, int input, uint64_t deadline_ns, struct output output, int *state)
{
    size_t length = 0;
    bool ended = false, more = true;
    while (more) {
        struct pollfd ready = {.fd = input, .events = POLLIN};
        const int count = poll(&ready, 1, ended ? 0 : SLICE_MS);
        if (count > 0)
            more = read_some(input, output.text, output.size, &length);
        else if (ended || clock_now_ns() >= deadline_ns)
            break;
        else
            ended = waitpid(child, state, WNOHANG) == child;
    }
    output.text[length] = '\0';
    const bool late = more && !ended;
    if (late)
        kill(child, SIGKILL);
    while (!ended && waitpid(child, state, 0) < 0 && errno == EINTR)
        ;
    return late;
}

struct child_end child_run(char *const argv[], int limit_s, char *text, size_t size)
{
    struct child_end end = {false, false, 0, 0, 0};
    int output[2], report[2], state = 0;
    text[0] = '\0';
    if (pipe2(output, O_CLOEXEC) != 0) {
        end.number = errno;
        return end;
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        end.number = errno;
        close(output[0]);
        close(output[1]);
        return end;
    }
    const pid_t child = fork();
    if (child == 0)
        start_in_child(argv, output[1], report[1]);
    end.number = child < 0 ? errno : 0;
    close(output[1]);
    close(report[1]);
    if (child > 0) {
        end.started = read(report[0], &end.number, sizeof end.number) == 0;
        const uint64_t deadline_ns = clock_now_ns() + (uint64_t)limit_s * UINT64_C(1000000000);
        end.late = follow(child, output[0], deadline_ns, (struct output){text, size}, &state);
        end.signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
        end.status = WIFEXITED(state) ? WEXITSTATUS(state) : 0;
    }
    close(output[0]);
    close(report[0]);
    return end;
}
