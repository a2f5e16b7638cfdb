/* The part of the preload library that is linked with an MPI. */
#include "common/check.h"
#include "common/clock.h"
#include "common/leave.h"
#include "common/locality.h"
#include "common/output.h"
#include "common/parts.h"
#include "common/usage.h"
#include "wall/wall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void tare_wall_report(const struct wall_times *times)
{
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
    if (rank == 0) {
        fflush(stdout);        /* the application's own text first, */
        output_write("\n", 1); /* which need not have ended its line */
        int part = 0;
        write_record(output_start_line("tare-wall", locality.ranks, init_s), &part);
        parts_write(locality.lines, strlen(locality.lines), &part);
        write_record(wall_line(rank_wall_s, locality.ranks), &part);
        write_record(usage_line(&usage), &part);
        const double elapsed_s = clock_difference_s(clock_now_ns(), times->ready_ns);
        write_record(output_end_line(elapsed_s, 0), &part);
    }
    free(rank_wall_s);
    usage_free(&usage);
    locality_free(&locality);
    leave_together();
}
