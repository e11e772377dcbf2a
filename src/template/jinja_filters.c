/* Filters of numbers, of JSON, and of any value. jinja_names.c finds them by name. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja_functions.h"

FUNCTION(filter_tojson)
{
    struct json_style style = {.indent = -1};
    struct output out = {0};
    value indent = ARGUMENT(1, "indent", rf_jinja_none());
    value separators = ARGUMENT(2, "separators", rf_jinja_none());
    style.ascii = rf_jinja_truth(ARGUMENT(0, "ensure_ascii", rf_jinja_bool(0)));
    style.sorted = rf_jinja_truth(ARGUMENT(3, "sort_keys", rf_jinja_bool(0)));
    if (indent.type != RF_JINJA_NONE &&
        (!rf_jinja_as_integer(indent, &style.indent) || style.indent < 0 || style.indent > 64))
        return rf_jinja_mistyped(run, "indent JSON by", indent);
    style.item_separator = rf_jinja_text(style.indent < 0 ? ", " : ",");
    style.key_separator = rf_jinja_text(": ");
    if (separators.type != RF_JINJA_NONE) {
        if (!rf_jinja_is_sequence(separators) || separators.u.list->n != 2)
            return rf_jinja_mistyped(run, "separate JSON by", separators);
        style.item_separator = rf_jinja_str(run, separators.u.list->items[0]);
        style.key_separator = rf_jinja_str(run, separators.u.list->items[1]);
    }
    rf_jinja_write_json(run, &out, self, &style);
    return rf_jinja_written(run, &out);
}

FUNCTION(filter_from_json)
{
    UNUSED;
    if (self.type != RF_JINJA_STRING) return rf_jinja_mistyped(run, "read as JSON", self);
    return rf_jinja_read_json(run, self);
}

/* ---- numbers ---- */

/* A text that strtoll and strtod read as Python reads it: no white space around it, no '_' but
 * between digits, nothing hexadecimal. 0: it is none, or is too long. */
static int number_text(struct rf_jinja_run *run, value self, char *text, size_t cap)
{
    struct rf_str shown = rf_jinja_bytes(rf_jinja_strip(run, self, rf_jinja_none(), 1, 1));
    size_t n = 0;
    rf_jinja_steps(run, 8);
    if (self.type != RF_JINJA_STRING || shown.bytes == 0) return 0;
    for (size_t i = 0; i < shown.bytes && n + 1 < cap; i++) {
        char c = shown.data[i];
        int before = i > 0 && shown.data[i - 1] >= '0' && shown.data[i - 1] <= '9';
        int behind = i + 1 < shown.bytes && shown.data[i + 1] >= '0' && shown.data[i + 1] <= '9';
        if (c == '_' && before && behind) continue;
        if (!c || c == '_' || c == 'x' || c == 'X' || c == 'p' || c == 'P' || c == '(') return 0;
        text[n++] = c;
    }
    text[n] = 0;
    return n + 1 < cap;
}

/* An integer beyond 64 bits, of digits with or without a sign; an undefined value: they are none.
 */
static value big_integer(struct rf_jinja_run *run, const char *text)
{
    int negative = *text == '-';
    const char *digits = text + (*text == '-' || *text == '+');
    while (*digits == '0' && digits[1]) digits++;
    size_t n = strspn(digits, "0123456789");
    if (digits[n] || n == 0) return (value){0};
    char *kept = rf_jinja_take(run, n + 2, 1);
    if (!kept) return (value){0};
    if (negative) *kept = '-';
    memcpy(kept + negative, digits, n + 1);
    return (value){.type = RF_JINJA_BIG, .u.data = kept, .bytes = n + (size_t)negative};
}

/* int(text, base), with the prefix that the base may have. */
static value integer_of_base(struct rf_jinja_run *run, value self, int64_t base, value otherwise)
{
    struct rf_str shown = rf_jinja_bytes(rf_jinja_strip(run, self, rf_jinja_none(), 1, 1));
    char text[80], *end, *digits = text;
    if (self.type != RF_JINJA_STRING || shown.bytes == 0 || shown.bytes >= sizeof text ||
        base < 0 || base == 1 || base > 36)
        return otherwise;
    memcpy(text, shown.data, shown.bytes);
    text[shown.bytes] = 0;
    int negative = *digits == '-';
    if (*digits == '-' || *digits == '+') digits++;
    char letter = digits[0] == '0' ? (char)(digits[1] | 0x20) : 0;
    int64_t own = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (own && (base == own || base == 0)) digits += 2, base = own;
    errno = 0;
    int64_t integer = strtoll(digits, &end, base ? (int)base : 10);
    if (*end || end == digits || errno || strpbrk(digits, "+- \t\n")) return otherwise;
    return rf_jinja_integer(negative ? -integer : integer);
}

