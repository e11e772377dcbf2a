/* Chat templates: each renders as jinja2 does, with transformers' settings.
 *
 * test/data/text/templates/NAME.jinja is a model's template, NAME.chat what jinja2 makes of the
 * conversations in conversations.txt with it (scripts/text_templates.py): "bos" and "eos"; then for
 * each conversation without and with a generation prompt "= BYTES HASH", "! MESSAGE" of an
 * exception that the template raises, "?" for another exception, or "-" where the template drops a
 * system message silently and Riffle refuses. */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <stdlib.h>

#include "model/reader.h"
#include "platform/memory.h"
#include "support/check.h"
#include "template/chat_template.h"
#include "template/jinja.h"
#include "text/fixture.h"

static const struct rf_allocator *const memory = &rf_system_allocator;

enum { MAX_CONVERSATIONS = 64, MAX_MESSAGES = 16, NOON = 1770120000 /* 3 February 2026 */ };

struct conversations {
    char *data, *plain_data;
    struct rf_source *source;
    struct rf_json *json[MAX_CONVERSATIONS];
    struct rf_chat_message messages[MAX_CONVERSATIONS][MAX_MESSAGES];
    size_t n_messages[MAX_CONVERSATIONS]; /* 0: more than roles and contents */
    size_t n;
};

static struct rf_json *parse(struct conversations *c, const char *text)
{
    struct rf_error error = {0};
    struct rf_reading reading = rf_reading_of(c->source, "conversation", &error);
    struct rf_json *json = rf_json_parse(&reading, "json", rf_str_of(text));
    CHECK_MSG(json != NULL, "%s", error.text);
    return json;
}

/* The conversation as plain messages, if it has nothing else. */
static void read_plain(struct conversations *c, size_t at)
{
    const struct rf_json *messages = rf_json_get(c->json[at], "messages");
    size_t n = rf_json_count(messages);
    if (rf_json_count(c->json[at]) > 1 || n > MAX_MESSAGES) return;
    for (size_t i = 0; i < n; i++) {
        struct rf_str role, content;
        const struct rf_json *one = rf_json_at(messages, i);
        if (rf_json_count(one) > 2 || !rf_json_string(rf_json_get(one, "role"), &role) ||
            !rf_json_string(rf_json_get(one, "content"), &content))
            return;
        c->messages[at][i] = (struct rf_chat_message){role.data, content.data};
    }
    c->n_messages[at] = n;
}

static void open_conversations(struct conversations *c)
{
    struct rf_error error;
    *c = (struct conversations){.data = fixture_read("text/conversations.txt", NULL)};
    CHECK_INT(rf_source_new(&c->source, memory, &error), 0);
    CHECK(c->data != NULL);
    char *at = c->data;
    for (char *line; c->data && (line = fixture_line(&at)) && c->n < MAX_CONVERSATIONS; c->n++) {
        c->json[c->n] = parse(c, line);
        read_plain(c, c->n);
    }
    CHECK(c->n > 30);
}

static void close_conversations(struct conversations *c)
{
    for (size_t i = 0; i < c->n; i++) rf_json_free(c->json[i]);
    rf_source_close(c->source);
    free(c->data);
}

static uint64_t hash(const struct rf_rendered *rendered)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < rendered->text.count; i++)
        h = (h ^ (unsigned char)rendered->text.data[i]) * 0x100000001b3u;
    return h;
}

/* The segments cover the text and alternate in kind. */
static void check_segments(const struct rf_rendered *rendered)
{
    size_t at = 0;
    for (size_t i = 0; i < rendered->n_segments; i++) {
        CHECK(rendered->segments[i].text == rendered->text.data + at &&
              rendered->segments[i].bytes > 0);
        if (i) CHECK(rendered->segments[i].special != rendered->segments[i - 1].special);
        at += rendered->segments[i].bytes;
    }
    CHECK_INT(at, rendered->text.count);
}

