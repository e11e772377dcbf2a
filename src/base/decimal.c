/* Numbers as texts: exact comparison of decimals by their digits, and the shortest text of a
 * float. Nothing here depends on the locale, and nothing allocates. The JSON reader and writer and
 * the grammars of numbers call it. */
#include "base/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t greatest_exponent = 1000000000000000;

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t skip_digits(const char *text, size_t bytes, size_t at)
{
    while (at < bytes && is_digit(text[at])) at++;
    return at;
}

size_t rf_number_length(const char *text, size_t bytes)
{
    size_t at = bytes && text[0] == '-', begin = at;
    if (at < bytes && text[at] == '0')
        at++;
    else
        at = skip_digits(text, bytes, at);
    if (at == begin) return 0;
    if (at + 1 < bytes && text[at] == '.' && is_digit(text[at + 1]))
        at = skip_digits(text, bytes, at + 1);
    if (at < bytes && (text[at] == 'e' || text[at] == 'E')) {
        size_t digits = at + 1;
        if (digits < bytes && (text[digits] == '+' || text[digits] == '-')) digits++;
        if (digits < bytes && is_digit(text[digits])) at = skip_digits(text, bytes, digits);
    }
    return at;
}

/* The exponent behind the 'e', within +-greatest_exponent. */
static int64_t exponent_of(const char *text, size_t bytes)
{
    int64_t exponent = 0;
    size_t at = bytes && (text[0] == '-' || text[0] == '+');
    for (; at < bytes; at++)
        if (exponent < greatest_exponent) exponent = exponent * 10 + (text[at] - '0');
    if (exponent > greatest_exponent) exponent = greatest_exponent;
    return bytes && text[0] == '-' ? -exponent : exponent;
}

struct rf_decimal rf_decimal_of(const char *text, size_t bytes)
{
    struct rf_decimal d = {.is_negative = bytes && text[0] == '-'};
    int64_t seen = 0, before_point = -1; /* digits from the first that is not 0 */
    int64_t leading = 0;                 /* zeros behind the point and before all other digits */
    size_t at = (size_t)d.is_negative;
    for (; at < bytes && text[at] != 'e' && text[at] != 'E'; at++) {
        if (text[at] == '.') {
            before_point = seen;
        } else if (text[at] != '0' || seen) {
            if (!seen) d.digits = text + at;
            seen++;
            if (text[at] != '0') d.n = (size_t)seen;
        } else if (before_point >= 0) {
            leading++;
        }
    }
    if (!d.n) return (struct rf_decimal){.is_negative = d.is_negative};
    d.point = (before_point < 0 ? seen : before_point) - leading;
    if (at < bytes) d.point += exponent_of(text + at + 1, bytes - at - 1);
    return d;
}

int rf_decimal_order(const struct rf_decimal *a, const struct rf_decimal *b)
{
    int sign_a = !a->n ? 0 : a->is_negative ? -1 : 1, sign_b = !b->n ? 0 : b->is_negative ? -1 : 1;
    if (sign_a != sign_b || !sign_a) return sign_a - sign_b;
    if (a->point != b->point) return a->point < b->point ? -sign_a : sign_a;
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0, x = 0, y = 0; i < n; i++, x++, y++) {
        x += a->digits[x] == '.';
        y += b->digits[y] == '.';
        if (a->digits[x] != b->digits[y]) return a->digits[x] < b->digits[y] ? -sign_a : sign_a;
    }
    return a->n == b->n ? 0 : a->n < b->n ? -sign_a : sign_a;
}

int rf_decimal_is_integer(const struct rf_decimal *d)
{
    return d->point >= 0 && (uint64_t)d->point >= d->n;
}

void rf_decimal_write(const struct rf_decimal *d, int64_t place, size_t count, char *out)
{
    memset(out, '0', count);
    for (size_t i = 0, at = 0; i < d->n; i++, at++) {
        at += d->digits[at] == '.';
        int64_t to = (int64_t)i - d->point - place;
        if (to >= 0 && (uint64_t)to < count) out[to] = d->digits[at];
    }
}

/* Writes the decimal point of the locale, which strtod reads and printf writes. localeconv may not
 * be called from several threads. */
static size_t write_point(char point[16])
{
    int n = snprintf(point, 16, "%.1f", 0.5);
    memmove(point, point + 1, 15);
    point[n - 2] = 0;
    return (size_t)n - 2;
}

static double read_double(const char *text, size_t bytes)
{
    char small[64], *copy = small, point[16];
    size_t n = 0, n_point = write_point(point);
    if (bytes + n_point + 1 > sizeof small) copy = malloc(bytes + n_point + 1);
    if (!copy) return NAN;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '.') {
            copy[n++] = text[i];
            continue;
        }
        memcpy(copy + n, point, n_point);
        n += n_point;
    }
    copy[n] = 0;
    double value = strtod(copy, NULL);
    if (copy != small) free(copy);
    return value;
}

double rf_decimal_to_double(const char *text, size_t bytes)
{
    enum { EXACT = 800 }; /* more digits than any F64 needs to be told from its neighbours */
    if (bytes <= EXACT) return read_double(text, bytes);
    struct rf_decimal d = rf_decimal_of(text, bytes);
    char cut[EXACT + 40];
    if (!d.n) return d.is_negative ? -0.0 : 0.0;
    size_t n = d.n < EXACT ? d.n : EXACT;
    cut[0] = d.is_negative ? '-' : '+';
    cut[1] = '.';
    rf_decimal_write(&d, -d.point, n, cut + 2);
    if (n < d.n) cut[1 + n] = cut[1 + n] == '0' ? '1' : cut[1 + n]; /* over a tie, not on it */
    n += 2;
    n += (size_t)snprintf(cut + n, sizeof cut - n, "e%lld", (long long)d.point);
    return read_double(cut, n);
}

/* Writes as "%.*g", with '.' in every locale and no zeros or '+' in front of the exponent. */
static void write_digits(double value, int precision, char out[RF_DOUBLE_TEXT])
{
    char text[2 * RF_DOUBLE_TEXT], point[16];
    const char *at = text;
    size_t n = 0, n_point = write_point(point);
    snprintf(text, sizeof text, "%.*g", precision, value);
    int has_point = 0, has_exponent = 0;
    while (*at) {
        if (strncmp(at, point, n_point) == 0) {
            out[n++] = '.';
            has_point = 1;
            at += n_point;
        } else if (*at == 'e') {
            has_exponent = 1;
            out[n++] = *at++;
            if (*at == '-') out[n++] = '-';
            at++;
            while (*at == '0') at++;
        } else {
            out[n++] = *at++;
        }
    }
    if (!has_point && !has_exponent) {
        out[n++] = '.';
        out[n++] = '0';
    }
    out[n] = 0;
}

void rf_double_write(double value, char out[RF_DOUBLE_TEXT])
{
    /* Every text of 15 digits is told from its neighbours by an F64, unless it is subnormal. */
    int precision = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    for (;; precision++) {
        write_digits(value, precision, out);
        if (precision == 17 || read_double(out, strlen(out)) == value) return;
    }
}

double rf_double_of_float(float value)
{
    char text[RF_DOUBLE_TEXT];
    if (!isfinite(value)) return value;
    for (int precision = fabsf(value) < FLT_MIN ? 1 : FLT_DIG;; precision++) {
        write_digits(value, precision, text);
        double wide = read_double(text, strlen(text));
        if (precision == 9 || (float)wide == value) return wide;
    }
}
