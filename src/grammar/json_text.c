/* Expressions of JSON texts: characters of strings with their escapes, and numbers between
 * limits as digits. The readers of schemas call it. */
#include "grammar/json_text.h"

#include <stdio.h>
#include <string.h>

enum { DIGITS = 15 /* digits of a number without limits: all such numbers fit an F64 */ };

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

static const struct rf_expr *escape_class(struct rf_ir *ir, const char *ends)
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
    const struct rf_expr *hex = escape_class(ir, "09afAF"), *not_0 = escape_class(ir, "19afAF");
    const struct rf_expr *zero = rf_text(ir, "0");
    /* Four digits of a character that is neither 0 nor a surrogate. */
    const struct rf_expr *code = rf_text_choice(
        ir, rf_text_sequence(ir, escape_class(ir, "19acACeeEEffFF"), hex, hex, hex),
        rf_text_sequence(ir, escape_class(ir, "ddDD"), escape_class(ir, "07"), hex, hex),
        rf_text_sequence(ir, zero, not_0, hex, hex), rf_text_sequence(ir, zero, zero, not_0, hex),
        rf_text_sequence(ir, zero, zero, zero, not_0));
    const struct rf_expr *escape = rf_text_choice(ir, escape_class(ir, "\"\"\\\\//bbffnnrrtt"),
                                                  rf_text_sequence(ir, rf_text(ir, "u"), code));
    return rf_text_choice(ir, rf_ir_chars_without(ir, quoted, 3),
                          rf_text_sequence(ir, rf_text(ir, "\\"), escape));
}

/* ---- numbers ---- */

static const struct rf_expr *digit_range(struct rf_ir *ir, char low, char high)
{
    const struct rf_range range = {(uint32_t)low, (uint32_t)high};
    return rf_ir_chars(ir, &range, 1);
}

static const struct rf_expr *digits(struct rf_ir *ir, int32_t least, int32_t most)
{
    return rf_ir_repeat(ir, digit_range(ir, '0', '9'), least, most);
}

static int is_all(const char *text, size_t n, char c)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != c) return 0;
    return 1;
}

/* Texts of n digits between low and high. */
static const struct rf_expr *between(struct rf_ir *ir, const char *low, const char *high, size_t n)
{
    static const char zeros[] = "0000000000000000000", nines[] = "9999999999999999999";
    const struct rf_expr *parts[3];
    size_t n_parts = 0;
    if (n == 0) return rf_text(ir, "");
    if (is_all(low, n, '0') && is_all(high, n, '9')) return digits(ir, (int32_t)n, (int32_t)n);
    char first = low[0], last = high[0];
    if (first == last)
        return rf_text_sequence(ir, digit_range(ir, first, first),
                                between(ir, low + 1, high + 1, n - 1));
    if (!is_all(low + 1, n - 1, '0'))
        parts[n_parts++] =
            rf_text_sequence(ir, digit_range(ir, first, first), between(ir, low + 1, nines, n - 1));
    first = (char)(first + (n_parts != 0));
    int cut = !is_all(high + 1, n - 1, '9');
    last = (char)(last - cut);
    if (first <= last)
        parts[n_parts++] = rf_text_sequence(ir, digit_range(ir, first, last),
                                            digits(ir, (int32_t)n - 1, (int32_t)n - 1));
    if (cut)
        parts[n_parts++] = rf_text_sequence(ir, digit_range(ir, high[0], high[0]),
                                            between(ir, zeros, high + 1, n - 1));
    return rf_ir_choice(ir, parts, n_parts);
}

/* Decimal numbers between two, without a sign. */
static const struct rf_expr *unsigned_range(struct rf_ir *ir, int64_t low, int64_t high)
{
    const struct rf_expr *parts[20];
    size_t n_parts = 0;
    int64_t power = 1; /* the least number of so many digits, but for 0 */
    if (low > high) return rf_text_none(ir);
    for (int n = 1; n <= 19; n++) {
        int64_t least = n == 1 ? 0 : power, most = n == 19 ? INT64_MAX : power * 10 - 1;
        if (low <= most && high >= least) {
            char from[24], to[24];
            snprintf(from, sizeof from, "%lld", (long long)(low > least ? low : least));
            snprintf(to, sizeof to, "%lld", (long long)(high < most ? high : most));
            parts[n_parts++] = between(ir, from, to, (size_t)n);
        }
        if (n < 19) power *= 10;
    }
    return rf_ir_choice(ir, parts, n_parts);
}

/* The greatest number to write where there is no limit; `low`: the least. */
static int64_t greatest_number(int64_t low)
{
    int64_t usual = 1;
    for (int i = 0; i < DIGITS; i++) usual *= 10;
    return low < usual ? usual - 1 : INT64_MAX;
}

