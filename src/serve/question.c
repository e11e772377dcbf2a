#define _POSIX_C_SOURCE 200809L
#include "serve/question.h"

#include <jansson.h>
#include <riffle_experimental.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/random.h"

int refuse(struct refusal *refusal, int status, const char *code, const char *format, ...)
{
    va_list arguments;
    refusal->status = status;
    refusal->code = code;
    va_start(arguments, format);
    vsnprintf(refusal->text, sizeof refusal->text, format, arguments);
    va_end(arguments);
    return -1;
}

static int wrong(struct refusal *refusal, const char *name, const char *wanted)
{
    return refuse(refusal, 400, "invalid_value", "%s is not %s", name, wanted);
}

/* Of what the library refuses. */
static int refuse_last(struct refusal *refusal, int64_t code)
{
    int is_long = code == RIFFLE_ERR_CONTEXT, is_ours = code == RIFFLE_ERR_MEMORY;
    return refuse(refusal, is_ours ? 503 : 400, is_long ? "context_length_exceeded" : NULL, "%s",
                  riffle_last_error());
}

/* The members below stay as they are where the body does not have them, or has null. */
static const json_t *member(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

static int take_float(const json_t *body, const char *name, double low, double high, float *value,
                      struct refusal *refusal)
{
    const json_t *found = member(body, name);
    char range[64];
    if (!found) return 0;
    snprintf(range, sizeof range, "a number between %g and %g", low, high);
    double number = json_number_value(found);
    if (!json_is_number(found) || !(number >= low && number <= high))
        return wrong(refusal, name, range);
    *value = (float)number;
    return 0;
}

static int take_int(const json_t *body, const char *name, int64_t low, int64_t high, int32_t *value,
                    struct refusal *refusal)
{
    const json_t *found = member(body, name);
    char range[64];
    if (!found) return 0;
    snprintf(range, sizeof range, "an integer between %lld and %lld", (long long)low,
             (long long)high);
    if (!json_is_integer(found) || json_integer_value(found) < low ||
        json_integer_value(found) > high)
        return wrong(refusal, name, range);
    *value = (int32_t)json_integer_value(found);
    return 0;
}

static int take_flag(const json_t *body, const char *name, int *value, struct refusal *refusal)
{
    const json_t *found = member(body, name);
    if (found && !json_is_boolean(found)) return wrong(refusal, name, "true or false");
    if (found) *value = json_is_true(found);
    return 0;
}

/* What would change the answer and is not there must not be ignored. */
static int check_unsupported(const json_t *body, enum question_kind kind, struct refusal *refusal)
{
    static const char *const names[] = {"logit_bias",   "tools",  "functions", "frequency_penalty",
                                        "logprobs",     "suffix", "echo",      "presence_penalty",
                                        "top_logprobs", "audio"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = member(body, names[i]);
        int is_off = !value || json_is_false(value) ||
                     (json_is_number(value) && json_number_value(value) == 0.0 &&
                      !(kind == QUESTION_COMPLETION && strcmp(names[i], "logprobs") == 0)) ||
                     (json_is_string(value) && !json_string_length(value)) ||
                     (!json_is_string(value) && json_is_array(value) && !json_array_size(value)) ||
                     (json_is_object(value) && !json_object_size(value));
        if (!is_off)
            return refuse(refusal, 400, "unsupported_parameter", "%s is not supported", names[i]);
    }
    int32_t n = 1;
    if (take_int(body, "n", 1, 1, &n, refusal)) return -1;
    return take_int(body, "best_of", 1, 1, &n, refusal);
}

static int take_sampling(const json_t *body, struct question *question, struct refusal *refusal)
{
    riffle_sampling *sampling = &question->sampling;
    sampling->seed = rf_random();
    const json_t *seed = member(body, "seed");
    if (seed && !json_is_integer(seed)) return wrong(refusal, "seed", "an integer");
    if (seed) sampling->seed = (uint64_t)json_integer_value(seed);
    if (take_float(body, "temperature", 0, 100, &sampling->temperature, refusal)) return -1;
    if (take_float(body, "top_p", 1e-6, 1, &sampling->top_p, refusal)) return -1;
    if (take_float(body, "min_p", 0, 1, &sampling->min_p, refusal)) return -1;
    if (take_int(body, "top_k", 0, INT32_MAX, &sampling->top_k, refusal)) return -1;
    return take_float(body, "repeat_penalty", 0.01, 100, &sampling->repeat_penalty, refusal);
}

static int add_stop(const json_t *value, struct question *question, struct refusal *refusal)
{
    size_t n = question->generate.n_stop;
    if (!json_is_string(value) || !json_string_length(value) || n == MOST_STOPS)
        return wrong(refusal, "stop", "a text or an array of up to 16 texts");
    question->stops[n] = strdup(json_string_value(value));
    if (!question->stops[n]) return refuse(refusal, 503, NULL, "out of memory");
    question->generate.n_stop++;
    return 0;
}

static int take_stops(const json_t *body, struct question *question, struct refusal *refusal)
{
    const json_t *stop = member(body, "stop");
    if (!stop) return 0;
    if (!json_is_array(stop)) return add_stop(stop, question, refusal);
    for (size_t i = 0; i < json_array_size(stop); i++)
        if (add_stop(json_array_get(stop, i), question, refusal)) return -1;
    return 0;
}

static int take_schema(const json_t *schema, const riffle_model *model, struct question *question,
                       struct refusal *refusal)
{
    char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) return refuse(refusal, 503, NULL, "out of memory");
    int code = riffle_grammar_new(&question->grammar, model, RIFFLE_GRAMMAR_JSON_SCHEMA, text,
                                  strlen(text));
    free(text);
    if (code) return refuse_last(refusal, code);
    question->generate.grammar = question->grammar;
    return 0;
}

