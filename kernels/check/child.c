#include "check/child.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DROPPED_SIZE = 4096, EXEC_FAILED = 127, SLICE_MS = 50, SLICES_AFTER_KILL = 20 };
enum { SAID, ANSWERS, REPORT, PIPES, STREAMS = REPORT };

static volatile sig_atomic_t told_to_end;

static void take_note(int number)
{
    (void)number;
    told_to_end = 1;
}

bool child_heed_signals(void)
{
    struct sigaction action = {.sa_handler = take_note};
    return sigemptyset(&action.sa_mask) == 0 && sigaction(SIGTERM, &action, NULL) == 0;
}

struct stream {
    int file; /* -1 at its end */
    struct child_text into;
    size_t length;
};

_Noreturn static void start_in_child(char *const argv[], int pipes[PIPES][2], bool asks)
{
    char number[16];
    const int answers = pipes[ANSWERS][1], report = pipes[REPORT][1];
    /* What it starts itself is ended with it, and it ends with the probe. */
    bool ready = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    snprintf(number, sizeof number, "%d", answers);
    ready = ready && setenv(CHILD_ANSWERS, number, 1) == 0 && fcntl(answers, F_SETFD, 0) == 0;
    ready = ready && dup2(pipes[SAID][1], STDOUT_FILENO) >= 0;
    ready = ready && (asks || dup2(pipes[SAID][1], STDERR_FILENO) >= 0);
    if (ready)
        execv(argv[0], argv);
    const int error = errno;
    if (write(report, &error, sizeof error) != (ssize_t)sizeof error)
        _exit(EXEC_FAILED);
    _exit(EXEC_FAILED);
}

static void read_some(struct stream *stream)
{
    char dropped[DROPPED_SIZE];
    const size_t room = stream->into.size > 0 ? stream->into.size - 1 - stream->length : 0;
    char *place = room > 0 ? stream->into.text + stream->length : dropped;
    const ssize_t got = read(stream->file, place, room > 0 ? room : sizeof dropped);
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        stream->file = -1;
        return;
    }
    for (ssize_t i = 0; i < got; i++) {
        if (place[i] == '\0')
            place[i] = ' ';
    }
    stream->length += room > 0 ? (size_t)got : 0;
}

/* Read what is there, or wait a little for it; return whether there was some. */
static bool read_streams(struct stream streams[STREAMS], int wait_ms)
{
    struct pollfd ready[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        ready[i] = (struct pollfd){.fd = streams[i].file, .events = POLLIN};
    if (poll(ready, STREAMS, wait_ms) <= 0)
        return false;
    for (int i = 0; i < STREAMS; i++) {
        if (ready[i].fd >= 0 && ready[i].revents != 0)
            read_some(&streams[i]);
    }
    return true;
}

/* Return whether it has ended. Where its end is not told (ECHILD), it has none that can be awaited.
 */
static bool has_ended(pid_t child, int *state)
{
    const pid_t got = waitpid(child, state, WNOHANG);
    return got == child || (got < 0 && errno != EINTR);
}

/* Read until the child's end, whoever else holds its outputs and whatever it closes or floods;
 * return whether the deadline came first. */
static bool follow(pid_t child, struct stream streams[STREAMS], uint64_t deadline_ns, int *state)
{
    bool ended = false;
    while (clock_now_ns() < deadline_ns && !told_to_end) {
        const bool some = read_streams(streams, ended ? 0 : SLICE_MS);
        if (ended && !some)
            return false;
        ended = ended || has_ended(child, state);
    }
    if (told_to_end) { /* it may have been first to end, and the others were told then */
        while (clock_now_ns() < deadline_ns && read_streams(streams, 0))
            ;
        ended = ended || has_ended(child, state);
    }
    kill(-child, SIGKILL);
    /* A process that waits for a device may not end even so. */
    for (int i = 0; !ended && i < SLICES_AFTER_KILL && !has_ended(child, state); i++)
        clock_sleep_ns(SLICE_MS * 1000000L);
    return !ended;
}

static void close_pipes(int pipes[PIPES][2], int side)
{
    for (int i = 0; i < PIPES; i++)
        close(pipes[i][side]);
}

static bool open_pipes(int pipes[PIPES][2])
{
    for (int i = 0; i < PIPES; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) == 0)
            continue;
        const int error = errno;
        while (i-- > 0) {
            close(pipes[i][0]);
            close(pipes[i][1]);
        }
        errno = error;
        return false;
    }
    return true;
}

static void terminate(struct stream streams[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        if (streams[i].into.size > 0)
            streams[i].into.text[streams[i].length] = '\0';
    }
}

struct child_end child_run(char *const argv[], int limit_s, struct child_text said,
                           struct child_text answers)
{
    struct child_end end = {.started = false};
    struct stream streams[STREAMS] = {{-1, said, 0}, {-1, answers, 0}};
    int pipes[PIPES][2], state = 0;
    terminate(streams);
    if (!open_pipes(pipes)) {
        end.number = errno;
        return end;
    }
    const pid_t child = fork();
    if (child == 0)
        start_in_child(argv, pipes, answers.size > 0);
    end.number = child < 0 ? errno : 0;
    close_pipes(pipes, 1);
    if (child > 0) {
        const uint64_t deadline_ns = clock_now_ns() + (uint64_t)limit_s * UINT64_C(1000000000);
        ssize_t got = 0;
        do
            got = read(pipes[REPORT][0], &end.number, sizeof end.number);
        while (got < 0 && errno == EINTR);
        end.started = got == 0;
        for (int i = 0; i < STREAMS; i++)
            streams[i].file = pipes[i][0];
        end.late = follow(child, streams, deadline_ns, &state);
        end.stopped = end.late && told_to_end;
        end.signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
        end.status = WIFEXITED(state) ? WEXITSTATUS(state) : 0;
    }
    terminate(streams);
    close_pipes(pipes, 0);
    return end;
}