static void check_rendering(const char *name, size_t index, int generation, const char *wanted,
                            int code, const struct rf_rendered *rendered,
                            const struct rf_error *error)
{
    char line[64];
    if (wanted[0] == '=') {
        snprintf(line, sizeof line, "= %zu %016" PRIx64, rendered->text.count, hash(rendered));
        CHECK_MSG(code == 0, "%s, conversation %zu: %s", name, index, error->text);
        CHECK_MSG(code || strcmp(line, wanted) == 0,
                  "%s, conversation %zu, generation %d: \"%s\", wanted \"%s\":\n%.*s", name, index,
                  generation, line, wanted, (int)rendered->text.count, rendered->text.data);
        if (!code) check_segments(rendered);
    } else {
        CHECK_MSG(code != 0, "%s, conversation %zu is rendered as %.*s", name, index,
                  (int)rendered->text.count, rendered->text.data);
        if (wanted[0] == '!')
            CHECK_MSG(strstr(error->text, wanted + 2) != NULL,
                      "%s, conversation %zu: \"%s\" lacks \"%s\"", name, index, error->text,
                      wanted + 2);
    }
}

static void check_conversation(const struct rf_chat_template *chat, const char *name,
                               const struct conversations *c, size_t index, int generation,
                               char *wanted)
{
    struct rf_rendered rendered;
    struct rf_error error = {0};
    wanted[fixture_unescape(wanted)] = 0;
    int code =
        rf_chat_render_json(chat, c->json[index], generation, NULL, memory, &rendered, &error);
    check_rendering(name, index, generation, wanted, code, &rendered, &error);
    rf_rendered_free(memory, &rendered);
    if (!c->n_messages[index]) return;
    code = rf_chat_render(chat, c->messages[index], c->n_messages[index], generation, NULL, memory,
                          &rendered, &error);
    check_rendering(name, index, generation, wanted, code, &rendered, &error);
    rf_rendered_free(memory, &rendered);
}

static struct rf_chat_template *open_template(const char *name, const char *bos, const char *eos)
{
    char path[128];
    size_t bytes = 0;
    struct rf_error error = {0};
    struct rf_chat_template *chat = NULL;
    snprintf(path, sizeof path, "text/templates/%s.jinja", name);
    char *source = fixture_read(path, &bytes);
    CHECK_MSG(source != NULL, "%s", path);
    int code = rf_chat_template_new(&chat, source, bytes, NULL, bos, eos, memory, &error);
    CHECK_MSG(code == 0, "%s: %s", name, error.text);
    if (chat) rf_chat_template_set_time(chat, NOON);
    free(source);
    return chat;
}

static void check_template(const char *name, const struct conversations *c)
{
    char path[128];
    snprintf(path, sizeof path, "text/templates/%s.chat", name);
    char *data = fixture_read(path, NULL), *at = data;
    CHECK(data != NULL);
    if (!data) return;
    char *bos = fixture_line(&at) + strlen("bos "), *eos = fixture_line(&at) + strlen("eos ");
    struct rf_chat_template *chat = open_template(name, bos, eos);
    for (size_t i = 0; chat && i < c->n; i++) {
        for (int generation = 0; generation < 2; generation++) {
            char *line = fixture_line(&at);
            CHECK_MSG(line != NULL, "%s ends early", path);
            if (line) check_conversation(chat, name, c, i, generation, line);
        }
    }
    rf_chat_template_free(chat);
    free(data);
}

static void check_templates(const struct conversations *c)
{
    char *index = fixture_read("text/templates/index.txt", NULL), *at = index, *line;
    size_t n = 0;
    while (index && (line = fixture_line(&at))) {
        check_template(line, c);
        n++;
    }
    CHECK(n >= 60);
    free(index);
}

