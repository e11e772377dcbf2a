#define _POSIX_C_SOURCE 200809L
#include "serve/question.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "messages/messages.h"
#include "platform/random.h"

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
        return refuse_value(refusal, name, range);
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
        return refuse_value(refusal, name, range);
    *value = (int32_t)json_integer_value(found);
    return 0;
}

static int take_flag(const json_t *body, const char *name, int *value, struct refusal *refusal)
{
    const json_t *found = member(body, name);
    if (found && !json_is_boolean(found)) return refuse_value(refusal, name, "true or false");
    if (found) *value = json_is_true(found);
    return 0;
}

/* What would change the answer and is not there must not be ignored. */
static int check_unsupported(const json_t *body, struct refusal *refusal)
{
    static const struct {
        const char *name, *instead;
    } members[] = {{"functions", "; tools does the same"},
                   {"function_call", "; tool_choice does the same"},
                   {"audio", ": answers are texts"},
                   {"web_search_options", ": this server searches nothing"},
                   {"dimensions", ": vectors have the model's width"}};
    const json_t *modalities = member(body, "modalities");
    for (size_t i = 0; i < json_array_size(modalities); i++) {
        const char *one = json_string_value(json_array_get(modalities, i));
        if (!one || strcmp(one, "text") != 0)
            return refuse(refusal, 400, "unsupported_parameter",
                          "modalities other than text are not supported");
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = member(body, members[i].name);
        int is_off = !value || json_is_false(value) ||
                     (json_is_number(value) && json_number_value(value) == 0.0) ||
                     (json_is_string(value) && !json_string_length(value)) ||
                     (json_is_array(value) && !json_array_size(value)) ||
                     (json_is_object(value) && !json_object_size(value));
        if (!is_off)
            return refuse(refusal, 400, "unsupported_parameter", "%s is not supported%s",
                          members[i].name, members[i].instead);
    }
    return 0;
}

static int take_n(const json_t *body, struct question *question, struct refusal *refusal)
{
    int32_t best_of = 1;
    question->n = 1;
    if (take_int(body, "n", 1, MOST_CHOICES, &question->n, refusal)) return -1;
    if (take_int(body, "best_of", 1, MOST_CHOICES, &best_of, refusal)) return -1;
    if (best_of > 1 && best_of != question->n)
        return refuse(refusal, 400, "unsupported_parameter", "best_of above n is not supported");
    return 0;
}

static int take_logprobs(const json_t *body, struct question *question, struct refusal *refusal)
{
    int32_t *top = &question->top_logprobs;
    if (question->kind == QUESTION_COMPLETION) {
        question->wants_logprobs =
            member(body, "logprobs") && !json_is_false(member(body, "logprobs"));
        return question->wants_logprobs
                   ? take_int(body, "logprobs", 0, RIFFLE_MOST_LOGPROBS, top, refusal)
                   : 0;
    }
    if (take_flag(body, "logprobs", &question->wants_logprobs, refusal)) return -1;
    if (take_int(body, "top_logprobs", 0, RIFFLE_MOST_LOGPROBS, top, refusal)) return -1;
    if (*top && !question->wants_logprobs)
        return refuse(refusal, 400, "invalid_value", "top_logprobs is without logprobs");
    return 0;
}

/* {"token": bias, ...} */
static int take_bias(const json_t *body, struct question *question, struct refusal *refusal)
{
    json_t *biases = (json_t *)member(body, "logit_bias");
    const char *name;
    json_t *value;
    if (biases && !json_is_object(biases)) return refuse_value(refusal, "logit_bias", "an object");
    if (json_object_size(biases) == 0) return 0;
    question->bias = calloc(json_object_size(biases), sizeof *question->bias);
    if (!question->bias) return refuse_memory(refusal);
    json_object_foreach(biases, name, value)
    {
        char *end;
        long token = strtol(name, &end, 10);
        double bias = json_number_value(value);
        if (end == name || *end || token < 0 || token > INT32_MAX || !json_is_number(value) ||
            !(bias >= -RIFFLE_MOST_BIAS && bias <= RIFFLE_MOST_BIAS))
            return refuse_value(refusal, "logit_bias", "tokens with numbers between -100 and 100");
        for (size_t i = 0; i < question->n_bias; i++) /* "7" and "07" */
            if (question->bias[i].token == token)
                return refuse(refusal, 400, "invalid_value", "logit_bias has token %ld twice",
                              token);
        question->bias[question->n_bias++] = (riffle_logit_bias){(int32_t)token, (float)bias};
    }
    return 0;
}

