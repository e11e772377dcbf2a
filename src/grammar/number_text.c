/* Expressions of JSON numbers between two limits, built from the limits' digits, so that limits may
 * have any number of them. A sign, digits before the point and digits behind it are looked at in
 * turn. schema_scalars.c calls it. */
#include <string.h>

#include "base/decimal.h"
#include "grammar/json_text.h"

static const char what[] = "a schema";

static char *take_digits(struct rf_ir *ir, size_t n)
{
    char *digits = rf_ir_step(ir) ? NULL : rf_arena_alloc(&ir->arena, n + 1, 1, what, ir->error);
    if (!digits && !ir->code) ir->code = RF_ERR_MEMORY;
    return digits;
}

struct rf_number_limit rf_number_limit_of(struct rf_ir *ir, struct rf_str number, int is_excluded,
                                          int *is_too_long)
{
    struct rf_decimal d = rf_decimal_of(number.data, number.bytes);
    struct rf_number_limit limit = {.is_excluded = is_excluded,
                                    .is_negative = d.is_negative && d.n > 0};
    int64_t n_part = d.point < (int64_t)d.n ? (int64_t)d.n - d.point : 0;
    *is_too_long = d.point > RF_NUMBER_DIGITS || n_part > RF_NUMBER_DIGITS;
    if (*is_too_long) return limit;
    size_t n_whole = d.point > 0 ? (size_t)d.point : 1;
    char *whole = take_digits(ir, n_whole), *part = take_digits(ir, (size_t)n_part);
    if (!part) return limit;
    rf_decimal_write(&d, -(int64_t)n_whole, n_whole, whole);
    rf_decimal_write(&d, 0, (size_t)n_part, part);
    limit.whole = whole;
    limit.part = part;
    return limit;
}

/* Orders numbers of digits without zeros in front. */
static int order_whole(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    return n != m ? (n < m ? -1 : 1) : strcmp(a, b);
}

static int order_sizes(const struct rf_number_limit *a, const struct rf_number_limit *b)
{
    int order = order_whole(a->whole, b->whole);
    return order ? order : strcmp(a->part, b->part);
}

int rf_number_limit_order(const struct rf_number_limit *a, const struct rf_number_limit *b)
{
    if (a->is_negative != b->is_negative) return a->is_negative ? -1 : 1;
    return a->is_negative ? order_sizes(b, a) : order_sizes(a, b);
}

/* ---- digits ---- */

static const struct rf_expr *digit_range(struct rf_ir *ir, char low, char high)
{
    const struct rf_range range = {(uint32_t)low, (uint32_t)high};
    return rf_ir_chars(ir, &range, 1);
}

static const struct rf_expr *digits(struct rf_ir *ir, size_t least, int64_t most)
{
    return rf_ir_repeat(ir, digit_range(ir, '0', '9'), (int32_t)least, (int32_t)most);
}

static int is_all(const char *text, char c)
{
    while (*text == c) text++;
    return !*text;
}

/* Texts of as many digits as `low` that are not less. */
static const struct rf_expr *from_digits(struct rf_ir *ir, const char *low)
{
    size_t n = strlen(low);
    if (ir->code || is_all(low, '0')) return digits(ir, n, (int64_t)n);
    const struct rf_expr *equal =
        rf_text_sequence(ir, digit_range(ir, *low, *low), from_digits(ir, low + 1));
    if (*low == '9') return equal;
    return rf_text_choice(ir, equal,
                          rf_text_sequence(ir, digit_range(ir, (char)(*low + 1), '9'),
                                           digits(ir, n - 1, (int64_t)n - 1)));
}

/* Texts of as many digits as `high` that are not greater. */
static const struct rf_expr *to_digits(struct rf_ir *ir, const char *high)
{
    size_t n = strlen(high);
    if (ir->code || is_all(high, '9')) return digits(ir, n, (int64_t)n);
    const struct rf_expr *equal =
        rf_text_sequence(ir, digit_range(ir, *high, *high), to_digits(ir, high + 1));
    if (*high == '0') return equal;
    return rf_text_choice(ir,
                          rf_text_sequence(ir, digit_range(ir, '0', (char)(*high - 1)),
                                           digits(ir, n - 1, (int64_t)n - 1)),
                          equal);
}

