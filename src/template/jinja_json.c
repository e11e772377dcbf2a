/* Writes values as JSON, as Python's json.dumps does with the options of the filter tojson. Each
 * byte keeps its origin, so that a user's text stays a user's within JSON. jinja_filters.c calls
 * it. */
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "template/jinja_parts.h"

/* The character's bytes as hexadecimal escapes of JSON, and what stands for it in JSON. */
static void json_escape(struct rf_jinja_run *run, struct output *out, value string, size_t at,
                        size_t length, int ascii)
{
    struct rf_str text = rf_jinja_bytes(string);
    static const char letters[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    unsigned char first = (unsigned char)text.data[at];
    value shown = rf_jinja_cut(string, at, at + length);
    uint8_t origin = shown.origins ? shown.origins[0] : shown.origin;
    char escape[16] = "";
    for (size_t i = 0; first && first < 0x80 && i + 1 < sizeof letters; i += 2)
        if ((unsigned char)letters[i] == first)
            snprintf(escape, sizeof escape, "\\%c", letters[i + 1]);
    if (!escape[0] && (first < 0x20 || (first >= 0x80 && ascii))) {
        uint32_t c = rf_utf8_length(text.data + at, length) ? rf_utf8_decode(text.data + at, length)
                                                            : 0xfffd;
        if (c >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x",
                     0xd800u + (unsigned)((c - 0x10000) >> 10),
                     0xdc00u + (unsigned)((c - 0x10000) & 0x3ff));
        else
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
    }
    rf_jinja_write(run, out, escape[0] ? rf_jinja_string(rf_str_of(escape), origin) : shown);
}

static void json_string(struct rf_jinja_run *run, struct output *out, value string, int ascii)
{
    struct rf_str text = rf_jinja_bytes(string);
    rf_jinja_write_text(run, out, "\"");
    for (size_t at = 0, length; at < text.bytes && !run->code; at += length) {
        size_t plain = at;
        while (plain < text.bytes && (unsigned char)text.data[plain] >= 0x20 &&
               text.data[plain] != '"' && text.data[plain] != '\\' &&
               !(ascii && (unsigned char)text.data[plain] >= 0x80))
            plain++;
        length = plain - at;
        if (length) {
            rf_jinja_write(run, out, rf_jinja_cut(string, at, plain));
        } else {
            length = rf_jinja_char(text, at);
            json_escape(run, out, string, at, length, ascii);
        }
    }
    rf_jinja_write_text(run, out, "\"");
}

static void json_break(struct rf_jinja_run *run, struct output *out, const struct json_style *style,
                       int depth)
{
    if (style->indent < 0) return;
    rf_jinja_write_text(run, out, "\n");
    for (int64_t i = 0; i < depth * style->indent && !run->code; i++)
        rf_jinja_write_text(run, out, " ");
}

static value json_key(struct rf_jinja_run *run, value key)
{
    if (key.type == RF_JINJA_BOOL) return rf_jinja_text(key.u.integer ? "true" : "false");
    if (key.type == RF_JINJA_NONE) return rf_jinja_text("null");
    if (key.type != RF_JINJA_STRING && key.type != RF_JINJA_INT && key.type != RF_JINJA_FLOAT)
        rf_jinja_mistyped(run, "write to JSON a key that is", key);
    return rf_jinja_str(run, key);
}

static void json_value(struct rf_jinja_run *run, struct output *out, value v,
                       const struct json_style *style, int depth);

static void json_container(struct rf_jinja_run *run, struct output *out, value v,
                           const struct json_style *style, int depth)
{
    int is_dict = v.type == RF_JINJA_DICT;
    struct rf_jinja_list *items = v.u.list;
    if (is_dict) {
        value list = rf_jinja_items(run, v.u.dict);
        if (run->code) return;
        items = style->sorted
                    ? rf_jinja_sort(run, list.u.list, rf_jinja_none(), rf_jinja_pair_key, 0, 0)
                    : list.u.list;
    }
    rf_jinja_write_text(run, out, is_dict ? "{" : "[");
    for (size_t i = 0; items && i < items->n && !run->code; i++) {
        value item = items->items[i];
        if (i) rf_jinja_write(run, out, style->item_separator);
        json_break(run, out, style, depth + 1);
        if (is_dict) {
            json_string(run, out, json_key(run, item.u.list->items[0]), style->ascii);
            rf_jinja_write(run, out, style->key_separator);
            item = item.u.list->items[1];
        }
        json_value(run, out, item, style, depth + 1);
    }
    if (items && items->n) json_break(run, out, style, depth);
    rf_jinja_write_text(run, out, is_dict ? "}" : "]");
}

static void json_value(struct rf_jinja_run *run, struct output *out, value v,
                       const struct json_style *style, int depth)
{
    if (run->depth >= RF_JINJA_MAX_DEPTH)
        rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "its values are nested too deeply");
    if (rf_jinja_steps(run, 1)) return;
    run->depth++;
    switch (v.type) {
    case RF_JINJA_NONE: rf_jinja_write_text(run, out, "null"); break;
    case RF_JINJA_BOOL: rf_jinja_write_text(run, out, v.u.integer ? "true" : "false"); break;
    case RF_JINJA_STRING: json_string(run, out, v, style->ascii); break;
    case RF_JINJA_FLOAT:
        if (!v.bytes && !isfinite(v.u.real))
            rf_jinja_write_text(run, out,
                                isnan(v.u.real) ? "NaN"
                                : v.u.real > 0  ? "Infinity"
                                                : "-Infinity");
        else
            rf_jinja_write_repr(run, out, v);
        break;
    case RF_JINJA_BIG:
    case RF_JINJA_INT: rf_jinja_write_repr(run, out, v); break;
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE:
    case RF_JINJA_DICT: json_container(run, out, v, style, depth); break;
    default: rf_jinja_mistyped(run, "write to JSON", v); break;
    }
    run->depth--;
}

void rf_jinja_write_json(struct rf_jinja_run *run, struct output *out, value v,
                         const struct json_style *style)
{
    json_value(run, out, v, style, 0);
}
