/* Writes calls by the row of their form: those of earlier messages as text, and those that an
 * answer must have as a grammar. */
#include <stdlib.h>
#include <string.h>

#include "answers/tool_forms.h"
#include "answers/tool_values.h"
#include "answers/tools.h"
#include "base/json.h"
#include "platform/memory.h"

struct text {
    struct rf_bytes bytes;
    struct rf_error error;
    struct rf_writer out;
};

static void text_begin(struct text *text)
{
    *text = (struct text){.out = {.allocator = &rf_system_allocator}};
    text->out.bytes = &text->bytes;
    text->out.error = &text->error;
}

static void text_add(struct text *text, const char *more)
{
    if (more) rf_write_text(&text->out, more);
}

/* The text, for free(); NULL: out of memory. */
static char *text_end(struct text *text)
{
    char *copy = text->out.code ? NULL : malloc(text->bytes.count + 1);
    if (copy && text->bytes.count) memcpy(copy, text->bytes.data, text->bytes.count);
    if (copy) copy[text->bytes.count] = '\0';
    rf_bytes_free(&rf_system_allocator, &text->bytes);
    return copy;
}

/* ---- what every call has ---- */

static void write_open(const struct tool_form *form, struct text *text)
{
    if (form->is_untagged) return;
    text_add(text, form->tags[0].open);
    if (form->has_lines) text_add(text, "\n");
}

static void write_close(const struct tool_form *form, struct text *text)
{
    if (form->is_untagged) return;
    if (form->has_lines && text->bytes.count && text->bytes.data[text->bytes.count - 1] != '\n')
        text_add(text, "\n");
    text_add(text, form->tags[0].close);
}

/* Up to the arguments, of forms whose names are JSON. */
static void write_object_begin(const struct tool_form *form, const char *name, struct text *text)
{
    text_add(text, "{");
    if (form->name_key) {
        rf_json_put_string(form->name_key, strlen(form->name_key), &text->out);
        text_add(text, ": ");
    }
    rf_json_put_string(name, strlen(name), &text->out);
    if (form->name_key) {
        text_add(text, ", ");
        rf_json_put_string(form->arguments_key, strlen(form->arguments_key), &text->out);
    }
    text_add(text, ": ");
}

/* ---- earlier calls ---- */

static void write_pairs(const struct tool_form *form, const json_t *arguments, struct text *text)
{
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)arguments, key, value)
    {
        int is_plain = json_is_string(value) && (form->body == TOOL_PAIRS || form->quote);
        if (form->body == TOOL_LITERALS && n++) text_add(text, ", ");
        text_add(text, form->key);
        text_add(text, key);
        text_add(text, form->key_end);
        text_add(text, form->value);
        if (is_plain) text_add(text, form->quote);
        if (is_plain)
            rf_write(&text->out, json_string_value(value), json_string_length(value));
        else
            rf_json_put(value, 1, &text->out);
        if (is_plain) text_add(text, form->quote);
        text_add(text, form->value_end);
    }
}

static void write_call(const struct tool_form *form, const json_t *call, struct text *text)
{
    const json_t *function = json_object_get(call, "function"),
                 *given = json_object_get(function, "arguments");
    const char *name = rf_json_c_string(json_object_get(function, "name"));
    json_t *arguments = json_is_string(given) ? rf_json_load(json_string_value(given),
                                                             json_string_length(given), NULL, NULL)
                                              : json_incref((json_t *)(uintptr_t)given);
    json_t *none = arguments ? NULL : json_object();
    if (!arguments) arguments = none;
    if (!name) name = "";
    if (form->body == TOOL_OBJECTS) {
        write_object_begin(form, name, text);
        rf_json_put(arguments, 1, &text->out);
        text_add(text, "}");
    } else {
        text_add(text, form->call);
        text_add(text, form->name);
        text_add(text, name);
        text_add(text, form->name_end);
        if (form->body == TOOL_NAMED)
            rf_json_put(arguments, 1, &text->out);
        else
            write_pairs(form, arguments, text);
        text_add(text, form->call_end);
    }
    json_decref(arguments);
}

/* Whether several calls stand between one pair of tags. */
static int shares_tags(const struct tool_form *form)
{
    return form->is_list || (form->call && form->body != TOOL_OBJECTS &&
                             strcmp(form->tags[0].open, "<tool_call>") != 0);
}

char *rf_tools_write(const struct tool_form *form, const json_t *calls)
{
    struct text text;
    size_t n = json_array_size(calls);
    text_begin(&text);
    for (size_t i = 0; i < n; i++) {
        int is_first = !i || !shares_tags(form), is_last = i + 1 == n || !shares_tags(form);
        if (i && is_first && form->has_lines) text_add(&text, "\n");
        if (is_first) write_open(form, &text);
        if (form->is_list) text_add(&text, is_first ? "[" : ", ");
        write_call(form, json_array_get(calls, i), &text);
        if (is_last && form->is_list) text_add(&text, "]");
        if (is_last) write_close(form, &text);
    }
    return text_end(&text);
}

/* ---- calls that must come ---- */

char *rf_tools_opening(const struct tool_form *form)
{
    struct text text;
    text_begin(&text);
    write_open(form, &text);
    if (form->body != TOOL_OBJECTS) {
        if (form->is_list) text_add(&text, "[");
        text_add(&text, form->call);
        text_add(&text, form->name);
    }
    return text_end(&text);
}

/* Takes the part. */
static void add_choice_part(json_t *parts, const char *kind, json_t *value)
{
    json_array_append_new(parts, json_pack("{s:o}", kind, value));
}