/* A built-in template renders as that of its model, or refuses. */
static void check_builtins(const struct conversations *c)
{
    static const char *const sources[] = {"chatml",
                                          "llama2",
                                          "llama3",
                                          "llama3.1",
                                          "mistral-old",
                                          "mistral-v3",
                                          "mistral-nemo",
                                          "mistral-v7",
                                          "zephyr",
                                          "gemma",
                                          "phi3",
                                          "smollm2",
                                          "qwen2.5-coder-1.5b",
                                          "qwen3"};
    const struct rf_chat_builtin *builtin;
    size_t n = 0;
    for (; (builtin = rf_chat_builtin_at(n)) != NULL; n++) {
        struct rf_chat_template *by_name;
        struct rf_error error = {0};
        CHECK(n < sizeof sources / sizeof *sources);
        CHECK_INT(
            rf_chat_template_new(&by_name, NULL, 0, builtin->name, "<s>", "</s>", memory, &error),
            0);
        CHECK_MSG(by_name != NULL, "%s: %s", builtin->name, error.text);
        CHECK_STR(rf_chat_template_name(by_name), builtin->name);
        struct rf_chat_template *by_source = open_template(sources[n], "<s>", "</s>");
        /* 26 July 2024: the day that the built-in template of Llama 3.1 states. */
        rf_chat_template_set_time(by_source, 1721995200);
        for (size_t i = 0; i < c->n; i++) {
            struct rf_rendered a, b;
            struct rf_error why = {0};
            if (!c->n_messages[i] || strcmp(c->messages[i][0].role, "developer") == 0) continue;
            int code_a = rf_chat_render(by_name, c->messages[i], c->n_messages[i], 1, NULL, memory,
                                        &a, &why);
            int code_b = rf_chat_render(by_source, c->messages[i], c->n_messages[i], 1, NULL,
                                        memory, &b, &error);
            CHECK_MSG(code_a == code_b, "%s, conversation %zu: %d, wanted %d: %s", builtin->name, i,
                      code_a, code_b, why.text);
            CHECK_MSG(a.text.count == b.text.count &&
                          (!a.text.count || !memcmp(a.text.data, b.text.data, a.text.count)),
                      "%s, conversation %zu: %.*s\nwanted: %.*s", builtin->name, i,
                      (int)a.text.count, a.text.data, (int)b.text.count, b.text.data);
            rf_rendered_free(memory, &a);
            rf_rendered_free(memory, &b);
        }
        rf_chat_template_free(by_name);
        rf_chat_template_free(by_source);
    }
    CHECK_INT(n, sizeof sources / sizeof *sources);
}

/* What a template would leave out is refused by its number; a role has one meaning everywhere. */
static void check_shown(void)
{
    static const char some[] =
        "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }};"
        "{% elif m.role == 'assistant' %}A:{{ m.content.split('</think>')[-1] "
        "}};{% elif m.role == 'observer' %}O:{{ m.content }};{% endif %}"
        "{% endfor %}";
    static const char every[] = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
    static const char calls[] = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in "
                                "m.tool_calls %}{{ c.function.name }}{% endfor %};{% endfor %}"
                                "{{ tools | tojson }}";
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"age\"}}]"
#define CALL "\"tool_calls\":[{\"function\":{\"name\":\"age\",\"arguments\":{}}}]"
    static const struct {
        const char *source, *conversation, *wanted; /* a text, or "! " and a part of the sentence */
    } cases[] = {
        {some, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "U:a;"},
        {some, "{\"messages\":[{\"role\":\"observer\",\"content\":\"a\"}]}", "O:a;"},
        {some, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"<think>a</think>\"}]}", "A:;"},
        {some,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"usr\","
         "\"content\":\"b\"}]}",
         "! message 2 has the role \"usr\""},
        {every, "{\"messages\":[{\"role\":\"User\",\"content\":\"a\"}]}",
         "! message 1 has the role \"User\""},
        {some,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\","
         "\"content\":\"b\"}]}",
         "! message 2 has the role \"tool\""},
        {every, "{\"messages\":[{\"role\":\"function\",\"name\":\"n\",\"content\":\"a\"}]}",
         "tool:a;"},
        {every, "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"}]}", "system:a;"},
        {"{{ 'developer' }}{% for m in messages %}{{ m.role }};{{ m.content }}{% endfor %}",
         "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"}]}", "developerdeveloper;a"},
        {some, "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"}]}",
         "! message 1 is a system message"},
        {every, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]," TOOLS "}", "! the tools"},
        {every, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[]}", "user:a;"},
        {every,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"documents\":[{\"text\":\"b\"}]}",
         "! the documents"},
        {every, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\"," CALL "}]}",
         "! message 1 has the role \"assistant\" and calls of tools"},
        {calls, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\"," CALL "}]," TOOLS "}",
         "assistant:age;[{\"type\": \"function\", \"function\": {\"name\": \"age\"}}]"},
        {every,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]}",
         "user:[{'type': 'text', 'text': 'a'}];"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rf_chat_template *chat = NULL;
        struct rf_source *source = NULL;
        struct rf_rendered rendered;
        struct rf_error error = {0};
        const char *given = cases[i].source, *wanted = cases[i].wanted;
        CHECK_INT(rf_source_new(&source, memory, &error), 0);
        struct rf_reading reading = rf_reading_of(source, "conversation", &error);
        struct rf_json *json = rf_json_parse(&reading, "json", rf_str_of(cases[i].conversation));
        CHECK_INT(rf_chat_template_new(&chat, given, strlen(given), NULL, "", "", memory, &error),
                  0);
        int code = rf_chat_render_json(chat, json, 0, NULL, memory, &rendered, &error);
        if (wanted[0] == '!')
            CHECK_MSG(code == RF_ERR_ARGUMENT && strstr(error.text, wanted + 2), "%zu: %d, %s", i,
                      code, error.text);
        else
            CHECK_MSG(!code && rendered.text.count == strlen(wanted) &&
                          !memcmp(rendered.text.data, wanted, strlen(wanted)),
                      "%zu: %d, %s, %.*s", i, code, error.text, (int)rendered.text.count,
                      rendered.text.data);
        rf_rendered_free(memory, &rendered);
        rf_chat_template_free(chat);
        rf_json_free(json);
        rf_source_close(source);
    }
}

