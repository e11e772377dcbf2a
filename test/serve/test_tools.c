/* Calls of tools in answers: every text below, cut at every two places, gives the same text and the
 * same calls. */
#include <stdlib.h>
#include <string.h>

#include "answers/tools.h"
#include "platform/memory.h"
#include "support/check.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"g\", \"parameters\": {}}}]";

struct example {
    enum tool_form form;
    const char *answer, *text, *calls; /* calls: names with arguments */
};

static const struct example examples[] = {
    {TOOLS_TAGGED, "", "", ""},
    {TOOLS_TAGGED, "Hello <tool> you", "Hello <tool> you", ""},
    {TOOLS_TAGGED, "Hello <tool_cal", "Hello <tool_cal", ""},
    {TOOLS_TAGGED,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>", "",
     "f{\"a\":[1,\"}\"]}"},
    {TOOLS_TAGGED,
     "I look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"b\":2}}</tool_call>\n",
     "I look.", "f{}g{\"b\":2}"},
    {TOOLS_TAGGED, "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "", "f{}"},
    {TOOLS_TAGGED, "<tool_call>{\"name\":\"f\",\"argu", "<tool_call>{\"name\":\"f\",\"argu", ""},
    {TOOLS_TAGGED, "<tool_call>{\"name\":\"h\",\"arguments\":{}}</tool_call> no",
     "<tool_call>{\"name\":\"h\",\"arguments\":{}}</tool_call> no", ""},
    {TOOLS_TAGGED, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n\nso\n", "so\n",
     "f{}"},
    {TOOLS_OBJECT, "{\"name\": \"f\", \"parameters\": {\"a\": 1.5}}", "", "f{\"a\":1.5}"},
    {TOOLS_OBJECT, "{\"name\":\"f\",\"parameters\":{\"a\":[0.1,1.10,12345678901234567890,1e400]}}",
     "", "f{\"a\":[0.1,1.10,12345678901234567890,1e400]}"},
    {TOOLS_OBJECT, "{\"name\":\"f\",\"parameters\":1e400}", "{\"name\":\"f\",\"parameters\":1e400}",
     ""},
    {TOOLS_NAMED, "[TOOL_CALLS]f[ARGS]{\"a\": -0.0, \"b\": \"\\u0000\"}", "",
     "f{\"a\":-0.0,\"b\":\"\\u0000\"}"},
    {TOOLS_OBJECT, " {\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}\n", "",
     "f{}g{}"},
    {TOOLS_OBJECT, "{\"name\": \"f\"} is an object", "{\"name\": \"f\"} is an object", ""},
    {TOOLS_OBJECT, "{\"name\":\"f\",\"parameters\":{}} and text",
     "{\"name\":\"f\",\"parameters\":{}} and text", ""},
    {TOOLS_OBJECT, "  Plain {\"name\":\"f\",\"parameters\":{}}",
     "  Plain {\"name\":\"f\",\"parameters\":{}}", ""},
    {TOOLS_ARRAY,
     "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}},{\"name\":\"g\",\"arguments\":\"{}"
     "\"}]",
     "", "f{\"a\":\"b\"}g{}"},
    {TOOLS_ARRAY, "[{\"name\": \"f\", \"arguments\": {}}]", "", "f{}"},
    {TOOLS_ARRAY, "[{\"name\": \"f\", \"arguments\": {}}, 7]",
     "[{\"name\": \"f\", \"arguments\": {}}, 7]", ""},
    {TOOLS_ARRAY, "[1] is a source", "[1] is a source", ""},
    {TOOLS_ARRAY, "[TOOL_CALLS]", "[TOOL_CALLS]", ""},
    {TOOLS_NAMED, "I look.[TOOL_CALLS]f[ARGS]{\"a\": \"[ARGS]\"}", "I look.",
     "f{\"a\":\"[ARGS]\"}"},
    {TOOLS_NAMED, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]g[ARGS]{\"b\": 2}\n", "",
     "f{}g{\"b\":2}"},
    {TOOLS_NAMED, "[TOOL_CALLS]h[ARGS]{}", "[TOOL_CALLS]h[ARGS]{}", ""},
    {TOOLS_NAMED, "[TOOL_CALLS]f[ARGS]{\"a\"", "[TOOL_CALLS]f[ARGS]{\"a\"", ""},
    {TOOLS_BLOCK,
     "So:<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "So:", "f{\"a\":1}g{}"},
    {TOOLS_FENCED,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", "f{\"a\":1}"},
    {TOOLS_BLOCK,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}<｜tool▁calls▁end｜>", ""},
};

static void check_calls(const json_t *calls, const char *wanted)
{
    char found[256] = "";
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i),
                     *function = json_object_get(call, "function");
        CHECK_INT(json_string_length(json_object_get(call, "id")), 9);
        strcat(found, json_string_value(json_object_get(function, "name")));
        strcat(found, json_string_value(json_object_get(function, "arguments")));
    }
    CHECK_MSG(strcmp(found, wanted) == 0, "calls \"%s\" are not \"%s\"", found, wanted);
}

static void check_cut(const struct example *example, const json_t *tools, size_t first,
                      size_t second)
{
    const size_t cuts[] = {0, first, second, strlen(example->answer)};
    struct tool_reader reader;
    struct rf_bytes text = {0};
    struct rf_error error;
    json_t *calls = json_array();
    rf_tool_reader_begin(&reader, example->form, tools);
    for (int i = 0; i < 3; i++)
        CHECK_INT(rf_tool_reader_push(&reader, example->answer + cuts[i], cuts[i + 1] - cuts[i], 0,
                                      &text, calls, &error),
                  0);
    CHECK_INT(rf_tool_reader_push(&reader, NULL, 0, 1, &text, calls, &error), 0);
    CHECK_MSG(text.count == strlen(example->text) &&
                  (!text.count || memcmp(text.data, example->text, text.count) == 0),
              "\"%s\" at %zu and %zu: the text is \"%.*s\"", example->answer, first, second,
              (int)text.count, text.count ? text.data : "");
    check_calls(calls, example->calls);
    CHECK_INT((size_t)reader.n_calls, json_array_size(calls));
    json_decref(calls);
    rf_bytes_free(&rf_system_allocator, &text);
    rf_tool_reader_free(&reader);
}

/* Only the first call is taken. */
static void check_most(const json_t *tools)
{
    static const char answer[] = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"
                                 "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>.";
    struct tool_reader reader;
    struct rf_bytes text = {0};
    struct rf_error error;
    json_t *calls = json_array();
    rf_tool_reader_begin(&reader, TOOLS_TAGGED, tools);
    reader.most = 1;
    CHECK_INT(rf_tool_reader_push(&reader, answer, strlen(answer), 1, &text, calls, &error), 0);
    check_calls(calls, "f{}");
    CHECK_INT(reader.n_calls, 1);
    CHECK(text.count == 1 && text.data[0] == '.');
    json_decref(calls);
    rf_bytes_free(&rf_system_allocator, &text);
    rf_tool_reader_free(&reader);
}

/* Checks the beginning of an answer that must call, and the alternatives of its rest. */
static void check_forced(enum tool_form form, const char *wanted, const char *wanted_rest)
{
    json_t *tools = json_loads("[{\"function\": {\"name\": \"f\"}},"
                               "{\"function\": {\"name\": \"g\\\"\", \"parameters\": {\"a\": 1}}}]",
                               0, NULL);
    json_t *grammar = rf_tools_grammar(form, tools, NULL),
           *one = rf_tools_grammar(form, tools, "f");
    char *opening = rf_tools_opening(form), *rest = json_dumps(grammar, JSON_COMPACT);
    CHECK_STR(opening, wanted);
    CHECK_STR(rest, wanted_rest);
    CHECK_INT(json_array_size(one), 1);
    CHECK(json_equal(json_array_get(one, 0), json_array_get(grammar, 0)));
    free(opening);
    free(rest);
    json_decref(one);
    json_decref(grammar);
    json_decref(tools);
}

int main(void)
{
    json_t *tools = json_loads(tools_text, 0, NULL), *wrong = json_loads("[{}]", 0, NULL);
    CHECK(rf_tools_are_valid(tools));
    CHECK(!rf_tools_are_valid(wrong));
    CHECK(rf_tools_find(tools, "g") && !rf_tools_find(tools, "h"));
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
        size_t n = strlen(examples[e].answer);
        for (size_t second = 0; second <= n; second++)
            for (size_t first = 0; first <= second; first++)
                check_cut(&examples[e], tools, first, second);
    }
    check_most(tools);
    check_forced(TOOLS_TAGGED, "<tool_call>\n",
                 "[[{\"text\":\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \"},"
                 "{\"schema\":{\"type\":\"object\"}},{\"text\":\"}\"}],"
                 "[{\"text\":\"{\\\"name\\\": \\\"g\\\\\\\"\\\", \\\"arguments\\\": \"},"
                 "{\"schema\":{\"a\":1}},{\"text\":\"}\"}]]");
    check_forced(TOOLS_OBJECT, "",
                 "[[{\"text\":\"{\\\"name\\\": \\\"f\\\", \\\"parameters\\\": \"},"
                 "{\"schema\":{\"type\":\"object\"}},{\"text\":\"}\"}],"
                 "[{\"text\":\"{\\\"name\\\": \\\"g\\\\\\\"\\\", \\\"parameters\\\": \"},"
                 "{\"schema\":{\"a\":1}},{\"text\":\"}\"}]]");
    check_forced(TOOLS_NAMED, "[TOOL_CALLS]",
                 "[[{\"text\":\"f\"},{\"token\":\"[ARGS]\"},{\"schema\":{\"type\":\"object\"}}],"
                 "[{\"text\":\"g\\\"\"},{\"token\":\"[ARGS]\"},{\"schema\":{\"a\":1}}]]");
    check_forced(TOOLS_BLOCK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                 "[[{\"text\":\"f\"},{\"token\":\"<｜tool▁sep｜>\"},"
                 "{\"schema\":{\"type\":\"object\"}}],"
                 "[{\"text\":\"g\\\"\"},{\"token\":\"<｜tool▁sep｜>\"},{\"schema\":{\"a\":1}}]]");
    check_forced(TOOLS_FENCED, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                 "[[{\"text\":\"f\"},{\"text\":\"\\n```json\\n\"},"
                 "{\"schema\":{\"type\":\"object\"}}],"
                 "[{\"text\":\"g\\\"\"},{\"text\":\"\\n```json\\n\"},{\"schema\":{\"a\":1}}]]");
    json_decref(wrong);
    json_decref(tools);
    return check_result();
}
