/* Prompts for bench --suite. JSONL files of common test sets can be used directly: the keys of a
 * line tell which set it is from. */
#include "bench/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "platform/file.h"

static const size_t most_file_bytes = (size_t)64 << 20;

/* Takes over both buffers. */
static void add_prompt(struct bench_prompt **items, size_t *count, struct buffer *name,
                       struct buffer *text)
{
    *items = cli_reallocate(*items, *count + 1, sizeof **items);
    /* An empty buffer's data is NULL. */
    buffer_puts(name, "");
    buffer_puts(text, "");
    (*items)[(*count)++] = (struct bench_prompt){name->data, text->data, text->count};
}

/* Named by task_id, question_id or name, else by the line. */
static void append_prompt_name(const json_t *object, size_t line, struct buffer *name)
{
    static const char *const keys[] = {"task_id", "question_id", "name"};
    const json_t *category = json_object_get(object, "category"), *value = NULL;
    if (json_is_string(category)) buffer_printf(name, "%s/", json_string_value(category));
    for (size_t i = 0; i < 3 && !json_is_string(value) && !json_is_integer(value); i++)
        value = json_object_get(object, keys[i]);
    if (json_is_string(value))
        buffer_puts(name, json_string_value(value));
    else if (json_is_integer(value))
        buffer_printf(name, "%lld", (long long)json_integer_value(value));
    else
        buffer_printf(name, "line %zu", line);
}

/* Appends the prompt. HumanEval has "prompt" and "entry_point", MT-bench "turns" (only the first is
 * used), GSM8K "question", MBPP "text"; others have "prompt". 0 for any other object. */
static int append_prompt_text(const json_t *object, int raw, struct buffer *text)
{
    const json_t *texts[] = {json_object_get(object, "prompt"),
                             json_array_get(json_object_get(object, "turns"), 0),
                             json_object_get(object, "question"), json_object_get(object, "text")};
    size_t i = 0, n = sizeof texts / sizeof *texts;
    while (i < n && !json_is_string(texts[i])) i++;
    if (i == n) return 0;
    int code = i == 0 && !raw && json_is_string(json_object_get(object, "entry_point"));
    if (code) buffer_puts(text, "Complete this Python function:\n\n```python\n");
    buffer_append(text, json_string_value(texts[i]), json_string_length(texts[i]));
    if (code) buffer_puts(text, text->data[text->count - 1] == '\n' ? "```" : "\n```");
    return 1;
}

/* Keeps a text with a name; later lines quote it. */
static void add_excerpt(struct bench_prompts *prompts, const json_t *object)
{
    const json_t *excerpt = json_object_get(object, "text");
    struct buffer name = {0}, text = {0};
    buffer_puts(&name, json_string_value(json_object_get(object, "excerpt")));
    buffer_append(&text, json_string_value(excerpt), json_string_length(excerpt));
    add_prompt(&prompts->excerpts, &prompts->n_excerpts, &name, &text);
}

/* Writes the excerpts that a prompt quotes before itself. CLI_OK, or CLI_FAILED with a sentence. */
static int quote(const struct bench_prompts *prompts, const char *file, size_t number,
                 const json_t *names, struct buffer *text)
{
    size_t i;
    const json_t *name;
    json_array_foreach(names, i, name)
    {
        const char *wanted = json_is_string(name) ? json_string_value(name) : "";
        size_t e = 0;
        while (e < prompts->n_excerpts && strcmp(prompts->excerpts[e].name, wanted) != 0) e++;
        if (e == prompts->n_excerpts)
            return cli_fail("%s: line %zu quotes the excerpt '%s', which no line before has", file,
                            number, wanted);
        buffer_append(text, prompts->excerpts[e].text, prompts->excerpts[e].bytes);
    }
    return CLI_OK;
}

static int read_json_line(struct bench_prompts *prompts, const char *file, size_t number,
                          const char *line, size_t n, int raw)
{
    struct rf_json_problem reason;
    json_t *object = rf_json_load(line, n, NULL, &reason);
    if (!object)
        return cli_fail("%s: line %zu is not JSON: column %zu: %s", file, number, reason.column,
                        reason.text);
    struct buffer text = {0}, name = {0};
    int is_excerpt = json_is_string(json_object_get(object, "excerpt")) &&
                     json_is_string(json_object_get(object, "text"));
    int status = CLI_OK;
    if (!is_excerpt)
        status = quote(prompts, file, number, json_object_get(object, "excerpts"), &text);
    if (is_excerpt) {
        add_excerpt(prompts, object);
    } else if (status == CLI_OK && append_prompt_text(object, raw, &text)) {
        append_prompt_name(object, number, &name);
        if (!raw && memchr(text.data, 0, text.count))
            return cli_fail("%s: the prompt of line %zu has a zero byte, which a message cannot "
                            "hold",
                            file, number);
        add_prompt(&prompts->items, &prompts->count, &name, &text);
    } else if (status == CLI_OK) {
        status = cli_fail("%s: line %zu has no prompt: a text \"prompt\", \"question\" or "
                          "\"text\", or texts \"turns\"",
                          file, number);
    }
    if (status != CLI_OK) buffer_free(&text);
    json_decref(object);
    return status;
}

