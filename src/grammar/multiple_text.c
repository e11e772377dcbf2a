/* Expressions of the multiples of a number between two limits. The digits are read from the left
 * with the remainder of what came so far: a rule for each remainder, and for each number of digits
 * that are left. schema_scalars.c calls it for multipleOf. */
#include "grammar/multiple_text.h"

#include <string.h>

#include "base/decimal.h"

/* Numbers with `point` digits behind the point that are, without it, multiples of `modulus`, with
 * `zeros` zeros behind them. */
struct multiples {
    struct rf_ir *ir;
    uint32_t modulus;
    size_t point, zeros;
    int32_t *exact, *open; /* [n_rows][modulus] rules, number + 1; 0: none yet */
    size_t n_rows;
};

/* ---- the number itself ---- */

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int rf_multiple_of(struct rf_str number, struct rf_multiple *multiple)
{
    struct rf_decimal d = rf_decimal_of(number.data, number.bytes);
    char digits[16];
    if (!d.n || d.is_negative || d.n > 15) return 0;
    int64_t places = (int64_t)d.n - d.point;
    if (places > RF_MULTIPLE_PLACES || places < -RF_NUMBER_DIGITS) return 0;
    rf_decimal_write(&d, -d.point, d.n, digits);
    *multiple = (struct rf_multiple){.places = (int32_t)places};
    for (size_t i = 0; i < d.n; i++)
        multiple->size = multiple->size * 10 + (uint64_t)(digits[i] - '0');
    return 1;
}

/* Makes the number one of as many places. */
static int set_places(struct rf_multiple *m, int32_t places)
{
    for (; m->places < places; m->places++)
        if (__builtin_mul_overflow(m->size, 10, &m->size)) return 0;
    return 1;
}

int rf_multiple_join(struct rf_multiple *m, struct rf_multiple other)
{
    int32_t places = m->places > other.places ? m->places : other.places;
    if (!set_places(m, places) || !set_places(&other, places)) return 0;
    uint64_t times = other.size / greatest_divisor(m->size, other.size);
    if (__builtin_mul_overflow(m->size, times, &m->size)) return 0;
    for (; m->size % 10 == 0; m->places--) m->size /= 10;
    return 1;
}

int rf_multiple_divides(struct rf_multiple m, struct rf_str number)
{
    enum { ENOUGH = 64 }; /* tens: any more change nothing for a size of 64 bits */
    struct rf_decimal d = rf_decimal_of(number.data, number.bytes);
    uint64_t rest = 0;
    int64_t behind = (int64_t)d.n - d.point; /* digits behind the point */
    if (!d.n) return 1;
    if (behind > m.places) return 0;
    for (size_t i = 0; i < d.n; i++) {
        char digit;
        rf_decimal_write(&d, (int64_t)i - d.point, 1, &digit);
        rest = (rest * 10 + (uint64_t)(digit - '0')) % m.size;
    }
    for (int64_t i = 0; i < m.places - behind && i < ENOUGH; i++) rest = rest * 10 % m.size;
    return rest == 0;
}

/* ---- digits with a remainder ---- */

static uint32_t rest_after(const struct multiples *m, uint32_t rest, int digit)
{
    return (rest * 10 + (uint32_t)digit) % m->modulus;
}

/* Whether n more digits can make a multiple. */
static int can_end(const struct multiples *m, uint32_t rest, size_t n)
{
    uint64_t reach = 1;
    for (; n && reach < m->modulus; n--) {
        rest = rest * 10 % m->modulus;
        reach *= 10;
    }
    return n > 0 || reach >= m->modulus || (m->modulus - rest) % m->modulus < reach;
}

/* A digit, where `left` more follow; the point is before the last `point` digits. */
static const struct rf_expr *one_digit(const struct multiples *m, int digit, size_t left)
{
    const char text[3] = {left + 1 == m->point ? '.' : (char)('0' + digit), (char)('0' + digit), 0};
    return rf_ir_text(m->ir, (struct rf_str){text, left + 1 == m->point ? 2u : 1u});
}

static const struct rf_expr *exact_digits(struct multiples *m, uint32_t rest, size_t n);

