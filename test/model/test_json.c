/* JSON that is read and written again: all of RFC 8259, refusals with their places, the digits of
 * numbers. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "support/check.h"

static const struct {
    const char *read, *written; /* NULL: the same */
} texts[] = {
    {"null", NULL},
    {" [ true , false ] ", "[true,false]"},
    {"{\"a\":1,\"b\":[{},[]]}", NULL},
    {"-9223372036854775808", NULL},
    {"9223372036854775807", NULL},
    {"9223372036854775808", NULL},
    {"[18446744073709551616,-9223372036854775809,-0,0]", NULL},
    {"[0.1,1.10,19.99,1e400,-1E-400,1e5,100000.0,1.0,-0.0,5e-324,0.10000000000000001]", NULL},
    {"[123456789012345678901234567890.123456789012345678901234567890e+17]", NULL},
    {"\"a\\u0000b\"", NULL},
    {"{\"a\\u0000b\":\"\\u0000\"}", NULL},
    {"\"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\"",
     "\"\xc3\xa9\xf0\x9f\x98\x80/\\b\\f\\n\\r\\t\\\"\\\\\""},
    {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}"},
    {"\"\\u001f\x7f\"", NULL},
};

static const struct {
    const char *text, *problem;
    size_t line, column;
} broken[] = {
    {"", "too early", 1, 1},
    {"[1,", "too early", 1, 4},
    {"[1,]", "a value", 1, 4},
    {"{\"a\":1,}", "name of a member", 1, 8},
    {"{\n \"a\" 1}", "':'", 2, 6},
    {"[1 2]", "','", 1, 4},
    {"{\"a\":1 \"b\":2}", "','", 1, 8},
    {"01", "follows", 1, 2},
    {"1.", "follows", 1, 2},
    {".5", "a value", 1, 1},
    {"+1", "a value", 1, 1},
    {"NaN", "a value", 1, 1},
    {"nul", "a value", 1, 1},
    {"true false", "follows", 1, 6},
    {"\"a", "within a string", 1, 3},
    {"\"a\nb\"", "control character", 1, 3},
    {"\"\xff\"", "not UTF-8", 1, 2},
    {"\"\xed\xa0\x80\"", "not UTF-8", 1, 2},
    {"\"\xc0\x80\"", "not UTF-8", 1, 2},
    {"\"\\x\"", "unknown escape", 1, 3},
    {"\"\\ud800\"", "\\u", 1, 3},
    {"\"\\ude00\\ud83d\"", "\\u", 1, 3},
    {"\"\\ud83d\\u0041\"", "\\u", 1, 3},
    {"\"\\u12g4\"", "\\u", 1, 3},
    {"{1:2}", "name of a member", 1, 2},
    {"'a'", "a value", 1, 1},
};

static void check_text(const char *text, const char *wanted)
{
    struct rf_json_problem problem;
    json_t *value = rf_json_load(text, strlen(text), NULL, &problem);
    CHECK_MSG(value, "%s: %s", text, problem.text);
    char *written = rf_json_dump(value, 0, NULL);
    CHECK_MSG(written && strcmp(written, wanted) == 0, "%s is written as %s", text, written);
    free(written);
    json_t *copy = json_deep_copy(value);
    written = rf_json_dump(copy, 0, NULL);
    CHECK_MSG(written && strcmp(written, wanted) == 0, "%s is copied as %s", text, written);
    free(written);
    json_decref(copy);
    json_decref(value);
}

static void check_broken(const char *text, const char *words, size_t line, size_t column)
{
    struct rf_json_problem problem;
    json_t *value = rf_json_load(text, strlen(text), NULL, &problem);
    CHECK_MSG(
        !value && strstr(problem.text, words) && problem.line == line && problem.column == column,
        "%s: %s at %zu, %zu", text, value ? "read" : problem.text, problem.line, problem.column);
    json_decref(value);
}

static json_t *member(json_t *object, const char *name)
{
    return json_object_get(object, name);
}

