/* Chat templates: each recognised one renders as Jinja does; what is not known is refused and says
 * how to choose.
 *
 * test/data/text/templates/NAME.jinja is a model's template, NAME.chat what Jinja makes of the
 * conversations in conversations.txt with it: "name", "bos" and "eos"; then for each conversation
 * without and with a generation prompt
 * "= RENDERING", "! ERROR", or "-" where the template would drop a message silently and Riffle
 * refuses. */
#include <stdlib.h>

#include "check.h"
#include "fixture.h"
#include "platform/memory.h"
#include "text/chat_style.h"

static const struct rf_allocator *const memory = &rf_system_allocator;

static const char *const templates[] = {
    "chatml",
    "chatml-prelude",
    "gemma",
    "gemma-no-bos",
    "llama2",
    "llama3",
    "llama3-always",
    "llama3.1",
    "llama3.2",
    "mistral-nemo",
    "mistral-old",
    "mistral-v0.1",
    "mistral-v1",
    "mistral-v3",
    "mistral-v7",
    "phi3",
    "phi3-answered",
    "phi3-bos",
    "phi3-first",
    "phi3-first-bos",
    "phi3.5",
    "qwen2",
    "qwen2.5-coder-0.5b",
    "qwen2.5-coder-1.5b",
    "qwen3",
    "smollm2",
    "zephyr",
};

enum { MAX_CONVERSATIONS = 64, MAX_MESSAGES = 16 };

struct conversations {
    char *data;
    struct rf_chat_message messages[MAX_CONVERSATIONS][MAX_MESSAGES];
    size_t n_messages[MAX_CONVERSATIONS];
    size_t n;
};

static void open_conversations(struct conversations *c)
{
    *c = (struct conversations){.data = fixture_read("text/conversations.txt", NULL)};
    CHECK(c->data != NULL);
    char *at = c->data;
    for (char *line; c->data && (line = fixture_line(&at));) {
        if (strcmp(line, "chat") == 0) {
            c->n++;
            continue;
        }
        char *space = strchr(line, ' ');
        *space = 0;
        space[1 + fixture_unescape(space + 1)] = 0;
        c->messages[c->n - 1][c->n_messages[c->n - 1]++] =
            (struct rf_chat_message){line, space + 1};
    }
    CHECK(c->n > 20);
}

/* The segments cover the text, alternate in kind, and hold contents and nothing else where they are
 * not special. */
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

static void check_rendering(const struct rf_chat_template *chat, const char *name,
                            const struct conversations *c, size_t index, int generation,
                            char *wanted)
{
    struct rf_rendered rendered;
    struct rf_error error = {0};
    int code = rf_chat_render(chat, c->messages[index], c->n_messages[index], generation, memory,
                              &rendered, &error);
    size_t bytes = fixture_unescape(wanted);
    wanted[bytes] = 0;
    if (wanted[0] == '=') {
        CHECK_MSG(code == 0, "%s, conversation %zu: %s", name, index, error.text);
        CHECK_MSG(code || (rendered.text.count == bytes - 2 &&
                           memcmp(rendered.text.data, wanted + 2, bytes - 2) == 0),
                  "%s, conversation %zu, generation %d:\ngot    %.*s\nwanted %s", name, index,
                  generation, (int)rendered.text.count, rendered.text.data, wanted + 2);
        if (!code) check_segments(&rendered);
    } else {
        CHECK_MSG(code == RF_ERR_ARGUMENT, "%s, conversation %zu is rendered as %.*s", name, index,
                  (int)rendered.text.count, rendered.text.data);
        if (wanted[0] == '!')
            CHECK_MSG(strstr(error.text, wanted + 2) != NULL,
                      "%s, conversation %zu: \"%s\" lacks \"%s\"", name, index, error.text,
                      wanted + 2);
    }
    rf_rendered_free(memory, &rendered);
}

static void check_template(const char *name, const struct conversations *c)
{
    char path[128];
    size_t bytes;
    struct rf_error error = {0};
    struct rf_chat_template *chat;
    snprintf(path, sizeof path, "text/templates/%s.jinja", name);
    char *source = fixture_read(path, &bytes);
    snprintf(path, sizeof path, "text/templates/%s.chat", name);
    char *data = fixture_read(path, NULL), *at = data;
    CHECK(source && data);
    if (!source || !data) return;
    char *known = fixture_line(&at) + strlen("name "), *bos = fixture_line(&at) + strlen("bos ");
    char *eos = fixture_line(&at) + strlen("eos ");
    int code = rf_chat_template_new(&chat, source, bytes, NULL, bos, eos, memory, &error);
    CHECK_MSG(code == 0, "%s: %s", name, error.text);
    if (!code) {
        CHECK_STR(rf_chat_template_name(chat), known);
        for (size_t i = 0; i < c->n; i++) {
            for (int generation = 0; generation < 2; generation++) {
                char *line = fixture_line(&at);
                CHECK_MSG(line != NULL, "%s ends early", path);
                if (line) check_rendering(chat, name, c, i, generation, line);
            }
        }
    }
    rf_chat_template_free(chat);
    free(source);
    free(data);
}