/* More messages than there are origins: the one that is left out is found. */
static void check_many_shown(void)
{
    enum { MANY = 700 };
    static const char source[] = "{% for m in messages %}{% if m.content != 'x600' %}"
                                 "{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}",
                      drops[] = "{% for m in messages %}{% if loop.index != 601 %}"
                                "{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}";
    static struct rf_chat_message messages[MANY];
    static char contents[MANY][8];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(contents[i], sizeof contents[i], "x%zu", i);
        messages[i] = (struct rf_chat_message){i % 2 ? "assistant" : "user", contents[i]};
    }
    for (int lost = 0; lost < 2; lost++) {
        struct rf_chat_template *chat = NULL;
        struct rf_rendered rendered;
        struct rf_error error = {0};
        const char *given = lost ? drops : source;
        CHECK_INT(rf_chat_template_new(&chat, given, strlen(given), NULL, "", "", memory, &error),
                  0);
        int code = rf_chat_render(chat, messages, MANY, 0, NULL, memory, &rendered, &error);
        /* A template may look at a content and leave it out, as with thoughts. */
        CHECK_INT(code, lost ? RF_ERR_ARGUMENT : 0);
        CHECK(!lost || strstr(error.text, "message 601 "));
        rf_rendered_free(memory, &rendered);
        rf_chat_template_free(chat);
    }
}

