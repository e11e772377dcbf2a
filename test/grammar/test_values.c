/* The numbers and formatted strings that a schema allows: cases, and for limits of numbers all
 * short decimals beside the exact order. */
#include <stdio.h>

#include "base/decimal.h"
#include "grammar/ir.h"
#include "platform/memory.h"
#include "support/check.h"
#include "vocabulary.h"

static struct vocabulary vocabulary;

static struct rf_grammar *compile(const char *schema)
{
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar = NULL;
    int code = rf_grammar_new(&grammar, RF_GRAMMAR_JSON_SCHEMA, rf_str_of(schema), &vocabulary.of,
                              NULL, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s: %s", schema, error.text);
    return grammar;
}

static int accepts(struct rf_matcher *matcher, const char *text)
{
    struct rf_error error = {.text = ""};
    int32_t state = rf_matcher_start(matcher, &error);
    for (size_t i = 0; text[i] && state > RF_STATE_REJECTED; i++)
        state = state == RF_STATE_FINAL
                    ? RF_STATE_REJECTED
                    : rf_matcher_advance(matcher, state, (unsigned char)text[i], &error);
    CHECK_MSG(state >= 0, "%s", error.text);
    return state >= 0 && rf_matcher_accepts(matcher, state);
}

struct values {
    const char *schema;
    const char *good[12], *bad[12]; /* as JSON */
};

#define DIGITS50 "12345678901234567890123456789012345678901234567890"
#define LIMITED(limits) "{\"type\":\"integer\"," limits "}"
static const struct values numbers[] = {
    {"{\"type\":\"integer\"}",
     {"0", "-1", "1000000000000000", "1234567890123456789", "-9007199254740993", DIGITS50},
     {"01", "-", "1.0", "1e3", "-01"}},
    {"{}",
     {DIGITS50, "0." DIGITS50, "-" DIGITS50 "." DIGITS50 "e-300", "1E+0012", "1e400", "-0"},
     {"1.", ".5", "1e", "00", "+1"}},
    {"{\"type\":\"number\"}", {"0." DIGITS50, "1234567890123456789"}, {"\"1\""}},
    {LIMITED("\"minimum\":-9007199254740991,\"maximum\":9007199254740991"),
     {"9007199254740991", "-9007199254740991", "0", "8999999999999999", "9007199254739999"},
     {"9007199254740992", "-9007199254740992", "9100000000000000", "10000000000000000"}},
    {LIMITED("\"minimum\":0,\"maximum\":18446744073709551615"),
     {"18446744073709551615", "0", "9999999999999999999", "10000000000000000000"},
     {"18446744073709551616", "-1", "20000000000000000000", "100000000000000000000"}},
    {LIMITED("\"minimum\":-9223372036854775808,\"exclusiveMaximum\":9223372036854775808"),
     {"9223372036854775807", "-9223372036854775808"},
     {"9223372036854775808", "-9223372036854775809"}},
    {LIMITED("\"minimum\":1e3,\"maximum\":1.0e+3"), {"1000"}, {"999", "1001", "0"}},
    {LIMITED("\"minimum\":10.0,\"maximum\":12.9"), {"10", "11", "12"}, {"9", "13"}},
    {LIMITED("\"minimum\":-2.5,\"exclusiveMaximum\":2.000000000000000000000000001"),
     {"-2", "0", "2"},
     {"-3", "3"}},
    {LIMITED("\"exclusiveMinimum\":-1,\"exclusiveMaximum\":1"), {"0"}, {"-1", "1"}},
    {LIMITED("\"exclusiveMinimum\":99999999999999999999"),
     {"100000000000000000000", "99" DIGITS50},
     {"99999999999999999999", "0", "-100000000000000000000"}},
    {LIMITED("\"maximum\":1.7976931348623157e308"), {DIGITS50, "-" DIGITS50, "0"}, {"1.5"}},
    {"{\"type\":\"number\",\"minimum\":0.1,\"maximum\":0.3}",
     {"0.1", "0.10", "0.2", "0.3", "0.30", "0.100000000000000000000000000001"},
     {"0", "0.0999999999999999999999999", "0.300000000000000000000000001", "0.", "1", "0.31"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":-1.25,\"exclusiveMaximum\":1e-2}",
     {"-1.24", "0", "0.009", "-1.2499999", "-1", "0.00"},
     {"-1.25", "0.01", "0.010", "-1.250", "-1.3", "-2"}},
    {"{\"type\":\"number\",\"minimum\":123456789012345678.9}",
     {"123456789012345678.9", "123456789012345679", "123456789012345678.95"},
     {"123456789012345678.8", "123456789012345678", "99999999999999999"}},
    {"{\"const\":0.1}", {"0.1"}, {"0.10000000000000001", "0.2"}},
    {"{\"enum\":[1e-7,19.99,1.10,18446744073709551616]}",
     {"19.99", "1e-7", "1.10", "18446744073709551616"},
     {"20", "1.1", "1.8446744073709552e+19"}},
    {"{\"enum\":[1,2.0,30e-1,0.5],\"type\":\"integer\",\"exclusiveMaximum\":3}",
     {"1", "2.0"},
     {"30e-1", "0.5", "2"}},
    {"{\"allOf\":[{\"enum\":[1.0,2]},{\"enum\":[1,3]}]}", {"1.0"}, {"1", "2", "3"}},
    {LIMITED("\"multipleOf\":7"),
     {"0", "7", "-7", "14", "7000000000000000000007"},
     {"1", "-6", "07", "7.0", "70000000000000000000071"}},
    {LIMITED("\"multipleOf\":1e6,\"minimum\":1"),
     {"1000000", "25000000"},
     {"0", "1", "1500000", "-1000000"}},
    {LIMITED("\"multipleOf\":0.4"), {"0", "2", "4", "-10"}, {"1", "3", "0.4"}},
    {"{\"multipleOf\":0.01}",
     {"19.99", "0.1", "3", "0.00", "-1.5"},
     {"0.001", "1.999", "\"1\"", "-0"}},
    {"{\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}],\"maximum\":40}",
     {"12", "36", "0", "-24"},
     {"4", "6", "48", "8"}},
    {LIMITED("\"multipleOf\":3,\"minimum\":18446744073709551613,\"maximum\":18446744073709551618"),
     {"18446744073709551615", "18446744073709551618"},
     {"18446744073709551614", "18446744073709551621", "18446744073709551612"}},
    {"{\"enum\":[1e22,0.3,0.25,7,14.0],\"multipleOf\":0.1}", {"1e22", "0.3", "7"}, {"0.25"}},
    {"{\"enum\":[\"a\\u0000b\",1e999]}", {"\"a\\u0000b\"", "1e999"}, {"\"a\""}},
};

#define FORMAT(name) "{\"type\":\"string\",\"format\":\"" name "\"}"
/* Without quotation marks. */
static const struct values formats[] = {
    {FORMAT("date"),
     {"2024-02-29", "2000-02-29", "0000-02-29", "1996-02-29", "2023-02-28", "2400-02-29"},
     {"2023-02-29", "1900-02-29", "2100-02-29", "2024-02-30", "2024-06-31", "2026-02-29"}},
    {FORMAT("date-time"),
     {"2024-02-29T00:00:00Z", "1998-12-31T23:59:60Z", "2024-01-01T00:00:00.123456789012+23:59",
      "1985-06-30T23:59:60.5-00:00"},
     {"2100-02-29T00:00:00Z", "1998-12-31T23:58:60Z", "1998-12-30T23:59:60Z", "2024-01-01T00:00:00",
      "2024-01-01 00:00:00Z", "2024-01-01T00:00:00+24:00"}},
    {FORMAT("time"),
     {"00:00:00Z", "23:59:60Z", "12:30:15.25-08:00"},
     {"24:00:00Z", "22:59:60Z", "12:60:00Z", "12:00:61Z", "12:00:00", "12:00:00.Z"}},
    {FORMAT("duration"),
     {"P4DT12H30M5S", "PT0S", "P1Y2M3D", "P4W", "PT36H", "P1M", "PT1M1S"},
     {"P", "PT", "P1YT", "P2D1Y", "P1Y1D", "PT1H1S", "4DT12H", "P1W1D", "P1S"}},
    {FORMAT("uuid"),
     {"2EB8AA08-aa98-11EA-B4AA-73B441D16380", "00000000-0000-0000-0000-000000000000"},
     {"2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa98-11ea-b4aa73b441d16380",
      "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"}},
    {FORMAT("ipv4"),
     {"127.0.0.1", "255.255.255.255"},
     {"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"}},
    {FORMAT("ipv6"),
     {"::", "::1", "1::", "12:34::abcd", "1:2:3:4:5:6:7:8", "::ffff:192.168.0.1",
      "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "d6::42:7"},
     {"12345::", "1:2:3:4:5:6:7", "1::2::3", "1:2:3:4:5:6:7:8:9", ":2:3:4:5:6:7:8", "1.2.3.4",
      "::1.2.3", "1:2:3:4:5:6:7:1.2.3.4", "fe80::a%eth1", ":::"}},
    {FORMAT("hostname"),
     {"a", "www.example.com", "xn--4gbwdl.xn--wgbh1c", "1host", "a-b",
      "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff123.x"},
     {"", "-a", "a-", "a..b", ".a", "a.", "a_b", "\xc3\xa9",
      "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff1234"}},
    {FORMAT("email"),
     {"joe.bloggs@example.com", "te~st@example.com", "A.B+c@X-1.org", "o'x@y.co", "a@b"},
     {"2962", ".a@b.c", "a.@b.c", "a..b@c.d", "a@b@c", "a b@c.d", "a@-b.c", "@b.c", "a@"}},
    {FORMAT("uri"),
     {"http://foo.bar/?baz=qux#quux", "https://u:p@example.com:8080/a%20b", "urn:oasis:names",
      "mailto:a@b.c", "file:///etc", "ldap://[2001:db8::7]/c=GB?one", "a:", "tel:+1-816-555-1212"},
     {"//foo.bar/", "/abc", "abc", "http:// x", "http://a/%2", "1a:b", "http://a/<>", ":x",
      "http://[1::2::3]/"}},
};

/* `quote`: the texts stand between quotation marks. */
static void check_values(const struct values *v, const char *quote)
{
    struct rf_error error;
    struct rf_matcher *matcher;
    struct rf_grammar *grammar = compile(v->schema);
    char text[256];
    if (!grammar || rf_matcher_new(&matcher, grammar, &error)) return;
    for (int i = 0; i < 12 && v->good[i]; i++) {
        snprintf(text, sizeof text, "%s%s%s", quote, v->good[i], quote);
        CHECK_MSG(accepts(matcher, text), "%s refuses %s", v->schema, text);
    }
    for (int i = 0; i < 12 && v->bad[i]; i++) {
        snprintf(text, sizeof text, "%s%s%s", quote, v->bad[i], quote);
        CHECK_MSG(!accepts(matcher, text), "%s accepts %s", v->schema, text);
    }
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
}

static uint32_t random_bits = 1;

static int below(int n)
{
    random_bits = random_bits * 1664525u + 1013904223u;
    return (int)((random_bits >> 16) % (uint32_t)n);
}

/* A decimal with up to two digits on both sides of the point, in hundredths. */
static int random_limit(char *out, size_t bytes)
{
    int value = (below(2) ? below(400) : below(12000)) - (below(2) ? 100 : 6000);
    if (below(3) == 0) value -= value % 100;
    int size = value < 0 ? -value : value;
    snprintf(out, bytes, "%s%d.%02d", value < 0 ? "-" : "", size / 100, size % 100);
    return value;
}

struct limits {
    int low, high, low_excluded, high_excluded;
};

static int is_between(const struct limits *of, int value)
{
    return value > of->low - !of->low_excluded && value < of->high + !of->high_excluded;
}

/* All numbers of up to three digits before the point and two behind it, by a schema and by order.
 */
static void check_limits(int is_integer)
{
    struct limits of = {.low_excluded = below(2), .high_excluded = below(2)};
    char schema[256], low[32], high[32], text[64];
    struct rf_error error;
    struct rf_grammar *grammar;
    struct rf_matcher *matcher;
    of.low = random_limit(low, sizeof low);
    of.high = random_limit(high, sizeof high);
    snprintf(schema, sizeof schema, "{\"type\":\"%s\",\"%s\":%s,\"%s\":%s}",
             is_integer ? "integer" : "number", of.low_excluded ? "exclusiveMinimum" : "minimum",
             low, of.high_excluded ? "exclusiveMaximum" : "maximum", high);
    int code = rf_grammar_new(&grammar, RF_GRAMMAR_JSON_SCHEMA, rf_str_of(schema), &vocabulary.of,
                              NULL, &rf_system_allocator, &error);
    if (!code) CHECK_INT(rf_matcher_new(&matcher, grammar, &error), 0);
    int n_good = 0;
    for (int value = -15000; value <= 15000; value += is_integer ? 100 : 1) {
        int size = value < 0 ? -value : value, wanted = is_between(&of, value);
        n_good += wanted;
        if (code) continue;
        const char *sign = value < 0 ? "-" : "";
        snprintf(text, sizeof text, size % 100 ? "%s%d.%02d" : "%s%d", sign, size / 100,
                 size % 100);
        CHECK_MSG(accepts(matcher, text) == wanted, "%s: %s", schema, text);
        if (is_integer) continue;
        snprintf(text, sizeof text, "%s%d.%02d0", sign, size / 100, size % 100);
        CHECK_MSG(accepts(matcher, text) == wanted, "%s: %s", schema, text);
    }
    CHECK_MSG(!code || (!n_good && strstr(error.text, "no number is between")), "%s: %s", schema,
              error.text);
    if (code) return;
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
}

/* All multiples of up to three digits before the point and two behind it likewise. */
static void check_multiples(const char *multiple, int size)
{
    struct limits of = {.low_excluded = below(2), .high_excluded = below(2)};
    int has_low = below(2), has_high = below(2);
    char schema[256], low[32], high[32], text[64];
    struct rf_error error;
    struct rf_grammar *grammar;
    struct rf_matcher *matcher;
    of.low = random_limit(low, sizeof low);
    of.high = random_limit(high, sizeof high);
    int n = snprintf(schema, sizeof schema, "{\"type\":\"number\",\"multipleOf\":%s", multiple);
    if (has_low)
        n += snprintf(schema + n, sizeof schema - (size_t)n, ",\"%s\":%s",
                      of.low_excluded ? "exclusiveMinimum" : "minimum", low);
    if (has_high)
        n += snprintf(schema + n, sizeof schema - (size_t)n, ",\"%s\":%s",
                      of.high_excluded ? "exclusiveMaximum" : "maximum", high);
    snprintf(schema + n, sizeof schema - (size_t)n, "}");
    if (!has_low) of.low = -100000;
    if (!has_high) of.high = 100000;
    int code = rf_grammar_new(&grammar, RF_GRAMMAR_JSON_SCHEMA, rf_str_of(schema), &vocabulary.of,
                              NULL, &rf_system_allocator, &error);
    if (!code) CHECK_INT(rf_matcher_new(&matcher, grammar, &error), 0);
    int n_good = 0;
    for (int value = -15000; value <= 15000; value += value % size ? 7 : 1) {
        int absolute = value < 0 ? -value : value, part = absolute % 100;
        int wanted = is_between(&of, value) && value % size == 0;
        n_good += wanted;
        if (code) continue;
        snprintf(text, sizeof text,
                 !part       ? "%s%d"
                 : part % 10 ? "%s%d.%02d"
                             : "%s%d.%d",
                 value < 0 ? "-" : "", absolute / 100, part % 10 ? part : part / 10);
        CHECK_MSG(accepts(matcher, text) == wanted, "%s: %s", schema, text);
    }
    CHECK_MSG(!code || (!n_good && strstr(error.text, "no multiple is between")), "%s: %s", schema,
              error.text);
    if (code) return;
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
}

static void check_order(const char *a, const char *b, int order)
{
    struct rf_decimal x = rf_decimal_of(a, strlen(a)), y = rf_decimal_of(b, strlen(b));
    int found = rf_decimal_order(&x, &y), back = rf_decimal_order(&y, &x);
    CHECK_MSG((found > 0) - (found < 0) == order && (back > 0) - (back < 0) == -order, "%s and %s",
              a, b);
}

static void check_orders(void)
{
    check_order("1", "1.0", 0);
    check_order("1e3", "1000.000", 0);
    check_order("-0", "0.00e5", 0);
    check_order("0.001", "1E-3", 0);
    check_order("10", "9.99", 1);
    check_order("-10", "-9", -1);
    check_order("-1", "1", -1);
    check_order("0", "-1e-400", 1);
    check_order("1e400", "1e399", 1);
    check_order("9007199254740993", "9007199254740992", 1);
    check_order("0.1", "0.10000000000000001", -1);
    check_order("1e99999999999999999999", "1e9", 1);
    check_order("12.5", "125e-1", 0);
    check_order("12.05", "12.5", -1);
}

int main(void)
{
    vocabulary_make(&vocabulary, NULL, 0);
    check_orders();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) check_values(&numbers[i], "");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) check_values(&formats[i], "\"");
    for (int i = 0; i < 300; i++) check_limits(1);
    for (int i = 0; i < 40; i++) check_limits(0);
    static const struct {
        const char *text;
        int size; /* in hundredths */
    } multiples[] = {{"1", 100},    {"2", 200},    {"7", 700},   {"12", 1200}, {"10", 1000},
                     {"0.5", 50},   {"0.25", 25},  {"0.01", 1},  {"0.3", 30},  {"2.5", 250},
                     {"1.07", 107}, {"3e1", 3000}, {"0.10", 10}, {"33", 3300}};
    for (size_t i = 0; i < 10 * (sizeof multiples / sizeof *multiples); i++)
        check_multiples(multiples[i / 10].text, multiples[i / 10].size);
    return check_result();
}
