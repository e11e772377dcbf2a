/* Keeps the list of a conversation's parts and whether each was seen in a rendering. Origins repeat
 * after 254 parts; then a group of bytes counts for one part, and the words decide what is in
 * doubt. chat_template.c calls it. */
#include "template/chat_shown.h"

#include <stdio.h>
#include <string.h>

enum part_kind { PART_CONTENT, PART_CALLS, PART_TOOLS, PART_DOCUMENTS };

struct part {
    enum part_kind kind;
    int is_missing;
    size_t message; /* number from 1; 0: none */
    struct rf_str role;
    char word[32]; /* in the second rendering */
};

struct rf_shown {
    const struct rf_allocator *allocator;
    struct part *parts; /* [n] */
    size_t n, cap;
    size_t next;   /* second rendering: the part that comes next */
    int has_words; /* the second rendering */
    int code;
    struct rf_error error;
};

static const char word_begin[] = "rfprobe";

int rf_shown_new(struct rf_shown **shown, const struct rf_allocator *allocator,
                 struct rf_error *error)
{
    *shown = rf_calloc(allocator, 1, sizeof **shown, "parts of a conversation", error);
    if (!*shown) return RF_ERR_MEMORY;
    (*shown)->allocator = allocator;
    return 0;
}

void rf_shown_free(struct rf_shown *shown)
{
    rf_free(shown->allocator, shown->parts);
    rf_free(shown->allocator, shown);
}

int rf_shown_failed(const struct rf_shown *shown, struct rf_error *error)
{
    if (shown->code) *error = shown->error;
    return shown->code;
}

static int is_blank(struct rf_str text)
{
    size_t n = 0;
    while (n < text.bytes && strchr(" \t\r\n\v\f", text.data[n]) && text.data[n]) n++;
    return n == text.bytes;
}

static uint8_t origin_of(size_t part)
{
    return (uint8_t)(RF_ORIGIN_PART + part % (RF_ORIGINS - RF_ORIGIN_PART));
}

/* The next part, in both renderings; NULL: no memory. */
static struct part *next_part(struct rf_shown *shown, enum part_kind kind, size_t message,
                              struct rf_str role)
{
    if (shown->has_words) return shown->next < shown->n ? &shown->parts[shown->next++] : NULL;
    struct part *grown = rf_grow(shown->allocator, shown->parts, shown->n, 1, &shown->cap,
                                 sizeof *grown, "parts of a conversation", &shown->error);
    if (!grown) {
        shown->code = RF_ERR_MEMORY;
        return NULL;
    }
    shown->parts = grown;
    grown[shown->n] = (struct part){.kind = kind, .message = message, .role = role};
    return &grown[shown->n++];
}

/* ---- values ---- */

static struct rf_jinja_value word_of(const struct part *part)
{
    return rf_jinja_string(rf_str_of(part->word), RF_ORIGIN_FREE);
}

/* Functions whose names are the word. */
static struct rf_jinja_value renamed(struct rf_jinja_run *run, const struct part *part,
                                     const struct rf_json *function)
{
    struct rf_jinja_value dict = rf_jinja_dict(run);
    struct rf_str key;
    const struct rf_json *member;
    for (void *i = NULL; rf_json_next(function, &i, &key, &member);)
        rf_jinja_put(run, dict, key.data,
                     rf_str_is(key, "name") ? word_of(part)
                     : rf_str_is(key, "function")
                         ? renamed(run, part, member)
                         : rf_jinja_from_json(run, member, RF_ORIGIN_FREE));
    return dict;
}

static struct rf_jinja_value word_value(struct rf_jinja_run *run, const struct part *part,
                                        const struct rf_json *value)
{
    struct rf_jinja_value list = rf_jinja_list(run);
    if (part->kind == PART_CONTENT) { /* parts become one content */
        struct rf_jinja_value dict = rf_jinja_dict(run);
        rf_jinja_put(run, dict, "type", rf_jinja_string(rf_str_of("text"), RF_ORIGIN_FREE));
        rf_jinja_put(run, dict, "text", word_of(part));
        rf_jinja_add(run, list, dict);
        return list;
    }
    for (size_t i = 0; i < rf_json_count(value); i++) {
        const struct rf_json *item = rf_json_at(value, i);
        struct rf_jinja_value dict = renamed(run, part, item);
        if (part->kind == PART_DOCUMENTS) {
            rf_jinja_put(run, dict, "title", word_of(part));
            rf_jinja_put(run, dict, "text", word_of(part));
        }
        rf_jinja_add(run, list, dict);
    }
    return list;
}

