/* The form of calls that each template tells, and what it has no place for. The templates are those
 * of test/data/text/templates, which has their sources, put into the small model's file. */
#include <stdlib.h>
#include <string.h>

#include "answers/tool_forms.h"
#include "answers/tools.h"
#include "api/changed_model.h"
#include "base/json.h"
#include "platform/memory.h"

static const struct known {
    const char *template, *form; /* form NULL: its own is not known */
    int shows_tools, shows_calls, has_system;
} known[] = {
    {"chatml", "hermes", 0, 0, 1},
    {"gemma", "hermes", 0, 0, 0},
    {"cz-granite-3.0-instruct", "granite", 1, 0, 1},
    {"gpt-oss", "harmony", 1, 1, 1},
    {"hf-CISCai-Mistral-7B-Instruct-v0.3-SOTA-GGUF", "mistral-nemo", 1, 1, 0},
    {"hf-LiquidAI-LFM2.5-VL-450M", "lfm2", 1, 1, 1},
    {"hf-NousResearch-Hermes-2-Pro-Llama-3-8B-JSON-Schema", "hermes", 1, 1, 1},
    {"hf-Qwen-Qwen3.5-4B", "qwen3-coder", 1, 1, 1},
    {"hf-ai21labs-AI21-Jamba-Large-1.6", "apriel", 1, 1, 1},
    {"hf-deepseek-ai-DeepSeek-R1", "deepseek-v3", 0, 1, 1},
    {"hf-meetkai-functionary-medium-v2.2", NULL, 0, 0, 1},
    {"hf-meta-llama-Llama-3.2-11B-Vision-Instruct", "llama3", 1, 1, 1},
    {"hf-moonshotai-Kimi-K2-Thinking", "kimi-k2", 1, 1, 1},
    {"hf-openbmb-MiniCPM3-4B", "minicpm3", 1, 1, 1},
    {"hf-zai-org-GLM-5.1", "glm", 1, 1, 1},
    {"llama3", "hermes", 0, 0, 1},
    {"llama3.1", "llama3", 1, 1, 1},
    {"mistral-nemo", "mistral-nemo", 1, 1, 1},
    {"mistral-v1", "hermes", 0, 0, 1},
    {"phi3", "hermes", 0, 0, 1},
    {"qwen2.5-coder-0.5b", "hermes", 1, 1, 1},
    {"qwen3", "hermes", 1, 1, 1},
    {"smollm2", "hermes", 0, 0, 1},
};

static struct file tiny;

/* Opens the small model with a template: another value of its metadata. The data of its tensors
 * stays aligned to 32 bytes. */
static riffle_model *open_with(const char *template, size_t bytes)
{
    static const char key[] = "tokenizer.chat_template";
    char path[4096];
    static unsigned char whole[sizeof tiny.data + (1 << 17)];
    const uint32_t type = 8;
    uint64_t n_values, key_bytes = sizeof key - 1, at = 24;
    uint64_t padded = bytes + (32 - (8 + key_bytes + 4 + 8 + bytes) % 32) % 32;
    memcpy(whole, tiny.data, 24);
    memcpy(&n_values, tiny.data + 16, 8);
    n_values++;
    memcpy(whole + 16, &n_values, 8);
    memcpy(whole + at, &key_bytes, 8);
    memcpy(whole + at + 8, key, key_bytes);
    at += 8 + key_bytes;
    memcpy(whole + at, &type, 4);
    memcpy(whole + at + 4, &padded, 8);
    memcpy(whole + at + 12, template, bytes);
    memset(whole + at + 12 + bytes, ' ', padded - bytes);
    at += 12 + padded;
    memcpy(whole + at, tiny.data + 24, tiny.bytes - 24);
    temporary_path("templated.gguf", path, sizeof path);
    write_model(whole, at + tiny.bytes - 24, path);
    riffle_model_options options;
    riffle_model *model = NULL;
    riffle_model_options_init(&options, sizeof options);
    CHECK_INT(riffle_model_open(&model, path, &options), 0);
    remove(path);
    return model;
}

static riffle_model *open_known(const char *name)
{
    static char template[1 << 16], path[256];
    snprintf(path, sizeof path, "text/templates/%s.jinja", name);
    FILE *file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "no %s", path);
    size_t bytes = file ? fread(template, 1, sizeof template, file) : 0;
    if (file) fclose(file);
    return open_with(template, bytes);
}

