/* Reads the members that limit answers, in a table by their names. An answer has one limit: a
 * second one is refused, and so is one whose form is not known. */
#define _POSIX_C_SOURCE 200809L
#include "requests/limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "requests/members.h"

static const char schema_wanted[] = "an object, true or false";

/* Takes the text, which may be NULL for a lack of memory. */
static int limits_add_text(const char *name, char *text, riffle_grammar_kind kind,
                           struct question *question, struct refusal *refusal)
{
    if (!text) return refuse_memory(refusal);
    if (question->schema || question->generate.ignore_eos) {
        refuse(refusal, 400, "invalid_value", "%.60s is beside %s", name,
               question->schema ? question->limited_by : "ignore_eos");
        free(text);
        return refuse_param(refusal, name);
    }
    question->limited_by = name;
    question->schema = text;
    question->schema_kind = kind;
    return 0;
}

int limits_add(const char *name, const json_t *schema, riffle_grammar_kind kind,
               struct question *question, struct refusal *refusal)
{
    char *text = schema ? rf_json_dump(schema, 0, NULL) : NULL;
    return limits_add_text(name, text, kind, question, refusal);
}

/* ---- kinds of limits; each takes the value of the member `name` ---- */

typedef int limit_fn(const char *name, const json_t *value, struct question *question,
                     struct refusal *refusal);

static int limit_by_schema(const char *name, const json_t *value, struct question *question,
                           struct refusal *refusal)
{
    const char *text = rf_json_c_string(value);
    if (text) /* vLLM: the schema's JSON as a text */
        return limits_add_text(name, strdup(text), RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal);
    if (!rf_json_is_map(value) && !json_is_boolean(value))
        return refuse_value(refusal, name, schema_wanted);
    return limits_add(name, value, RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal);
}

static int limit_by_grammar(const char *name, const json_t *value, struct question *question,
                            struct refusal *refusal)
{
    const char *text = rf_json_c_string(value);
    if (!text) return refuse_value(refusal, name, "a grammar in GBNF, as a text");
    return limits_add_text(name, strdup(text), RIFFLE_GRAMMAR_GBNF, question, refusal);
}

static int limit_by_regex(const char *name, const json_t *value, struct question *question,
                          struct refusal *refusal)
{
    if (!json_is_string(value)) return refuse_value(refusal, name, "a regular expression");
    json_t *choice = json_pack("[[{s:O}]]", "pattern", value);
    int code = limits_add(name, choice, RIFFLE_GRAMMAR_CHOICE, question, refusal);
    json_decref(choice);
    return code;
}

static int limit_by_choice(const char *name, const json_t *value, struct question *question,
                           struct refusal *refusal)
{
    size_t n = json_is_array(value) ? json_array_size(value) : 0;
    json_t *choice = json_array();
    for (size_t i = 0; i < n && json_is_string(json_array_get(value, i)); i++)
        json_array_append_new(choice, json_pack("[{s:O}]", "text", json_array_get(value, i)));
    int code = n && json_array_size(choice) == n
                   ? limits_add(name, choice, RIFFLE_GRAMMAR_CHOICE, question, refusal)
                   : refuse_value(refusal, name, "an array of texts");
    json_decref(choice);
    return code;
}

static int limit_to_object(const char *name, const json_t *value, struct question *question,
                           struct refusal *refusal)
{
    if (json_is_false(value)) return 0;
    if (!json_is_true(value)) return refuse_value(refusal, name, "true or false");
    json_t *object = json_pack("{s:s}", "type", "object");
    int code = limits_add(name, object, RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal);
    json_decref(object);
    return code;
}

/* ---- response_format ---- */

/* Members of the format that would limit the answer, and that its type does not read. */
static int check_format(const json_t *format, const char *read, const char *also,
                        struct refusal *refusal)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)format, name, value)
    {
        if (json_is_null(value) || strcmp(name, "type") == 0) continue;
        if (strcmp(name, read) == 0 || strcmp(name, also) == 0) continue;
        refuse(refusal, 400, "unsupported_parameter",
               "response_format.%.100s is not supported beside this type", name);
        return refuse_param(refusal, "response_format");
    }
    return 0;
}

static int limit_by_format(const char *name, const json_t *format, struct question *question,
                           struct refusal *refusal)
{
    const char *type = rf_json_c_string(json_object_get(format, "type"));
    const json_t *schema = member_get(format, "schema"), /* llama.cpp's */
        *named = member_get(format, "json_schema");
    if (type && strcmp(type, "text") == 0) return check_format(format, "", "", refusal);
    if (type && strcmp(type, "json_object") == 0) {
        if (check_format(format, "schema", "", refusal)) return -1;
        if (!schema) return limit_to_object(name, json_true(), question, refusal);
        return rf_json_is_map(schema)
                   ? limits_add(name, schema, RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal)
                   : refuse_value(refusal, "response_format.schema", "an object");
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return refuse_value(refusal, "response_format.type", "text, json_object or json_schema");
    if (check_format(format, "schema", "json_schema", refusal)) return -1;
    if (named) schema = json_object_get(named, "schema");
    if (!rf_json_is_map(schema) && !json_is_boolean(schema))
        return refuse_value(refusal, "response_format.json_schema.schema", schema_wanted);
    return limits_add(name, schema, RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal);
}

/* ---- the tables ---- */

struct limit {
    const char *name;
    limit_fn *take;
};

/* vLLM's object of limits: {"json": ...}, {"regex": ...} and so on. */
static int limit_by_structure(const char *name, const json_t *value, struct question *question,
                              struct refusal *refusal)
{
    static const struct limit kinds[] = {{"choice", limit_by_choice},
                                         {"grammar", limit_by_grammar},
                                         {"json", limit_by_schema},
                                         {"json_object", limit_to_object},
                                         {"regex", limit_by_regex}};
    const char *key;
    json_t *member;
    if (!rf_json_is_map(value)) return refuse_value(refusal, name, "an object");
    json_object_foreach((json_t *)value, key, member)
    {
        size_t k = 0;
        if (json_is_null(member) || json_is_false(member)) continue;
        while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].name, key) != 0) k++;
        if (k == sizeof kinds / sizeof *kinds) {
            refuse(refusal, 400, "unsupported_parameter", "%s.%.100s is not supported", name, key);
            return refuse_param(refusal, name);
        }
        if (kinds[k].take(name, member, question, refusal)) return -1;
    }
    return 0;
}

static const struct limit limits[] = {
    {"response_format", limit_by_format},      {"grammar", limit_by_grammar},
    {"json_schema", limit_by_schema},          {"guided_choice", limit_by_choice},
    {"guided_grammar", limit_by_grammar},      {"guided_json", limit_by_schema},
    {"guided_json_object", limit_to_object},   {"guided_regex", limit_by_regex},
    {"structured_outputs", limit_by_structure}};

int limits_take(const json_t *body, struct question *question, struct refusal *refusal)
{
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const json_t *value = member_get(body, limits[i].name);
        /* The empty values are those that ask for nothing (requests/accepted.c). */
        int is_empty =
            json_is_false(value) || (json_is_string(value) && !json_string_length(value));
        if (!value || is_empty) continue;
        if (limits[i].take(limits[i].name, value, question, refusal)) return -1;
    }
    return 0;
}