/* A digit from `first` to `last`, then `left` more. */
static void add_some(struct multiples *m, struct rf_choice_parts *parts, uint32_t rest, int first,
                     int last, size_t left)
{
    for (int digit = first; digit <= last && !m->ir->code; digit++) {
        uint32_t next = rest_after(m, rest, digit);
        if (can_end(m, next, left))
            parts->items[parts->n++] =
                rf_text_sequence(m->ir, one_digit(m, digit, left), exact_digits(m, next, left));
    }
}

/* The rule of a place in a table, which `make` fills when it is new. */
static const struct rf_expr *rule_at(struct multiples *m, int32_t *table, size_t n, uint32_t rest,
                                     const struct rf_expr *(*make)(struct multiples *m,
                                                                   uint32_t rest, size_t n))
{
    int32_t *place = &table[n * m->modulus + rest];
    if (!*place) {
        *place = rf_ir_add_rule(m->ir, rf_str_of(""), "multipleOf") + 1;
        const struct rf_expr *expr = m->ir->code ? NULL : make(m, rest, n);
        if (m->ir->code) return NULL;
        m->ir->rules[*place - 1].expr = expr;
    }
    return m->ir->code ? NULL : rf_ir_rule(m->ir, *place - 1);
}

static const struct rf_expr *make_exact(struct multiples *m, uint32_t rest, size_t n)
{
    struct rf_choice_parts parts = {.n = 0};
    add_some(m, &parts, rest, 0, 9, n - 1);
    return rf_ir_choice(m->ir, parts.items, parts.n);
}

/* All texts of n digits that make a multiple. */
static const struct rf_expr *exact_digits(struct multiples *m, uint32_t rest, size_t n)
{
    if (m->ir->code) return NULL;
    if (n == 0) return rest ? rf_text_none(m->ir) : rf_text(m->ir, "");
    return rule_at(m, m->exact, n, rest, make_exact);
}

/* At least `least` digits before those behind the point, and those. */
static const struct rf_expr *make_open(struct multiples *m, uint32_t rest, size_t least)
{
    struct rf_choice_parts parts = {.n = 0};
    for (int digit = 0; digit <= 9; digit++) {
        const char text[2] = {(char)('0' + digit), 0};
        parts.items[parts.n++] = rf_text_sequence(
            m->ir, rf_text(m->ir, text),
            rule_at(m, m->open, least ? least - 1 : 0, rest_after(m, rest, digit), make_open));
    }
    if (!least && can_end(m, rest, m->point))
        parts.items[parts.n++] = exact_digits(m, rest, m->point);
    return m->ir->code ? NULL : rf_ir_choice(m->ir, parts.items, parts.n);
}

/* Texts of as many digits as the limits, NULL: without one. Limits of which nothing is left are "",
 * not NULL. */
static const struct rf_expr *between_limits(struct multiples *m, uint32_t rest, const char *low,
                                            const char *high, size_t n)
{
    struct rf_choice_parts parts = {.n = 0};
    if (m->ir->code || (!low && !high)) return exact_digits(m, rest, n);
    if (n == 0) return exact_digits(m, rest, 0);
    int first = low ? *low - '0' : 0, last = high ? *high - '0' : 9;
    for (int digit = first; digit <= last && !m->ir->code; digit++) {
        uint32_t next = rest_after(m, rest, digit);
        const char *low_rest = low && digit == first ? low + 1 : NULL,
                   *high_rest = high && digit == last ? high + 1 : NULL;
        if (!can_end(m, next, n - 1)) continue;
        const struct rf_expr *behind = between_limits(m, next, low_rest, high_rest, n - 1);
        if (rf_text_is_none(behind)) continue;
        parts.items[parts.n++] = rf_text_sequence(m->ir, one_digit(m, digit, n - 1), behind);
    }
    return m->ir->code ? NULL : rf_ir_choice(m->ir, parts.items, parts.n);
}

/* ---- numbers without a sign ---- */

/* The limit as an integer of the digits up to the place, at least `point` + 1 of them: rounded up
 * where it is a low one, else down. *is_below: it is under 0. */
