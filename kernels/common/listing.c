#include "common/listing.h"

#include "common/kernel.h"
#include "common/output.h"

#include <stdio.h>
#include <string.h>

static void put_defaults(struct json *json, const struct kernel *kernel)
{
    const struct settings *defaults = &kernel->defaults;
    json_key(json, "defaults");
    json_open(json, '{');
    json_put_integer(json, "message_bytes", defaults->message_bytes);
    json_put_integer(json, "iterations_small", defaults->iterations);
    json_put_integer(json, "iterations_large", kernel->iterations_large);
    json_put_integer(json, "warmup_small", defaults->warmup);
    json_put_integer(json, "warmup_large", kernel->warmup_large);
    json_key(json, "window");
    kernel->keys &KEY_WINDOW ? json_integer(json, defaults->window) : json_null(json);
    json_key(json, "rate_hz");
    kernel->keys &KEY_RATE ? json_number(json, defaults->rate_hz) : json_null(json);
    json_close(json, '}');
}

static struct json list_kernels(void)
{
    struct json json = {0};
    json_open(&json, '[');
    for (size_t i = 0; i < registry_count(); i++) {
        const struct kernel *kernel = registry_at(i);
        json_open(&json, '{');
        json_put_string(&json, "name", kernel->name);
        json_put_string(&json, "description", kernel->description);
        json_put_string(&json, "timer", "CLOCK_MONOTONIC");
        json_put_string(&json, "synchronisation", sync_name(kernel->defaults.sync));
        json_put_string(&json, "reduction", kernel->reduction);
        json_put_string(&json, "metric", kernel->metric);
        json_put_integer(&json, "min_ranks", kernel->min_ranks);
        put_defaults(&json, kernel);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_raw(&json, "\n", 1);
    return json;
}

static const char help[] =
    "usage: tare-kernels [--no-samples] [--order=I,...] [--turns=N@ADDRESS:PORT/NAME] SPEC...\n"
    "       tare-kernels --list | --help\n"
    "\n"
    "Run MPI micro-benchmarks in one launch, and write every sample to stdout after the last one\n"
    "has stopped. SPEC is name[:key=value[,key=value]...]. --order=2,0,1 runs the third SPEC\n"
    "first, then the first, then the second; the output has the order of the SPECs. With --turns\n"
    "the job waits for its turn N times, and runs a share of every kernel's iterations in each.\n"
    "\n"
    "keys   bytes       message size in bytes: what a rank gives to one peer\n"
    "       iterations  timed iterations = number of samples\n"
    "       warmup      discarded iterations before them\n"
    "       window      messages in flight (bw, bibw)\n"
    "       rate        messages a second (spacing)\n"
    "       sync        none, barrier or window: how ranks begin an iteration\n"
    "       skew        bytes from a page boundary to the receive buffer (default 0)\n"
    "\n"
    "kernels\n";

static bool write_help(void)
{
    struct json text = {0};
    json_raw(&text, help, sizeof help - 1);
    for (size_t i = 0; i < registry_count(); i++) {
        char line[256];
        const int length = snprintf(line, sizeof line, "       %-10s  %s\n", registry_at(i)->name,
                                    registry_at(i)->description);
        json_raw(&text, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
    }
    static const char codes[] = "\nexit codes: 0 done, 1 failed, 2 usage, 3 wrong data received\n";
    json_raw(&text, codes, sizeof codes - 1);
    const bool written = output_write(text.text, text.length);
    json_free(&text);
    return written;
}

bool listing_write(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return write_help();
        if (strcmp(argv[i], "--list") == 0)
            break;
    }
    struct json list = list_kernels();
    const bool written = output_write(list.text, list.length);
    json_free(&list);
    return written;
}