/* A model's template chosen by its name renders as the template itself. */
static void check_names(const struct conversations *c)
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
    const struct rf_chat_style *style;
    size_t n = 0;
    for (; (style = rf_chat_style_at(n)) != NULL; n++) {
        char path[128];
        size_t bytes;
        struct rf_chat_template *by_name, *by_source;
        struct rf_error error = {0};
        CHECK(n < sizeof sources / sizeof *sources);
        snprintf(path, sizeof path, "text/templates/%s.jinja", sources[n]);
        char *source = fixture_read(path, &bytes);
        CHECK_INT(
            rf_chat_template_new(&by_name, NULL, 0, style->name, "<s>", "</s>", memory, &error), 0);
        CHECK_INT(
            rf_chat_template_new(&by_source, source, bytes, NULL, "<s>", "</s>", memory, &error),
            0);
        CHECK_STR(rf_chat_template_name(by_name), style->name);
        for (size_t i = 0; i < c->n; i++) {
            struct rf_rendered a, b;
            int code_a =
                rf_chat_render(by_name, c->messages[i], c->n_messages[i], 1, memory, &a, &error);
            int code_b =
                rf_chat_render(by_source, c->messages[i], c->n_messages[i], 1, memory, &b, &error);
            CHECK_INT(code_a, code_b);
            CHECK(a.text.count == b.text.count &&
                  (!a.text.count || !memcmp(a.text.data, b.text.data, a.text.count)));
            rf_rendered_free(memory, &a);
            rf_rendered_free(memory, &b);
        }
        rf_chat_template_free(by_name);
        rf_chat_template_free(by_source);
        free(source);
    }
    CHECK_INT(n, sizeof sources / sizeof *sources);
}

static void check_refused(const char *source, const char *what)
{
    struct rf_chat_template *chat = NULL;
    struct rf_error error = {0};
    int code =
        rf_chat_template_new(&chat, source, strlen(source), NULL, "<s>", "</s>", memory, &error);
    CHECK_MSG(code == RF_ERR_UNSUPPORTED, "%s: code %d", what, code);
    CHECK_MSG(strstr(error.text, "chat_template") != NULL && strstr(error.text, "chatml") != NULL,
              "%s: \"%s\"", what, error.text);
    rf_chat_template_free(chat);
}