static int take_sampling(const json_t *body, struct question *question, struct refusal *refusal)
{
    riffle_sampling *sampling = &question->sampling;
    sampling->seed = rf_random();
    const json_t *seed = member(body, "seed");
    if (seed && !json_is_integer(seed)) return refuse_value(refusal, "seed", "an integer");
    if (seed) sampling->seed = (uint64_t)json_integer_value(seed);
    if (take_float(body, "temperature", 0, 100, &sampling->temperature, refusal)) return -1;
    if (take_float(body, "top_p", 1e-6, 1, &sampling->top_p, refusal)) return -1;
    if (take_float(body, "min_p", 0, 1, &sampling->min_p, refusal)) return -1;
    if (take_float(body, "frequency_penalty", -2, 2, &sampling->frequency_penalty, refusal))
        return -1;
    if (take_float(body, "presence_penalty", -2, 2, &sampling->presence_penalty, refusal))
        return -1;
    if (take_int(body, "top_k", 0, INT32_MAX, &sampling->top_k, refusal)) return -1;
    return take_float(body, "repeat_penalty", 0.01, 100, &sampling->repeat_penalty, refusal);
}

static int add_stop(const json_t *value, struct question *question, struct refusal *refusal)
{
    size_t n = question->generate.n_stop;
    if (!json_is_string(value) || !json_string_length(value) || n == MOST_STOPS)
        return refuse_value(refusal, "stop", "a text or an array of up to 16 texts");
    question->stops[n] = strdup(json_string_value(value));
    if (!question->stops[n]) return refuse_memory(refusal);
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

static int take_schema(const json_t *schema, riffle_grammar_kind kind, struct question *question,
                       struct refusal *refusal)
{
    if (question->schema)
        return refuse(refusal, 400, "invalid_value", "response_format is beside a tool_choice");
    question->schema = schema ? json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    question->schema_kind = kind;
    return question->schema ? 0 : refuse_memory(refusal);
}

static int take_format(const json_t *body, struct question *question, struct refusal *refusal)
{
    const json_t *format = member(body, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || (type && strcmp(type, "text") == 0)) return 0;
    if (type && strcmp(type, "json_object") == 0) {
        json_t *object = json_pack("{s:s}", "type", "object");
        int code = take_schema(object, RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal);
        json_decref(object);
        return code;
    }
    const json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    if (!type || strcmp(type, "json_schema") != 0)
        return refuse_value(refusal, "response_format.type", "text, json_object or json_schema");
    if (!json_is_object(schema))
        return refuse_value(refusal, "response_format.json_schema.schema", "an object");
    return take_schema(schema, RIFFLE_GRAMMAR_JSON_SCHEMA, question, refusal);
}

/* What a request says of its tools. */
struct tool_wish {
    json_t *tools;    /* those that may be called; NULL: none */
    const char *name; /* the one that must be called, or NULL */
    int must_call;
};

static const char *name_in(const json_t *choice)
{
    return json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
}

/* {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}: the others stay out. */
static int allow(const json_t *allowed, struct tool_wish *wish, struct refusal *refusal)
{
    const json_t *list = json_object_get(allowed, "tools");
    const char *mode = json_string_value(json_object_get(allowed, "mode"));
    json_t *left = json_array();
    for (size_t i = 0; i < json_array_size(wish->tools); i++) {
        json_t *tool = json_array_get(wish->tools, i);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const char *name = name_in(json_array_get(list, k));
            if (!name || strcmp(name, name_in(tool)) != 0) continue;
            json_array_append(left, tool);
            break;
        }
    }
    json_decref(wish->tools);
    wish->tools = left;
    if (json_array_size(left) == 0 || json_array_size(left) != json_array_size(list))
        return refuse(refusal, 400, "invalid_value", "tool_choice allows no tools that are there");
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0))
        return refuse_value(refusal, "tool_choice.allowed_tools.mode", "auto or required");
    wish->must_call = strcmp(mode, "required") == 0;
    return 0;
}

