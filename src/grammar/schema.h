/* The parts of the reader of JSON schemas, each above the ones that it calls: choice.c (choices
 * with schemas in them), schema.c (branches and values), schema_containers.c, schema_scalars.c,
 * schema_keywords.c (conjunctions, sentences).
 *
 * Functions that make expressions return one without a text where no value meets the schema, and
 * NULL after a failure, which is in reader->ir. */
#ifndef RF_GRAMMAR_SCHEMA_H
#define RF_GRAMMAR_SCHEMA_H

#include "grammar/json_text.h"
#include "model/json.h"
#include "model/reader.h"

enum {
    RF_SCHEMA_MEMBERS = 24, /* schemas of a conjunction */
    RF_SCHEMA_NESTING = 200 /* schemas in each other */
};

enum rf_json_type {
    RF_JSON_NULL = 1,
    RF_JSON_BOOLEAN = 2,
    RF_JSON_OBJECT = 4,
    RF_JSON_ARRAY = 8,
    RF_JSON_STRING = 16,
    RF_JSON_INTEGER = 32,
    RF_JSON_FRACTION = 64, /* numbers that are no integers */
    RF_JSON_NUMBER = RF_JSON_INTEGER | RF_JSON_FRACTION,
    RF_JSON_ANY = 127
};

struct rf_schema_member {
    const struct rf_json *schema;
    const char *pointer; /* lives in the ir's arena */
    int branched;        /* 1: anyOf, 2: oneOf was taken already */
};

struct rf_conjunction {
    struct rf_schema_member members[RF_SCHEMA_MEMBERS];
    int32_t n;
    int is_false; /* a schema of it is `false` */
    int is_plain; /* strings are written as they are, without r->until in them */
};

/* A conjunction that has its rule. */
struct rf_schema_known {
    struct rf_schema_known *next;
    struct rf_conjunction *of;
    int32_t rule;
    int is_none;
};

struct rf_schema_reader {
    struct rf_ir *ir;
    const struct rf_json *root;
    struct rf_schema_known *known;
    /* Makes the values that meet all members. Arrays and objects call it for their contents. */
    const struct rf_expr *(*value)(struct rf_schema_reader *r, const struct rf_conjunction *c);
    int depth;
    char why[400]; /* the last reason why something has no value */
    const struct rf_expr *space, *blank, *character; /* made once */
    int32_t string_rule, number_rule, integer_rule;  /* -1: not made yet */
    struct rf_str until;                             /* end of plain strings */
    const struct rf_json *given;                     /* the schema whose properties are meant */
    int (*is_token)(const void *vocab,
                    struct rf_str text); /* set by rf_choice_read, with `vocab` */
    const void *vocab;
};

/* The strictest of all members: the greatest of `least_key`, the least of `most_key`. */
struct rf_schema_limits {
    int64_t least, most; /* -1: without a limit */
    const char *pointer; /* place of the last limit */
};

/* Collects the parts of a choice, any number of them. */
struct rf_schema_parts {
    const struct rf_expr *items[64];
    size_t n;
};

/* ---- schema_keywords.c ---- */

/* Memory that lives as long as the grammar is read. NULL after a failure. */
void *rf_schema_take(struct rf_schema_reader *r, size_t count, size_t size);
/* JSON pointers with one more part. */
const char *rf_pointer_to(struct rf_schema_reader *r, const char *pointer, const char *key);
const char *rf_pointer_at(struct rf_schema_reader *r, const char *pointer, size_t index);
/* Fails: the sentence names the pointer. */
void rf_schema_bad(struct rf_schema_reader *r, int code, const char *pointer, const char *problem);
/* An expression without a text, and the reason. */
const struct rf_expr *rf_schema_none(struct rf_schema_reader *r, const char *pointer,
                                     const char *reason);
/* Adds an alternative to a choice, unless it has no text. */
void rf_schema_add_part(struct rf_schema_reader *r, struct rf_schema_parts *parts,
                        const struct rf_expr *part);
const struct rf_expr *rf_schema_choice(struct rf_schema_reader *r,
                                       const struct rf_schema_parts *parts);
/* Adds a schema and the schemas that it refers to. */
void rf_schema_add(struct rf_schema_reader *r, struct rf_conjunction *c, struct rf_schema_member m,
                   int depth);
struct rf_conjunction rf_conjunction_new(struct rf_schema_reader *r, const struct rf_json *schema,
                                         const char *pointer);
/* The place that sentences name. */
const char *rf_conjunction_pointer(const struct rf_conjunction *c);
/* The keyword's value as a count; -1: it has none. */
int64_t rf_schema_count(struct rf_schema_reader *r, const struct rf_schema_member *m,
                        const char *key);
struct rf_schema_limits rf_schema_counts(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                         const char *least_key, const char *most_key);
/* Types are bits of enum rf_json_type: those that a schema allows; those that all members allow
 * (where none names a type, those that keywords are about); that of a value. */
int rf_schema_types(struct rf_schema_reader *r, const struct rf_schema_member *m);
int rf_conjunction_types(struct rf_schema_reader *r, const struct rf_conjunction *c);
int rf_json_type(const struct rf_json *value);

/* ---- schema_scalars.c ---- */

/* Whether enum and const, where there are such, list the value. */
int rf_schema_lists(struct rf_schema_reader *r, const struct rf_json *schema,
                    const struct rf_json *value);
/* The values that `m` lists, as far as they meet all members. */
const struct rf_expr *rf_schema_listed(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                       const struct rf_schema_member *m);
const struct rf_expr *rf_schema_quoted(struct rf_schema_reader *r, const struct rf_expr *inside);
const struct rf_expr *rf_schema_any_string(struct rf_schema_reader *r);
const struct rf_expr *rf_schema_string(struct rf_schema_reader *r, const struct rf_conjunction *c);
const struct rf_expr *rf_schema_number(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                       int types);

/* ---- schema_containers.c ---- */

const struct rf_expr *rf_schema_array(struct rf_schema_reader *r, const struct rf_conjunction *c);
const struct rf_expr *rf_schema_object(struct rf_schema_reader *r, const struct rf_conjunction *c);

/* ---- schema.c ---- */

typedef const struct rf_expr *rf_schema_make_fn(struct rf_schema_reader *r,
                                                const struct rf_json *document);
/* Reads the text, has `make` make the grammar's root of it, and returns the ir's code. */
int rf_schema_read_document(struct rf_schema_reader *r, struct rf_str text,
                            rf_schema_make_fn *make);
/* JSON that meets the schema, or the value of its property. References begin at the schema itself.
 * `is_plain`: see the conjunction. */
const struct rf_expr *rf_schema_root(struct rf_schema_reader *r, const struct rf_json *schema);
const struct rf_expr *rf_schema_property(struct rf_schema_reader *r, const struct rf_json *schema,
                                         struct rf_str name, int is_plain);

#endif
