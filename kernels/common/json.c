#include "common/json.h"

#include "common/base64.h"
#include "common/fatal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return room for `extra` more bytes and a NUL, at the end of the text. */
static char *reserve(struct json *json, size_t extra)
{
    const size_t needed = json->length + extra + 1;
    if (needed > json->capacity) {
        const size_t capacity = needed > 2 * json->capacity ? needed + 256 : 2 * json->capacity;
        char *text = realloc(json->text, capacity);
        if (text == NULL)
            FATAL("out of memory for output");
        json->text = text;
        json->capacity = capacity;
    }
    return json->text + json->length;
}

void json_free(struct json *json)
{
    free(json->text);
    *json = (struct json){0};
}

void json_raw(struct json *json, const char *text, size_t length)
{
    char *end = reserve(json, length);
    memcpy(end, text, length);
    end[length] = '\0';
    json->length += length;
}

static void raw_text(struct json *json, const char *text)
{
    json_raw(json, text, strlen(text));
}

static void begin_value(struct json *json)
{
    if (json->after_value)
        raw_text(json, ",");
    json->after_value = true;
}

void json_value(struct json *json, const char *text)
{
    begin_value(json);
    raw_text(json, text);
}

void json_open(struct json *json, char bracket)
{
    begin_value(json);
    json_raw(json, &bracket, 1);
    json->after_value = false;
}

void json_close(struct json *json, char bracket)
{
    json_raw(json, &bracket, 1);
    json->after_value = true;
}

/* Return the length of the UTF-8 sequence that starts here, 0 when it is none. */
static size_t utf8_length(const unsigned char *text)
{
    size_t length = 0;
    uint32_t code = 0;
    if (text[0] < 0x80)
        return 1;
    if (text[0] >= 0xC2 && text[0] <= 0xDF) {
        length = 2;
        code = text[0] & 0x1FU;
    } else if (text[0] >= 0xE0 && text[0] <= 0xEF) {
        length = 3;
        code = text[0] & 0x0FU;
    } else if (text[0] >= 0xF0 && text[0] <= 0xF4) {
        length = 4;
        code = text[0] & 0x07U;
    } else {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) /* also stops at the NUL */
            return 0;
        code = code << 6 | (text[i] & 0x3FU);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

static void quoted(struct json *json, const char *value)
{
    raw_text(json, "\"");
    for (const char *at = value; *at != '\0';) {
        const unsigned char byte = (unsigned char)*at;
        const size_t length = utf8_length((const unsigned char *)at);
        if (byte == '"' || byte == '\\') {
            const char escape[] = {'\\', *at};
            json_raw(json, escape, sizeof escape);
        } else if (byte < 0x20 || byte == 0x7F) {
            char escape[8];
            const int written = snprintf(escape, sizeof escape, "\\u%04x", (unsigned)byte);
            json_raw(json, escape, (size_t)written);
        } else if (length == 0) {
            raw_text(json, "\\ufffd");
        } else {
            json_raw(json, at, length);
        }
        at += length == 0 ? 1 : length;
    }
    raw_text(json, "\"");
}

void json_key(struct json *json, const char *key)
{
    begin_value(json);
    quoted(json, key);
    raw_text(json, ":");
    json->after_value = false;
}

void json_string(struct json *json, const char *value)
{
    if (value == NULL) {
        json_null(json);
        return;
    }
    begin_value(json);
    quoted(json, value);
}

void json_integer(struct json *json, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    json_value(json, text);
}

void json_unsigned(struct json *json, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    json_value(json, text);
}

void json_number(struct json *json, double value)
{
    char text[40];
    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    /* The shortest of these that reads back as the same number; 17 digits always do. */
    int digits = 15;
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while (digits++ < 17 && strtod(text, NULL) != value);
    json_value(json, text);
}

void json_bool(struct json *json, bool value)
{
    json_value(json, value ? "true" : "false");
}

void json_null(struct json *json)
{
    json_value(json, "null");
}

void json_base64_doubles(struct json *json, const double *values, size_t count)
{
    begin_value(json);
    raw_text(json, "\"");
    const size_t length = base64_length(count * sizeof values[0]);
    base64_encode_doubles(reserve(json, length), values, count);
    json->length += length;
    json->text[json->length] = '\0';
    raw_text(json, "\"");
}

void json_put_string(struct json *json, const char *key, const char *value)
{
    json_key(json, key);
    json_string(json, value);
}

void json_put_integer(struct json *json, const char *key, int64_t value)
{
    json_key(json, key);
    json_integer(json, value);
}

void json_put_number(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_number(json, value);
}

void json_put_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_put_null(struct json *json, const char *key)
{
    json_key(json, key);
    json_null(json);
}

void json_put_numbers(struct json *json, const char *key, const double *values, size_t count)
{
    json_key(json, key);
    json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        json_number(json, values[i]);
    json_close(json, ']');
}
