/* Filters of HTML and of addresses: what is escaped and what is not. Outside of {% autoescape true
 * %} jinja2 escapes nothing by itself, but keeps apart texts that are HTML. jinja_names.c finds
 * them by name. */
#include <string.h>

#include "template/jinja_functions.h"

FUNCTION(filter_escape)
{
    UNUSED;
    return rf_jinja_escape(run, self);
}

FUNCTION(filter_forceescape)
{
    UNUSED;
    value text = rf_jinja_str(run, self);
    text.marked = 0;
    return rf_jinja_escape(run, text);
}

FUNCTION(filter_safe)
{
    UNUSED;
    return rf_jinja_html(rf_jinja_str(run, self));
}

/* The attributes of a tag, of a dict's items that are neither None nor undefined. */
FUNCTION(filter_xmlattr)
{
    struct output out = {0};
    if (self.type != RF_JINJA_DICT) return rf_jinja_mistyped(run, "take the items of", self);
    int spaced = rf_jinja_truth(ARGUMENT(0, "autospace", rf_jinja_bool(1)));
    for (size_t i = 0; i < self.u.dict->n && !run->code; i++) {
        value key = rf_jinja_str(run, self.u.dict->keys[i]), v = self.u.dict->values[i];
        if (v.type == RF_JINJA_NONE || v.type == RF_JINJA_UNDEFINED) continue;
        for (size_t k = 0; k < key.bytes; k++)
            if (!key.u.data[k] || strchr(" \t\n\v\f\r/>=", key.u.data[k]))
                return rf_jinja_fail(run, RF_ERR_ARGUMENT, "an attribute's name is wrong");
        if (out.n || spaced) rf_jinja_write_text(run, &out, " ");
        rf_jinja_write(run, &out, rf_jinja_escape(run, key));
        rf_jinja_write_text(run, &out, "=\"");
        rf_jinja_write(run, &out, rf_jinja_escape(run, v));
        rf_jinja_write_text(run, &out, "\"");
    }
    value text = rf_jinja_written(run, &out);
    return run->escapes ? rf_jinja_html(text) : text;
}

/* A text without tags and comments, its runs of white space one space each. */
FUNCTION(filter_striptags)
{
    UNUSED;
    value all = rf_jinja_str(run, self), separator = rf_jinja_text(" ");
    struct rf_str text = rf_jinja_bytes(all);
    struct output out = {0}, joined = {0};
    for (size_t at = 0, end; at < text.bytes && !rf_jinja_charge(run, RF_JINJA_KEY); at = end) {
        int comment = text.bytes - at >= 4 && memcmp(text.data + at, "<!--", 4) == 0;
        size_t close = SIZE_MAX;
        if (text.data[at] == '<')
            close = rf_jinja_search(run, text, rf_str_of(comment ? "-->" : ">"), at);
        end = close == SIZE_MAX ? at + 1 : close + (comment ? 3 : 1);
        if (close == SIZE_MAX) rf_jinja_write(run, &out, rf_jinja_cut(all, at, end));
    }
    value rest = rf_jinja_strip(run, rf_jinja_written(run, &out), rf_jinja_none(), 1, 1);
    text = rf_jinja_bytes(rest);
    for (size_t at = 0, length; at < text.bytes && !run->code; at += length) {
        value tail = rf_jinja_cut(rest, at, text.bytes);
        length = tail.bytes - rf_jinja_strip(run, tail, rf_jinja_none(), 1, 0).bytes;
        if (length) rf_jinja_write(run, &joined, separator);
        if (length) continue;
        length = rf_jinja_char(text, at);
        rf_jinja_write(run, &joined, rf_jinja_cut(rest, at, at + length));
    }
    return rf_jinja_written(run, &joined);
}

/* Bytes that stand for themselves in an address. */
static int is_plain(char c, int query)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.-~", c)) || (c == '/' && !query);
}

static void write_quoted(struct rf_jinja_run *run, struct output *out, value v, int query)
{
    static const char digits[] = "0123456789ABCDEF";
    value text = rf_jinja_str(run, v);
    for (size_t i = 0; i < text.bytes && !run->code; i++) {
        char c = text.u.data[i], escape[4] = {'%', digits[c >> 4 & 15], digits[c & 15], 0};
        value shown = rf_jinja_cut(text, i, i + 1);
        if (!is_plain(c, query)) {
            uint8_t origin = text.origins ? text.origins[i] : text.origin;
            const char *as = query && c == ' ' ? "+" : escape;
            shown = rf_jinja_string(rf_str_of(as), origin);
        }
        rf_jinja_write(run, out, shown);
    }
}

/* A text, or the pairs of a dict or a list as a query. */
FUNCTION(filter_urlencode)
{
    struct output out = {0};
    UNUSED;
    value pairs = self.type == RF_JINJA_DICT ? rf_jinja_items(run, self.u.dict) : self;
    if (!rf_jinja_is_sequence(pairs)) {
        write_quoted(run, &out, self, 0);
        return rf_jinja_written(run, &out);
    }
    for (size_t i = 0; i < pairs.u.list->n && !run->code; i++) {
        value pair = pairs.u.list->items[i];
        if (!rf_jinja_is_sequence(pair) || pair.u.list->n != 2)
            return rf_jinja_mistyped(run, "make a query of", pair);
        if (i) rf_jinja_write_text(run, &out, "&");
        write_quoted(run, &out, rf_jinja_pair_key(pair), 1);
        rf_jinja_write_text(run, &out, "=");
        write_quoted(run, &out, rf_jinja_pair_value(pair), 1);
    }
    return rf_jinja_written(run, &out);
}

const struct builtin rf_jinja_html_filters[] = {
    {"escape", filter_escape, 0},           {"e", filter_escape, 0},
    {"forceescape", filter_forceescape, 0}, {"safe", filter_safe, 0},
    {"xmlattr", filter_xmlattr, 0},         {"striptags", filter_striptags, 0},
    {"urlencode", filter_urlencode, 0},     {NULL, NULL, 0}};
