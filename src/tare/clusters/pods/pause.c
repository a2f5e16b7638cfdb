/* The program of a pod's first container: it keeps the pod's namespaces, and waits for processes that nobody else does. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number)
{
    (void)number;
    _exit(EXIT_SUCCESS);
}

static void reap(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void)
{
    struct sigaction ending = {.sa_handler = end};
    struct sigaction reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

    if (sigaction(SIGTERM, &ending, NULL) != 0 || sigaction(SIGINT, &ending, NULL) != 0 ||
        sigaction(SIGCHLD, &reaping, NULL) != 0) {
        return EXIT_FAILURE;
    }
    for (;;) {
        (void)pause();
    }
}
