#include "common/output.h"

#include "common/check.h"
#include "common/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void output_key(char key[OUTPUT_KEY_SIZE])
{
    const char *padding = getenv("TARE_PADDING");
    const size_t length = padding == NULL ? 0 : strspn(padding, "0123456789abcdef");
    key[0] = '\0';
    if (length > 0 && length <= OUTPUT_KEY_SIZE - 2 && padding[length] == ':')
        snprintf(key, OUTPUT_KEY_SIZE, ":%.*s", (int)length, padding);
}

struct json output_begin(const char *type)
{
    struct json line = {0};
    json_open(&line, '{');
    json_put_string(&line, "type", type);
    return line;
}

/* Not stdio: it loses data when the launcher left stdout non-blocking and a large line meets
 * EAGAIN. */
bool output_write(const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(STDOUT_FILENO, text, length);
        if (written >= 0) {
            text += written;
            length -= (size_t)written;
        } else if (errno == EAGAIN) {
            struct pollfd stdout_ready = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&stdout_ready, 1, -1);
        } else if (errno != EINTR) {
            fprintf(stderr, "tare: cannot write to stdout: %s\n", strerror(errno));
            return false;
        }
    }
    return true;
}

void output_close(struct json *line)
{
    json_close(line, '}');
    json_raw(line, "\n", 1);
}

bool output_lines(const char *lines)
{
    struct json marked = {0};
    char mark[OUTPUT_KEY_SIZE + 8];
    char key[OUTPUT_KEY_SIZE];
    output_key(key);
    const int length = snprintf(mark, sizeof mark, "@tare%s ", key);
    for (const char *stop = strchr(lines, '\n'); stop != NULL; stop = strchr(lines, '\n')) {
        json_raw(&marked, mark, (size_t)length);
        json_raw(&marked, lines, (size_t)(stop + 1 - lines));
        lines = stop + 1;
    }
    const bool written = output_write(marked.text, marked.length);
    json_free(&marked);
    return written;
}

bool output_finish(struct json *line)
{
    output_close(line);
    const bool written = output_lines(line->text);
    json_free(line);
    return written;
}

struct json output_start_line(const char *program, int ranks, double init_s)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    char standard[32];
    int length = 0;
    int version = 0;
    int subversion = 0;
    CHECK_MPI(PMPI_Get_library_version(library, &length));
    library[strcspn(library, "\r\n")] = '\0';
    for (char *tab = strchr(library, '\t'); tab != NULL; tab = strchr(tab, '\t'))
        *tab = ' '; /* MPICH lays its text out in columns */
    CHECK_MPI(PMPI_Get_version(&version, &subversion));
    snprintf(standard, sizeof standard, "%d.%d", version, subversion);

    struct json line = output_begin("start");
    json_put_integer(&line, "protocol", 1);
    json_put_string(&line, "program", program);
    json_put_string(&line, "version", TARE_VERSION);
    json_put_integer(&line, "ranks", ranks);
    json_put_string(&line, "mpi_library", library);
    json_put_string(&line, "mpi_standard", standard);
    json_put_number(&line, "init_s", init_s);
    json_put_string(&line, "timer", "CLOCK_MONOTONIC");
    json_put_number(&line, "timer_resolution_s", clock_resolution_s());
    json_put_number(&line, "timer_cost_s", clock_cost_s());
    return line;
}

bool output_start(const char *program, int ranks, double init_s)
{
    struct json line = output_start_line(program, ranks, init_s);
    return output_finish(&line);
}

struct json output_end_line(double elapsed_s, int exit_code)
{
    struct json line = output_begin("end");
    json_put_number(&line, "elapsed_s", elapsed_s);
    json_put_integer(&line, "exit", exit_code);
    return line;
}

bool output_end(double elapsed_s, int exit_code)
{
    struct json line = output_end_line(elapsed_s, exit_code);
    return output_finish(&line);
}