/* The text of a conversation with tools, calls and a result, after rf_tools_adapt. */
static char *format_adapted(const riffle_model *model, const struct tool_manner *manner)
{
    static const char chat_text[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"ASKED\"},{\"role\":\"assistant\","
        "\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\",\"type\":\"function\",\"function\":"
        "{\"name\":\"called\",\"arguments\":{\"KEY\":\"VALUE\"}}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"abcdefghi\",\"name\":\"called\",\"content\":\"RESULT\"}],\"tools\":[{"
        "\"type\":\"function\",\"function\":{\"name\":\"offered\",\"description\":\"d\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]}";
    json_t *chat = json_loads(chat_text, 0, NULL), *adapted = rf_tools_adapt(manner, chat);
    char *document = json_dumps(adapted, 0), *text = NULL;
    int64_t n = riffle_chat_format_json(model, document, strlen(document), 1, NULL, 0);
    CHECK_MSG(n > 0, "%s", riffle_last_error());
    if (n > 0) text = calloc(1, (size_t)n + 1);
    if (text) riffle_chat_format_json(model, document, strlen(document), 1, text, (size_t)n);
    free(document);
    json_decref(adapted);
    json_decref(chat);
    return text;
}

static void check_known(const struct known *expected)
{
    riffle_model *model = open_known(expected->template);
    struct tool_manner manner = rf_tools_manner(model);
    const char *form = manner.form ? manner.form->title : "none";
    CHECK_MSG(strcmp(form, expected->form ? expected->form : "none") == 0, "%s has the form %s",
              expected->template, form);
    CHECK_INT(manner.shows_tools, expected->shows_tools);
    CHECK_INT(manner.shows_calls, expected->shows_calls);
    CHECK_INT(manner.has_system, expected->has_system);
    char *text = manner.form ? format_adapted(model, &manner) : NULL;
    static const char *const shown[] = {"ASKED", "offered", "called", "KEY", "VALUE", "RESULT"};
    for (size_t i = 0; text && i < sizeof shown / sizeof *shown; i++)
        CHECK_MSG(strstr(text, shown[i]) != NULL, "%s leaves out %s: %s", expected->template,
                  shown[i], text);
    free(text);
    riffle_model_close(model);
}

/* Calls that a form writes are the calls that it reads. */
static void check_written(const struct tool_form *form)
{
    static const char
        tools_text[] =
            "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{"
            "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\"}}}"
            "}},"
            "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]",
        calls_text[] =
            "[{\"function\":{\"name\":\"f\",\"arguments\":{\"s\":\"a <b>\\n\\\"c'\",\"i\":"
            "-7,\"o\":{\"x\":[true,null]}}}},{\"function\":{\"name\":\"g\",\"arguments\":"
            "\"{}\"}}]";
    json_t *tools = json_loads(tools_text, 0, NULL), *calls = json_loads(calls_text, 0, NULL),
           *found = json_array();
    char *text = rf_tools_write(form, calls);
    struct tool_reader reader;
    struct rf_bytes rest = {0};
    struct rf_error error;
    rf_tool_reader_begin(&reader, form, tools);
    CHECK_INT(rf_tool_reader_push(&reader, text, strlen(text), 1, &rest, found, &error), 0);
    CHECK_MSG(rest.count == 0 && json_array_size(found) == 2, "%s: %s", form->title, text);
    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *is = json_object_get(json_array_get(found, i), "function"),
                     *was = json_object_get(json_array_get(calls, i), "function"),
                     *given = json_object_get(was, "arguments");
        json_t *arguments =
            json_loads(json_string_value(json_object_get(is, "arguments")), 0, NULL);
        CHECK(json_equal(json_object_get(is, "name"), json_object_get(was, "name")));
        CHECK_MSG(json_is_string(given) ? json_object_size(arguments) == 0
                                        : json_equal(arguments, given),
                  "%s: %s", form->title, text);
        json_decref(arguments);
    }
    free(text);
    rf_tool_reader_free(&reader);
    rf_bytes_free(&rf_system_allocator, &rest);
    json_decref(found);
    json_decref(calls);
    json_decref(tools);
}

int main(void)
{
    read_model(&tiny);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) check_known(&known[i]);
    for (size_t i = 0; i < rf_n_tool_forms; i++)
        if (strcmp(rf_tool_forms[i].title, "harmony") != 0 && /* an answer of it has one call */
            strcmp(rf_tool_forms[i].title, "gigachat") != 0)
            check_written(&rf_tool_forms[i]);
    return check_result();
}