/* The forms of tool_choice. */
static int take_choice(const json_t *choice, struct tool_wish *wish, struct refusal *refusal)
{
    const char *word = json_string_value(choice);
    const json_t *allowed = json_object_get(choice, "allowed_tools");
    if (!choice || (word && strcmp(word, "auto") == 0)) return 0;
    if (allowed) return allow(allowed, wish, refusal);
    if (word && strcmp(word, "none") == 0) {
        json_decref(wish->tools);
        wish->tools = NULL;
        return 0;
    }
    wish->name = name_in(choice);
    wish->must_call = wish->name || (word && strcmp(word, "required") == 0);
    if (!wish->must_call)
        return refuse_value(refusal, "tool_choice",
                            "none, auto, required, a function's name or allowed_tools");
    if (!wish->tools || (wish->name && !tools_find(wish->tools, wish->name)))
        return refuse(refusal, 400, "invalid_value", "tool_choice: there is no tool %.100s",
                      wish->name ? wish->name : "at all");
    return 0;
}

/* The answer is one call, which the prompt opens. */
static int open_call(const struct answerer *of, const struct tool_wish *wish,
                     struct question *question, struct refusal *refusal)
{
    json_t *grammar = tools_grammar(of->tool_form, wish->tools, wish->name);
    int code = take_schema(grammar, RIFFLE_GRAMMAR_CHOICE, question, refusal);
    json_decref(grammar);
    question->opening = tools_opening(of->tool_form);
    return code || question->opening ? code : refuse_memory(refusal);
}

static int offer_tools(const json_t *body, const struct answerer *of, const struct tool_wish *wish,
                       struct question *question, struct refusal *refusal)
{
    int is_parallel = 1;
    if (question->kind != QUESTION_CHAT || of->tool_form == TOOLS_NONE)
        return refuse(refusal, 400, "unsupported_parameter",
                      question->kind == QUESTION_CHAT ? "the model's chat template has no tools"
                                                      : "tools are for chats");
    if (take_flag(body, "parallel_tool_calls", &is_parallel, refusal)) return -1;
    question->tools = json_incref(wish->tools);
    question->tool_form = of->tool_form;
    question->most_calls = !is_parallel;
    return wish->must_call ? open_call(of, wish, question, refusal) : 0;
}

/* Which tools may be called, and whether one must be. */
static int take_tools(const json_t *body, const struct answerer *of, struct question *question,
                      struct refusal *refusal)
{
    const json_t *tools = member(body, "tools");
    if (json_is_array(tools) && json_array_size(tools) == 0) tools = NULL;
    if (tools && !tools_are_valid(tools))
        return refuse_value(refusal, "tools", "an array of functions with names");
    struct tool_wish wish = {.tools = json_incref((json_t *)tools)};
    int code = take_choice(member(body, "tool_choice"), &wish, refusal);
    if (!code && wish.tools) code = offer_tools(body, of, &wish, question, refusal);
    json_decref(wish.tools);
    return code;
}

/* ---- prompts ---- */

static int make_prompts(struct question *question, size_t n, struct refusal *refusal)
{
    question->prompts = calloc(n, sizeof *question->prompts);
    if (!question->prompts) return refuse_memory(refusal);
    question->n_prompts = (int32_t)n;
    return 0;
}

/* Room for so many more tokens, which a call has counted; or its refusal. */
static int grow(struct prompt *prompt, int64_t more, struct refusal *refusal)
{
    if (more < 0) return refuse_last(refusal, more);
    int32_t *grown =
        realloc(prompt->tokens, (prompt->n + (size_t)more + 1) * sizeof *prompt->tokens);
    if (!grown) return refuse_memory(refusal);
    prompt->tokens = grown;
    return 0;
}

