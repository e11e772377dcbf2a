/* The Jinja of chat templates: the language of jinja2 with the settings and functions that
 * transformers gives it (trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson,
 * raise_exception, strftime_now, an immutable sandbox).
 *
 * Each byte of a rendering knows its origin: 0 for text of the template, else what the caller gave
 * with a string. Rendering is bounded in work, memory and depth. */
#ifndef RF_TEMPLATE_JINJA_H
#define RF_TEMPLATE_JINJA_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/json.h"
#include "model/str.h"

/* A compiled template. Immutable; threads may share it. */
struct rf_jinja_template;

/* Fails with RF_ERR_UNSUPPORTED, and a sentence with the line, where jinja2 refuses the source or
 * the language ends that is known here. */
int rf_jinja_compile(struct rf_jinja_template **out, const char *source, size_t source_bytes,
                     const struct rf_allocator *allocator, struct rf_error *error);
void rf_jinja_free(struct rf_jinja_template *compiled);

/* Asked from time to time while a template renders; non-zero: the rendering fails with
 * RF_ERR_CANCELLED. */
struct rf_jinja_stop {
    int (*asked)(void *user);
    void *user;
};

/* A rendering, and the values that it is made of. They live until rf_jinja_end. */
struct rf_jinja_run;

enum rf_jinja_type {
    RF_JINJA_UNDEFINED, /* `data` and `bytes`: the name that is missing */
    RF_JINJA_NONE,
    RF_JINJA_BOOL,
    RF_JINJA_INT,
    RF_JINJA_FLOAT,
    RF_JINJA_STRING,
    RF_JINJA_LIST,
    RF_JINJA_TUPLE,
    RF_JINJA_DICT,
    RF_JINJA_NAMESPACE,
    RF_JINJA_LOOP,
    RF_JINJA_CALLABLE,
    RF_JINJA_BIG /* `data` and `bytes`: the digits of an integer beyond 64 bits, maybe with '-' */
};

struct rf_jinja_value {
    uint8_t type;
    uint8_t origin; /* string without `origins`: the origin of all its bytes */
    uint8_t marked; /* string: HTML, which is not escaped again; tuple: a group of groupby */
    union {
        int64_t integer; /* integer or bool */
        double real;
        const char *data; /* UTF-8, with stray bytes where the caller's text has them */
        struct rf_jinja_list *list;
        struct rf_jinja_dict *dict; /* dict or namespace */
        struct rf_jinja_loop *loop;
        const struct rf_jinja_callable *callable;
    } u;
    size_t bytes;           /* string: its length */
    const uint8_t *origins; /* one for each byte, or NULL */
};

/* strftime_now states the time `now`, in seconds of Unix, in the local zone. */
int rf_jinja_begin(struct rf_jinja_run **run, const struct rf_jinja_template *compiled, int64_t now,
                   const struct rf_allocator *allocator, struct rf_error *error);
void rf_jinja_end(struct rf_jinja_run *run);

/* Values. A string borrows its bytes. After a failure, which the rendering reports, they are
 * undefined values. */
struct rf_jinja_value rf_jinja_none(void);
struct rf_jinja_value rf_jinja_bool(int flag);
struct rf_jinja_value rf_jinja_integer(int64_t integer);
struct rf_jinja_value rf_jinja_real(double real);
struct rf_jinja_value rf_jinja_string(struct rf_str text, uint8_t origin);
struct rf_jinja_value rf_jinja_list(struct rf_jinja_run *run);
struct rf_jinja_value rf_jinja_dict(struct rf_jinja_run *run);
void rf_jinja_add(struct rf_jinja_run *run, struct rf_jinja_value list, struct rf_jinja_value item);
void rf_jinja_put(struct rf_jinja_run *run, struct rf_jinja_value dict, const char *key,
                  struct rf_jinja_value value);
/* The value of a JSON document. Its strings, also the keys, have the origin. */
struct rf_jinja_value rf_jinja_from_json(struct rf_jinja_run *run, const struct rf_json *json,
                                         uint8_t origin);
/* Sets a variable of the template. */
void rf_jinja_set(struct rf_jinja_run *run, const char *name, struct rf_jinja_value value);

/* Has the rendering end early where somebody asks for it. */
void rf_jinja_set_stop(struct rf_jinja_run *run, struct rf_jinja_stop stop);

/* Renders once. The text is a string that lives until rf_jinja_end. RF_ERR_ARGUMENT with the line
 * when the template raises an exception or does not go with the values, RF_ERR_UNSUPPORTED beyond
 * the bounds of time and memory. */
int rf_jinja_render(struct rf_jinja_run *run, struct rf_jinja_value *text);

#endif
