/* Leaves a process behind, in the way that its argument names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void join(const char *kind, const char *below)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/cgroup.procs", kind, below);
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%d", (int)getpid());
        fclose(file);
    }
}
static void leave(const char *how, int ready)
{
    const char *kinds[] = {"pids",   "cpu",     "cpuacct", "memory", "freezer",
                           "cpuset", "devices", "blkio",   "systemd"};
    setsid();
    if (fork())
        _exit(0);
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(nothing, i);
    for (int i = 3; i < 64; i++)
        if (i != ready)
            close(i);
    prctl(PR_SET_NAME, !strcmp(how, "keeper") ? "tare-holder" : "rogue");
    if (!strcmp(how, "ignores"))
        for (int i = 1; i < 32; i++)
            signal(i, SIG_IGN);
    if (!strcmp(how, "moves"))
        for (int i = 0; i < 9; i++)
            join(kinds[i], "");
    if (!strcmp(how, "freezes")) {
        char group[32], command[96]; /* of this launch alone: who joins a frozen one stops */
        snprintf(group, sizeof group, "/frozen-%d", (int)getpid());
        snprintf(command, sizeof command, "mkdir -p /sys/fs/cgroup/freezer%s", group);
        if (system(command))
            _exit(1);
        if (fork() == 0) {
            join("freezer", group);
            if (write(ready, "x", 1) < 0)
                _exit(1);
            close(ready);
            for (;;)
                pause();
        }
        sleep(1);
        snprintf(command, sizeof command, "echo FROZEN > /sys/fs/cgroup/freezer%s/freezer.state", group);
        if (system(command))
            _exit(1);
        _exit(0);
    }
    if (write(ready, "x", 1) < 0)
        _exit(1);
    close(ready);
    if (!strcmp(how, "cleared")) {
        char *argv[] = {"rogue", "100000", 0}, *none[] = {0};
        execve("/bin/sleep", argv, none);
    }
    if (!strcmp(how, "stops"))
        kill(getpid(), SIGSTOP);
    for (;;)
        pause();
}
int main(int count, char **words)
{
    int rank, ready[2];
    char byte;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        if (pipe(ready))
            return 1;
        if (fork() == 0)
            leave(words[1], ready[1]);
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
            return 1;
        if (!strcmp(words[1], "freezes"))
            while (read(ready[0], &byte, 1) > 0)
                continue;
    }
    return MPI_Finalize();
}
