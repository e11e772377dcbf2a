/* The texts that grammars and schemas accept, the reasons for which they are refused, and failures
 * of every allocation. */
#include "grammar/ir.h"
#include "platform/memory.h"
#include "support/check.h"
#include "vocabulary.h"

static struct vocabulary vocabulary;

/* 1 if the whole text is accepted, byte by byte. */
static int accepts(const struct rf_grammar *grammar, const char *text)
{
    struct rf_error error = {.text = ""};
    struct rf_matcher *matcher;
    CHECK_INT(rf_matcher_new(&matcher, grammar, &error), 0);
    int32_t state = rf_matcher_start(matcher, &error);
    for (size_t i = 0; text[i] && state > RF_STATE_REJECTED; i++)
        state = state == RF_STATE_FINAL
                    ? RF_STATE_REJECTED
                    : rf_matcher_advance(matcher, state, (unsigned char)text[i], &error);
    CHECK_MSG(state >= 0, "%s", error.text);
    int accepted = state >= 0 && rf_matcher_accepts(matcher, state);
    rf_matcher_free(matcher);
    return accepted;
}

struct accepting {
    const char *grammar;
    const char *good[8], *bad[10];
};

static const struct accepting gbnf[] = {
    {"root ::= \"a\" | \"bc\"+\n", {"a", "bc", "bcbc"}, {"b", "ab", "abc", "bcb"}},
    {"# comment\nroot ::= # another\n  x y?\nx ::= [a-c^-] |\n  \"\\x41\" # A\n  | \"\\u00e9\"\n"
     "y ::= \"\\n\" . \"]\"",
     {"a", "^", "-", "A", "\xc3\xa9", "b\n\xe2\x82\xac]"},
     {"d", "", "\xc3", "b\n", "b\n]", "\xe9"}},
    {"root ::= \"x\"{2} | \"y\"{1,} | \"z\"{0,2}",
     {"xx", "y", "yyy", "", "zz"},
     {"x", "xxx", "zzz"}},
    {"root ::= \"(\" root \")\" root | \"\"", {"", "()", "(())()"}, {"(", ")", "())"}},
    {"root ::= [^\\x00-\\x7f\\U0001f600]",
     {"\xc3\xa9", "\xf0\x9f\x98\x81"},
     {"a", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\x80"}},
    {"root ::= (\"\"*)* \"a\"", {"a"}, {"", "aa"}},
    {"root ::= \"a\" | []", {"a"}, {"", "b"}},
    {"root::=\"a\"?\"b\"*[\\]\\[]", {"]", "ab[", "bb]"}, {"a", "aa]"}},
};

#define STRINGS "\"\\u00e9\\\"\\n\"", "\"\xc3\xa9\xf0\x9f\x98\x80\""
#define OBJECT(members) "{\"type\":\"object\",\"properties\":{" members "}"

static const struct accepting schemas[] = {
    {"{}",
     {"null", "[1,\"a\",{\"b\":[]}]", "{}", "-0.5e-7", "true", STRINGS},
     {"", "nul", "[1,]", "{\"a\"}", "01", "\"\\ud800\"", "\"\n\"", "[1]]"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\\n\xc3\xa9x\""},
     {"\"a\"", "\"abcd\"", "ab"}},
    {"{\"type\":[\"integer\",\"null\"]}",
     {"0", "-12", "null"},
     {"1.5", "01", "-", "nul", "+1", "1e3"}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
     {"-12", "-9", "0", "99", "105", "-1"},
     {"-13", "-20", "106", "110", "1000", "00", "-0"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":21.5}",
     {"10", "21", "19"},
     {"9", "22", "100", "1"}},
    {"{\"type\":\"integer\",\"minimum\":1000}", {"1000", "123456"}, {"999", "0", "-1000"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "0.5", "1", "1.00", "0.0"},
     {"1.1", "-0.1", "2", "1.01", "1e0", "0."}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0}",
     {"0.001", "1", "77.5"},
     {"0", "0.0", "-1", "0.000"}},
    {"{\"type\":\"number\",\"minimum\":-3,\"exclusiveMaximum\":-1}",
     {"-3", "-1.5", "-2", "-3.0"},
     {"-1", "-3.1", "-1.0", "1", "-4"}},
    {"{\"enum\":[1,\"a\\\"b\",null,{\"k\":[true]}]}",
     {"1", "\"a\\\"b\"", "null", "{\"k\":[true]}"},
     {"2", "\"a\"", "{\"k\": [true]}"}},
    {"{\"const\":null}", {"null"}, {"0", ""}},
    {"{\"enum\":[1,5,\"x\",\"long\"],\"type\":[\"integer\",\"string\"],\"maximum\":3,"
     "\"maxLength\":2}",
     {"1", "\"x\""},
     {"5", "\"long\""}},
    {OBJECT("\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"},\"c\":{\"type\":"
            "\"null\"}") ",\"required\":[\"b\"]}",
     {"{\"b\":true}", "{\"a\":1,\"b\":false}", "{ \"a\": 1, \"b\": true, \"c\": null }",
      "{\n  \"b\": true,\n  \"c\":null\n}"},
     {"{}", "{\"a\":1}", "{\"b\":true,\"a\":1}", "{\"b\":true,}", "{\"b\":true,\"x\":1}",
      "{,\"b\":true}", "{\"b\":  true}"}},
    {OBJECT("\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"}") "}",
     {"{}", "{\"a\":1}", "{\"b\":true}", "{\"a\":1,\"b\":true}"},
     {"{\"b\":true,\"a\":1}", "{\"a\":1,}", "{,}"}},
    {OBJECT("\"ab\":{\"type\":\"integer\"},\"ac\":{\"type\":\"integer\"}") ",\"additionalProper"
                                                                           "ties\":{\"type\":"
                                                                           "\"null\"}}",
     {"{\"ab\":1,\"x\":null}", "{\"a\":null,\"abc\":null,\"\":null}", "{\"ac\":2}", "{}"},
     {"{\"ab\":null}", "{\"x\":1}", "{\"x\":null,\"ab\":1}", "{\"\\u0061b\":null}"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"a\":1,\"b\":2}"},
     {"{\"a\":\"\"}", "{1:1}"}},
    {"{\"type\":\"object\"}", {"{}", "{\"a\":[1,{}]}"}, {"[]", "1"}},
    {OBJECT("\"a\":false,\"b\":true") "}", {"{}", "{\"b\":[]}"}, {"{\"a\":1}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1,2,3]", "[ 1, 2 ]", "[1,\n    2]"},
     {"[]", "[1,2,3,4]", "[1 ,2]", "[\"a\"]", "[1,]"}},
    {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"items\":{\"type\":"
     "\"boolean\"},\"minItems\":1}",
     {"[1]", "[1,null]", "[1,null,true,false]"},
     {"[]", "[null]", "[1,true]", "[1,null,3]"}},
    {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"items\":false,"
     "\"minItems\":2}",
     {"[1,null]"},
     {"[1]", "[1,null,3]"}},
    {"{\"type\":\"array\",\"items\":[{\"const\":1}],\"additionalItems\":{\"const\":2},"
     "\"maxItems\":2}",
     {"[]", "[1]", "[1,2]"},
     {"[2]", "[1,2,2]"}},
    {"{\"type\":\"array\",\"items\":false}", {"[]"}, {"[1]"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},false,{\"type\":\"string\",\"maxLength\":1}]}",
     {"1", "\"a\""},
     {"\"ab\"", "null"}},
    {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":"
     "\"integer\"}},\"required\":[\"k\",\"v\"]},"
     "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}",
     {"{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}"},
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":1}"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{"
     "\"properties\":{\"a\":{\"minimum\":5},\"b\":{\"type\":\"null\"}}}],\"type\":\"object\"}",
     {"{\"a\":5}", "{\"a\":7,\"b\":null}"},
     {"{\"a\":4}", "{}", "{\"b\":null}"}},
    {"{\"$ref\":\"#/$defs/"
     "tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":"
     "\"integer\"},\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
     "tree\"}}},\"required\":[\"v\"]}}}",
     {"{\"v\":1}", "{\"v\":1,\"kids\":[{\"v\":2},{\"v\":3,\"kids\":[]}]}"},
     {"{\"kids\":[]}", "{\"v\":1,\"kids\":[1]}"}},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
    {"{\"properties\":{\"a~/b\":{\"$ref\":\"#/properties/x\"},\"x\":{\"type\":\"null\"}}}",
     {"{\"a~/b\":null}"},
     {"{\"a~/b\":1}"}},
    {"{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d+$\"}",
     {"\"AB-1\"", "\"ZZ-007\""},
     {"\"AB-\"", "\"ab-1\"", "\"AB-1x\""}},
    {"{\"type\":\"string\",\"pattern\":\"b(?:c|d)?\"}",
     {"\"b\"", "\"xxbdy\"", "\"\\\"bc\""},
     {"\"xx\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(a|[\\\"\\\\\\\\])*$|^\\\\u00e9.$\"}",
     {"\"a\\\"\\\\\"", "\"\xc3\xa9z\"", "\"\""},
     {"\"b\"", "\"\\n\"", "\"\xc3\xa9\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-01-31\"", "\"1999-02-28\""},
     {"\"2024-13-01\"", "\"2024-04-31\"", "\"2024-02-30\"", "\"24-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-01-31T23:59:59Z\"", "\"2024-06-30T00:00:00.5+02:00\""},
     {"\"2024-01-31\"", "\"2024-01-31T24:00:00Z\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567e89b12d3a456426614174000\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"192.168.0.255\""},
     {"\"1.2.3\"", "\"256.1.1.1\""}},
    {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"x-y\":2,\"type\":\"boolean\","
     "\"uniqueItems\":false}",
     {"true", "false"},
     {"1"}},
};

/* "<t>" is a control token, "<u>" none. */
static const struct accepting choices[] = {
    {"[[{\"text\":\"f\"},{\"token\":\"<t>\"},{\"schema\":{\"type\":\"boolean\"}}],"
     "[{\"text\":\"fg\"},{\"token\":\"<u>\"},"
     "{\"schema\":{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"null\"}}}},"
     "{\"text\":\"!\"}]]",
     {"f\xff<t>true", "fg<u>null!"},
     {"f<t>true", "fg\xff<u>null!", "f\xff<t>null", "fgtrue", "ftrue", "fg<u>null", ""}},
    {"[[{\"schema\":{\"type\":\"string\"}}]]", {"\"<t>\""}, {"\"\xff<t>\""}},
    {"[[{\"text\":\"(\"},{\"without\":\"</p>\"},{\"text\":\"</p>\"}]]",
     {"(</p>", "(a <b> </b></p>", "(<</</p</ </p>", "(<</p>", "(</</p>", "(</p</p>",
      "(\xc3\xa9</p>"},
     {"(</p></p>", "(a", "(a</p", "(</p>x</p>", "</p>"}},
    {"[[{\"without\":\"</｜p\"},{\"text\":\"</｜p\"}]]",
     {"</｜p", "</｜</｜p", "</｝</｜p", "ï</｜p"},
     {"</｜pa</｜p", "</｜"}},
    {"[[{\"without\":\";\"}]]", {"", "a b"}, {";", "a;b"}},
    {"[[{\"text\":\"a\"},{\"optional\":[{\"text\":\"b\"},{\"optional\":[{\"text\":\"c\"}]}]}]]",
     {"a", "ab", "abc"},
     {"ac", "b", ""}},
#define PROPERTIES                                                                                 \
    "{\"properties\":{\"s\":{\"type\":\"string\"},\"e\":{\"enum\":[\"x y\",7,null]},"              \
    "\"u\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/l\"}]},"                            \
    "\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/l\"},\"minItems\":1},"                \
    "\"p\":{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}},\"$defs\":{\"l\":{\"type\":\"string\"," \
    "\"maxLength\":2}}}"
#define PLAIN(name)                                                          \
    "[[{\"given\":" PROPERTIES "},{\"property\":\"" name "\",\"until\":\"</" \
    "p>\"},{\"text\":\"!\"}]]"
    {PLAIN("s"), {"!", "\"a\"!", "a\n!", "</p!"}, {"</p>!", "a"}},
    {PLAIN("e"), {"x y!", "7!", "null!"}, {"\"x y\"!", "x!"}},
    {PLAIN("u"), {"null!", "ab!", "!"}, {"abc!", "<!"}},
    {PLAIN("a"), {"[\"ab\"]!"}, {"ab!", "[]!", "[ab]!", "[\"abc\"]!"}},
    {PLAIN("p"), {"abc!"}, {"\"abc\"!", "abd!"}},
    {"[[{\"given\":" PROPERTIES "},{\"property\":\"u\"}]]", {"null", "\"ab\""}, {"ab", "\"abc\""}},
    {"[[{\"pattern\":\"a[^b]+|^\\\\d{2}$\"},{\"text\":\"\\\"\"}]]",
     {"a\n\"\"", "a\"\"", "a\\\"", "42\""},
     {"xa c\"", "ab\"", "420\"", "42", "a\""}},
};

static void check_accepting(enum rf_grammar_kind kind, const struct accepting *a)
{
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    int code = rf_grammar_new(&grammar, kind, rf_str_of(a->grammar), &vocabulary.of, NULL,
                              &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s: %s", a->grammar, error.text);
    if (code) return;
    for (int i = 0; i < 8 && a->good[i]; i++)
        CHECK_MSG(accepts(grammar, a->good[i]), "%s refuses %s", a->grammar, a->good[i]);
    for (int i = 0; i < 10 && a->bad[i]; i++)
        CHECK_MSG(!accepts(grammar, a->bad[i]), "%s accepts %s", a->grammar, a->bad[i]);
    rf_grammar_free(grammar);
}

struct refused {
    const char *grammar, *sentence; /* a part of it */
    int code;
};

static const struct refused bad_gbnf[] = {
    {"", "no rule \"root\"", RF_ERR_FORMAT},
    {"x ::= \"a\"", "no rule \"root\"", RF_ERR_FORMAT},
    {"root ::= \"a\" x", "line 1, column 14: the rule \"x\" is not defined", RF_ERR_FORMAT},
    {"root ::= \"a", "line 1, column 10: this text has no closing", RF_ERR_FORMAT},
    {"root ::= [a", "no closing ']'", RF_ERR_FORMAT},
    {"root ::= (\"a\"", "line 1, column 10: this '(' has no closing ')'", RF_ERR_FORMAT},
    {"root ::= \"a\")", "line 1, column 13: expected an element", RF_ERR_FORMAT},
    {"root = \"a\"", "line 1, column 6: expected \"::=\"", RF_ERR_FORMAT},
    {"root ::= \"a\"\n\n  ! ::= \"b\"", "line 3, column 3: expected the name of a rule",
     RF_ERR_FORMAT},
    {"root ::= \"\xc3\xa9\\q\"", "line 1, column 13: unknown escape", RF_ERR_FORMAT},
    {"root ::= \"\\x4\"", "expected a hexadecimal digit", RF_ERR_FORMAT},
    {"root ::= \"\\ud800\"", "no Unicode character", RF_ERR_FORMAT},
    {"root ::= [z-a]", "first character is after its last", RF_ERR_FORMAT},
    {"root ::= \"a\"{3,2}", "fewer than the least", RF_ERR_FORMAT},
    {"root ::= \"a\"{x}", "expected a number", RF_ERR_FORMAT},
    {"root ::= \"a\"{2", "expected '}'", RF_ERR_FORMAT},
    {"root ::= \"a\"{99999999}", "more repetitions", RF_ERR_UNSUPPORTED},
    {"root ::= (\"a\"{1000}){1000000}", "too large", RF_ERR_UNSUPPORTED},
    {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: this rule is defined twice",
     RF_ERR_FORMAT},
    {"root ::= root \"a\" | \"b\"", "left recursion", RF_ERR_FORMAT},
    {"root ::= x\nx ::= \"\"? y\ny ::= x \"a\" | \"b\"", "left recursion", RF_ERR_FORMAT},
    {"root ::= \"a\" root", "derives no text", RF_ERR_FORMAT},
    {"root ::= \"a\" | x\nx ::= \"b\" x", "the rule \"x\" derives no text", RF_ERR_FORMAT},
    {"root ::= []", "derives no text", RF_ERR_FORMAT},
    {"root ::= \"\xff\"", "not UTF-8", RF_ERR_FORMAT},
};

static const struct refused bad_schemas[] = {
    {"", "the schema: line 1", RF_ERR_FORMAT},
    {"{\"type\":", "the schema: line 1", RF_ERR_FORMAT},
    {"[]", "#: a schema is an object", RF_ERR_FORMAT},
    {"{\"type\":\"text\"}", "#/type: a type is", RF_ERR_FORMAT},
    {"{\"minProperties\":1}", "#/minProperties: this keyword is not supported", RF_ERR_UNSUPPORTED},
    {"{\"properties\":{\"a/b\":{\"not\":{}}}}", "#/properties/a~1b/not: this keyword",
     RF_ERR_UNSUPPORTED},
    {"{\"uniqueItems\":true}", "#/uniqueItems", RF_ERR_UNSUPPORTED},
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no number is between", RF_ERR_FORMAT},
    {"{\"properties\":{\"n\":{\"type\":\"integer\",\"exclusiveMinimum\":3,\"maximum\":3}},"
     "\"required\":[\"n\"]}",
     "#/properties/n: no number", RF_ERR_FORMAT},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "minLength is over maxLength",
     RF_ERR_FORMAT},
    {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "minItems is over maxItems",
     RF_ERR_FORMAT},
    {"{\"type\":\"array\",\"items\":false,\"minItems\":1}", "#/items: the schema false",
     RF_ERR_FORMAT},
    {"{\"enum\":[]}", "#/enum: none of these values", RF_ERR_FORMAT},
    {"{\"enum\":[\"a\"],\"type\":\"integer\"}", "#/enum: none of these values", RF_ERR_FORMAT},
    {"{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "#/properties/a: the schema false",
     RF_ERR_FORMAT},
    {"{\"required\":[\"a\"],\"additionalProperties\":false}",
     "#/additionalProperties: the schema false", RF_ERR_FORMAT},
    {"{\"anyOf\":[false,{\"enum\":[]}]}", "#/anyOf: no branch", RF_ERR_FORMAT},
    {"{\"anyOf\":[]}", "#/anyOf", RF_ERR_FORMAT},
    {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "no type is left", RF_ERR_FORMAT},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}",
     "#/oneOf: a value might meet both", RF_ERR_UNSUPPORTED},
    {"{\"$ref\":\"#\"}", "refers to itself", RF_ERR_FORMAT},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/"
     "a\"}}}",
     "lead back", RF_ERR_FORMAT},
    {"{\"$ref\":\"#/$defs/x\"}", "#/$ref: there is nothing", RF_ERR_FORMAT},
    {"{\"$ref\":\"http://example.org/s\"}", "#/$ref: only references", RF_ERR_UNSUPPORTED},
    {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "#/anyOf/0: the branch refers",
     RF_ERR_FORMAT},
    {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "derives no text",
     RF_ERR_FORMAT},
    {"{\"type\":\"string\",\"pattern\":\"(a\"}", "#/pattern: byte 2", RF_ERR_FORMAT},
    {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "#/pattern: byte 2", RF_ERR_UNSUPPORTED},
    {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", "this escape is not supported",
     RF_ERR_UNSUPPORTED},
    {"{\"type\":\"string\",\"pattern\":\"a\",\"maxLength\":3}", "together with another limit",
     RF_ERR_UNSUPPORTED},
    {"{\"type\":\"string\",\"format\":\"iri\"}", "#/format: known formats", RF_ERR_UNSUPPORTED},
    {"{\"type\":\"number\",\"minimum\":1e1001}", "#/minimum: limits of numbers",
     RF_ERR_UNSUPPORTED},
    {"{\"type\":\"number\",\"minimum\":\"1\"}", "#/minimum: this is not a number", RF_ERR_FORMAT},
    {"{\"properties\":{\"a\\u0000\":true}}", "#/properties: a name with a zero byte",
     RF_ERR_UNSUPPORTED},
    {"{\"required\":[\"a\\u0000\"]}", "#/required: a name with a zero byte", RF_ERR_UNSUPPORTED},
    {"{\"multipleOf\":0}", "#/multipleOf: this is not a number above 0", RF_ERR_FORMAT},
    {"{\"multipleOf\":-1}", "#/multipleOf: this is not a number above 0", RF_ERR_FORMAT},
    {"{\"multipleOf\":1e-7}", "#/multipleOf: supported are up to 15 digits", RF_ERR_UNSUPPORTED},
    {"{\"multipleOf\":1000003}", "multipleOf is supported", RF_ERR_UNSUPPORTED},
    {"{\"multipleOf\":7,\"minimum\":1,\"maximum\":6}", "no multiple is between", RF_ERR_FORMAT},
    {"{\"minLength\":-1}", "#/minLength: this is not a whole number", RF_ERR_FORMAT},
    {"{\"required\":[1]}", "#/required: this is not an array of strings", RF_ERR_FORMAT},
};

