#include "common/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 8192, MAX_ITERATIONS = 100000000, MAX_WINDOW = 65536 };
static const double max_rate_hz = 1e9;

/* One key=value, or a name, inside a specification. */
struct token {
    const char *text;
    size_t length;
};

static const struct {
    const char *name;
    enum key key;
} keys[] = {
    {"bytes", KEY_BYTES},   {"iterations", KEY_ITERATIONS},
    {"warmup", KEY_WARMUP}, {"window", KEY_WINDOW},
    {"rate", KEY_RATE},     {"sync", KEY_SYNC},
    {"skew", KEY_SKEW},
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

const char *sync_name(enum sync_mode sync)
{
    static const char *const names[] = {"none", "barrier", "window"};
    return names[sync];
}

__attribute__((format(printf, 2, 3))) static bool fail(char *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, OPTIONS_ERROR_SIZE, format, arguments);
    va_end(arguments);
    return false;
}

static bool token_is(struct token token, const char *text)
{
    return token.length == strlen(text) && strncmp(token.text, text, token.length) == 0;
}

static void append_name(char *list, size_t size, const char *name)
{
    const size_t length = strlen(list);
    snprintf(list + length, size - length, "%s%s", length > 0 ? ", " : "", name);
}

static bool fail_kernel(char *error, const char *problem)
{
    char allowed[256] = "";
    for (size_t i = 0; i < registry_count(); i++)
        append_name(allowed, sizeof allowed, registry_at(i)->name);
    return fail(error, "%s; allowed: %s", problem, allowed);
}

static bool fail_key(char *error, const struct kernel *kernel, struct token key)
{
    char allowed[128] = "";
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (kernel->keys & keys[i].key)
            append_name(allowed, sizeof allowed, keys[i].name);
    return fail(error, "kernel %s has no key '%.*s'; allowed: %s", kernel->name, (int)key.length,
                key.text, allowed);
}

/* Copy the value into a string of its own; false when it is too long to be any value. */
static bool copy_value(struct token value, char *copy, size_t size)
{
    if (value.length == 0 || value.length >= size)
        return false;
    memcpy(copy, value.text, value.length);
    copy[value.length] = '\0';
    return copy[0] >= '0' && copy[0] <= '9'; /* strtol would take blanks and signs */
}

static bool parse_integer(struct token key, struct token value, int min, int max, int *number,
                          char *error)
{
    char copy[24];
    char *end = copy;
    errno = 0;
    const long parsed = copy_value(value, copy, sizeof copy) ? strtol(copy, &end, 10) : 0;
    if (end == copy || *end != '\0' || errno != 0 || parsed < min || parsed > max)
        return fail(error, "%.*s=%.*s is not allowed; allowed: a whole number from %d to %d",
                    (int)key.length, key.text, (int)value.length, value.text, min, max);
    *number = (int)parsed;
    return true;
}

static bool parse_rate(struct token value, double *rate_hz, char *error)
{
    char copy[32];
    char *end = copy;
    const double parsed = copy_value(value, copy, sizeof copy) ? strtod(copy, &end) : 0.0;
    if (end == copy || *end != '\0' || !isfinite(parsed) || parsed <= 0.0 || parsed > max_rate_hz)
        return fail(error, "rate=%.*s is not allowed; allowed: messages a second, above 0 to %g",
                    (int)value.length, value.text, max_rate_hz);
    *rate_hz = parsed;
    return true;
}

static bool parse_sync(struct token value, enum sync_mode *sync, char *error)
{
    for (enum sync_mode mode = SYNC_NONE; mode <= SYNC_WINDOW; mode++) {
        if (token_is(value, sync_name(mode))) {
            *sync = mode;
            return true;
        }
    }
    return fail(error, "sync=%.*s is not allowed; allowed: none, barrier, window",
                (int)value.length, value.text);
}

static bool parse_value(const struct kernel *kernel, enum key key, struct token name,
                        struct token value, struct settings *settings, char *error)
{
    switch (key) {
    case KEY_BYTES:
        if (!parse_integer(name, value, kernel->bytes_min, INT_MAX, &settings->message_bytes,
                           error))
            return false;
        if (settings->message_bytes % kernel->bytes_multiple != 0)
            return fail(error, "bytes=%d is not allowed for %s; allowed: a multiple of %d",
                        settings->message_bytes, kernel->name, kernel->bytes_multiple);
        return true;
    case KEY_ITERATIONS:
        return parse_integer(name, value, 1, MAX_ITERATIONS, &settings->iterations, error);
    case KEY_WARMUP: {
        /* A gap begins at the message before it: the first one needs a discarded message. */
        const int min = kernel->samples == SAMPLES_GAPS ? 1 : 0;
        return parse_integer(name, value, min, MAX_ITERATIONS, &settings->warmup, error);
    }
    case KEY_WINDOW:
        return parse_integer(name, value, 1, MAX_WINDOW, &settings->window, error);
    case KEY_RATE:
        return parse_rate(value, &settings->rate_hz, error);
    case KEY_SKEW:
        return parse_integer(name, value, 0, PAGE_BYTES - 1, &settings->buffer_skew, error);
    case KEY_SYNC:
        return parse_sync(value, &settings->sync, error);
    case KEYS_COMMON:
        break;
    }
    return fail(error, "key '%.*s' is not handled", (int)name.length, name.text);
}