struct rf_jinja_value rf_shown_text(struct rf_shown *shown, size_t message, struct rf_str role,
                                    struct rf_str text)
{
    if (is_blank(text)) return rf_jinja_string(text, RF_ORIGIN_FREE);
    const struct part *part = next_part(shown, PART_CONTENT, message, role);
    if (!part) return rf_jinja_none();
    return part->is_missing ? word_of(part)
                            : rf_jinja_string(text, origin_of((size_t)(part - shown->parts)));
}

struct rf_jinja_value rf_shown_member(struct rf_shown *shown, struct rf_jinja_run *run,
                                      size_t message, struct rf_str role, struct rf_str key,
                                      const struct rf_json *value)
{
    static const struct {
        const char *key;
        int is_of_message;
        enum part_kind kind;
    } kinds[] = {{"content", 1, PART_CONTENT},
                 {"tool_calls", 1, PART_CALLS},
                 {"tools", 0, PART_TOOLS},
                 {"documents", 0, PART_DOCUMENTS}};
    struct rf_str text;
    if (message && rf_str_is(key, "content") && rf_json_string(value, &text))
        return rf_shown_text(shown, message, role, text);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].is_of_message != (message > 0) || !rf_str_is(key, kinds[i].key)) continue;
        if (!rf_json_is_array(value) || !rf_json_count(value)) continue;
        const struct part *part = next_part(shown, kinds[i].kind, message, role);
        if (!part) return rf_jinja_none();
        if (part->is_missing) return word_value(run, part, value);
        return rf_jinja_from_json(run, value, origin_of((size_t)(part - shown->parts)));
    }
    return rf_jinja_from_json(run, value, RF_ORIGIN_FREE);
}

/* ---- what was seen ---- */

int rf_shown_look(struct rf_shown *shown, struct rf_jinja_value text)
{
    size_t groups[RF_ORIGINS] = {0}, parts[RF_ORIGINS] = {0};
    int is_missing = 0, last = -1;
    for (size_t i = 0; i < text.bytes; i++) {
        int origin = text.origins ? text.origins[i] : text.origin;
        if (origin < RF_ORIGIN_PART || origin == last) continue;
        groups[origin]++;
        last = origin;
    }
    for (size_t i = 0; i < shown->n; i++) parts[origin_of(i)]++;
    for (size_t i = 0; i < shown->n; i++) {
        struct part *part = &shown->parts[i];
        if (groups[origin_of(i)] >= parts[origin_of(i)]) continue;
        part->is_missing = is_missing = 1;
        snprintf(part->word, sizeof part->word, "%s%zux", word_begin, i);
    }
    shown->has_words = 1;
    shown->next = 0;
    return is_missing;
}

void rf_shown_find_words(struct rf_shown *shown, struct rf_str text)
{
    size_t begin = sizeof word_begin - 1;
    for (size_t at = 0; at + begin < text.bytes; at++) {
        if (memcmp(text.data + at, word_begin, begin) != 0) continue;
        size_t number = 0, end = at + begin;
        while (end < text.bytes && text.data[end] >= '0' && text.data[end] <= '9' &&
               number <= shown->n)
            number = number * 10 + (size_t)(text.data[end++] - '0');
        if (number < shown->n && end < text.bytes && text.data[end] == 'x')
            shown->parts[number].is_missing = 0;
    }
}

static int refuse_part(const struct part *part, struct rf_error *error)
{
    if (part->kind == PART_TOOLS)
        return rf_fail(error, RF_ERR_ARGUMENT, "the model's chat template leaves out the tools");
    if (part->kind == PART_DOCUMENTS)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "the model's chat template leaves out the documents");
    if (rf_str_is(part->role, "system") || rf_str_is(part->role, "developer"))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "message %zu is a system message, which the model's chat template leaves "
                       "out there",
                       part->message);
    return rf_fail(error, RF_ERR_ARGUMENT,
                   "message %zu has the role \"%.*s\" and %s, which the model's chat template "
                   "leaves out there",
                   part->message, (int)part->role.bytes, part->role.data,
                   part->kind == PART_CALLS ? "calls of tools" : "a content");
}

int rf_shown_check(const struct rf_shown *shown, struct rf_error *error)
{
    for (size_t i = 0; i < shown->n; i++)
        if (shown->parts[i].is_missing) return refuse_part(&shown->parts[i], error);
    return 0;
}