/* Sources that do not compile name the line. */
static void check_refused(void)
{
    static const struct {
        const char *source, *sentence;
    } sources[] = {
        {"{% for message in messages %}", "line 1"},
        {"a\n{% endfor %}", "line 2: \"endfor\" is out of place"},
        {"\n\n{{ 'no end ", "line 3: a string does not end"},
        {"{{ }}", "line 1: \"}}\" is out of place"},
        {"{# no end", "a comment does not end"},
        {"{% if %}{% endif %}", "out of place"},
        {"{{ x | nothing }}", "the filter nothing is not known"},
        {"{{ x is nothing }}", "the test nothing is not known"},
        {"{% include 'x' %}", "the statement include is not known"},
        {"{{ 0x99999999999999999999 }}", "out of range"},
        {"{% macro m() %}{{ x | nothing }}{% endmacro %}", "the filter nothing is not known"},
        {"{{ 'a\\x4' }}", "broken escape"},
        {"{% raw %}{{ x }}", "{% raw %} does not end"},
        {"{%", "a tag does not end"},
        {"{{ a ] }}", "a bracket closes nothing"},
        {"{% break %}", "\"%}\" is out of place"},
        {"{% set 1 = 2 %}", "\"1\" is out of place"},
        {"{{ --------------------------------------------------------------------------------"
         "--------------------------------------------------------------------------------"
         "--------------------------------------------------------------------------------1 }}",
         "nested too deeply"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct rf_chat_template *chat = NULL;
        struct rf_error error = {0};
        const char *source = sources[i].source;
        int code = rf_chat_template_new(&chat, source, strlen(source), NULL, "<s>", "</s>", memory,
                                        &error);
        CHECK_MSG(code == RF_ERR_UNSUPPORTED, "%s: code %d", source, code);
        CHECK_MSG(strstr(error.text, sources[i].sentence) && strstr(error.text, "chatml"),
                  "%s: \"%s\"", source, error.text);
        rf_chat_template_free(chat);
    }
}

/* Templates that go on for ever, grow or nest without end are stopped; their sentence has a line.
 */
#define REPEAT(expression) "{% for i in range(99999) %}{% set y = " expression " %}{% endfor %}"
static void check_bounds(void)
{
    static const char *const sources[] = {
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor "
        "%}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{{ 'x' * 999999999 }}",
        "{{ [1] * 999999999 }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor "
        "%}{{ ns.x }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor "
        "%}{{ ns.x | tojson }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ 2 ** 64 }}",
        "{{ 123456789012345678901234567890 + 1 }}",
        "{% set s = ' ' * 1000000 %}" REPEAT("s.split()"),
        "{% set s = 'a' * 1000000 %}" REPEAT("s.rsplit(none, 1)"),
        "{% set s = 'a' * 1000000 %}" REPEAT("'ab' in s"),
        "{% set s = 'a' * 1000000 %}" REPEAT("s.removeprefix(s)"),
        "{% set s = 'a' * 1000000 %}{% set t = (s ~ 'b',) * 9999 %}" REPEAT("s.startswith(t)"),
        "{% set s = 'a' * 1000000 %}{{ s.strip('b' * 1000000 ~ 'a') }}",
        "{% set s = ' ' * 1000000 %}" REPEAT("s | int"),
        "{% set s = 'Σ' * 1000000 %}" REPEAT("s | lower"),
        "{% set s = 'é' * 1000000 %}" REPEAT("s[999999]"),
        "{% set l = range(99999) | list %}" REPEAT("l == l + [1] or l < l"),
        "{% set l = range(99999) | list %}" REPEAT("l.count(-1)"),
        "{% set l = range(99999) | list %}" REPEAT("l | sort"),
        "{% set l = range(99999) | list %}" REPEAT("l | tojson | length"),
        "{% set l = range(99999) | list %}" REPEAT("l[1:] | length"),
        "{{ ('{0:>999999}' * 9999).format(1) }}",
        "{{ '' * 999999999999 }}",
        "{{ [1] | slice(9999999999) | list }}",
        "{% set s = 'a' * 1000000 %}" REPEAT("s in s"),
    };
    const struct rf_chat_message message = {"user", "hi"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (IS_SANITIZED && i % 3) continue; /* each works until its limit of work is reached */
        struct rf_chat_template *chat;
        struct rf_rendered rendered;
        struct rf_error error = {0};
        CHECK_INT(rf_chat_template_new(&chat, sources[i], strlen(sources[i]), NULL, "", "", memory,
                                       &error),
                  0);
        CHECK_INT(rf_chat_render(chat, &message, 1, 1, NULL, memory, &rendered, &error),
                  RF_ERR_UNSUPPORTED);
        CHECK_MSG(strstr(error.text, "the chat template, line 1: "), "%s", error.text);
        rf_chat_template_free(chat);
    }
}

static int stop_at_third(void *user)
{
    int *asked = user;
    return ++*asked == 3;
}

/* A rendering asks from time to time whether to stop, also inside of one long operation. */
static void check_stop(void)
{
    static const char *const sources[] = {
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 40000000 }}",
    };
    const struct rf_chat_message message = {"user", "hi"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct rf_chat_template *chat;
        struct rf_rendered rendered;
        struct rf_error error = {0};
        int asked = 0;
        const struct rf_jinja_stop stop = {stop_at_third, &asked};
        CHECK_INT(rf_chat_template_new(&chat, sources[i], strlen(sources[i]), NULL, "", "", memory,
                                       &error),
                  0);
        CHECK_INT(rf_chat_render(chat, &message, 1, 1, &stop, memory, &rendered, &error),
                  RF_ERR_CANCELLED);
        CHECK_INT(asked, 3);
        rf_chat_template_free(chat);
    }
}