static void add_text(json_t *parts, const char *text, size_t n)
{
    if (n) add_choice_part(parts, "text", json_stringn(text, n));
}

/* The bytes of what looks like a control token, "<...>" or "[...]"; 0: it is none. */
static size_t control_length(const char *text)
{
    size_t n = *text == '<' ? strcspn(text, ">") : *text == '[' ? strcspn(text, "]") : 0;
    return n && text[n] ? n + 1 : 0;
}

/* A text that may have control tokens in it. */
static void add_tag(json_t *parts, const char *text)
{
    while (text && *text) {
        size_t n = 0, control;
        while (text[n] && !control_length(text + n)) n++;
        add_text(parts, text, n);
        text += n;
        control = control_length(text);
        if (control) add_choice_part(parts, "token", json_stringn(text, control));
        text += control;
    }
}

/* The text that ends a plain string: a tag's, up to where its first character comes again. */
static json_t *end_of_strings(const struct tool_form *form)
{
    const char *end = form->quote ? form->quote : form->value_end;
    while (*end == '\n') end++;
    size_t n = 1;
    while (end[n] && end[n] != '\n' && end[n] != *end) n++;
    return json_stringn(end, n);
}

static void add_value(json_t *parts, const struct tool_form *form, const json_t *parameters,
                      const char *name, const json_t *property)
{
    int types = rf_tool_types(property, parameters);
    int is_plain =
        form->body == TOOL_PAIRS ? types & TOOL_STRING : form->quote && types == TOOL_STRING;
    if (is_plain) add_tag(parts, form->quote);
    if (!property && is_plain) /* required, but not described */
        add_choice_part(parts, "without", end_of_strings(form));
    else if (!property)
        add_choice_part(parts, "schema", json_object());
    else
        json_array_append_new(parts, json_pack("{s:s, s:o*}", "property", name, "until",
                                               is_plain ? end_of_strings(form) : NULL));
    if (is_plain) add_tag(parts, form->quote);
}

static json_t *pair_parts(const struct tool_form *form, const json_t *parameters, const char *name,
                          const json_t *property, int has_comma)
{
    json_t *parts = json_array();
    if (has_comma) add_text(parts, ", ", 2);
    add_tag(parts, form->key);
    add_text(parts, name, strlen(name));
    add_tag(parts, form->key_end);
    add_tag(parts, form->value);
    add_value(parts, form, parameters, name, property);
    add_tag(parts, form->value_end);
    return parts;
}

/* The names that a schema requires, as members of an object. */
static json_t *required_names(const json_t *parameters)
{
    const json_t *list = json_object_get(parameters, "required");
    json_t *names = json_object();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = rf_json_c_string(json_array_get(list, i));
        if (name) json_object_set_new(names, name, json_true());
    }
    return names;
}

/* Pairs of literals have commas between them, so those that may be missing come last, and where
 * all may be missing, the others follow the first. Pairs between tags keep the schema's order. */
static void add_pair_parts(json_t *parts, const struct tool_form *form, const json_t *parameters)
{
    json_t *properties = json_object_get(parameters, "properties"), *property;
    json_t *required = required_names(parameters), *is_there;
    int n = 0, has_commas = form->body == TOOL_LITERALS;
    const char *name;
    for (int turn = has_commas ? 1 : 0; turn >= 0; turn--)
        json_object_foreach(properties, name, property)
        {
            int must = json_object_get(required, name) != NULL;
            if (has_commas && must != turn) continue;
            json_t *pair = pair_parts(form, parameters, name, property, has_commas && n);
            if (must) {
                json_array_extend(parts, pair);
            } else {
                json_array_append_new(parts, json_pack("{s:O}", "optional", pair));
                if (has_commas && !n) parts = pair; /* it lives on in the list */
            }
            json_decref(pair);
            n++;
        }
    json_object_foreach(required, name, is_there)
    {
        if (json_object_get(properties, name)) continue;
        json_t *pair = pair_parts(form, parameters, name, NULL, has_commas && n++);
        json_array_extend(parts, pair);
        json_decref(pair);
    }
    json_decref(required);
}

static json_t *call_parts(const struct tool_form *form, const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    const json_t *given = json_object_get(function, "parameters");
    json_t *parts = json_array(), *schema = rf_json_is_map(given)
                                                ? json_incref((json_t *)(uintptr_t)given)
                                                : json_pack("{s:s}", "type", "object");
    if (form->body == TOOL_OBJECTS) {
        struct text text;
        text_begin(&text);
        if (form->is_list) text_add(&text, "[");
        write_object_begin(form, name, &text);
        char *begin = text_end(&text);
        if (begin) add_text(parts, begin, strlen(begin));
        free(begin);
        add_choice_part(parts, "schema", json_incref(schema));
        add_text(parts, "}]", form->is_list ? 2 : 1);
    } else {
        add_text(parts, name, strlen(name));
        add_tag(parts, form->name_end);
        if (form->body == TOOL_NAMED) {
            add_choice_part(parts, "schema", json_incref(schema));
        } else {
            add_choice_part(parts, "given", json_incref(schema));
            add_pair_parts(parts, form, schema);
            add_tag(parts, form->call_end);
            if (form->is_list) add_text(parts, "]", 1);
            add_tag(parts, form->tags[0].close);
        }
    }
    json_decref(schema);
    return parts;
}

json_t *rf_tools_grammar(const struct tool_form *form, const json_t *tools, const char *name)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        int is_wanted = !name || rf_tools_find(tools, name) == function;
        if (is_wanted && json_array_append_new(calls, call_parts(form, function))) {
            json_decref(calls);
            return NULL;
        }
    }
    return calls;
}