static const struct refused bad_choices[] = {
    {"[]", "an array of alternatives", RF_ERR_FORMAT},
    {"{}", "an array of alternatives", RF_ERR_FORMAT},
    {"[[{}]]", "a part of a choice", RF_ERR_FORMAT},
    {"[[{\"pattern\":\"(a\"}]]", "byte 2 of the pattern", RF_ERR_FORMAT},
    {"[[{\"pattern\":\"a(?=b)\"}]]", "the regular expression", RF_ERR_UNSUPPORTED},
    {"[[{\"without\":\"\"}]]", "end of a text", RF_ERR_UNSUPPORTED},
    {"[[{\"without\":\"aba\"}]]", "end of a text", RF_ERR_UNSUPPORTED},
    {"[[{\"property\":\"k\"}]]", "no property k", RF_ERR_FORMAT},
    {"[[{\"given\":{}},{\"property\":\"k\"}]]", "no property k", RF_ERR_FORMAT},
    {"[[{\"text\":1}]]", "a part of a choice", RF_ERR_FORMAT},
    {"[[{\"text\":\"a\"}],[{\"schema\":{\"enum\":[]}}]]", "no JSON meets the schema",
     RF_ERR_FORMAT},
};

static void check_refused(enum rf_grammar_kind kind, const struct refused *r)
{
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    int code = rf_grammar_new(&grammar, kind, rf_str_of(r->grammar), &vocabulary.of, NULL,
                              &rf_system_allocator, &error);
    CHECK_MSG(code == r->code && strstr(error.text, r->sentence), "%s: %d, \"%s\", not \"%s\"",
              r->grammar, code, error.text, r->sentence);
    CHECK(grammar == NULL);
    rf_grammar_free(grammar);
}

