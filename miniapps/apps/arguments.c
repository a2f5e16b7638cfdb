#include "apps/arguments.h"

#include "common/json.h"
#include "common/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list_names(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < app_count() && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", app_at(i)->name);
}

static void list_keys(const struct app *app, char *text, size_t size)
{
    size_t used = 0;
    if (app->classes != NULL)
        used = (size_t)snprintf(text, size, "class (%s)", app->classes);
    for (int i = 0; i < APP_PARAMETERS && app->parameters[i].name != NULL && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                 app->parameters[i].name);
}

static bool set_class(struct run *run, const char *value, char error[ARGUMENTS_ERROR])
{
    if (run->app->classes != NULL && strlen(value) == 1 &&
        strchr(run->app->classes, value[0]) != NULL) {
        run->problem_class = value[0];
        return true;
    }
    snprintf(error, ARGUMENTS_ERROR, "%s has no class %.20s; allowed: one letter of %s",
             run->app->name, value, run->app->classes);
    return false;
}

static bool set_value(struct run *run, int index, const char *value, char error[ARGUMENTS_ERROR])
{
    const struct parameter *parameter = &run->app->parameters[index];
    const bool paces = strcmp(parameter->name, "pace") == 0;
    if (paces && strcmp(value, "official") == 0) {
        run->value[index] = run->app->official_pace;
        return true;
    }
    char *end = NULL;
    errno = 0;
    const long number = strtol(value, &end, 10);
    if (errno == 0 && end != value && *end == '\0' && number >= parameter->low &&
        number <= parameter->high) {
        run->value[index] = number;
        return true;
    }
    snprintf(error, ARGUMENTS_ERROR,
             "%s=%.40s is not possible; allowed: a whole number from %ld to %ld%s", parameter->name,
             value, parameter->low, parameter->high, paces ? ", or official" : "");
    return false;
}

static bool set(struct run *run, char *pair, char error[ARGUMENTS_ERROR])
{
    char *equals = strchr(pair, '=');
    char keys[ARGUMENTS_ERROR / 2] = "none";
    if (equals != NULL) {
        *equals = '\0';
        if (run->app->classes != NULL && strcmp(pair, "class") == 0)
            return set_class(run, equals + 1, error);
        for (int i = 0; i < APP_PARAMETERS && run->app->parameters[i].name != NULL; i++)
            if (strcmp(run->app->parameters[i].name, pair) == 0)
                return set_value(run, i, equals + 1, error);
    }
    list_keys(run->app, keys, sizeof keys);
    snprintf(error, ARGUMENTS_ERROR, "%s does not know %.60s; allowed: %s", run->app->name, pair,
             keys);
    return false;
}

bool arguments_parse(const char *spec, struct run *run, char error[ARGUMENTS_ERROR])
{
    const size_t length = strcspn(spec, ":");
    run->app = app_find(spec, length);
    if (run->app == NULL) {
        char known[ARGUMENTS_ERROR / 2] = "";
        list_names(known, sizeof known);
        snprintf(error, ARGUMENTS_ERROR, "unknown application %.*s; allowed: %s",
                 (int)(length < 60 ? length : 60), spec, known);
        return false;
    }
    run->problem_class = (char)(run->app->classes == NULL ? 0 : run->app->classes[0]);
    for (int i = 0; i < APP_PARAMETERS && run->app->parameters[i].name != NULL; i++)
        run->value[i] = run->app->parameters[i].usual;
    if (spec[length] == '\0')
        return true;
    char *copy = strdup(spec + length + 1);
    if (copy == NULL) {
        snprintf(error, ARGUMENTS_ERROR, "out of memory");
        return false;
    }
    bool good = true;
    char *rest = copy;
    for (char *pair = strtok_r(copy, ",", &rest); good && pair != NULL;
         pair = strtok_r(NULL, ",", &rest))
        good = set(run, pair, error);
    free(copy);
    return good;
}

static void put_app(struct json *line, const struct app *app)
{
    json_open(line, '{');
    json_put_string(line, "name", app->name);
    json_put_string(line, "description", app->description);
    json_put_string(line, "rate", app->rate);
    json_put_string(line, "timed", app->timed);
    json_put_string(line, "pattern", app->pattern);
    json_put_string(line, "classes", app->classes);
    json_put_integer(line, "official_pace", app->official_pace);
    json_put_bool(line, "divides", app->divides);
    json_key(line, "parameters");
    json_open(line, '[');
    for (int i = 0; i < APP_PARAMETERS && app->parameters[i].name != NULL; i++) {
        const struct parameter *parameter = &app->parameters[i];
        json_open(line, '{');
        json_put_string(line, "name", parameter->name);
        json_put_string(line, "meaning", parameter->meaning);
        json_put_integer(line, "usual", parameter->usual);
        json_put_integer(line, "low", parameter->low);
        json_put_integer(line, "high", parameter->high);
        json_close(line, '}');
    }
    json_close(line, ']');
    json_close(line, '}');
}

bool arguments_list(void)
{
    struct json line = output_begin("applications");
    json_key(&line, "applications");
    json_open(&line, '[');
    for (size_t i = 0; i < app_count(); i++)
        put_app(&line, app_at(i));
    json_close(&line, ']');
    return output_finish(&line);
}

static void put_answer(struct json *line, const char *spec, int ranks)
{
    struct run run = {.ranks = ranks};
    char error[ARGUMENTS_ERROR] = "";
    char reason[APP_REASON] = "";
    const bool known = arguments_parse(spec, &run, error);
    const bool suits = known && run.app->suits(&run, reason);
    json_open(line, '{');
    json_put_string(line, "spec", spec);
    json_put_bool(line, "suits", suits);
    json_put_string(line, "reason", suits ? NULL : known ? reason : error);
    json_put_number(line, "memory_bytes", suits ? run.app->memory_bytes(&run) : 0.0);
    json_close(line, '}');
}

bool arguments_answer(const char *ranks, int count, char *const *specs)
{
    char *end = NULL;
    errno = 0;
    const long number = strtol(ranks, &end, 10);
    if (errno != 0 || end == ranks || *end != '\0' || number < 1 || number > 1 << 24) {
        fprintf(stderr, "tare-miniapps: %.40s is no number of ranks\n", ranks);
        return false;
    }
    struct json line = output_begin("answers");
    json_put_integer(&line, "ranks", number);
    json_key(&line, "answers");
    json_open(&line, '[');
    for (int i = 0; i < count; i++)
        put_answer(&line, specs[i], (int)number);
    json_close(&line, ']');
    return output_finish(&line);
}
