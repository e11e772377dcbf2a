/* Expressions of JSON strings: characters with their escapes; and of texts up to another one. The
 * readers of schemas and patterns call it; number_text.c has the numbers. */
#include "grammar/json_text.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

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

enum { END_CHARACTERS = 64 };

/* All characters but these two. */
static const struct rf_expr *other_than(struct rf_ir *ir, uint32_t a, uint32_t b)
{
    const struct rf_range without[] = {{0, 0}, {a, a}, {b, b}};
    return rf_ir_chars_without(ir, without, 3);
}

static const struct rf_expr *only(struct rf_ir *ir, uint32_t c)
{
    return rf_ir_chars(ir, &(struct rf_range){c, c}, 1);
}

/* The characters of `end`; 0: there are none or too many, or the first of them comes again. */
static size_t end_characters(struct rf_ir *ir, struct rf_str end, uint32_t c[END_CHARACTERS])
{
    size_t n = 0, length;
    for (size_t at = 0; at < end.bytes && n < END_CHARACTERS; at += length, n++) {
        if (!(length = rf_utf8_length(end.data + at, end.bytes - at))) break;
        c[n] = rf_utf8_decode(end.data + at, length);
        if (n && c[n] == c[0]) n = END_CHARACTERS;
    }
    if (n && n < END_CHARACTERS) return n;
    rf_ir_fail(ir, RF_ERR_UNSUPPORTED, "the end of a text is empty or repeats its first character");
    return 0;
}

const struct rf_expr *rf_text_character_without(struct rf_ir *ir, struct rf_str end)
{
    uint32_t c[END_CHARACTERS];
    return end_characters(ir, end, c) ? other_than(ir, c[0], c[0]) : NULL;
}

/* The text is made of other characters and of beginnings of `end` that something else follows:
 * another beginning, a character that `end` does not go on with, or nothing. */
const struct rf_expr *rf_text_without(struct rf_ir *ir, struct rf_str end)
{
    uint32_t c[END_CHARACTERS];
    const struct rf_expr *begun = NULL, *left = NULL;
    size_t n = end_characters(ir, end, c);
    if (!n) return NULL;
    const struct rf_expr *other = other_than(ir, c[0], c[0]);
    if (n == 1) return rf_ir_repeat(ir, other, 0, -1);
    for (size_t i = n - 1; i-- > 0;) /* characters 0 to i, or more of them */
        begun = begun ? rf_text_sequence(ir, only(ir, c[i]), rf_text_optional(ir, begun))
                      : only(ir, c[i]);
    for (size_t i = n; --i > 0;) { /* character i does not follow, or it and then `left` */
        const struct rf_expr *differs = other_than(ir, c[0], c[i]);
        left = left ? rf_text_choice(ir, differs, rf_text_sequence(ir, only(ir, c[i]), left))
                    : differs;
    }
    const struct rf_expr *begins = rf_ir_repeat(ir, begun, 0, -1);
    const struct rf_expr *turned = rf_text_sequence(ir, begins, only(ir, c[0]), left);
    return rf_text_sequence(ir, rf_ir_repeat(ir, rf_text_choice(ir, other, turned), 0, -1), begins);
}