/* Read one key=value; `given` gathers the keys seen. */
static bool parse_pair(const struct kernel *kernel, struct token pair, struct settings *settings,
                       unsigned *given, char *error)
{
    const char *equals = memchr(pair.text, '=', pair.length);
    if (equals == NULL)
        return fail(error, "'%.*s' after '%s:' is not allowed; allowed: key=value",
                    (int)pair.length, pair.text, kernel->name);
    const struct token name = {pair.text, (size_t)(equals - pair.text)};
    const struct token value = {equals + 1, pair.length - name.length - 1};
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (!(kernel->keys & keys[i].key) || !token_is(name, keys[i].name))
            continue;
        if (*given & keys[i].key)
            return fail(error, "key '%s' is given twice for %s; allowed: once", keys[i].name,
                        kernel->name);
        *given |= keys[i].key;
        return parse_value(kernel, keys[i].key, name, value, settings, error);
    }
    return fail_key(error, kernel, name);
}

/* Without synchronisation, the maxima over ranks of single iterations add up to more than the loop
 * took, so that such a kernel gets two readings: the loop as a whole, and start windows. */
static void choose_readings(const struct kernel *kernel, struct settings *settings)
{
    settings->loop = kernel->two_readings && settings->sync == SYNC_NONE;
    if (settings->loop)
        settings->sync = SYNC_WINDOW;
}

/* Check what depends on the number of ranks. */
static bool check_ranks(const struct request *request, int ranks, char *error)
{
    const struct kernel *kernel = request->kernel;
    const int bytes = request->settings.message_bytes;
    if (ranks < kernel->min_ranks)
        return fail(error, "kernel '%s' needs at least %d ranks and there is %d", kernel->name,
                    kernel->min_ranks, ranks);
    if (kernel->bytes_times_ranks && bytes > INT_MAX / ranks)
        return fail(error, "bytes=%d is not allowed for %s on %d ranks; allowed: up to %d", bytes,
                    kernel->name, ranks, INT_MAX / ranks);
    return true;
}

static bool parse_spec(const char *spec, int ranks, struct request *request, char *error)
{
    const struct token name = {spec, strcspn(spec, ":")};
    const struct kernel *kernel = registry_find(name.text, name.length);
    if (kernel == NULL) {
        char problem[128];
        snprintf(problem, sizeof problem, "unknown kernel '%.*s'", (int)name.length, name.text);
        return fail_kernel(error, problem);
    }
    *request = (struct request){spec, kernel, kernel->defaults};
    unsigned given = 0;
    for (const char *at = spec + name.length; *at != '\0';) {
        at++; /* the colon or the comma */
        const struct token pair = {at, strcspn(at, ",")};
        if (!parse_pair(kernel, pair, &request->settings, &given, error))
            return false;
        at += pair.length;
    }
    if (request->settings.message_bytes > SMALL_BYTES) {
        if (!(given & KEY_ITERATIONS))
            request->settings.iterations = kernel->iterations_large;
        if (!(given & KEY_WARMUP))
            request->settings.warmup = kernel->warmup_large;
    }
    choose_readings(kernel, &request->settings);
    return check_ranks(request, ranks, error);
}

/* Read a permutation of the specifications' numbers; NULL is the order in which they were given. */
static bool parse_order(const char *text, struct options *options, char *error)
{
    const struct token name = {"--order", strlen("--order")};
    int read = 0;
    for (const char *at = text; at != NULL;) {
        int number = 0;
        const struct token value = {at, strcspn(at, ",")};
        at = at[value.length] == ',' ? at + value.length + 1 : NULL;
        if (read == options->count)
            return fail(error, "--order names more than the %d kernels given", options->count);
        if (!parse_integer(name, value, 0, options->count - 1, &number, error))
            return false;
        for (int i = 0; i < read; i++)
            if (options->order[i] == number)
                return fail(error, "--order names kernel %d twice; allowed: each once", number);
        options->order[read++] = number;
    }
    for (int i = 0; text == NULL && i < options->count; i++)
        options->order[i] = i;
    if (text != NULL && read < options->count)
        return fail(error, "--order names %d of %d kernels; allowed: each once, from 0", read,
                    options->count);
    return true;
}

bool options_parse(int argc, char **argv, int ranks, struct options *options,
                   char error[OPTIONS_ERROR_SIZE])
{
    *options = (struct options){.samples = true};
    options->requests = calloc((size_t)argc + 1, sizeof options->requests[0]);
    options->order = calloc((size_t)argc + 1, sizeof options->order[0]);
    if (options->requests == NULL || options->order == NULL)
        return fail(error, "out of memory");
    const char *order = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-samples") == 0)
            options->samples = false;
        else if (strncmp(argv[i], "--order=", strlen("--order=")) == 0)
            order = argv[i] + strlen("--order=");
        else if (strncmp(argv[i], "--turns=", strlen("--turns=")) == 0) {
            if (!turns_parse(argv[i] + strlen("--turns="), &options->turns))
                return fail(error, "%s is not understood; allowed: --turns=N@ADDRESS:PORT/NAME",
                            argv[i]);
        } else if (argv[i][0] == '-')
            return fail(error,
                        "unknown option '%s'; allowed: --no-samples, --order, --turns, --list, "
                        "--help",
                        argv[i]);
        else if (parse_spec(argv[i], ranks, &options->requests[options->count], error))
            options->count++;
        else
            return false;
    }
    if (options->count == 0)
        return fail_kernel(error, "no kernel given");
    return parse_order(order, options, error);
}

bool options_informational(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--list") == 0)
            return true;
    return false;
}

void options_free(struct options *options)
{
    free(options->requests);
    free(options->order);
    *options = (struct options){0};
}