static int take_format(const json_t *body, const riffle_model *model, struct question *question,
                       struct refusal *refusal)
{
    const json_t *format = member(body, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || (type && strcmp(type, "text") == 0)) return 0;
    if (type && strcmp(type, "json_object") == 0) {
        json_t *object = json_pack("{s:s}", "type", "object");
        int code = take_schema(object, model, question, refusal);
        json_decref(object);
        return code;
    }
    const json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    if (!type || strcmp(type, "json_schema") != 0)
        return wrong(refusal, "response_format.type", "text, json_object or json_schema");
    if (!json_is_object(schema))
        return wrong(refusal, "response_format.json_schema.schema", "an object");
    return take_schema(schema, model, question, refusal);
}

/* The text of a message: a string, or an array of parts that are texts. For free(); NULL: neither.
 */
static char *content_of(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content)) return strdup(json_string_value(content));
    if (!json_is_array(content)) return NULL;
    size_t bytes = 0, at = 0;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) return NULL;
        bytes += json_string_length(text);
    }
    char *joined = malloc(bytes + 1);
    for (size_t i = 0; joined && i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    if (joined) joined[at] = '\0';
    return joined;
}

static int take_tokens(struct question *question, int64_t n, struct refusal *refusal)
{
    if (n < 0) return refuse_last(refusal, n);
    question->n_tokens = (size_t)n;
    if (question->tokens) return 0;
    question->tokens = malloc(((size_t)n + 1) * sizeof *question->tokens);
    return question->tokens ? 0 : refuse(refusal, 503, NULL, "out of memory");
}

static int tokenize_chat(struct question *question, const riffle_model *model,
                         const riffle_message *messages, size_t n, struct refusal *refusal)
{
    int64_t count = riffle_chat_tokenize(model, messages, n, NULL, 0);
    if (take_tokens(question, count, refusal)) return -1;
    count = riffle_chat_tokenize(model, messages, n, question->tokens, question->n_tokens);
    return take_tokens(question, count, refusal);
}

