/* Strings in files: bytes with a length. */
#ifndef RF_MODEL_STR_H
#define RF_MODEL_STR_H

#include <stddef.h>
#include <string.h>

struct rf_str {
    const char *data; /* not terminated; any bytes */
    size_t bytes;
};

static inline struct rf_str rf_str_of(const char *text)
{
    struct rf_str string = {text, strlen(text)};
    return string;
}

/* Orders by bytes, a prefix first: < 0, 0 or > 0. */
static inline int rf_str_order(struct rf_str a, struct rf_str b)
{
    size_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static inline int rf_str_same(struct rf_str a, struct rf_str b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static inline int rf_str_is(struct rf_str string, const char *text)
{
    return rf_str_same(string, rf_str_of(text));
}

static inline int rf_ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

/* Bytes of a file's string that an error sentence shows with "%.*s". */
static inline int rf_shown_up_to(struct rf_str string, size_t most)
{
    return (int)(string.bytes < most ? string.bytes : most);
}

static inline int rf_shown(struct rf_str string)
{
    return rf_shown_up_to(string, 64);
}

#endif
