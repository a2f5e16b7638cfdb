/* The first stage of the check: tell what a rank sees, then ask its MPI, and print it as JSON.
 *
 *     tare-probe LIMIT_S PROGRAM [ARGUMENT...]
 *
 * It is static, so that it runs in any image, and starts nothing of the program but its loader.
 *
 * Launchers mix what ranks write: mpirun reads 4096 bytes at a time, srun passes on lines of at
 * most 1024. So the JSON is cut into lines below that, `@tare-check ID PART/PARTS TEXT`, which are
 * put together by their ID; all of them are written at once, and are as a rule below PIPE_BUF. */
#include "check/child.h"
#include "check/embedded.h"
#include "check/facts.h"
#include "check/loader.h"
#include "common/clock.h"
#include "common/fatal.h"
#include "common/json.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    ANSWERS_SIZE = 1 << 14,
    SAID_SIZE = 1 << 14,
    SAID = 800,
    STAGE_PATH_SIZE = 64,
    PART_SIZE = 900,
    LONGEST_ANSWER = 900,
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
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        text += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

/* Tell whether code may be run from where a file lies (noexec). */
static bool runs_from(int file)
{
    struct statvfs found;
    return fstatvfs(file, &found) == 0 && (found.f_flag & ST_NOEXEC) == 0;
}

/* Put the path of a file with the second stage, which lies in memory, or in a folder where the
 * kernel has no such files or does not show them. */
static int second_stage(char path[STAGE_PATH_SIZE])
{
    static const char *const folders[] = {"/tmp", "/dev/shm", "/var/tmp", "."};
    const size_t length = (size_t)(embedded_end - embedded_begin);
    int file = memfd_create("tare-ask-mpi", 0);
    snprintf(path, STAGE_PATH_SIZE, "/proc/self/fd/%d", file);
    if (file >= 0 && access(path, R_OK) == 0 && write_all(file, embedded_begin, length))
        return file;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (file >= 0)
            close(file);
        snprintf(path, STAGE_PATH_SIZE, "%s/tare-ask-mpi-XXXXXX", folders[i]);
        file = mkstemp(path);
        if (file < 0)
            continue;
        if (write_all(file, embedded_begin, length) && runs_from(file))
            return file;
        unlink(path);
    }
    if (file >= 0)
        close(file);
    return -1;
}

/* Give the answers one by one, each a member of an object, if they are that; the reader decides. */
static bool put_answers(struct json *line, char *text)
{
    bool done = false;
    json_key(line, "answers");
    json_open(line, '[');
    for (char *rest = NULL, *row = strtok_r(text, "\n", &rest); row != NULL;
         row = strtok_r(NULL, "\n", &rest)) {
        done = done || strncmp(row, "\"done\"", 6) == 0;
        if (strlen(row) <= LONGEST_ANSWER)
            json_string(line, row);
    }
    json_close(line, ']');
    return done;
}

/* The parts of an MPI lie beside its library, where the program's own search path would find them.
 */
static char *library_path(const char *library)
{
    const char *given = getenv("LD_LIBRARY_PATH");
    const char *slash = strrchr(library, '/');
    char *folders = NULL;
    const int folder = slash == NULL ? 0 : (int)(slash - library);
    if (asprintf(&folders, "%.*s%s%s", folder, library, given == NULL ? "" : ":",
                 given == NULL ? "" : given) < 0)
        return NULL;
    return folders;
}

static void put_mpi(struct json *line, const struct loader *loader, int limit_s)
{
    static char answers[ANSWERS_SIZE], said[SAID_SIZE];
    char path[STAGE_PATH_SIZE];
    const int file = second_stage(path);
    char *folders = library_path(loader->mpi);
    json_key(line, "mpi");
    json_open(line, '{');
    if (file < 0 || folders == NULL) {
        json_put_string(line, "ended", "no place to run from");
        json_close(line, '}');
        free(folders);
        return;
    }
    char *const argv[] = {(char *)(uintptr_t)loader->interpreter,
                          (char *)(uintptr_t) "--library-path",
                          folders,
                          path,
                          (char *)(uintptr_t)loader->mpi,
                          NULL};
    const struct child_end end = child_run(argv, limit_s, (struct child_text){said, sizeof said},
                                           (struct child_text){answers, sizeof answers});
    if (strncmp(path, "/proc/", 6) != 0)
        unlink(path);
    close(file);
    free(folders);
    if (!end.started)
        json_put_string(line, "ended", strerror(end.number));
    else
        json_put_string(line, "ended",
                        end.stopped       ? "stopped"
                        : end.late        ? "limit"
                        : end.signal != 0 ? "signal"
                                          : "exit");
    json_put_integer(line, "signal", end.signal);
    json_put_integer(line, "status", end.status);
    if (!put_answers(line, answers)) {
        said[SAID] = '\0';
        json_put_string(line, "said", said);
    }
    json_close(line, '}');
}

/* Return where a part of at most PART_SIZE bytes ends that begins at a place, between characters.
 */
static size_t part_end(const struct json *line, size_t begin)
{
    size_t end = begin + PART_SIZE;
    if (end >= line->length)
        return line->length;
    while (end > begin + 1 && ((unsigned char)line->text[end] & 0xC0U) == 0x80U)
        end--;
    return end;
}

static uint64_t new_id(void)
{
    uint64_t id = 0;
    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != (ssize_t)sizeof id)
        id = clock_now_ns() ^ (uint64_t)getpid() << 40;
    return id;
}

/* The last digit of the ID says which object of this process it is. */
static bool write_parts(const struct json *line, uint64_t id, unsigned object)
{
    struct json text = {0};
    unsigned parts = 0, part = 0;
    id = (id & ~UINT64_C(15)) | object;
    for (size_t at = 0; at < line->length; at = part_end(line, at))
        parts++;
    for (size_t at = 0; at < line->length; at = part_end(line, at)) {
        char start[64];
        const int length = snprintf(start, sizeof start, "@tare-check %016llx %u/%u ",
                                    (unsigned long long)id, ++part, parts);
        json_raw(&text, start, (size_t)length);
        json_raw(&text, line->text + at, part_end(line, at) - at);
        json_raw(&text, "\n", 1);
    }
    const bool wrote = write_all(STDOUT_FILENO, text.text, text.length);
    json_free(&text);
    return wrote;
}

int main(int argc, char **argv)
{
    struct json line = {0};
    const long limit_s = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    if (limit_s < 1 || limit_s > LONGEST_LIMIT_S) {
        fprintf(stderr, "usage: tare-probe LIMIT_S PROGRAM [ARGUMENT...]\n");
        return EXIT_FAILURE;
    }
    /* One that is inherited as ignored would hide the ends of children. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || !child_heed_signals())
        return EXIT_FAILURE;
    const uint64_t id = new_id();
    json_open(&line, '{');
    facts_put(&line);
    const struct loader loader = loader_look(&line, argv[2]);
    json_close(&line, '}');
    bool wrote = write_parts(&line, id, 0);
    json_free(&line);
    if (wrote && loader.mpi[0] != '\0') {
        json_open(&line, '{');
        put_mpi(&line, &loader, (int)limit_s);
        json_close(&line, '}');
        wrote = write_parts(&line, id, 1);
        json_free(&line);
    }
    return wrote ? EXIT_SUCCESS : EXIT_FAILURE;
}