static int add_text(struct prompt *prompt, const riffle_model *model, const char *text,
                    size_t bytes, unsigned flags, struct refusal *refusal)
{
    int64_t n = riffle_tokenize(model, text, bytes, flags, NULL, 0);
    if (grow(prompt, n, refusal)) return -1;
    n = riffle_tokenize(model, text, bytes, flags, prompt->tokens + prompt->n, (size_t)n);
    if (n < 0) return refuse_last(refusal, n);
    prompt->n += (size_t)n;
    return 0;
}

static int add_chat(struct prompt *prompt, const riffle_model *model, const json_t *conversation,
                    struct refusal *refusal)
{
    char *text = json_dumps(conversation, JSON_COMPACT);
    if (!text) return refuse_memory(refusal);
    size_t bytes = strlen(text);
    int64_t n = riffle_chat_tokenize_json(model, text, bytes, NULL, 0);
    int code = grow(prompt, n, refusal);
    if (!code) n = riffle_chat_tokenize_json(model, text, bytes, prompt->tokens, (size_t)n);
    if (!code && n < 0) code = refuse_last(refusal, n);
    if (!code) prompt->n = (size_t)n;
    free(text);
    return code;
}

/* Beside the messages, templates may read what the request tells them. */
static int tell_template(const json_t *body, json_t *conversation, struct refusal *refusal)
{
    json_t *more = (json_t *)member(body, "chat_template_kwargs"),
           *effort = (json_t *)member(body, "reasoning_effort");
    if (more && !json_is_object(more))
        return refuse_value(refusal, "chat_template_kwargs", "an object");
    if (effort && !json_is_string(effort))
        return refuse_value(refusal, "reasoning_effort", "a text");
    if (effort) json_object_set(conversation, "reasoning_effort", effort);
    json_object_update_missing(conversation, more);
    return 0;
}

static int take_messages(const json_t *body, const struct answerer *of, struct question *question,
                         struct refusal *refusal)
{
    const char *opening = question->opening;
    if (make_prompts(question, 1, refusal)) return -1;
    json_t *conversation = conversation_make(member(body, "messages"), question->tools, refusal);
    if (!conversation) return -1;
    int code = tell_template(body, conversation, refusal);
    if (!code) code = add_chat(question->prompts, of->model, conversation, refusal);
    json_decref(conversation);
    if (!code && opening && *opening)
        code = add_text(question->prompts, of->model, opening, strlen(opening),
                        RIFFLE_TOKENIZE_SPECIAL, refusal);
    return code;
}

/* A list of tokens. */
static int add_tokens(struct prompt *prompt, const json_t *list, struct refusal *refusal)
{
    if (grow(prompt, (int64_t)json_array_size(list), refusal)) return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        if (!json_is_integer(token) || json_integer_value(token) < 0 ||
            json_integer_value(token) > INT32_MAX)
            return refuse(refusal, 400, "invalid_value", "index %zu of the prompt is no token", i);
        prompt->tokens[prompt->n++] = (int32_t)json_integer_value(token);
    }
    return 0;
}

/* A text, a list of tokens, or a list of these. */
static int take_prompts(const json_t *body, const char *name, const riffle_model *model,
                        struct question *question, struct refusal *refusal)
{
    static const char wanted[] = "a text, tokens, or an array of up to 256 of these";
    const json_t *given = member(body, name);
    int is_list = json_is_array(given) && !json_is_integer(json_array_get(given, 0));
    size_t n = is_list ? json_array_size(given) : 1;
    if (n == 0 || n > MOST_PROMPTS) return refuse_value(refusal, name, wanted);
    if (make_prompts(question, n, refusal)) return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *prompt = is_list ? json_array_get(given, i) : given;
        int code = json_is_array(prompt) ? add_tokens(&question->prompts[i], prompt, refusal)
                   : json_is_string(prompt)
                       ? add_text(&question->prompts[i], model, json_string_value(prompt),
                                  json_string_length(prompt), RIFFLE_TOKENIZE_BOS, refusal)
                       : refuse_value(refusal, name, wanted);
        if (code) return code;
    }
    return 0;
}

