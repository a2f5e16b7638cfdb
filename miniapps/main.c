/* tare-miniapps: run one mini-application and write what it measured and verified.
 *
 * It speaks the protocol of tare-kernels (kernels/common/output.h). */
#include "apps/arguments.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/leave.h"
#include "common/locality.h"
#include "common/output.h"
#include "common/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_WRONG_DATA = 3 };

static bool passed(const struct result *result)
{
    bool all = result->checks > 0;
    for (int i = 0; i < result->checks; i++)
        all &= result->check[i].passed;
    return all;
}

static void put_result(struct json *line, const struct result *result)
{
    json_put_number(line, "elapsed_s", result->elapsed_s);
    json_put_number(line, "operations", result->operations);
    json_put_number(line, "rate", result->operations / result->elapsed_s);
    json_put_bool(line, "verified", passed(result));
    json_key(line, "checks");
    json_open(line, '[');
    for (int i = 0; i < result->checks; i++) {
        const struct check *check = &result->check[i];
        json_open(line, '{');
        json_put_string(line, "name", check->name);
        json_put_number(line, "value", check->value);
        json_put_number(line, "expected", check->expected);
        json_put_number(line, "tolerance", check->tolerance);
        json_put_bool(line, "passed", check->passed);
        json_close(line, '}');
    }
    json_close(line, ']');
    json_key(line, "figures");
    json_open(line, '[');
    for (int i = 0; i < result->figures; i++) {
        json_open(line, '{');
        json_put_string(line, "name", result->figure[i].name);
        json_put_number(line, "value", result->figure[i].value);
        json_put_string(line, "unit", result->figure[i].unit);
        json_close(line, '}');
    }
    json_close(line, ']');
    json_key(line, "series");
    json_open(line, '[');
    for (int i = 0; i < result->all_series; i++) {
        const struct series *series = &result->series[i];
        json_open(line, '{');
        json_put_string(line, "name", series->name);
        json_put_string(line, "unit", series->unit);
        json_put_numbers(line, "values", series->values, series->count);
        json_close(line, '}');
    }
    json_close(line, ']');
    if (result->shares.count > 0) {
        json_key(line, "shares");
        json_open(line, '{');
        json_put_numbers(line, "parts", result->shares.parts, (size_t)result->shares.count);
        json_put_numbers(line, "elapsed_s", result->shares.elapsed_s, (size_t)result->shares.count);
        json_close(line, '}');
    }
    json_key(line, "notes");
    json_open(line, '[');
    for (int i = 0; i < result->notes; i++) {
        json_open(line, '{');
        json_put_string(line, "name", result->note[i].name);
        json_put_string(line, "text", result->note[i].text);
        json_close(line, '}');
    }
    json_close(line, ']');
}

static bool write_run(const struct run *run)
{
    struct json line = output_begin("miniapp");
    json_put_string(&line, "app", run->app->name);
    const char letter[2] = {run->problem_class, '\0'};
    json_put_string(&line, "class", letter[0] == '\0' ? NULL : letter);
    json_key(&line, "parameters");
    json_open(&line, '{');
    for (int i = 0; i < APP_PARAMETERS && run->app->parameters[i].name != NULL; i++)
        json_put_integer(&line, run->app->parameters[i].name, run->value[i]);
    json_close(&line, '}');
    json_put_integer(&line, "ranks", run->ranks);
    json_put_string(&line, "rate_unit", run->app->rate);
    put_result(&line, &run->result);
    messages_put(&run->messages, &line);
    return output_finish(&line);
}

static enum exit_code execute(struct run *run, double init_s, uint64_t start_ns)
{
    struct locality locality = locality_gather(run->comm);
    messages_begin(run);
    run->app->execute(run);
    run_end_turns(run);
    messages_gather(run);
    int verified = passed(&run->result);
    CHECK_MPI(PMPI_Bcast(&verified, 1, MPI_INT, 0, run->comm));
    enum exit_code code = verified ? EXIT_DONE : EXIT_WRONG_DATA;
    if (run->rank == 0) {
        const bool written = output_start("tare-miniapps", run->ranks, init_s) &&
                             locality_write(&locality) && write_run(run) &&
                             output_end(clock_difference_s(clock_now_ns(), start_ns), (int)code);
        code = written ? code : EXIT_FAILED;
    }
    messages_free(&run->messages);
    result_free(&run->result);
    locality_free(&locality);
    return code;
}

static enum exit_code refuse(const struct run *run, const char *sentence)
{
    if (run->rank == 0)
        fprintf(stderr, "tare-miniapps: %s\n", sentence);
    return EXIT_USAGE;
}

/* Read `--turns=...`, the one option that comes before an application; false if it is none that is
 * allowed. */
static bool read_turns(int argc, char **argv, struct turns_request *request)
{
    static const char option[] = "--turns=";
    *request = (struct turns_request){0};
    return argc == 2 || (argc == 3 && strncmp(argv[1], option, sizeof option - 1) == 0 &&
                         turns_parse(argv[1] + sizeof option - 1, request));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return arguments_list() ? EXIT_DONE : EXIT_FAILED;
    if (argc > 2 && strcmp(argv[1], "--ask") == 0)
        return arguments_answer(argv[2], argc - 3, argv + 3) ? EXIT_DONE : EXIT_USAGE;
    const uint64_t start_ns = clock_now_ns();
    CHECK_MPI(MPI_Init(&argc, &argv));
    double init_s = clock_difference_s(clock_now_ns(), start_ns);
    static struct run run = {.comm = MPI_COMM_NULL};
    run.comm = MPI_COMM_WORLD;
    CHECK_MPI(PMPI_Comm_set_errhandler(run.comm, MPI_ERRORS_RETURN)); /* CHECK_MPI reports */
    CHECK_MPI(PMPI_Comm_rank(run.comm, &run.rank));
    CHECK_MPI(PMPI_Comm_size(run.comm, &run.ranks));
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &init_s, 1, MPI_DOUBLE, MPI_MAX, run.comm));
    char error[ARGUMENTS_ERROR] = "";
    struct turns_request request;
    enum exit_code code = EXIT_DONE;
    if (!read_turns(argc, argv, &request))
        code =
            refuse(&run, "one application is needed: tare-miniapps [--turns=N@ADDRESS:PORT/NAME] "
                         "APP[:key=value,...], or --list");
    else if (!arguments_parse(argv[argc - 1], &run, error) || !run.app->suits(&run, error))
        code = refuse(&run, error);
    else if (request.count > 0 && !run.app->divides)
        code = refuse(&run, "the application takes no turns; allowed: one that divides its work");
    else {
        if (request.count > 0)
            run.turns = turns_open(&request, run.comm);
        code = execute(&run, init_s, start_ns);
    }
    leave_together();
    CHECK_MPI(MPI_Finalize());
    return (int)code;
}