/* Parts of the language that no template of the folder shows, by jinja2 3.1. */
static void check_language(void)
{
    static const char *const cases[][2] = {
        {"{{ 7 // -2 }} {{ 7 % -2 }} {{ -7 // 2 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}",
         "-4 -1 -4 3.5 64 4"},
        {"{{ 1e16 }} {{ 1.0 }} {{ 0.0001 }} {{ 1e-5 }} {{ 123456.789 }} {{ 1 / 3 }}",
         "1e+16 1.0 0.0001 1e-05 123456.789 0.3333333333333333"},
        {"{{ [1, 'a\\n', none, true, {'k': (1,)}] }}", "[1, 'a\\n', None, True, {'k': (1,)}]"},
        {"{{ \"it's\" ~ ['it\\'s', 'x\"\\''] }}", "it's[\"it's\", 'x\"\\'']"},
        {"{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-2] }} {{ [1,2,3][-2:] }} {{ 'é日x'[1] }}",
         "bcd fdb [2, 3] 日"},
        {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in 'ba' }} {{ 4 not in [1] }}",
         "True False True True"},
        {"{% for a, b in {'x': 1, 'y': 2}.items() %}{{ loop.index }}{{ a }}{{ b }}{{ loop.last "
         "}};{% else %}none{% endfor %}",
         "1x1False;2y2True;"},
        {"{% for i in [1, 2, 3, 4] if i % 2 == 0 %}{{ loop.length }}{{ i }}{% endfor %}", "2224"},
        {"{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break "
         "%}{% endif %}{{ i }}{% endfor %}",
         "0134"},
        {"{% for n in [[1, [2]], 3] recursive %}{{ loop.depth }}{% if n is iterable %}({{ loop(n) "
         "}}){% endif %}{% endfor %}",
         "1(22(3))1"},
        {"{% macro m(a, b='x') %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ m(1) }}{{ "
         "m(b=2, a=3) }}{% call m(4) %}!{% endcall %}",
         "1x324x!"},
        {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
        {"{% set x | upper %}a{{ 1 }}{% endset %}{{ x }}{% filter lower %}A{{ x }}{% endfilter %}",
         "A1aa1"},
        {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
        {"{{ {'b': 1, 'a': [1, {'c': 2}], 'e': {}} | tojson(indent=2, sort_keys=true) }}",
         "{\n  \"a\": [\n    1,\n    {\n      \"c\": 2\n    }\n  ],\n  \"b\": 1,\n  \"e\": {}\n}"},
        {"{{ 'é<\\'\\x01\\u2028' | tojson }}{{ 'é😀' | tojson(ensure_ascii=true) }}",
         "\"é<'\\u0001\u2028\"\"\\u00e9\\ud83d\\ude00\""},
        {"{{ [3, 1, 2] | sort(reverse=true) | join('-') }} {{ ['b', 'A'] | sort }} {{ [1, 1, 2] | "
         "unique | list }}",
         "3-2-1 ['A', 'b'] [1, 2]"},
        {"{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'gt', 1) | map(attribute='a') | list }} {{ "
         "['x', 'y'] | map('upper') | join }}",
         "[2] XY"},
        {"{{ 'a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ "
         "'a--b'.partition('--') }}",
         "['a', 'b', 'c'] ['a', 'b,c'] ['a,b', 'c'] ('a', '--', 'b')"},
        {"{{ 'hello wORLD' | title }} {{ \"they're\".title() }} {{ 'éa' | upper }} {{ 'AB' | "
         "capitalize }}",
         "Hello World They'Re ÉA Ab"},
        {"{{ 'x\\ny\\n\\nz' | indent }}|{{ 'x' | indent(2, true) }}", "x\n    y\n\n    z|  x"},
        {"{{ '%s-%05.1f-%d' % ('a', 3.14159, 7) }} {{ 'abc'.replace('', '-') }} {{ "
         "'x{}y{}'.format(1, 2) }}",
         "a-003.1-7 -a-b-c- x1y2"},
        {"{{ range(7) | slice(3) | list }} {{ [1, 2, 3] | slice(2, 'x') | list }} {{ [] | slice(2) "
         "| list }}",
         "[[0, 1, 2], [3, 4], [5, 6]] [[1, 2], [3, 'x']] [[], []]"},
        {"{{ 'foo bar baz qux' | truncate(9) }}|{{ 'foo bar baz qux' | truncate(9, true) }}|{{ "
         "'foo bar baz qux' | truncate(11) }}|{{ 'foo bar baz qux' | truncate(11, false, '…', 0) "
         "}}|"
         "{{ 'éééééééé' | truncate(5, leeway=0) }}",
         "foo...|foo ba...|foo bar baz qux|foo bar…|éé..."},
        {"{{ \" it's a_b é日1, ½² --x\" | wordcount }} {{ '' | wordcount }} {{ 12.5 | wordcount }}",
         "6 0 2"},
        {"{% set c = joiner() %}{% set d = joiner('|') %}{% for i in [1, 2, 3] %}{{ c() }}{{ d() "
         "}}{{ "
         "i }}{% endfor %}",
         "1, |2, |3"},
        {"{% set c = cycler('a', 'b') %}{{ c.current }}{% for i in range(3) %}{{ c.next() }}{% "
         "endfor %}{{ c.current }}{% if not c.reset() %}{{ c.current }}{% endif %}",
         "aababa"},
        {"{{ nothing }}{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ nothing is "
         "undefined }}",
         "deTrue"},
        {"  {%- if true %}\n  a\n  {%+ if true %}b{% endif %}\n{% endif -%}\n  c\n", "  a\n  bc"},
        {"{% raw %}{{ x }}{% endraw %}{# c #}\nd\n\n", "{{ x }}d\n"},
        {"{% generation %}a{% endgeneration %}{{ strftime_now('%d %b %Y') }}", "a03 Feb 2026"},
        {"{{ 'a' 'b' }}{{ 0x1F + 1_000 }}{{ 'a' if false }}{{ [1, 2] + [3] }}{{ 'ab' * 2 }}",
         "ab1031[1, 2, 3]abab"},
        {"{{ '12' | int + 1 }} {{ 'x' | int }} {{ '1.5' | float }} {{ 2.5 | round }} {{ 2.567 | "
         "round(2) }} {{ -3 | abs }}",
         "13 0 1.5 2.0 2.57 3"},
    };
    const struct rf_chat_message message = {"user", ""};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rf_chat_template *chat = NULL;
        struct rf_rendered rendered;
        struct rf_error error = {0};
        rf_chat_template_new(&chat, cases[i][0], strlen(cases[i][0]), NULL, "", "", memory, &error);
        CHECK_MSG(chat != NULL, "%s: %s", cases[i][0], error.text);
        if (!chat) continue;
        rf_chat_template_set_time(chat, NOON);
        int code = rf_chat_render(chat, &message, 1, 1, NULL, memory, &rendered, &error);
        CHECK_MSG(code == 0 && rendered.text.count == strlen(cases[i][1]) &&
                      memcmp(rendered.text.data, cases[i][1], rendered.text.count) == 0,
                  "%s: %.*s, wanted %s (%s)", cases[i][0], (int)rendered.text.count,
                  rendered.text.data, cases[i][1], error.text);
        rf_rendered_free(memory, &rendered);
        rf_chat_template_free(chat);
    }
}