/* The control token is a candidate only where the grammar names it. */
static void check_control_token(int32_t control)
{
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    struct rf_matcher *matcher;
    struct rf_token_mask mask;
    CHECK_INT(rf_grammar_new(&grammar, RF_GRAMMAR_CHOICE, rf_str_of(choices[0].grammar),
                             &vocabulary.of, NULL, &rf_system_allocator, &error),
              0);
    CHECK_INT(rf_matcher_new(&matcher, grammar, &error), 0);
    int32_t state = rf_matcher_start(matcher, &error);
    CHECK_INT(rf_matcher_mask(matcher, state, &mask, &error), 0);
    CHECK_INT(mask.bits[control / 64] >> control % 64 & 1, 0);
    state = rf_matcher_advance(matcher, state, 'f', &error);
    CHECK_INT(rf_matcher_mask(matcher, state, &mask, &error), 0);
    CHECK_INT(mask.bits[control / 64] >> control % 64 & 1, 1);
    state = rf_matcher_advance(matcher, state, control, &error);
    CHECK_INT(rf_matcher_mask(matcher, state, &mask, &error), 0);
    CHECK_INT(mask.bits[control / 64] >> control % 64 & 1, 0);
    CHECK_INT(mask.bits['t' / 64] >> 't' % 64 & 1, 1);
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
}