static int is_blank_text(const char *line, size_t n)
{
    return strspn(line, " \t\r\n") >= n;
}

static int read_json_lines(struct bench_prompts *prompts, const char *file, const char *text,
                           size_t bytes, int32_t most, int raw)
{
    size_t number = 0;
    for (size_t at = 0; at < bytes && !(most && prompts->count >= (size_t)most);) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - text) - at : bytes - at;
        number++;
        if (!is_blank_text(text + at, n)) {
            int status = read_json_line(prompts, file, number, text + at, n, raw);
            if (status != CLI_OK) return status;
        }
        at += n + 1;
    }
    return prompts->count ? CLI_OK : cli_fail("%s holds no prompt, only excerpts", file);
}

/* Whether a file is JSONL: its name says so, or its first line is a JSON object. */
static int is_jsonl(const char *file, const char *text, size_t bytes)
{
    size_t n = strlen(file), start = strspn(text, " \t\r\n");
    if (n >= 6 && strcmp(file + n - 6, ".jsonl") == 0) return 1;
    if (start >= bytes || text[start] != '{') return 0;
    json_t *object = rf_json_load(text + start, strcspn(text + start, "\n"), NULL, NULL);
    int is = rf_json_is_map(object);
    json_decref(object);
    return is;
}

static int read_one_text(struct bench_prompts *prompts, const char *file, const char *text,
                         size_t bytes, int raw)
{
    struct buffer name = {0}, prompt = {0};
    size_t zero = strlen(text);
    if (!raw && zero < bytes)
        return cli_fail("%s has a zero byte at offset %zu, which a message cannot hold", file,
                        zero);
    const char *slash = rf_path_separator(file);
    buffer_puts(&name, slash && slash[1] ? slash + 1 : file);
    buffer_append(&prompt, text, bytes);
    add_prompt(&prompts->items, &prompts->count, &name, &prompt);
    return CLI_OK;
}

static int read_prompt_file(struct bench_prompts *prompts, const char *file, int32_t most, int raw)
{
    struct rf_error error;
    char *text;
    size_t bytes;
    if (!rf_path_exists(file))
        return cli_fail("--suite '%s' is neither code, qa, hard, long nor a file", file);
    int code = rf_slurp(file, most_file_bytes, &text, &bytes, &error);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    if (code != RF_OK) return cli_fail("%s", error.text);
    int status;
    if (is_blank_text(text, bytes))
        status = cli_fail("%s holds no prompt: it is empty", file);
    else if (is_jsonl(file, text, bytes))
        status = read_json_lines(prompts, file, text, bytes, most, raw);
    else
        status = read_one_text(prompts, file, text, bytes, raw);
    free(text);
    return status;
}

int bench_prompts_read(struct bench_prompts *prompts, const char *suite, int32_t most, int raw)
{
    static const struct {
        const char *name, *text;
    } suites[] = {{"code", bench_code_jsonl},
                  {"qa", bench_qa_jsonl},
                  {"hard", bench_hard_jsonl},
                  {"long", bench_long_jsonl}};
    *prompts = (struct bench_prompts){0};
    int status = -1;
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        if (strcmp(suite, suites[i].name) == 0)
            status =
                read_json_lines(prompts, suite, suites[i].text, strlen(suites[i].text), most, raw);
    if (status < 0) status = read_prompt_file(prompts, suite, most, raw);
    if (status != CLI_OK) bench_prompts_free(prompts);
    return status;
}

static void free_all(struct bench_prompt *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].name);
        free(items[i].text);
    }
    free(items);
}

void bench_prompts_free(struct bench_prompts *prompts)
{
    free_all(prompts->items, prompts->count);
    free_all(prompts->excerpts, prompts->n_excerpts);
    *prompts = (struct bench_prompts){0};
}

int bench_prompt_text(const struct engine *engine, const struct bench_prompt *prompt, int raw,
                      struct buffer *text)
{
    if (raw) {
        buffer_append(text, prompt->text, prompt->bytes);
        return CLI_OK;
    }
    const riffle_message message = {"user", prompt->text};
    int64_t bytes = riffle_chat_format(engine->model, &message, 1, 1, NULL, 0);
    if (bytes < 0) return cli_status(bytes);
    char *formatted = cli_allocate((size_t)bytes + 1, 1);
    riffle_chat_format(engine->model, &message, 1, 1, formatted, (size_t)bytes);
    buffer_append(text, formatted, (size_t)bytes);
    free(formatted);
    return CLI_OK;
}