static char *scaled_limit(struct multiples *m, const struct rf_number_limit *limit, int is_low,
                          int *is_below)
{
    size_t n_whole = strlen(limit->whole), n_part = strlen(limit->part);
    size_t n = n_whole + m->point, room = n + m->zeros + 2;
    char *digits = rf_arena_alloc(&m->ir->arena, room, 1, "a schema", m->ir->error);
    *is_below = 0;
    if (!digits) {
        m->ir->code = RF_ERR_MEMORY;
        return NULL;
    }
    /* A 0 in front for a carry, the digits that count, and whether there are others. */
    size_t cut = m->zeros < n ? m->zeros : n, kept = n - cut;
    int has_rest = n_part > m->point;
    digits[0] = '0';
    for (size_t i = 0; i < n; i++) {
        char digit = i < n_whole            ? limit->whole[i]
                     : i - n_whole < n_part ? limit->part[i - n_whole]
                                            : '0';
        if (i < kept)
            digits[1 + i] = digit;
        else
            has_rest |= digit != '0';
    }
    if (!kept) digits[1 + kept++] = '0';
    digits[1 + kept] = 0;
    int step = is_low ? has_rest || limit->is_excluded : -(!has_rest && limit->is_excluded);
    size_t i = kept;
    if (step > 0) {
        for (; digits[i] == '9'; i--) digits[i] = '0';
        digits[i]++;
    } else if (step < 0) {
        for (; i > 0 && digits[i] == '0'; i--) digits[i] = '9';
        *is_below = i == 0;
        if (i) digits[i]--;
    }
    while (digits[0] == '0' && strlen(digits) > m->point + 1) digits++;
    return digits;
}

static const struct rf_expr *with_zeros(struct multiples *m, const struct rf_expr *multiples)
{
    if (m->ir->code || !m->zeros || rf_text_is_none(multiples)) return multiples;
    return rf_text_sequence(
        m->ir, multiples,
        rf_ir_repeat(m->ir, rf_text(m->ir, "0"), (int32_t)m->zeros, (int32_t)m->zeros));
}

/* Rows of the tables: as many as digits may be left. */
static int take_tables(struct multiples *m, size_t n_rows)
{
    m->n_rows = n_rows;
    m->exact = rf_arena_alloc(&m->ir->arena, n_rows * m->modulus, sizeof *m->exact, "a schema",
                              m->ir->error);
    m->open = rf_arena_alloc(&m->ir->arena, n_rows * m->modulus, sizeof *m->open, "a schema",
                             m->ir->error);
    if (!m->exact || !m->open) m->ir->code = RF_ERR_MEMORY;
    return m->ir->code;
}

/* Multiples of n digits and more, as many as `high` has or any number. */
static void add_longer(struct multiples *m, struct rf_choice_parts *parts, size_t n,
                       const char *high)
{
    struct rf_choice_parts some;
    size_t most = high ? strlen(high) : n;
    for (; n <= most && high && !m->ir->code; n++) {
        some.n = 0;
        if (n == most) {
            char *power = rf_arena_alloc(&m->ir->arena, n + 1, 1, "a schema", m->ir->error);
            if (!power) m->ir->code = RF_ERR_MEMORY;
            if (m->ir->code) return;
            memset(power, '0', n);
            power[0] = '1';
            some.items[some.n++] = between_limits(m, 0, power, high, n);
        } else {
            add_some(m, &some, 0, 1, 9, n - 1);
        }
        const struct rf_expr *made = m->ir->code ? NULL : rf_ir_choice(m->ir, some.items, some.n);
        if (parts->n == sizeof parts->items / sizeof *parts->items) {
            parts->items[0] = rf_ir_choice(m->ir, parts->items, parts->n);
            parts->n = 1;
        }
        if (made && !rf_text_is_none(made)) parts->items[parts->n++] = made;
    }
    if (high) return;
    some.n = 0;
    for (int digit = 1; digit <= 9; digit++) {
        const char text[2] = {(char)('0' + digit), 0};
        some.items[some.n++] = rf_text_sequence(
            m->ir, rf_text(m->ir, text),
            rule_at(m, m->open, n - 1 - m->point, rest_after(m, 0, digit), make_open));
    }
    if (!m->ir->code) parts->items[parts->n++] = rf_ir_choice(m->ir, some.items, some.n);
}

static int is_zero(const char *digits)
{
    while (*digits == '0') digits++;
    return !*digits;
}