FUNCTION(filter_int)
{
    UNUSED;
    value otherwise = ARGUMENT(0, "default", rf_jinja_integer(0));
    int64_t base = 10;
    double real;
    char text[400], *end;
    if (self.type == RF_JINJA_BIG) return self;
    if (self.type == RF_JINJA_UNDEFINED) return rf_jinja_mistyped(run, "make a number of", self);
    if (rf_jinja_as_number(self, &real)) {
        if (self.type != RF_JINJA_FLOAT) return rf_jinja_integer(self.u.integer);
    } else {
        rf_jinja_as_integer(ARGUMENT(1, "base", rf_jinja_none()), &base);
        if (base != 10) return integer_of_base(run, self, base, otherwise);
        if (!number_text(run, self, text, sizeof text)) return otherwise;
        errno = 0;
        int64_t integer = strtoll(text, &end, 10);
        if (!*end && !errno) return rf_jinja_integer(integer);
        value big = errno ? big_integer(run, text) : (value){0};
        if (big.type) return big;
        real = strtod(text, &end);
        if (*end) return otherwise;
    }
    if (fabs(real) < 9e18) return rf_jinja_integer((int64_t)real);
    if (!isfinite(real)) return otherwise;
    snprintf(text, sizeof text, "%.0f", real);
    return big_integer(run, text);
}

FUNCTION(filter_float)
{
    UNUSED;
    value otherwise = ARGUMENT(0, "default", rf_jinja_real(0));
    double real;
    char text[400], *end;
    if (self.type == RF_JINJA_UNDEFINED) return rf_jinja_mistyped(run, "make a number of", self);
    if (rf_jinja_as_number(self, &real)) return rf_jinja_real(real);
    if (!number_text(run, self, text, sizeof text)) return otherwise;
    real = strtod(text, &end);
    return *end ? otherwise : rf_jinja_real(real);
}

FUNCTION(filter_abs)
{
    double real;
    UNUSED;
    if (!rf_jinja_as_number(self, &real))
        return rf_jinja_mistyped(run, "take the absolute value of", self);
    if (self.type == RF_JINJA_FLOAT) return rf_jinja_real(fabs(real));
    if (self.type == RF_JINJA_BIG || self.u.integer == INT64_MIN)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    return rf_jinja_integer(self.u.integer < 0 ? -self.u.integer : self.u.integer);
}

FUNCTION(filter_round)
{
    double real;
    int64_t precision = 0;
    struct rf_str method = rf_jinja_bytes(ARGUMENT(1, "method", rf_jinja_text("common")));
    rf_jinja_as_integer(ARGUMENT(0, "precision", rf_jinja_integer(0)), &precision);
    if (!rf_jinja_as_number(self, &real) || precision < -300 || precision > 300)
        return rf_jinja_mistyped(run, "round", self);
    rf_jinja_steps(run, precision ? 64 : 1);
    double scale = pow(10, (double)precision);
    if (rf_str_is(method, "ceil")) return rf_jinja_real(ceil(real * scale) / scale);
    if (rf_str_is(method, "floor")) return rf_jinja_real(floor(real * scale) / scale);
    if (self.type != RF_JINJA_FLOAT && precision >= 0) return self; /* Python's round(integer) */
    if (precision < 0) {
        real = nearbyint(real * scale) / scale;
        return self.type == RF_JINJA_FLOAT ? rf_jinja_real(real) : rf_jinja_integer((int64_t)real);
    }
    if (precision == 0) return rf_jinja_real(nearbyint(real));
    char text[400];
    snprintf(text, sizeof text, "%.*f", (int)precision, real);
    return rf_jinja_real(strtod(text, NULL));
}

FUNCTION(filter_filesizeformat)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary_units[] = {"KiB", "MiB", "GiB", "TiB",
                                               "PiB", "EiB", "ZiB", "YiB"};
    double size;
    char text[400];
    int binary = rf_jinja_truth(ARGUMENT(0, "binary", rf_jinja_bool(0)));
    value number = filter_float(run, self, &(struct arguments){0});
    rf_jinja_as_number(number, &size);
    double base = binary ? 1024 : 1000, unit = base * base;
    if (size < base) snprintf(text, sizeof text, size == 1 ? "1 Byte" : "%.0f Bytes", trunc(size));
    size_t i = 0;
    for (; size >= base && i < 7 && size >= unit; i++) unit *= base;
    if (size >= base)
        snprintf(text, sizeof text, "%.1f %s", base * size / unit,
                 binary ? binary_units[i] : units[i]);
    struct output out = {0};
    rf_jinja_write_text(run, &out, text);
    return rf_jinja_written(run, &out);
}

FUNCTION(filter_pprint)
{
    struct output out = {0};
    UNUSED;
    rf_jinja_write_repr(run, &out, self);
    return rf_jinja_written(run, &out);
}

/* An attribute by its name, never an item. */
FUNCTION(filter_attr)
{
    value name = ARGUMENT(0, "name", rf_jinja_none());
    if (self.type == RF_JINJA_DICT) {
        struct rf_jinja_dict none = {0};
        value bare = {.type = RF_JINJA_DICT, .u.dict = &none};
        value found = rf_jinja_attribute(run, bare, name, 1);
        return found.type == RF_JINJA_CALLABLE ? rf_jinja_attribute(run, self, name, 1) : found;
    }
    return rf_jinja_attribute(run, self, name, 1);
}

const struct builtin rf_jinja_value_filters[] = {{"tojson", filter_tojson, 0},
                                                 {"from_json", filter_from_json, 0},
                                                 {"int", filter_int, 0},
                                                 {"float", filter_float, 0},
                                                 {"abs", filter_abs, 0},
                                                 {"round", filter_round, 0},
                                                 {"filesizeformat", filter_filesizeformat, 0},
                                                 {"pprint", filter_pprint, 0},
                                                 {"attr", filter_attr, BUILTIN_CONSTANT},
                                                 {NULL, NULL, 0}};