/* The sources of scripts/text_language.py, a line each, and in the next line "= " and what jinja2
 * makes of them, or "?" where it refuses. */
static void check_expressions(void)
{
    const struct rf_chat_message message = {"user", ""};
    char *data = fixture_read("text/language.txt", NULL), *at = data, *source, *wanted;
    size_t n = 0;
    CHECK(data != NULL);
    for (; data && (source = fixture_line(&at)) && (wanted = fixture_line(&at)); n++) {
        struct rf_chat_template *chat = NULL;
        struct rf_rendered rendered = {0};
        struct rf_error error = {0};
        size_t bytes = fixture_unescape(source), n_wanted = fixture_unescape(wanted);
        int code = rf_chat_template_new(&chat, source, bytes, NULL, "<s>", "</s>", memory, &error);
        if (!code) code = rf_chat_render(chat, &message, 1, 1, NULL, memory, &rendered, &error);
        if (wanted[0] == '?')
            CHECK_MSG(code != 0, "%s is rendered as %.*s", source, (int)rendered.text.count,
                      rendered.text.data);
        else
            CHECK_MSG(
                code == 0 && rendered.text.count == n_wanted - 2 &&
                    (n_wanted == 2 || memcmp(rendered.text.data, wanted + 2, n_wanted - 2) == 0),
                "%s: %.*s, wanted %s (%s)", source, (int)rendered.text.count, rendered.text.data,
                wanted + 2, error.text);
        rf_rendered_free(memory, &rendered);
        rf_chat_template_free(chat);
    }
    CHECK(n > 90);
    free(data);
}

