/* attempts: what may ranks do? Each tries operations that a user may be forbidden, and the figures
 * tell for each operation how many ranks it was allowed to.
 *
 * A process of its own tries them, because it may have to become another user before, and does not
 * return from some of them as it was. */
#include "apps/app.h"
#include "attempts/operations.h"
#include "common/check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_VARIABLE "ATTEMPTS_FILE"
#define USUAL_FILE    "/usr/lib/os-release"

enum { OWN_USER = 0, USERS_MOST = 65534, MEMORY_BYTES = 65536 };

/* What the process says. */
struct report {
    unsigned char is_user;
    unsigned char outcome[OPERATIONS];
};

/* The numbers of ranks, summed over all of them. */
struct tally {
    int users;
    int tried[OPERATIONS];
    int allowed[OPERATIONS];
    int left;
};
enum { TALLY_INTS = sizeof(struct tally) / sizeof(int) };

/* Become a user, in the group of the same number and no other; return whether that is allowed. */
static bool become(long user)
{
    const uid_t number = (uid_t)user;
    if (user == OWN_USER)
        return true;
    return setgroups(0, NULL) == 0 && setresgid(number, number, number) == 0 &&
           setresuid(number, number, number) == 0;
}

static _Noreturn void try_all(long user, const char *file, int to)
{
    struct report report = {.is_user = become(user)};
    for (size_t i = 0; i < OPERATIONS; i++)
        report.outcome[i] =
            (unsigned char)(report.is_user ? operations[i].attempt(file) : OUTCOME_UNTRIED);
    _exit(write(to, &report, sizeof report) == (ssize_t)sizeof report ? EXIT_SUCCESS
                                                                      : EXIT_FAILURE);
}

static bool read_report(int from, struct report *report)
{
    ssize_t got = 0;
    do
        got = read(from, report, sizeof *report); /* so few bytes come at once */
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *report;
}

static bool ended_well(pid_t process)
{
    int status = 0;
    pid_t ended = 0;
    do
        ended = waitpid(process, &status, 0);
    while (ended < 0 && errno == EINTR);
    return ended == process && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

/* Start the process, and return what it says. */
static struct report hear(long user, const char *file)
{
    struct report report = {0};
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        FATAL("there is no pipe for the process that tries the operations");
    const pid_t process = fork();
    if (process < 0)
        FATAL("the process that tries the operations cannot be started");
    if (process == 0)
        try_all(user, file, ends[1]);
    close(ends[1]);
    const bool is_told = read_report(ends[0], &report);
    close(ends[0]);
    if (!ended_well(process) || !is_told)
        FATAL("the process that tries the operations ended before it had tried all");
    return report;
}

static struct tally sum(const struct run *run, const struct report *report)
{
    struct tally tally = {.users = report->is_user};
    for (int i = 0; i < OPERATIONS; i++) {
        const enum outcome found = (enum outcome)report->outcome[i];
        tally.tried[i] = found != OUTCOME_UNTRIED;
        tally.allowed[i] = found == OUTCOME_ALLOWED || found == OUTCOME_LEFT;
        tally.left += found == OUTCOME_LEFT;
    }
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &tally, TALLY_INTS, MPI_INT, MPI_SUM, run->comm));
    return tally;
}

/* An operation that some rank could not try, as what it needs is not there, has no figure. */
static void tell(struct run *run, const struct tally *tally)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (tally->tried[i] == run->ranks)
            result_figure(run, operations[i].name, tally->allowed[i], "ranks");
    result_figure(run, "ranks that tried", tally->users, "ranks");
    result_check(run, "operations that could not be undone", tally->left, 0.0, 0.0);
}

static const char *file_of_environment(void)
{
    const char *file = getenv(FILE_VARIABLE);
    if (file == NULL || file[0] == '\0')
        return USUAL_FILE;
    if (file[0] != '/' || strlen(file) >= PATH_MAX)
        FATAL(FILE_VARIABLE " is not the absolute path of a file");
    return file;
}

static void execute(struct run *run)
{
    const char *file = file_of_environment();
    run_start(run);
    struct report report = hear(run_value(run, "user"), file);
    run_stop(run);
    run->result.operations = (double)OPERATIONS * run->ranks;
    if (run_is_struck(run) && run->rank == 0)
        report.outcome[0] = OUTCOME_LEFT;
    const struct tally tally = sum(run, &report);
    tell(run, &tally);
}

static bool suits(const struct run *run, char reason[APP_REASON])
{
    (void)run;
    (void)reason;
    return true;
}

static double memory_bytes(const struct run *run)
{
    (void)run;
    return MEMORY_BYTES;
}

const struct app app_attempts = {
    .name = "attempts",
    .description = "operations that a user may be forbidden, and how many ranks may do them",
    .rate = "attempts/s",
    .timed = "all operations, by a process that each rank starts; it measures no container",
    .pattern = "none: each rank tries alone",
    .parameters =
        {
            {"user", "who tries them, if ranks may become that user; 0: the user who they are",
             OWN_USER, OWN_USER, USERS_MOST},
        },
    .suits = suits,
    .memory_bytes = memory_bytes,
    .execute = execute,
};