/* ---- completions ---- */

/* The tokens of models that were trained to fill a gap; what comes before it, what comes behind it,
 * and the answer follow them. */
static const struct gap_tokens {
    const char *before, *behind, *answer;
} gap_tokens[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, /* Qwen 2.5 Coder, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       /* StarCoder, Granite */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},       /* SantaCoder */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, /* DeepSeek Coder */
};

static int is_token(const riffle_model *model, const char *text)
{
    return riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_SPECIAL, NULL, 0) == 1;
}

static const struct gap_tokens *gap_tokens_of(const riffle_model *model)
{
    for (size_t i = 0; i < sizeof gap_tokens / sizeof *gap_tokens; i++)
        if (is_token(model, gap_tokens[i].before) && is_token(model, gap_tokens[i].behind) &&
            is_token(model, gap_tokens[i].answer))
            return &gap_tokens[i];
    return NULL;
}

static int add_special(struct prompt *prompt, const riffle_model *model, const char *text,
                       struct refusal *refusal)
{
    return add_text(prompt, model, text, strlen(text), RIFFLE_TOKENIZE_SPECIAL, refusal);
}

/* A prompt of a text before the gap and one behind it. */
static int take_gap(const json_t *before, const json_t *behind, const riffle_model *model,
                    struct question *question, struct refusal *refusal)
{
    const struct gap_tokens *tokens = gap_tokens_of(model);
    if (!json_is_string(before) || !json_is_string(behind))
        return refuse(refusal, 400, "invalid_value", "prompt and suffix are not a text each");
    if (question->echoes)
        return refuse(refusal, 400, "unsupported_parameter", "echo is beside a suffix");
    if (!tokens)
        return refuse(refusal, 400, "unsupported_parameter",
                      "suffix: the model has no tokens for filling a gap");
    if (make_prompts(question, 1, refusal)) return -1;
    struct prompt *prompt = question->prompts;
    if (add_text(prompt, model, "", 0, RIFFLE_TOKENIZE_BOS, refusal)) return -1;
    if (add_special(prompt, model, tokens->before, refusal)) return -1;
    if (add_text(prompt, model, json_string_value(before), json_string_length(before), 0, refusal))
        return -1;
    if (add_special(prompt, model, tokens->behind, refusal)) return -1;
    if (add_text(prompt, model, json_string_value(behind), json_string_length(behind), 0, refusal))
        return -1;
    return add_special(prompt, model, tokens->answer, refusal);
}

static int take_completion(const json_t *body, const riffle_model *model, struct question *question,
                           struct refusal *refusal)
{
    const json_t *suffix = member(body, "suffix");
    if (take_flag(body, "echo", &question->echoes, refusal)) return -1;
    if (question->generate.max_tokens == 0) {
        if (!question->echoes)
            return refuse(refusal, 400, "invalid_value", "max_tokens is 0, without echo");
        question->only_echoes = question->generate.max_tokens = 1;
    }
    return suffix && !(json_is_string(suffix) && !json_string_length(suffix))
               ? take_gap(member(body, "prompt"), suffix, model, question, refusal)
               : take_prompts(body, "prompt", model, question, refusal);
}

static int take_model(const json_t *body, const char *name, struct refusal *refusal)
{
    const json_t *model = member(body, "model");
    if (!model || (json_is_string(model) && strcmp(json_string_value(model), name) == 0)) return 0;
    if (!json_is_string(model)) return refuse_value(refusal, "model", "a text");
    return refuse(refusal, 404, "model_not_found",
                  "the model %.100s is not here; this server has %s", json_string_value(model),
                  name);
}

