/* The part of the preload library that is linked with an MPI. */
#include "common/check.h"
#include "common/clock.h"
#include "common/leave.h"
#include "common/locality.h"
#include "common/output.h"
#include "common/parts.h"
#include "common/usage.h"
#include "wall/wall.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const work_names[WORK_COLUMNS] = {
    [WORK_READ] = "rank_read_bytes",
    [WORK_WRITTEN] = "rank_written_bytes",
    [WORK_RECEIVED] = "rank_received_bytes",
    [WORK_SENT] = "rank_sent_bytes",
    [WORK_USER] = "rank_user_s",
    [WORK_THREADS] = "rank_threads",
};

/* The application writes too, on every rank: so every record goes out in parts. */
static void write_record(struct json line, int *part)
{
    output_close(&line);
    parts_write(line.text, line.length, part);
    json_free(&line);
}

static struct json wall_line(const double *rank_wall_s, int ranks)
{
    double longest_s = 0.0;
    for (int i = 0; i < ranks; i++)
        longest_s = rank_wall_s[i] > longest_s ? rank_wall_s[i] : longest_s;
    struct json line = output_begin("wall");
    json_put_number(&line, "wall_s", longest_s);
    json_put_numbers(&line, "rank_wall_s", rank_wall_s, (size_t)ranks);
    return line;
}

/* Put the names of the libraries of LD_PRELOAD that are loaded, without this one. The linker passes
 * over those that it does not find. */
static void put_preloads(struct json *line)
{
    const char *given = getenv("LD_PRELOAD");
    char *text = strdup(given == NULL ? "" : given), *rest = NULL;
    if (text == NULL)
        FATAL("out of memory for the preloaded libraries");
    json_key(line, "preloads");
    json_open(line, '[');
    for (char *path = strtok_r(text, ": ", &rest); path; path = strtok_r(NULL, ": ", &rest)) {
        const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
        void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (library == NULL)
            continue;
        dlclose(library);
        if (strncmp(name, "libtare_", strlen("libtare_")) != 0)
            json_string(line, name);
    }
    json_close(line, ']');
    free(text);
}

/* Return whether other processes have started this job (MPI_Comm_spawn): theirs is the program. */
static bool is_spawned(void)
{
    MPI_Comm parent = MPI_COMM_NULL;
    CHECK_MPI(PMPI_Comm_get_parent(&parent));
    return parent != MPI_COMM_NULL || getenv("OMPI_PARENT_PORT") != NULL;
}

/* Collective. A column that some rank does not know is null. */
static struct json work_line(const struct work *work, int rank, int ranks)
{
    struct json line = output_begin("work");
    double *column = calloc((size_t)ranks, sizeof column[0]);
    if (column == NULL)
        FATAL("out of memory for what the ranks did");
    for (int i = 0; i < WORK_COLUMNS; i++) {
        bool known = true;
        CHECK_MPI(
            PMPI_Gather(&work->values[i], 1, MPI_DOUBLE, column, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        for (int other = 0; other < ranks && rank == 0; other++)
            known = known && column[other] >= 0.0;
        if (known)
            json_put_numbers(&line, work_names[i], column, (size_t)ranks);
        else
            json_put_null(&line, work_names[i]);
    }
    free(column);
    put_preloads(&line);
    return line;
}

void tare_wall_report(const struct wall_times *times)
{
    if (is_spawned()) {
        fputs("tare-wall: started by MPI_Comm_spawn\n", stderr);
        return;
    }
    const MPI_Comm world = MPI_COMM_WORLD;
    const double wall_s = clock_difference_s(times->end_ns, times->ready_ns);
    int rank = 0;
    double init_s = 0.0;
    CHECK_MPI(PMPI_Comm_rank(world, &rank));
    CHECK_MPI(PMPI_Reduce(&times->init_s, &init_s, 1, MPI_DOUBLE, MPI_MAX, 0, world));
    struct locality locality = locality_gather(world);
    double *rank_wall_s = calloc((size_t)locality.ranks, sizeof rank_wall_s[0]);
    if (rank_wall_s == NULL)
        FATAL("out of memory for the wall times");
    CHECK_MPI(PMPI_Gather(&wall_s, 1, MPI_DOUBLE, rank_wall_s, 1, MPI_DOUBLE, 0, world));
    struct usage usage = usage_gather(world);
    struct json work = work_line(&times->work, rank, locality.ranks);
    if (rank == 0) {
        fflush(stdout);        /* the application's own text first, */
        output_write("\n", 1); /* which need not have ended its line */
        int part = 0;
        write_record(output_start_line("tare-wall", locality.ranks, init_s), &part);
        parts_write(locality.lines, strlen(locality.lines), &part);
        write_record(wall_line(rank_wall_s, locality.ranks), &part);
        write_record(usage_line(&usage), &part);
        write_record(work, &part);
        const double elapsed_s = clock_difference_s(clock_now_ns(), times->ready_ns);
        write_record(output_end_line(elapsed_s, 0), &part);
    } else {
        json_free(&work);
    }
    free(rank_wall_s);
    usage_free(&usage);
    locality_free(&locality);
    leave_together();
}
