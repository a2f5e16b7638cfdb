/* Write JSON into a growing buffer. Commas are placed by the writer; numbers are always finite. */
#ifndef TARE_JSON_H
#define TARE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text; /* always NUL-terminated after the first write */
    size_t length;
    size_t capacity;
    bool after_value; /* the next value needs a comma */
};

/* Give the memory back and make the buffer empty. */
void json_free(struct json *json);

/* Append bytes as they are: for a line's prefix, or for JSON made elsewhere. */
void json_raw(struct json *json, const char *text, size_t length);

/* Append a whole value that is JSON already. */
void json_value(struct json *json, const char *text);

void json_open(struct json *json, char bracket);  /* '{' or '[' */
void json_close(struct json *json, char bracket); /* '}' or ']' */
void json_key(struct json *json, const char *key);

/* Strings: control characters are escaped, bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *json, const char *value); /* NULL gives null */
void json_integer(struct json *json, int64_t value);
void json_unsigned(struct json *json, uint64_t value);
void json_number(struct json *json, double value); /* null when not finite */
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
/* A base64 string of doubles, little-endian. */
void json_base64_doubles(struct json *json, const double *values, size_t count);

/* A key and its value at once. */
void json_put_string(struct json *json, const char *key, const char *value);
void json_put_integer(struct json *json, const char *key, int64_t value);
void json_put_number(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_null(struct json *json, const char *key);
void json_put_numbers(struct json *json, const char *key, const double *values, size_t count);

#endif