static int64_t negated(int64_t x)
{
    return x == INT64_MIN ? INT64_MAX : -x;
}

const struct rf_expr *rf_text_integer(struct rf_ir *ir, const struct rf_number_limits *limits)
{
    const struct rf_expr *parts[2];
    int64_t low = limits->low, high = limits->high;
    size_t n = 0;
    if (high >= 0) {
        int64_t from = low > 0 ? low : 0;
        parts[n++] = unsigned_range(ir, from, high == INT64_MAX ? greatest_number(from) : high);
    }
    if (low < 0) {
        int64_t from = high < 0 ? negated(high) : 1;
        const struct rf_expr *size =
            unsigned_range(ir, from, low == INT64_MIN ? greatest_number(from) : negated(low));
        parts[n++] = rf_text_is_none(size) ? size : rf_text_sequence(ir, rf_text(ir, "-"), size);
    }
    if (n && rf_text_is_none(parts[0])) parts[0] = parts[--n];
    return low > high ? rf_text_none(ir) : rf_ir_choice(ir, parts, n);
}

static const struct rf_expr *fraction(struct rf_ir *ir)
{
    return rf_text_optional(ir, rf_text_sequence(ir, rf_text(ir, "."), digits(ir, 1, DIGITS)));
}

/* Numbers without a sign between two integers >= 0; high INT64_MAX: no limit. */
static const struct rf_expr *unsigned_numbers(struct rf_ir *ir, struct rf_number_limits limits)
{
    const struct rf_expr *parts[3];
    char text[24];
    size_t n = 0;
    int is_open = limits.high == INT64_MAX;
    if (!is_open && (limits.low > limits.high ||
                     (limits.low == limits.high && (limits.low_excluded || limits.high_excluded))))
        return rf_text_none(ir);
    if (limits.low_excluded) {
        snprintf(text, sizeof text, "%lld.", (long long)limits.low);
        parts[n++] = rf_text_sequence(ir, rf_text(ir, text),
                                      rf_ir_repeat(ir, rf_text(ir, "0"), 0, DIGITS - 1),
                                      digit_range(ir, '1', '9'), digits(ir, 0, DIGITS));
    }
    int64_t first = limits.low + limits.low_excluded,
            last = is_open ? greatest_number(first) : limits.high - 1;
    if (first <= last)
        parts[n++] = rf_text_sequence(ir, unsigned_range(ir, first, last), fraction(ir));
    if (!is_open && !limits.high_excluded) {
        snprintf(text, sizeof text, "%lld", (long long)limits.high);
        parts[n++] = rf_text_sequence(
            ir, rf_text(ir, text),
            rf_text_optional(ir, rf_text_sequence(ir, rf_text(ir, "."),
                                                  rf_ir_repeat(ir, rf_text(ir, "0"), 1, DIGITS))));
    }
    return rf_ir_choice(ir, parts, n);
}

const struct rf_expr *rf_text_number(struct rf_ir *ir, const struct rf_number_limits *limits)
{
    const struct rf_expr *parts[2];
    size_t n = 0;
    if (limits->low == INT64_MIN && limits->high == INT64_MAX) {
        const struct rf_number_limits none = {.high = INT64_MAX};
        const struct rf_expr *sign = rf_text_choice(ir, rf_text(ir, "+"), rf_text(ir, "-"));
        const struct rf_expr *exponent = rf_text_sequence(
            ir, escape_class(ir, "eeEE"), rf_text_optional(ir, sign), digits(ir, 1, 2));
        return rf_text_sequence(ir, rf_text_optional(ir, rf_text(ir, "-")),
                                unsigned_numbers(ir, none), rf_text_optional(ir, exponent));
    }
    if (limits->high >= 0) {
        struct rf_number_limits positive = *limits;
        if (positive.low < 0) positive.low = positive.low_excluded = 0;
        parts[n++] = unsigned_numbers(ir, positive);
    }
    if (limits->low < 0) {
        int below = limits->high < 0;
        const struct rf_number_limits size = {
            below ? negated(limits->high) : 0, negated(limits->low),
            below ? limits->high_excluded : 1, limits->low_excluded};
        const struct rf_expr *sizes = unsigned_numbers(ir, size);
        parts[n++] = rf_text_is_none(sizes) ? sizes : rf_text_sequence(ir, rf_text(ir, "-"), sizes);
    }
    if (n == 2 && rf_text_is_none(parts[0])) parts[0] = parts[--n];
    return rf_ir_choice(ir, parts, n);
}