/* Texts of digits between two of the same length. */
static const struct rf_expr *between_digits(struct rf_ir *ir, const char *low, const char *high)
{
    const struct rf_expr *parts[3];
    size_t n = strlen(low), n_parts = 0;
    if (ir->code || !n) return rf_text(ir, "");
    if (*low == *high)
        return rf_text_sequence(ir, digit_range(ir, *low, *low),
                                between_digits(ir, low + 1, high + 1));
    char first = *low, last = *high;
    if (!is_all(low + 1, '0')) {
        parts[n_parts++] =
            rf_text_sequence(ir, digit_range(ir, first, first), from_digits(ir, low + 1));
        first++;
    }
    int is_cut = !is_all(high + 1, '9');
    if (is_cut) last--;
    if (first <= last)
        parts[n_parts++] =
            rf_text_sequence(ir, digit_range(ir, first, last), digits(ir, n - 1, (int64_t)n - 1));
    if (is_cut)
        parts[n_parts++] =
            rf_text_sequence(ir, digit_range(ir, *high, *high), to_digits(ir, high + 1));
    return rf_ir_choice(ir, parts, n_parts);
}

/* ---- integers without a sign ---- */

/* Copies n digits, with a digit in front if `first` is one. */
static char *copy_digits(struct rf_ir *ir, char first, const char *text)
{
    size_t n = strlen(text), before = first != 0;
    char *copy = take_digits(ir, before + n);
    if (!copy) return NULL;
    copy[0] = first;
    memcpy(copy + before, text, n + 1);
    return copy;
}

/* The next integer, `step` 1, or the one before, -1, of one above 0. */
static const char *whole_beside(struct rf_ir *ir, const char *whole, int step)
{
    char over = step > 0 ? '9' : '0', under = step > 0 ? '0' : '9';
    char *made = copy_digits(ir, step > 0 && is_all(whole, '9') ? '0' : 0, whole);
    if (!made) return NULL;
    size_t i = strlen(made) - 1;
    for (; made[i] == over; i--) made[i] = under;
    made[i] = (char)(made[i] + step);
    return made[0] == '0' && made[1] ? made + 1 : made;
}

/* Integers of more digits than n, and of fewer than m; m 0: any number. */
static const struct rf_expr *of_lengths(struct rf_ir *ir, size_t n, size_t m)
{
    return rf_text_sequence(ir, digit_range(ir, '1', '9'), digits(ir, n, m ? (int64_t)m - 2 : -1));
}

/* Integers between two of at least 0; `high` NULL: without a limit. */
static const struct rf_expr *whole_range(struct rf_ir *ir, const char *low, const char *high)
{
    const struct rf_expr *parts[3];
    size_t n_parts = 0;
    if (ir->code) return NULL;
    size_t n = strlen(low), m = high ? strlen(high) : 0;
    if (high && order_whole(low, high) > 0) return rf_text_none(ir);
    if (high && n == m) return between_digits(ir, low, high);
    parts[n_parts++] = from_digits(ir, low);
    if (!high || m > n + 1) parts[n_parts++] = of_lengths(ir, n, m);
    if (high) {
        char *power = copy_digits(ir, 0, high); /* the least number of as many digits */
        if (!power) return NULL;
        memset(power, '0', m);
        power[0] = '1';
        parts[n_parts++] = between_digits(ir, power, high);
    }
    return rf_ir_choice(ir, parts, n_parts);
}

/* ---- digits behind the point ---- */

/* Both limits of the digits behind a point, where the digits before it are those of both. Their
 * ends stand for zeros. */
struct rf_part_limits {
    const char *low, *high;
    int low_excluded, high_excluded;
};

static const struct rf_expr *any_digits(struct rf_ir *ir, int may_end)
{
    return digits(ir, !may_end, -1);
}

static const struct rf_expr *zeros(struct rf_ir *ir, int may_end)
{
    return rf_ir_repeat(ir, rf_text(ir, "0"), !may_end, -1);
}

/* Adds texts that begin with a digit from `first` to `last`. */
static void add_digits(struct rf_ir *ir, struct rf_expr const **parts, size_t *n, char first,
                       char last)
{
    if (first > last) return;
    parts[(*n)++] = rf_text_sequence(ir, digit_range(ir, first, last), any_digits(ir, 1));
}

/* Digits that, behind the point, are at least `low`, or over it. `may_end`: as many as one likes,
 * also none; otherwise at least one. */
