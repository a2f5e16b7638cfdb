/* The first stage of the check: tell what a rank sees, then ask its MPI, and print one line of
 * JSON.
 *
 *     tare-probe LIMIT_S PROGRAM [ARGUMENT...]
 *
 * It is static, so that it runs in any image, and starts nothing of the program but its loader. */
#include "check/child.h"
#include "check/embedded.h"
#include "check/facts.h"
#include "check/loader.h"
#include "common/fatal.h"
#include "common/json.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char mark[] = "@tare-check ";

enum {
    OUTPUT_SIZE = 1 << 18,
    SAID = 1500,
    LONGEST_LIMIT_S = 3600,
};

_Noreturn void check_fatal(const char *reason, const char *file, int number)
{
    fprintf(stderr, "tare: %s:%d: %s\n", file, number, reason);
    exit(EXIT_FAILURE);
}

static bool write_all(int file, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t wrote = write(file, text, length);
        if (wrote <= 0)
            return false;
        text += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

/* Return a file with the second stage that lies in memory, or in a folder where the kernel has no
 * such files. */
static int second_stage(void)
{
    const size_t length = (size_t)(embedded_end - embedded_begin);
    int file = memfd_create("tare-ask-mpi", 0);
    if (file < 0) {
        char path[] = "/tmp/tare-ask-mpi-XXXXXX";
        file = mkstemp(path);
        if (file >= 0)
            unlink(path);
    }
    if (file >= 0 && !write_all(file, embedded_begin, length)) {
        close(file);
        return -1;
    }
    return file;
}

/* Take the answers out of what was written, and keep the end of the rest, which is the MPI's own.
 */
static void put_answers(struct json *line, char *text)
{
    char said[SAID + 1] = "";
    for (char *rest = NULL, *row = strtok_r(text, "\n", &rest); row != NULL;
         row = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(row, "@mpi ", 5) == 0) {
            json_raw(line, ",", 1);
            json_raw(line, row + 5, strlen(row + 5));
            continue;
        }
        const size_t length = strlen(said), more = strlen(row);
        if (length + more + 2 > sizeof said)
            continue;
        snprintf(said + length, sizeof said - length, "%s\n", row);
    }
    json_put_string(line, "said", said);
}

/* The parts of an MPI lie beside its library, where the program's own search path would find them.
 */
static void library_path(const char *library, char folders[2 * LOADER_PATH_SIZE])
{
    const char *given = getenv("LD_LIBRARY_PATH");
    const char *slash = strrchr(library, '/');
    snprintf(folders, 2 * LOADER_PATH_SIZE, "%.*s%s%s", slash == NULL ? 0 : (int)(slash - library),
             library, given == NULL ? "" : ":", given == NULL ? "" : given);
}

static void put_mpi(struct json *line, const struct loader *loader, int limit_s)
{
    static char output[OUTPUT_SIZE];
    char path[64], folders[2 * LOADER_PATH_SIZE];
    const int file = second_stage();
    json_key(line, "mpi");
    json_open(line, '{');
    if (file < 0) {
        json_put_string(line, "ended", "no place to run from");
        json_close(line, '}');
        return;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    library_path(loader->mpi, folders);
    char *const argv[] = {(char *)loader->interpreter,
                          (char *)(uintptr_t) "--library-path",
                          folders,
                          path,
                          (char *)loader->mpi,
                          NULL};
    const struct child_end end = child_run(argv, limit_s, output, sizeof output);
    close(file);
    if (!end.started)
        json_put_string(line, "ended", strerror(end.number));
    else
        json_put_string(line, "ended", end.late ? "limit" : end.signal != 0 ? "signal" : "exit");
    json_put_integer(line, "signal", end.signal);
    json_put_integer(line, "status", end.status);
    put_answers(line, output);
    json_close(line, '}');
}

int main(int argc, char **argv)
{
    struct json line = {0};
    const long limit_s = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    if (limit_s < 1 || limit_s > LONGEST_LIMIT_S) {
        fprintf(stderr, "usage: tare-probe LIMIT_S PROGRAM [ARGUMENT...]\n");
        return EXIT_FAILURE;
    }
    /* An MPI that aborts has its launcher end all ranks, and this one has the reason. */
    signal(SIGTERM, SIG_IGN);
    json_raw(&line, mark, strlen(mark));
    json_open(&line, '{');
    facts_put(&line);
    const struct loader loader = loader_look(&line, argv[2]);
    if (loader.mpi[0] != '\0')
        put_mpi(&line, &loader, (int)limit_s);
    json_close(&line, '}');
    json_raw(&line, "\n", 1);
    const bool wrote = write_all(STDOUT_FILENO, line.text, line.length);
    json_free(&line);
    return wrote ? EXIT_SUCCESS : EXIT_FAILURE;
}
