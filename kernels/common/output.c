#include "common/output.h"

#include "common/check.h"
#include "common/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct json output_begin(const char *type)
{
    struct json line = {0};
    json_raw(&line, OUTPUT_MARK, sizeof OUTPUT_MARK - 1);
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

bool output_finish(struct json *line)
{
    output_close(line);
    const bool written = output_write(line->text, line->length);
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
