/* tare-kernels: run the kernels of the command line in one launch, then write all results.
 *
 * Output waits until the last kernel has stopped, because the launcher's forwarding of stdout would
 * disturb the next one. */
#include "common/check.h"
#include "common/clock.h"
#include "common/fault.h"
#include "common/leave.h"
#include "common/listing.h"
#include "common/locality.h"
#include "common/options.h"
#include "common/output.h"
#include "common/result.h"
#include "common/runner.h"
#include "common/sync.h"
#include "common/turns.h"
#include "common/usage.h"

#include <stdio.h>
#include <stdlib.h>

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_WRONG_DATA = 3 };

struct program {
    MPI_Comm world;
    int rank;
    int ranks;
    uint64_t start_ns;
    double init_s; /* the longest of all ranks */
    struct options options;
    struct fault fault;
    struct locality locality;
    struct measurement *measurements;
};

/* Return the same answer on every rank: whether it holds on all of them. */
static bool on_all_ranks(const struct program *program, bool condition)
{
    int all = condition;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, program->world));
    return all;
}

static void complain(const struct program *program, const char *sentence)
{
    if (program->rank == 0)
        fprintf(stderr, "tare-kernels: %s\n", sentence);
}

/* FNV-1a over all arguments and their ends. */
static uint64_t hash_arguments(int argc, char **argv)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 1; i < argc; i++)
        for (const char *at = argv[i]; at == argv[i] || at[-1] != '\0'; at++)
            hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return hash;
}

static bool same_arguments(const struct program *program, int argc, char **argv)
{
    const uint64_t own = hash_arguments(argc, argv);
    uint64_t first = own;
    CHECK_MPI(PMPI_Bcast(&first, 1, MPI_UINT64_T, 0, program->world));
    return on_all_ranks(program, own == first);
}

static void begin(struct program *program, int *argc, char ***argv)
{
    program->start_ns = clock_now_ns();
    CHECK_MPI(MPI_Init(argc, argv));
    program->init_s = clock_difference_s(clock_now_ns(), program->start_ns);
    program->world = MPI_COMM_WORLD;
    CHECK_MPI(PMPI_Comm_set_errhandler(program->world, MPI_ERRORS_RETURN)); /* CHECK_MPI reports */
    CHECK_MPI(PMPI_Comm_rank(program->world, &program->rank));
    CHECK_MPI(PMPI_Comm_size(program->world, &program->ranks));
    CHECK_MPI(
        PMPI_Allreduce(MPI_IN_PLACE, &program->init_s, 1, MPI_DOUBLE, MPI_MAX, program->world));
}