static const struct rf_expr *unsigned_multiples(struct multiples *m,
                                                const struct rf_number_limits *limits)
{
    struct rf_choice_parts parts = {.n = 0};
    int is_below = 0;
    char *high = NULL, *low = scaled_limit(m, &limits->low, 1, &is_below);
    if (limits->high.whole && low) high = scaled_limit(m, &limits->high, 0, &is_below);
    if (m->ir->code) return NULL;
    if (is_below) return rf_text_none(m->ir);
    size_t n = strlen(low), longest = high ? strlen(high) : n;
    int order = high ? (n != longest ? (n < longest ? -1 : 1) : strcmp(low, high)) : -1;
    if (order > 0) return rf_text_none(m->ir);
    if (take_tables(m, (longest > n ? longest : n) + 1)) return NULL;
    const struct rf_expr *zero = NULL;
    if (m->zeros && is_zero(low)) { /* no zeros behind a 0 */
        zero = rf_text(m->ir, "0");
        low[n - 1] = '1';
        if (high && is_zero(high)) return zero;
    }
    const char *shown_high = high && longest == n ? high : NULL;
    const struct rf_expr *made = between_limits(m, 0, low, shown_high, n);
    if (made && !rf_text_is_none(made)) parts.items[parts.n++] = made;
    if (!high || longest > n) add_longer(m, &parts, n + 1, high);
    if (m->ir->code) return NULL;
    made = with_zeros(m, rf_ir_choice(m->ir, parts.items, parts.n));
    return !zero ? made : rf_text_is_none(made) ? zero : rf_text_choice(m->ir, zero, made);
}

/* ---- numbers ---- */

/* Numbers with so many places behind the point that are multiples. */
static const struct rf_expr *multiples_of_places(struct rf_ir *ir,
                                                 const struct rf_number_limits *limits,
                                                 struct rf_multiple of, int32_t places)
{
    static const struct rf_number_limit zero = {"0", "", 0, 0}, above_zero = {"0", "", 0, 1};
    const struct rf_number_limit *low = &limits->low, *high = &limits->high;
    const struct rf_expr *parts[2];
    size_t n = 0;
    uint64_t size = of.size;
    for (int32_t i = places; i < of.places; i++) { /* digits that are not written are zeros */
        uint64_t common = greatest_divisor(size, 10);
        size /= common;
    }
    if (size > RF_MULTIPLE_MOST) {
        rf_ir_fail(ir, RF_ERR_UNSUPPORTED,
                   "multipleOf is supported for numbers of which at most %d is left without zeros",
                   (int)RF_MULTIPLE_MOST);
        return NULL;
    }
    struct multiples m = {.ir = ir,
                          .modulus = (uint32_t)size,
                          .point = (size_t)places,
                          .zeros = of.places < 0 ? (size_t)-of.places : 0};
    if (!high->whole || !high->is_negative) {
        const struct rf_number_limits sizes = {low->whole && !low->is_negative ? *low : zero,
                                               *high};
        parts[n] = unsigned_multiples(&m, &sizes);
        n += parts[n] && !rf_text_is_none(parts[n]);
    }
    if (!ir->code && (!low->whole || low->is_negative)) {
        const struct rf_number_limits sizes = {
            high->whole && high->is_negative ? *high : above_zero, *low};
        const struct rf_expr *made = unsigned_multiples(&m, &sizes);
        if (made && !rf_text_is_none(made))
            parts[n++] = rf_text_sequence(ir, rf_text(ir, "-"), made);
    }
    return ir->code ? NULL : rf_ir_choice(ir, parts, n);
}

const struct rf_expr *rf_text_multiples(struct rf_ir *ir, const struct rf_number_limits *limits,
                                        struct rf_multiple of, int is_integer)
{
    const struct rf_expr *parts[RF_MULTIPLE_PLACES + 1];
    size_t n = 0;
    for (int32_t places = 0; places == 0 || (!is_integer && places <= of.places); places++) {
        parts[n] = multiples_of_places(ir, limits, of, places);
        if (ir->code) return NULL;
        n += !rf_text_is_none(parts[n]);
    }
    return rf_ir_choice(ir, parts, n);
}
