/* Expressions of JSON strings: characters with their escapes; and of texts up to another one. The
 * readers of schemas and patterns call it; number_text.c has the numbers. */
#include "grammar/json_text.h"

#include <stdio.h>
#include <string.h>

const struct rf_expr *rf_text_none(struct rf_ir *ir)
{
    return rf_ir_choice(ir, NULL, 0);
}

int rf_text_is_none(const struct rf_expr *expr)
{
    return expr && expr->kind == RF_EXPR_CHOICE && expr->n == 0;
}

const struct rf_expr *rf_text(struct rf_ir *ir, const char *text)
{
    return rf_ir_text(ir, rf_str_of(text));
}

const struct rf_expr *rf_text_optional(struct rf_ir *ir, const struct rf_expr *expr)
{
    return rf_ir_repeat(ir, expr, 0, 1);
}

/* ---- strings ---- */

static int contains(const struct rf_range *ranges, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].low && c <= ranges[i].high) return 1;
    return 0;
}

/* Writes the escape of a character that cannot stand for itself in a string. */
static void write_escape(uint32_t c, char out[8])
{
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i < sizeof names - 1; i += 2)
        if (c == (uint32_t)(unsigned char)names[i]) {
            snprintf(out, 8, "\\%c", names[i + 1]);
            return;
        }
    snprintf(out, 8, "\\u%04x", c);
}

const struct rf_expr *rf_text_string_chars(struct rf_ir *ir, const struct rf_range *ranges,
                                           size_t n)
{
    static const struct rf_range plain[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};
    const struct rf_expr *parts[40];
    struct rf_range cut[256];
    size_t n_parts = 1, n_cut = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < 3; p++) {
            struct rf_range both = {ranges[i].low > plain[p].low ? ranges[i].low : plain[p].low,
                                    ranges[i].high < plain[p].high ? ranges[i].high
                                                                   : plain[p].high};
            if (both.low > both.high) continue;
            if (n_cut == 256) n_cut = rf_ranges_join(cut, n_cut);
            if (n_cut == 256) {
                rf_ir_fail(ir, RF_ERR_UNSUPPORTED, "a class of characters has too many ranges");
                return NULL;
            }
            cut[n_cut++] = both;
        }
    parts[0] = rf_ir_chars(ir, cut, n_cut);
    for (uint32_t c = 1; c <= '\\'; c++) { /* not 0: many programs cannot hold it */
        char escape[8];
        if ((c >= 0x20 && c != '"' && c != '\\') || !contains(ranges, n, c)) continue;
        write_escape(c, escape);
        parts[n_parts++] = rf_text(ir, escape);
    }
    return rf_ir_choice(ir, parts, n_parts);
}

const struct rf_expr *rf_text_class(struct rf_ir *ir, const char *ends)
{
    struct rf_range ranges[8];
    size_t n = strlen(ends) / 2;
    for (size_t i = 0; i < n; i++)
        ranges[i] = (struct rf_range){(uint32_t)ends[2 * i], (uint32_t)ends[2 * i + 1]};
    return rf_ir_chars(ir, ranges, n);
}

const struct rf_expr *rf_text_string_any(struct rf_ir *ir)
{
    static const struct rf_range quoted[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    const struct rf_expr *hex = rf_text_class(ir, "09afAF"), *not_0 = rf_text_class(ir, "19afAF");
    const struct rf_expr *zero = rf_text(ir, "0");
    /* Four digits of a character that is neither 0 nor a surrogate. */
    const struct rf_expr *code = rf_text_choice(
        ir, rf_text_sequence(ir, rf_text_class(ir, "19acACeeEEffFF"), hex, hex, hex),
        rf_text_sequence(ir, rf_text_class(ir, "ddDD"), rf_text_class(ir, "07"), hex, hex),
        rf_text_sequence(ir, zero, not_0, hex, hex), rf_text_sequence(ir, zero, zero, not_0, hex),
        rf_text_sequence(ir, zero, zero, zero, not_0));
    const struct rf_expr *escape = rf_text_choice(ir, rf_text_class(ir, "\"\"\\\\//bbffnnrrtt"),
                                                  rf_text_sequence(ir, rf_text(ir, "u"), code));
    return rf_text_choice(ir, rf_ir_chars_without(ir, quoted, 3),
                          rf_text_sequence(ir, rf_text(ir, "\\"), escape));
}

/* ---- texts up to another text ---- */

static const struct rf_expr *byte_of(struct rf_ir *ir, struct rf_str text, size_t i)
{
    return rf_ir_text(ir, (struct rf_str){text.data + i, 1});
}

/* All characters but the first of `end` and its byte i. */
static const struct rf_expr *other_than(struct rf_ir *ir, struct rf_str end, size_t i)
{
    const uint32_t first = (unsigned char)end.data[0], byte = (unsigned char)end.data[i];
    const struct rf_range without[] = {{0, 0}, {first, first}, {byte, byte}};
    return rf_ir_chars_without(ir, without, 3);
}

const struct rf_expr *rf_text_character_without(struct rf_ir *ir, struct rf_str end)
{
    return other_than(ir, end, 0);
}

/* The text is made of other characters and of beginnings of `end` that something else follows:
 * another beginning, a character that `end` does not go on with, or nothing. */
const struct rf_expr *rf_text_without(struct rf_ir *ir, struct rf_str end)
{
    const struct rf_expr *begun = NULL, *left = NULL;
    if (!end.bytes || memchr(end.data + 1, end.data[0], end.bytes - 1) || end.data[0] & 0x80) {
        rf_ir_fail(ir, RF_ERR_UNSUPPORTED, "the end of a text repeats its first character");
        return NULL;
    }
    for (size_t i = end.bytes - 1; i-- > 0;) { /* bytes 0 to i, with more of them or without */
        const struct rf_expr *byte = byte_of(ir, end, i);
        begun = begun ? rf_text_sequence(ir, byte, rf_text_optional(ir, begun)) : byte;
    }
    for (size_t i = end.bytes; i-- > 0;) { /* byte i does not follow, or byte i and then `left` */
        const struct rf_expr *other = other_than(ir, end, i);
        if (!i) break;
        left = left ? rf_text_choice(ir, other, rf_text_sequence(ir, byte_of(ir, end, i), left))
                    : other;
    }
    const struct rf_expr *other = other_than(ir, end, 0);
    if (end.bytes == 1) return rf_ir_repeat(ir, other, 0, -1);
    const struct rf_expr *begins = rf_ir_repeat(ir, begun, 0, -1);
    const struct rf_expr *turned = rf_text_sequence(ir, begins, byte_of(ir, end, 0), left);
    return rf_text_sequence(ir, rf_ir_repeat(ir, rf_text_choice(ir, other, turned), 0, -1), begins);
}