/* ---- allocations that fail ---- */

static int left; /* allocations until one fails; below 0: none does */
static int64_t taken;

static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    if (left == 0) return NULL;
    if (left > 0) left--;
    taken++;
    return rf_system_allocator.alloc(rf_system_allocator.user, bytes);
}

static void counted_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    taken -= memory != NULL;
    rf_system_allocator.release(rf_system_allocator.user, memory, bytes);
}

/* Reads a grammar and walks through a text with all masks; 0 or the code of what failed. */
static int use(enum rf_grammar_kind kind, const char *text, const char *answer,
               const struct rf_allocator *allocator)
{
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    struct rf_matcher *matcher = NULL;
    struct rf_token_mask mask;
    int code =
        rf_grammar_new(&grammar, kind, rf_str_of(text), &vocabulary.of, NULL, allocator, &error);
    if (!code) code = rf_matcher_new(&matcher, grammar, &error);
    int32_t state = code ? code : rf_matcher_start(matcher, &error);
    for (size_t i = 0; state > 0 && answer[i]; i++) {
        code = rf_matcher_mask(matcher, state, &mask, &error);
        state = code ? code : rf_matcher_advance(matcher, state, (unsigned char)answer[i], &error);
    }
    if (state < 0) code = state;
    CHECK(code || state > 0);
    CHECK_MSG(!code || (code == RF_ERR_MEMORY && error.text[0]), "%d: %s", code, error.text);
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
    return code;
}