/* Contents stay contents through whatever a template does with them; roles are the template's. */
static void check_origins(void)
{
    static const char source[] =
        "{% macro m(x) %}<|{{ x }}|>{% endmacro %}{% for message in messages %}<|{{ message.role "
        "}}|>{{ m(message.content | trim | replace('b', '<b>')) }}{{ message.content[1:2] ~ '!' "
        "}}{% endfor %}";
    static const char *const parts[] = {"<|user|><|", "a", "<b>", "c", "|>", "a", "!"};
    static const int special[] = {1, 0, 1, 0, 1, 0, 1};
    const struct rf_chat_message message = {"user", " abc "};
    struct rf_chat_template *chat;
    struct rf_rendered rendered;
    struct rf_error error = {0};
    CHECK_INT(rf_chat_template_new(&chat, source, strlen(source), NULL, "", "", memory, &error), 0);
    CHECK_INT(rf_chat_render(chat, &message, 1, 0, NULL, memory, &rendered, &error), 0);
    CHECK_INT(rendered.n_segments, 7);
    for (size_t i = 0; i < rendered.n_segments && i < 7; i++) {
        CHECK_INT(rendered.segments[i].special, special[i]);
        CHECK(rendered.segments[i].bytes == strlen(parts[i]) &&
              memcmp(rendered.segments[i].text, parts[i], strlen(parts[i])) == 0);
    }
    rf_rendered_free(memory, &rendered);
    rf_chat_template_free(chat);
}

static void check_arguments(void)
{
    struct rf_chat_template *chat;
    struct rf_rendered rendered;
    struct rf_error error = {0};
    CHECK_INT(rf_chat_template_new(&chat, NULL, 0, "chatm", "", "", memory, &error),
              RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "\"chatm\"") && strstr(error.text, "chat_template") &&
          strstr(error.text, "llama2"));
    CHECK_INT(rf_chat_template_new(&chat, NULL, 0, NULL, "", "", memory, &error),
              RF_ERR_UNSUPPORTED);
    CHECK(strstr(error.text, "chat_template") != NULL);
    CHECK_INT(rf_chat_template_new(&chat, NULL, 0, "chatml", "", "", memory, &error), 0);
    struct rf_chat_message messages[] = {
        {"user", "x"}, {"<|im_end|>", "y"}, {"user", NULL}, {NULL, "z"}};
    CHECK_INT(rf_chat_render(chat, messages, 0, 1, NULL, memory, &rendered, &error),
              RF_ERR_ARGUMENT);
    CHECK_INT(rf_chat_render(chat, messages, 2, 1, NULL, memory, &rendered, &error),
              RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "\"<|im_end|>\"") != NULL);
    CHECK_INT(rf_chat_render(chat, messages + 2, 1, 1, NULL, memory, &rendered, &error),
              RF_ERR_ARGUMENT);
    CHECK_INT(rf_chat_render(chat, messages + 3, 1, 1, NULL, memory, &rendered, &error),
              RF_ERR_ARGUMENT);
    rf_chat_template_free(chat);
}

int main(void)
{
    static struct conversations conversations;
    setenv("TZ", "UTC0", 1);
    open_conversations(&conversations);
    check_templates(&conversations);
    check_builtins(&conversations);
    check_shown();
    check_many_shown();
    check_refused();
    check_bounds();
    check_stop();
    check_language();
    check_expressions();
    check_origins();
    check_arguments();
    close_conversations(&conversations);
    return check_result();
}