static int take_messages(const json_t *body, const riffle_model *model, struct question *question,
                         struct refusal *refusal)
{
    const json_t *given = member(body, "messages");
    size_t n = json_array_size(given);
    if (!json_is_array(given) || n == 0)
        return wrong(refusal, "messages", "an array of at least one message");
    riffle_message *messages = calloc(n, sizeof *messages);
    int code = messages ? 0 : refuse(refusal, 503, NULL, "out of memory");
    for (size_t i = 0; !code && i < n; i++) {
        const json_t *message = json_array_get(given, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        messages[i].role = role && strcmp(role, "developer") == 0 ? "system" : role;
        messages[i].content = content_of(message);
        if (!role || !messages[i].content)
            code = refuse(refusal, 400, "invalid_value",
                          "messages[%zu] has no role, or no content that is text", i);
    }
    if (!code) code = tokenize_chat(question, model, messages, n, refusal);
    for (size_t i = 0; messages && i < n; i++) free((char *)messages[i].content);
    free(messages);
    return code;
}

static int take_prompt(const json_t *body, const riffle_model *model, struct question *question,
                       struct refusal *refusal)
{
    const json_t *prompt = member(body, "prompt");
    if (json_is_array(prompt) && json_array_size(prompt) == 1) prompt = json_array_get(prompt, 0);
    if (!json_is_string(prompt)) return wrong(refusal, "prompt", "one text");
    const char *text = json_string_value(prompt);
    size_t bytes = json_string_length(prompt);
    int64_t n = riffle_tokenize(model, text, bytes, RIFFLE_TOKENIZE_BOS, NULL, 0);
    if (take_tokens(question, n, refusal)) return -1;
    n = riffle_tokenize(model, text, bytes, RIFFLE_TOKENIZE_BOS, question->tokens,
                        question->n_tokens);
    return take_tokens(question, n, refusal);
}

static int take_model(const json_t *body, const char *name, struct refusal *refusal)
{
    const json_t *model = member(body, "model");
    if (!model || (json_is_string(model) && strcmp(json_string_value(model), name) == 0)) return 0;
    if (!json_is_string(model)) return wrong(refusal, "model", "a text");
    return refuse(refusal, 404, "model_not_found",
                  "the model %.100s is not here; this server has %s", json_string_value(model),
                  name);
}

static int take_all(struct question *question, const json_t *body,
                    const struct rf_serve_options *options, struct refusal *refusal)
{
    const json_t *stream_options = member(body, "stream_options");
    int32_t *most = &question->generate.max_tokens;
    if (!json_is_object(body)) return wrong(refusal, "the body", "a JSON object");
    if (take_model(body, options->name, refusal)) return -1;
    if (check_unsupported(body, question->kind, refusal)) return -1;
    if (take_flag(body, "stream", &question->streams, refusal)) return -1;
    if (take_flag(stream_options, "include_usage", &question->tells_usage, refusal)) return -1;
    if (question->kind == QUESTION_COMPLETION) *most = 16;
    if (take_int(body, "max_tokens", 1, INT32_MAX, most, refusal)) return -1;
    if (take_int(body, "max_completion_tokens", 1, INT32_MAX, most, refusal)) return -1;
    if (take_sampling(body, question, refusal)) return -1;
    if (take_stops(body, question, refusal)) return -1;
    int code = question->kind == QUESTION_CHAT
                   ? take_messages(body, options->model, question, refusal)
                   : take_prompt(body, options->model, question, refusal);
    return code ? code : take_format(body, options->model, question, refusal);
}

int question_parse(struct question *question, enum question_kind kind, const char *body,
                   size_t bytes, const struct rf_serve_options *options, struct refusal *refusal)
{
    json_error_t error;
    *question = (struct question){.kind = kind, .sampling = *options->sampling};
    riffle_generate_options_init(&question->generate, sizeof question->generate);
    question->generate.stop = (const char *const *)question->stops;
    json_t *parsed = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!parsed)
        return refuse(refusal, 400, "invalid_json", "the body is no JSON: line %d, column %d: %s",
                      error.line, error.column, error.text);
    int code = take_all(question, parsed, options, refusal);
    json_decref(parsed);
    if (code) question_free(question);
    return code;
}

void question_free(struct question *question)
{
    free(question->tokens);
    for (size_t i = 0; i < question->generate.n_stop; i++) free(question->stops[i]);
    riffle_grammar_free(question->grammar);
    *question = (struct question){.tokens = NULL};
}