/* A question for each step of the watch until it says no. */
static int stops(void *user)
{
    int *questions = user;
    return --*questions == 0;
}

/* Compiling ends as soon as nobody wants it, wherever it is then. */
static void check_watch(enum rf_grammar_kind kind, const char *text)
{
    for (int most = 1;; most++) {
        struct rf_error error = {.text = ""};
        struct rf_grammar *grammar;
        int questions = most;
        struct rf_watch watch = {stops, &questions, 0};
        int code = rf_grammar_new(&grammar, kind, rf_str_of(text), &vocabulary.of, &watch,
                                  &rf_system_allocator, &error);
        if (questions <= 0) {
            CHECK_INT(code, RF_ERR_CANCELLED);
            CHECK(!grammar && strstr(error.text, "cancelled"));
            continue;
        }
        CHECK_INT(code, 0);
        CHECK_MSG(most > 3, "%.40s was asked about %d times", text, most);
        rf_grammar_free(grammar);
        return;
    }
}

/* Names are told apart however long they are. */
static void check_long_names(void)
{
    enum { LONG = 700 };
    static char schema[3 * LONG + 200], good[LONG + 32], bad[LONG + 32], name[LONG + 1];
    memset(name, 'n', LONG);
    snprintf(schema, sizeof schema,
             "{\"properties\":{\"%s\":{\"type\":\"null\"},\"%s2\":{\"type\":\"integer\"}},"
             "\"additionalProperties\":{\"type\":\"boolean\"},\"required\":[\"%s2\"]}",
             name, name, name);
    snprintf(good, sizeof good, "{\"%s2\":7}", name);
    snprintf(bad, sizeof bad, "{\"%s2\":true}", name);
    const struct accepting names = {schema, {good}, {bad, "{}"}};
    check_accepting(RF_GRAMMAR_JSON_SCHEMA, &names);
}