/* Templates of others, and known ones with a small change, are not taken for known ones. */
static void check_unknown(void)
{
    static const char *const sources[] = {
        "",
        "Hello",
        "{% for message in messages %}{{ message['content'] }}{% endfor %}",
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% "
        "endfor %}",
        "{% macro turn(m) %}{{ m }}{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}",
        "{{ bos_token }}{% for message in messages %}{{ 'GPT4 Correct ' + message['role'].title() "
        "}}{% endfor %}",
        "{% for message in messages %}",
        "{% endfor %}",
        "{{ 'no end ",
        "{{ }}",
        "{# no end",
        "{% if %}",
        "{{ 1.5 }}",
        "{{ 'a\\x41' }}",
        "{% raw %}{{ x }}{% endraw %}",
        "{%",
        "{{",
        "{#",
        "{",
        "{% set x %}y{% endset %}",
        "{{ a ] }}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        check_refused(sources[i], sources[i]);

    static const char *const changes[][3] = {
        {"chatml", "<|im_end|>' + '\\n'", "<|im_end|>'"},
        {"chatml", "+ message['content'] +", "+ message['content'] | trim +"},
        {"chatml", "{% if add_generation_prompt %}", "{% if not add_generation_prompt %}"},
        {"chatml", "{% endfor %}", "{% endfor %} "},
        {"chatml", "{{'<|im_start|>'", "{{bos_token + '<|im_start|>'"},
        {"chatml", "message['role']", "message['name']"},
        {"qwen2.5-coder-0.5b", "not message.tool_calls", "message.tool_calls"},
        {"qwen2.5-coder-0.5b", "{%- for message in messages %}",
         "{%- for message in messages[1:] %}"},
        {"smollm2", "!= 'system'", "== 'system'"},
        {"smollm2", "loop.first", "loop.last"},
        {"llama2", "content.strip()", "content"},
        {"llama2", "system_message = false", "system_message = 'You are helpful.'"},
        {"llama2", "% 2 == 0", "% 2 == 1"},
        {"llama3", "| trim", ""},
        {"llama3.1", "26 Jul 2024", "27 Jul 2024"},
        {"llama3.1", "December 2023", "December 2024"},
        {"llama3.2", "{{- system_message }}", "{{- system_message | upper }}"},
        {"mistral-old", "' [/INST]'", "'[/INST]'"},
        {"mistral-nemo", "eos_token}}", "' ' + eos_token}}"},
        {"zephyr", "{% endif %}\n{% if loop.last", "{%- endif %}\n{% if loop.last"},
        {"zephyr", "eos_token }}\n{% elif", "eos_token }}{% elif"},
        {"gemma", "role = 'model'", "role = 'assistant'"},
        {"phi3", "{{ eos_token }}", ""},
        {"qwen3", "</think>\\n\\n' + content", "</think>\\n' + content"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char path[128];
        snprintf(path, sizeof path, "text/templates/%s.jinja", changes[i][0]);
        char *source = fixture_read(path, NULL),
             *at = source ? strstr(source, changes[i][1]) : NULL;
        CHECK_MSG(at != NULL, "%s has no %s", changes[i][0], changes[i][1]);
        if (at) {
            char *changed = malloc(strlen(source) + strlen(changes[i][2]) + 1);
            size_t before = (size_t)(at - source);
            memcpy(changed, source, before);
            strcpy(changed + before, changes[i][2]);
            strcat(changed, at + strlen(changes[i][1]));
            check_refused(changed, changes[i][1]);
            free(changed);
        }
        free(source);
    }
}

/* Layout, quoting and another default system prompt do not matter. */
static void check_relatives(void)
{
    static const struct {
        const char *source, *name, *rendering;
    } relatives[] = {
        {"{%- for message in messages -%}\n  {{- \"<|im_start|>\" ~ message.role ~ \"\\n\" -}}\r\n "
         "{{- "
         "message[\"content\"] -}}"
         "{# end #}<|im_end|>\n{% endfor -%}\n {%- if add_generation_prompt -%} {{ '<|im_start|>' "
         "+ 'assistant\\n' }}"
         "{%- endif -%}",
         "chatml", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
        {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
         "'<|im_start|>system\n"
         "Be {brief}.\\n<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
         "message['content'] + "
         "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
         "'<|im_start|>assistant\n' }}{% endif %}",
         "chatml",
         "<|im_start|>system\nBe "
         "{brief}.\n<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
        {"{% if tools %}anything {{ tools | tojson }}{% for t in tools %}{{ t }}{% endfor %}{% "
         "endif %}"
         "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content "
         "+ '<|im_end|>\\n' }}"
         "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{{ '' }}{% endif %}",
         "chatml", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
    };
    const struct rf_chat_message message = {"user", "hi"};
    for (size_t i = 0; i < sizeof relatives / sizeof *relatives; i++) {
        struct rf_chat_template *chat;
        struct rf_rendered rendered;
        struct rf_error error = {0};
        const char *source = relatives[i].source;
        CHECK_MSG(
            rf_chat_template_new(&chat, source, strlen(source), NULL, "", "", memory, &error) == 0,
            "%zu: %s", i, error.text);
        if (!chat) continue;
        CHECK_STR(rf_chat_template_name(chat), relatives[i].name);
        CHECK_INT(rf_chat_render(chat, &message, 1, 1, memory, &rendered, &error), 0);
        CHECK_MSG(rendered.text.count == strlen(relatives[i].rendering) &&
                      memcmp(rendered.text.data, relatives[i].rendering, rendered.text.count) == 0,
                  "%zu: %.*s", i, (int)rendered.text.count, rendered.text.data);
        rf_rendered_free(memory, &rendered);
        rf_chat_template_free(chat);
    }
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
    struct rf_chat_message messages[] = {{"user", "x"}, {"tool", "y"}, {"user", NULL}, {NULL, "z"}};
    CHECK_INT(rf_chat_render(chat, messages, 0, 1, memory, &rendered, &error), RF_ERR_ARGUMENT);
    CHECK_INT(rf_chat_render(chat, messages, 2, 1, memory, &rendered, &error), RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "\"tool\"") != NULL);
    CHECK_INT(rf_chat_render(chat, messages + 2, 1, 1, memory, &rendered, &error), RF_ERR_ARGUMENT);
    CHECK_INT(rf_chat_render(chat, messages + 3, 1, 1, memory, &rendered, &error), RF_ERR_ARGUMENT);
    rf_chat_template_free(chat);
}

int main(void)
{
    static struct conversations conversations;
    open_conversations(&conversations);
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        check_template(templates[i], &conversations);
    check_names(&conversations);
    check_unknown();
    check_relatives();
    check_arguments();
    free(conversations.data);
    return check_result();
}