static int take_embedding(const json_t *body, const struct answerer *of, struct question *question,
                          struct refusal *refusal)
{
    const char *format = json_string_value(member(body, "encoding_format")),
               *pooling = json_string_value(member(body, "pooling"));
    if (member(body, "encoding_format") &&
        !(format && (strcmp(format, "float") == 0 || strcmp(format, "base64") == 0)))
        return refuse_value(refusal, "encoding_format", "float or base64");
    if (member(body, "pooling") &&
        !(pooling && (strcmp(pooling, "mean") == 0 || strcmp(pooling, "last") == 0)))
        return refuse_value(refusal, "pooling", "mean or last");
    question->n = 1;
    question->wants_base64 = format && strcmp(format, "base64") == 0;
    question->pooling = !pooling                       ? RIFFLE_POOL_MODEL
                        : strcmp(pooling, "last") == 0 ? RIFFLE_POOL_LAST
                                                       : RIFFLE_POOL_MEAN;
    return take_prompts(body, "input", of->model, question, refusal);
}

static int take_answer(const json_t *body, const struct answerer *of, struct question *question,
                       struct refusal *refusal)
{
    const json_t *stream_options = member(body, "stream_options");
    int32_t *most = &question->generate.max_tokens;
    if (take_n(body, question, refusal)) return -1;
    if (take_flag(body, "stream", &question->streams, refusal)) return -1;
    if (take_flag(stream_options, "include_usage", &question->tells_usage, refusal)) return -1;
    int is_chat = question->kind == QUESTION_CHAT;
    if (!is_chat) *most = 16;
    if (take_int(body, "max_tokens", is_chat, INT32_MAX, most, refusal)) return -1;
    if (take_int(body, "max_completion_tokens", 1, INT32_MAX, most, refusal)) return -1;
    if (take_sampling(body, question, refusal)) return -1;
    if (take_stops(body, question, refusal)) return -1;
    if (take_logprobs(body, question, refusal)) return -1;
    if (take_bias(body, question, refusal)) return -1;
    if (take_tools(body, of, question, refusal)) return -1;
    int code = is_chat ? take_messages(body, of, question, refusal)
                       : take_completion(body, of->model, question, refusal);
    return code ? code : take_format(body, question, refusal);
}

static int take_all(struct question *question, const json_t *body, const struct answerer *of,
                    struct refusal *refusal)
{
    if (!json_is_object(body)) return refuse_value(refusal, "the body", "a JSON object");
    if (take_model(body, of->name, refusal)) return -1;
    if (check_unsupported(body, refusal)) return -1;
    return question->kind == QUESTION_EMBEDDING ? take_embedding(body, of, question, refusal)
                                                : take_answer(body, of, question, refusal);
}

int question_parse(struct question *question, enum question_kind kind, const char *body,
                   size_t bytes, const struct answerer *of, struct refusal *refusal)
{
    json_error_t error;
    *question = (struct question){.kind = kind, .sampling = *of->sampling};
    riffle_generate_options_init(&question->generate, sizeof question->generate);
    question->generate.stop = (const char *const *)question->stops;
    json_t *parsed = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!parsed)
        return refuse(refusal, 400, "invalid_json", "the body is no JSON: line %d, column %d: %s",
                      error.line, error.column, error.text);
    int code = take_all(question, parsed, of, refusal);
    json_decref(parsed);
    if (code) question_free(question);
    return code;
}

int question_compile(struct question *question, const riffle_model *model, riffle_stops_fn stops,
                     void *user, struct refusal *refusal)
{
    int code = riffle_grammar_new_watched(&question->grammar, model, question->schema_kind,
                                          question->schema, strlen(question->schema), stops, user);
    if (code == RIFFLE_ERR_CANCELLED)
        return refuse(refusal, 400, "schema_too_slow", "the schema takes too long to compile");
    if (code) return refuse_last(refusal, code);
    question->generate.grammar = question->grammar;
    return 0;
}

void question_free(struct question *question)
{
    for (int32_t i = 0; i < question->n_prompts; i++) free(question->prompts[i].tokens);
    free(question->prompts);
    for (size_t i = 0; i < question->generate.n_stop; i++) free(question->stops[i]);
    free(question->bias);
    json_decref(question->tools);
    free(question->opening);
    free(question->schema);
    riffle_grammar_free(question->grammar);
    *question = (struct question){.prompts = NULL};
}