/* A branch for each number. */
static void check_watch_of_branches(void)
{
    enum { BRANCHES = 60, BYTES = 20 };
    static char text[BRANCHES * BYTES] = "{\"oneOf\":[";
    size_t n = strlen(text);
    for (int i = 0; i < BRANCHES; i++)
        n += (size_t)snprintf(text + n, BYTES, "%s{\"const\":%d}", i ? "," : "", i);
    snprintf(text + n, sizeof text - n, "]}");
    check_watch(RF_GRAMMAR_JSON_SCHEMA, text);
}

/* ---- grammars that ask for very much work ---- */

static const struct accepting large[] = {
    {"{\"type\":\"string\",\"pattern\":\"^(.?){3000}x$\"}",
     {"\"x\"", "\"abx\""},
     {"\"\"", "\"ab\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(a?b?){300}x$\"}", {"\"x\"", "\"bbaax\""}, {"\"bxa\""}},
    {"{\"type\":\"string\",\"pattern\":\"^((a*)*b*)*c$\"}", {"\"c\"", "\"abbac\""}, {"\"ab\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(((.+)+)+)+x$\"}", {"\"axx\""}, {"\"x\"", "\"ab\""}},
    {"{\"type\":\"string\",\"pattern\":\"^((){1000000}){1000000}x$\"}", {"\"x\""}, {"\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^((a{0,30}){0,30}){0,30}$\"}",
     {"\"\"", "\"aaa\""},
     {"\"b\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(ab|ac|a?d|bcd|b){2}$\"}",
     {"\"abac\"", "\"dad\"", "\"bcdb\""},
     {"\"ab\"", "\"aab\"", "\"bcd\""}},
};

/* Two lists of n numbers that have none in common: n times n comparisons. */
static void check_too_slow(void)
{
    enum { N = 10000, BYTES = 8 };
    static char text[2 * N * BYTES + 64];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"allOf\":[{\"enum\":[0");
    for (int i = 1; i < 2 * N; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, i == N ? "]},{\"enum\":[%d" : ",%d", i);
    snprintf(text + n, sizeof text - n, "]}]}");
    const struct refused slow = {text, "takes too long to compile", RF_ERR_UNSUPPORTED};
    check_refused(RF_GRAMMAR_JSON_SCHEMA, &slow);
}

/* As many names as one likes are listed in no time; rules are counted. */
static void check_many_names(void)
{
    enum { N = 100000, BYTES = 12 };
    static char text[N * BYTES + 64];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"required\":[\"a\"");
    for (int i = 0; i < N; i++) n += (size_t)snprintf(text + n, sizeof text - n, ",\"p%d\"", i);
    snprintf(text + n, sizeof text - n, "]}");
    const struct refused many = {text, "at most 4096 rules", RF_ERR_UNSUPPORTED};
    check_refused(RF_GRAMMAR_JSON_SCHEMA, &many);
}

/* All texts of up to LONGEST letters a and b are tokens, and each leads to a state of its own with
 * hundreds of positions: masks of such a grammar cost more than they may. */
static void check_slow_masks(void)
{
    enum { LONGEST = 14, N = 1 << (LONGEST + 1), COUNTED = 60, PARTS = 16 };
    static char letters[N][LONGEST], text[PARTS * 32];
    static struct rf_str texts[N];
    for (int i = 2; i < N; i++) { /* the bits of i behind the first one */
        int n = 0;
        while (i >> (n + 1)) n++;
        for (int k = 0; k < n; k++) letters[i][k] = i >> (n - 1 - k) & 1 ? 'b' : 'a';
        texts[i] = (struct rf_str){letters[i], (size_t)n};
    }
    const struct rf_grammar_vocab vocab = {.n_vocab = N, .n_texts = N, .texts = texts};
    size_t n = (size_t)snprintf(text, sizeof text, "root ::= [ab]* (");
    for (int i = 0; i < PARTS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%c\" [ab]{%d}", i ? " | " : "",
                              i % 2 ? 'a' : 'b', COUNTED + i);
    snprintf(text + n, sizeof text - n, ")");
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    struct rf_matcher *matcher;
    struct rf_token_mask mask;
    CHECK_INT(rf_grammar_new(&grammar, RF_GRAMMAR_GBNF, rf_str_of(text), &vocab, NULL,
                             &rf_system_allocator, &error),
              0);
    CHECK_INT(rf_matcher_new(&matcher, grammar, &error), 0);
    int32_t state = rf_matcher_start(matcher, &error);
    uint32_t bits = 1;
    int code = 0, n_masks = 0;
    for (int i = 0; i < COUNTED + 40 && !code && state > 0; i++) {
        if (i >= COUNTED) code = rf_matcher_mask(matcher, state, &mask, &error);
        n_masks += !code && i >= COUNTED;
        bits = bits * 1664525u + 1013904223u;
        if (!code) state = rf_matcher_advance(matcher, state, 2 + (int32_t)(bits >> 31), &error);
    }
    CHECK_MSG(code == RF_ERR_UNSUPPORTED && strstr(error.text, "takes too long to find"),
              "%d after %d masks: %s", code, n_masks, error.text);
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
}

static void check_memory(enum rf_grammar_kind kind, const char *text, const char *answer)
{
    const struct rf_allocator allocator = {counted_alloc, counted_release, NULL};
    int failures = 0;
    for (int n = 0; n < 100000; n += 1 + n / 50) {
        left = n;
        int code = use(kind, text, answer, &allocator);
        CHECK_INT(taken, 0);
        if (!code) break;
        failures++;
    }
    CHECK(failures > 10);
}

int main(void)
{
    static const char *const texts[] = {"\",", "\":",   "abc", "true",   "  ",
                                        "}}",  "\"a\"", "10",  "\xff<t>"};
    struct rf_str listed[sizeof texts / sizeof *texts];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) listed[i] = rf_str_of(texts[i]);
    vocabulary_make(&vocabulary, listed, (int32_t)(sizeof texts / sizeof *texts));
    for (size_t i = 0; i < sizeof gbnf / sizeof *gbnf; i++)
        check_accepting(RF_GRAMMAR_GBNF, &gbnf[i]);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        check_accepting(RF_GRAMMAR_JSON_SCHEMA, &schemas[i]);
    for (size_t i = 0; i < sizeof bad_gbnf / sizeof *bad_gbnf; i++)
        check_refused(RF_GRAMMAR_GBNF, &bad_gbnf[i]);
    for (size_t i = 0; i < sizeof bad_schemas / sizeof *bad_schemas; i++)
        check_refused(RF_GRAMMAR_JSON_SCHEMA, &bad_schemas[i]);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        check_accepting(RF_GRAMMAR_CHOICE, &choices[i]);
    for (size_t i = 0; i < sizeof bad_choices / sizeof *bad_choices; i++)
        check_refused(RF_GRAMMAR_CHOICE, &bad_choices[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        check_accepting(RF_GRAMMAR_JSON_SCHEMA, &large[i]);
    check_too_slow();
    check_many_names();
    check_long_names();
    check_slow_masks();
    check_control_token(256 + sizeof texts / sizeof *texts - 1);
    check_watch(RF_GRAMMAR_GBNF, "root ::= ([a-c] [d-f]){1500} \"x\"");
    check_watch_of_branches();
    check_memory(RF_GRAMMAR_GBNF, gbnf[1].grammar, gbnf[1].good[0]);
    check_memory(RF_GRAMMAR_CHOICE, choices[0].grammar, choices[0].good[1]);
    check_memory(RF_GRAMMAR_JSON_SCHEMA, schemas[14].grammar, schemas[14].good[0]);
    return check_result();
}