static enum exit_code read_arguments(struct program *program, int argc, char **argv)
{
    char error[OPTIONS_ERROR_SIZE] = "";
    if (!same_arguments(program, argc, argv)) {
        complain(program, "ranks were given different arguments; allowed: the same on all ranks");
        return EXIT_USAGE;
    }
    if (!options_parse(argc, argv, program->ranks, &program->options, error)) {
        complain(program, error);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* Start windows need clocks that agree on all ranks that use them. */
static bool clocks_suit(const struct program *program, const struct measurement *measurement)
{
    enum { SKEW_NS = 1000000000 };
    const struct job *job = &measurement->job;
    const struct request *request = measurement->request;
    char text[CLOCK_TEXT_SIZE] = "";
    if (request->settings.sync != SYNC_WINDOW)
        return true;
    bool agree = true;
    if (job->comm != MPI_COMM_NULL) {
        const bool skewed = fault_meant(&program->fault, FAULT_CLOCK, request->kernel) &&
                            job->rank == job->ranks - 1;
        agree = sync_clocks_agree(job->comm, skewed ? SKEW_NS : 0, text);
    }
    if (!agree)
        complain(program, text);
    return on_all_ranks(program, agree);
}

static enum exit_code prepare(struct program *program)
{
    const int count = program->options.count;
    program->measurements = calloc((size_t)count, sizeof program->measurements[0]);
    if (program->measurements == NULL)
        FATAL("out of memory");
    for (int i = 0; i < count; i++)
        program->measurements[i].job.comm = MPI_COMM_NULL;
    program->fault = fault_read(program->world);
    program->locality = locality_gather(program->world);
    for (int i = 0; i < count; i++) {
        struct measurement *measurement = &program->measurements[i];
        const bool ready =
            runner_prepare(measurement, &program->options.requests[i], program->world);
        if (!on_all_ranks(program, ready)) {
            complain(program, "no memory for the samples; allowed: fewer iterations");
            return EXIT_USAGE;
        }
        if (!clocks_suit(program, measurement))
            return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* Return the measurement that runs as the i-th. */
static struct measurement *in_order(struct program *program, int i)
{
    return &program->measurements[program->options.order[i]];
}

static bool open_one(struct program *program, int i)
{
    struct measurement *measurement = in_order(program, i);
    measurement->position = i;
    const bool opened = runner_open(measurement, &program->fault, program->world);
    if (!opened)
        complain(program, "no memory for the messages; allowed: fewer bytes");
    return opened;
}

/* One kernel after the other, each at once. */
static bool run_alone(struct program *program)
{
    for (int i = 0; i < program->options.count; i++) {
        if (!open_one(program, i))
            return false;
        runner_measure(in_order(program, i), 0, 1, program->world);
        runner_close(in_order(program, i), &program->fault, program->world);
    }
    return true;
}

/* In each turn a share of every kernel. */
static bool run_in_turns(struct program *program)
{
    const struct options *options = &program->options;
    struct turns turns = turns_open(&options->turns, program->world);
    bool opened = true;
    for (int i = 0; opened && i < options->count; i++) {
        runner_share(in_order(program, i), turns.count);
        opened = open_one(program, i);
    }
    for (int turn = 0; opened && turn < turns.count; turn++) {
        turns_next(&turns);
        for (int i = 0; i < options->count; i++)
            runner_measure(in_order(program, i), turn, turns.count, program->world);
    }
    if (opened)
        turns_next(&turns); /* the last: to end */
    for (int i = 0; opened && i < options->count; i++)
        runner_close(in_order(program, i), &program->fault, program->world);
    turns_close(&turns);
    return opened;
}

static enum exit_code run_all(struct program *program)
{
    uint64_t errors = 0;
    if (!(program->options.turns.count > 0 ? run_in_turns(program) : run_alone(program)))
        return EXIT_USAGE;
    for (int i = 0; i < program->options.count; i++)
        errors += program->measurements[i].verify_errors;
    CHECK_MPI(PMPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_UINT64_T, MPI_SUM, program->world));
    return errors > 0 ? EXIT_WRONG_DATA : EXIT_DONE;
}

static enum exit_code write_all(const struct program *program, enum exit_code code)
{
    const bool root = program->rank == 0;
    bool written = true;
    struct usage usage = usage_gather(program->world);
    if (root)
        written = output_start("tare-kernels", program->ranks, program->init_s) &&
                  locality_write(&program->locality);
    for (int i = 0; i < program->options.count; i++) {
        const struct measurement *measurement = &program->measurements[i];
        if (measurement->job.comm != MPI_COMM_NULL)
            written &= result_write(measurement, i, program->options.samples, &program->locality);
    }
    if (root)
        written &= usage_write(&usage) &&
                   output_end(clock_difference_s(clock_now_ns(), program->start_ns), (int)code);
    usage_free(&usage);
    return written ? code : EXIT_FAILED;
}

static void finish(struct program *program)
{
    for (int i = 0; program->measurements != NULL && i < program->options.count; i++)
        runner_free(&program->measurements[i]);
    free(program->measurements);
    locality_free(&program->locality);
    options_free(&program->options);
    leave_together();
    CHECK_MPI(MPI_Finalize());
}

int main(int argc, char **argv)
{
    if (options_informational(argc, argv))
        return listing_write(argc, argv) ? EXIT_DONE : EXIT_FAILED;
    struct program program = {.world = MPI_COMM_NULL};
    begin(&program, &argc, &argv);
    enum exit_code code = read_arguments(&program, argc, argv);
    if (code == EXIT_DONE)
        code = prepare(&program);
    if (code == EXIT_DONE) {
        code = run_all(&program);
        if (code != EXIT_USAGE)
            code = write_all(&program, code);
    }
    finish(&program);
    return (int)code;
}
