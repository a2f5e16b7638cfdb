/* What a mini-application is: one constant struct, and the run that is handed to its functions. */
#ifndef TARE_APP_H
#define TARE_APP_H

#include "apps/messages.h"
#include "common/turns.h"

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    APP_PARAMETERS = 8,
    APP_CHECKS = 64,
    APP_FIGURES = 32,
    APP_SERIES = 4,
    APP_NOTES = 8,
    APP_TEXT = 64,
    APP_PACE = 100, /* percent: arithmetic as fast as it is */
    APP_PACE_MOST = 1000,
    APP_REASON = 512
};

/* The classes of the NAS Parallel Benchmarks, as indices of tables. */
enum problem_class { CLASS_S, CLASS_W, CLASS_A, CLASS_B, CLASS_C, CLASS_D, CLASS_E, CLASSES };

/* A whole number that the command line may set; `usual` where it does not. */
struct parameter {
    const char *name;
    const char *meaning;
    long usual;
    long low;
    long high;
};

/* A value that must be what is expected, within a relative tolerance (absolute where 0 is
 * expected). */
struct check {
    const char *name;
    double value;
    double expected;
    double tolerance;
    bool passed;
};

/* Something that is told beside the result. */
struct figure {
    const char *name;
    const char *unit;
    double value;
};

/* Values of which the result is a summary, one for each pass of the timed section. */
struct series {
    const char *name;
    const char *unit;
    double *values;
    size_t count;
};

/* Something that is told in words. */
struct note {
    const char *name;
    char text[APP_TEXT];
};

/* The timed section by turns: how many parts were done in one, and how long they took, the longest
 * of all ranks. */
struct shares {
    int count;
    double *parts;
    double *elapsed_s;
};

struct result {
    double elapsed_s;  /* of the timed section, the longest of all ranks */
    double operations; /* of the timed section, in units of the rate's */
    int checks;
    struct check check[APP_CHECKS];
    int figures;
    struct figure figure[APP_FIGURES];
    int all_series;
    struct series series[APP_SERIES];
    int notes;
    struct note note[APP_NOTES];
    struct shares shares; /* of a timed section that took turns */
};

/* One application at work. `comm` holds the ranks that take part: an application may leave some
 * idle. */
struct run {
    const struct app *app;
    MPI_Comm comm;
    int rank;
    int ranks;
    char problem_class; /* 0 where the application has none */
    long value[APP_PARAMETERS];
    struct messages messages;
    bool timed; /* the timed section is open */
    uint64_t started_ns;
    double worked_s; /* of the timed section, before it was last interrupted */
    struct turns turns;
    int turn; /* turns that have begun */
    int parts;
    int part;       /* the next one */
    int first_part; /* of those that are timed together */
    struct result result;
};

struct app {
    const char *name;
    const char *description;
    const char *rate;    /* unit of operations / elapsed_s */
    const char *timed;   /* what the timed section holds */
    const char *pattern; /* how ranks talk to each other */
    const char *classes; /* letters, the smallest first; NULL where there are none */
    struct parameter parameters[APP_PARAMETERS];
    int official_pace; /* in percent: what `pace=official` stands for; 0 where it has no pace */
    bool divides;      /* its timed work has parts, between which other jobs can work */

    /* Return whether it can run on so many ranks with these parameters, else say why not and what
     * is allowed. Pure: rank 0 and no MPI is needed. */
    bool (*suits)(const struct run *run, char reason[APP_REASON]);
    /* Return the bytes that one rank needs. Pure. */
    double (*memory_bytes)(const struct run *run);
    /* Do all of it: set up, time, verify. */
    void (*execute)(struct run *run);
};

/* The parameter of applications whose arithmetic can be slowed. */
#define APP_PACE_PARAMETER                                                                         \
    {                                                                                              \
        "pace",                                                                                    \
            "time of the arithmetic in percent, or official: about as slow as the official "       \
            "program",                                                                             \
            APP_PACE, APP_PACE, APP_PACE_MOST                                                      \
    }

/* The registry: every application, in the order of the documentation. */
size_t app_count(void);
const struct app *app_at(size_t index);
const struct app *app_find(const char *name, size_t length); /* NULL if there is none */

/* Return the value of a parameter by its name; a name that the application has not is a mistake of
 * ours. */
long run_value(const struct run *run, const char *name);

/* Return the class of a run, as an index. Only for applications that have classes. */
enum problem_class run_class(const struct run *run);

/* Return how many times as long the arithmetic is to take as it does. */
double run_pace(const struct run *run);

/* Begin and end the timed section; collective over the run's ranks, which begin together. */
void run_start(struct run *run);
void run_stop(struct run *run);

/* Return the seconds of the timed section so far, without its interruptions. */
double run_worked_s(const struct run *run);

/* Jobs on the same cores can take turns: each does the parts that are its share of a turn, then
 * sleeps. Say how many equal parts there are; then call run_next_part before each of them, in the
 * timed section or between two of them. That is collective over all ranks of the job, and returns
 * whether others have worked in between; their time does not count. */
void run_divide(struct run *run, int parts);
bool run_next_part(struct run *run);

/* Return in how many parts work can be done that has none of its own. */
int run_shares(const struct run *run);

/* Let only the ranks of run->comm take turns, one of which is the job's rank 0: for a job of which
 * some ranks are idle. Those sleep through all turns here. */
void run_narrow_turns(struct run *run, bool idle);

/* Take part in the turns that are left, and then in none. */
void run_end_turns(struct run *run);

/* Wait for all ranks; collective. Idle ones look now and then and leave their core to others, which
 * a collective of MPI would not. */
void run_join(const struct run *run, bool idle);

/* Return the longest of all ranks; collective. */
double run_longest_s(const struct run *run, double own_s);

/* Note a value that is verified, equal on all ranks or meant on rank 0 only; return whether it
 * passed. */
bool result_check(struct run *run, const char *name, double value, double expected,
                  double tolerance);
void result_figure(struct run *run, const char *name, double value, const char *unit);
/* Keep a copy of values that summaries can be made of again. */
void result_series(struct run *run, const char *name, const double *values, size_t count,
                   const char *unit);
void result_note(struct run *run, const char *name, const char *text);
void result_free(struct result *result);

/* Return whether a wrong result was asked for, to see that it is found: TARE_FAULT=corrupt:<app> in
 * the environment of rank 0, as kernels have it. Collective over the run's ranks. */
bool run_is_struck(const struct run *run);

/* Return memory that is aligned to cache lines and zero; ends the job where there is none. */
void *app_allocate(size_t count, size_t size);

/* The same for what is read from end to end, again and again: on large pages where the system
 * grants them on request, because a walk to the page table for every 4 KiB costs a third of the
 * speed. */
void *app_allocate_large(size_t count, size_t size);

#endif