static const struct rf_expr *part_from(struct rf_ir *ir, const char *low, int is_excluded,
                                       int may_end)
{
    const struct rf_expr *parts[2];
    size_t n = 0;
    if (ir->code) return NULL;
    if (!*low && !is_excluded) return any_digits(ir, may_end);
    if (!*low)
        return rf_text_sequence(ir, zeros(ir, 1), digit_range(ir, '1', '9'), any_digits(ir, 1));
    parts[n++] =
        rf_text_sequence(ir, digit_range(ir, *low, *low), part_from(ir, low + 1, is_excluded, 1));
    add_digits(ir, parts, &n, (char)(*low + 1), '9');
    return rf_ir_choice(ir, parts, n);
}

/* Digits that are at most `high`, or below it. */
static const struct rf_expr *part_to(struct rf_ir *ir, const char *high, int is_excluded,
                                     int may_end)
{
    const struct rf_expr *parts[3];
    size_t n = 0;
    if (ir->code) return NULL;
    if (!*high) return is_excluded ? rf_text_none(ir) : zeros(ir, may_end);
    if (may_end) parts[n++] = rf_text(ir, "");
    add_digits(ir, parts, &n, '0', (char)(*high - 1));
    const struct rf_expr *rest = part_to(ir, high + 1, is_excluded, 1);
    if (!rf_text_is_none(rest))
        parts[n++] = rf_text_sequence(ir, digit_range(ir, *high, *high), rest);
    return rf_ir_choice(ir, parts, n);
}

static const struct rf_expr *part_between(struct rf_ir *ir, struct rf_part_limits limits,
                                          int may_end)
{
    const struct rf_expr *parts[4];
    size_t n = 0;
    if (ir->code) return NULL;
    char low = *limits.low ? *limits.low : '0', high = *limits.high ? *limits.high : '0';
    if (!*limits.low && !*limits.high)
        return limits.low_excluded || limits.high_excluded ? rf_text_none(ir) : zeros(ir, may_end);
    if (may_end && !*limits.low && !limits.low_excluded) parts[n++] = rf_text(ir, "");
    struct rf_part_limits rest = limits;
    rest.low += *limits.low != 0;
    rest.high += *limits.high != 0;
    if (low == high) {
        const struct rf_expr *behind = part_between(ir, rest, 1);
        if (!rf_text_is_none(behind))
            parts[n++] = rf_text_sequence(ir, digit_range(ir, low, low), behind);
        return rf_ir_choice(ir, parts, n);
    }
    parts[n++] = rf_text_sequence(ir, digit_range(ir, low, low),
                                  part_from(ir, rest.low, limits.low_excluded, 1));
    add_digits(ir, parts, &n, (char)(low + 1), (char)(high - 1));
    const struct rf_expr *top = part_to(ir, rest.high, limits.high_excluded, 1);
    if (!rf_text_is_none(top)) parts[n++] = rf_text_sequence(ir, digit_range(ir, high, high), top);
    return rf_ir_choice(ir, parts, n);
}

/* A whole number with these digits behind a point, or without a point if `alone`. */
static const struct rf_expr *with_part(struct rf_ir *ir, const struct rf_expr *whole,
                                       const struct rf_expr *part, int alone)
{
    if (ir->code) return NULL;
    if (rf_text_is_none(whole) || (rf_text_is_none(part) && !alone)) return rf_text_none(ir);
    if (rf_text_is_none(part)) return whole;
    const struct rf_expr *behind = rf_text_sequence(ir, rf_text(ir, "."), part);
    return rf_text_sequence(ir, whole, alone ? rf_text_optional(ir, behind) : behind);
}

/* ---- numbers without a sign ---- */

/* The whole numbers that have any part: those behind `low` and before `high`. */
static const struct rf_expr *inner_numbers(struct rf_ir *ir, const struct rf_number_limits *limits)
{
    const struct rf_number_limit *high = &limits->high;
    const char *first = whole_beside(ir, limits->low.whole, 1), *last = NULL;
    if (high->whole) {
        if (is_all(high->whole, '0')) return rf_text_none(ir);
        last = whole_beside(ir, high->whole, -1);
    }
    if (ir->code) return NULL;
    return with_part(ir, whole_range(ir, first, last), any_digits(ir, 0), 1);
}