static void check_numbers(void)
{
    static const char text[] = "{\"a\":1e3,\"b\":1.50,\"c\":18446744073709551616,\"d\":1e400,"
                               "\"e\":-9223372036854775808.0,\"f\":9223372036854775808.0,"
                               "\"g\":\"1\",\"h\":{},\"i\":-0,\"j\":7,\"k\":2.5,\"l\":3.0}";
    json_t *object = rf_json_load(text, strlen(text), NULL, NULL);
    int64_t n = 0;
    CHECK(rf_json_to_int64(member(object, "a"), &n) && n == 1000);
    CHECK(!rf_json_to_int64(member(object, "b"), &n));
    CHECK(rf_json_to_double(member(object, "b")) == 1.5);
    CHECK(!rf_json_to_int64(member(object, "c"), &n));
    CHECK(rf_json_to_double(member(object, "c")) == 18446744073709551616.0);
    CHECK(isinf(rf_json_to_double(member(object, "d"))));
    CHECK(!rf_json_to_int64(member(object, "d"), &n));
    CHECK(rf_json_to_int64(member(object, "e"), &n) && n == INT64_MIN);
    CHECK(!rf_json_to_int64(member(object, "f"), &n));
    CHECK(!rf_json_is_any_number(member(object, "g")) &&
          !rf_json_to_int64(member(object, "g"), &n));
    CHECK(!rf_json_is_any_number(member(object, "h")) && !rf_json_is_any_number(NULL));
    CHECK(rf_json_to_int64(member(object, "i"), &n) && n == 0);
    CHECK(rf_json_to_int64(member(object, "j"), &n) && n == 7);
    CHECK(!rf_json_to_int64(member(object, "k"), &n));
    CHECK(rf_json_to_int64(member(object, "l"), &n) && n == 3);
    for (const char *name = "abcdefijkl"; *name; name++) {
        const char one[2] = {*name, 0};
        CHECK_MSG(rf_json_is_any_number(member(object, one)), "%s is no number", one);
    }
    CHECK(rf_json_c_string(member(object, "g")) && !rf_json_c_string(member(object, "a")));
    json_decref(object);
    json_t *zero = rf_json_load("\"a\\u0000\"", 9, NULL, NULL);
    CHECK(zero && json_string_length(zero) == 2 && !rf_json_c_string(zero));
    json_decref(zero);
}

/* Texts of doubles read back, and no shorter one of %g does. */
static void check_doubles(void)
{
    uint64_t bits = 88172645463325252u;
    char text[RF_DOUBLE_TEXT], shorter[400];
    for (int i = 0; i < 20000; i++) {
        double value;
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        rf_double_write(value, text);
        CHECK_MSG(rf_decimal_to_double(text, strlen(text)) == value, "%a as %s", value, text);
        CHECK_INT((int)rf_number_length(text, strlen(text)), (int)strlen(text));
        struct rf_decimal d = rf_decimal_of(text, strlen(text));
        if (d.n < 2) continue;
        snprintf(shorter, sizeof shorter, "%.*g", (int)d.n - 1, value);
        CHECK_MSG(strtod(shorter, NULL) != value, "%s is longer than %s", text, shorter);
        float narrow = (float)value;
        if (isfinite(narrow)) CHECK((float)rf_double_of_float(narrow) == narrow);
    }
    rf_double_write(rf_double_of_float(-0.3f), text);
    CHECK_MSG(strcmp(text, "-0.3") == 0, "%s", text);
    rf_double_write(3.0, text);
    CHECK_MSG(strcmp(text, "3.0") == 0, "%s", text);
}

/* More digits than any buffer has; the last one decides. */
static void check_long_digits(void)
{
    char text[2048];
    memset(text, '0', sizeof text);
    memcpy(text, "9007199254740993.", 17);
    CHECK(rf_decimal_to_double(text, 1500) == 9007199254740992.0);
    text[1499] = '1';
    CHECK(rf_decimal_to_double(text, 1500) == 9007199254740994.0);
    CHECK(rf_decimal_to_double(text, 1499) == 9007199254740992.0);
}

static void check_depth(void)
{
    enum { DEEP = RF_JSON_DEPTH };
    static char text[2 * DEEP + 2];
    memset(text, '[', DEEP + 1);
    memset(text + DEEP + 1, ']', DEEP + 1);
    struct rf_json_problem problem;
    json_t *value = rf_json_load(text + 1, 2 * DEEP, NULL, &problem);
    CHECK(value);
    json_decref(value);
    CHECK(!rf_json_load(text, 2 * DEEP + 2, NULL, &problem) && strstr(problem.text, "deeply"));
}

static void check_ends(void)
{
    struct rf_json_problem problem;
    size_t end = 0;
    json_t *value = rf_json_load(" {\"a\":1} rest", 13, &end, &problem);
    CHECK(value && end == 8);
    json_decref(value);
    CHECK(!rf_json_load_unique("{\"a\":1,\"a\":1}", 13, &problem) &&
          strstr(problem.text, "duplicate"));
    json_t *made = json_pack("{s:f, s:f}", "a", 0.1, "b", 1e100);
    char *text = rf_json_dump(made, 1, &end);
    CHECK(text && strcmp(text, "{\"a\": 0.1, \"b\": 1e100}") == 0 && end == strlen(text));
    free(text);
    json_decref(made);
}

int main(void)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            check_text(texts[i].read, texts[i].written ? texts[i].written : texts[i].read);
        for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
            check_broken(broken[i].text, broken[i].problem, broken[i].line, broken[i].column);
        check_numbers();
        check_long_digits();
        if (pass == 0) check_doubles();
        setlocale(LC_ALL, "de_DE.UTF-8"); /* a decimal comma, where this locale is installed */
    }
    check_depth();
    check_ends();
    return check_result();
}