static const struct rf_expr *unsigned_numbers(struct rf_ir *ir,
                                              const struct rf_number_limits *limits)
{
    const struct rf_expr *parts[3], *left[3];
    const struct rf_number_limit *low = &limits->low, *high = &limits->high;
    size_t n = 0, n_left = 0;
    int order = high->whole ? order_sizes(low, high) : -1;
    if (ir->code) return NULL;
    if (order > 0 || (order == 0 && (low->is_excluded || high->is_excluded)))
        return rf_text_none(ir);
    int low_is_whole = !*low->part && !low->is_excluded;
    if (high->whole && strcmp(low->whole, high->whole) == 0) {
        const struct rf_part_limits both = {low->part, high->part, low->is_excluded,
                                            high->is_excluded};
        return with_part(ir, rf_text(ir, low->whole), part_between(ir, both, 0), low_is_whole);
    }
    parts[n++] = with_part(ir, rf_text(ir, low->whole),
                           part_from(ir, low->part, low->is_excluded, 0), low_is_whole);
    parts[n++] = inner_numbers(ir, limits);
    if (high->whole)
        parts[n++] =
            with_part(ir, rf_text(ir, high->whole), part_to(ir, high->part, high->is_excluded, 0),
                      *high->part || !high->is_excluded);
    for (size_t i = 0; i < n; i++)
        if (!rf_text_is_none(parts[i])) left[n_left++] = parts[i];
    return rf_ir_choice(ir, left, n_left);
}

/* ---- numbers ---- */

typedef const struct rf_expr *make_sizes(struct rf_ir *ir, const struct rf_number_limits *limits);

/* Numbers with and without a sign, from what makes those without one. There is no -0. */
static const struct rf_expr *signed_numbers(struct rf_ir *ir, const struct rf_number_limits *limits,
                                            make_sizes *make)
{
    static const struct rf_number_limit zero = {"0", "", 0, 0}, above_zero = {"0", "", 0, 1};
    const struct rf_number_limit *low = &limits->low, *high = &limits->high;
    const struct rf_expr *parts[2];
    size_t n = 0;
    if (ir->code) return NULL;
    if (!high->whole || !high->is_negative) {
        const struct rf_number_limits sizes = {low->whole && !low->is_negative ? *low : zero,
                                               *high};
        parts[n] = make(ir, &sizes);
        n += !rf_text_is_none(parts[n]);
    }
    if (!low->whole || low->is_negative) {
        const struct rf_number_limits sizes = {
            high->whole && high->is_negative ? *high : above_zero, *low};
        const struct rf_expr *made = make(ir, &sizes);
        if (!rf_text_is_none(made)) parts[n++] = rf_text_sequence(ir, rf_text(ir, "-"), made);
    }
    return ir->code ? NULL : rf_ir_choice(ir, parts, n);
}

/* Integers without a sign, from limits that need not be whole. */
static const struct rf_expr *unsigned_integers(struct rf_ir *ir,
                                               const struct rf_number_limits *limits)
{
    const struct rf_number_limit *low = &limits->low, *high = &limits->high;
    const char *first = low->whole, *last = high->whole;
    if (*low->part || low->is_excluded) first = whole_beside(ir, first, 1);
    if (last && !*high->part && high->is_excluded) {
        if (is_all(last, '0')) return rf_text_none(ir);
        last = whole_beside(ir, last, -1);
    }
    return ir->code ? NULL : whole_range(ir, first, last);
}

const struct rf_expr *rf_text_integer(struct rf_ir *ir, const struct rf_number_limits *limits)
{
    return signed_numbers(ir, limits, unsigned_integers);
}

const struct rf_expr *rf_text_number(struct rf_ir *ir, const struct rf_number_limits *limits)
{
    if (limits->low.whole || limits->high.whole)
        return signed_numbers(ir, limits, unsigned_numbers);
    const struct rf_expr *fraction = rf_text_sequence(ir, rf_text(ir, "."), any_digits(ir, 0));
    const struct rf_expr *exponent =
        rf_text_sequence(ir, rf_text_class(ir, "eeEE"),
                         rf_text_optional(ir, rf_text_class(ir, "++--")), any_digits(ir, 0));
    return rf_text_sequence(ir, rf_text_optional(ir, rf_text(ir, "-")),
                            rf_text_choice(ir, rf_text(ir, "0"), of_lengths(ir, 0, 0)),
                            rf_text_optional(ir, fraction), rf_text_optional(ir, exponent));
}
