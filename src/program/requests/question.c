/* Reads the part of a body that several endpoints share; each endpoint takes the rest. A member
 * that is not supported is refused, never ignored. */
#define _POSIX_C_SOURCE 200809L
#include "requests/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "platform/random.h"
#include "requests/members.h"

/* Bodies of many small objects would take a hundred times their size. */
static int check_values(const char *body, size_t bytes, struct refusal *refusal)
{
    size_t n = 0;
    for (size_t i = 0, is_text = 0; i < bytes; i++) {
        if (is_text && body[i] == '\\')
            i++;
        else if (body[i] == '"')
            is_text = !is_text;
        else if (!is_text && (body[i] == '{' || body[i] == '['))
            n++;
    }
    if (n <= MOST_VALUES) return 0;
    return refuse(refusal, 400, "invalid_value", "the body has more than %d objects and arrays",
                  MOST_VALUES);
}

static int take_n(const json_t *body, struct question *question, struct refusal *refusal)
{
    int32_t best_of = 1;
    question->n = 1;
    if (member_int(body, "n", 1, MOST_CHOICES, &question->n, refusal)) return -1;
    if (member_int(body, "best_of", 1, MOST_CHOICES, &best_of, refusal)) return -1;
    if (best_of > 1 && best_of != question->n)
        return refuse(refusal, 400, "unsupported_parameter", "best_of above n is not supported");
    return 0;
}

static int compare_biases(const void *a, const void *b)
{
    const riffle_logit_bias *left = a, *right = b;
    return (left->token > right->token) - (left->token < right->token);
}

int question_take_bias(const json_t *body, struct question *question, struct refusal *refusal)
{
    json_t *biases = (json_t *)member_get(body, "logit_bias");
    const char *name;
    json_t *value;
    if (biases && !rf_json_is_map(biases)) return refuse_value(refusal, "logit_bias", "an object");
    if (json_object_size(biases) == 0) return 0;
    question->bias = calloc(json_object_size(biases), sizeof *question->bias);
    if (!question->bias) return refuse_memory(refusal);
    json_object_foreach(biases, name, value)
    {
        char *end;
        long token = strtol(name, &end, 10);
        double bias = rf_json_to_double(value);
        if (end == name || *end || token < 0 || token > INT32_MAX ||
            !rf_json_is_any_number(value) ||
            !(bias >= -RIFFLE_MOST_BIAS && bias <= RIFFLE_MOST_BIAS))
            return refuse_value(refusal, "logit_bias", "tokens with numbers between -100 and 100");
        question->bias[question->n_bias++] = (riffle_logit_bias){(int32_t)token, (float)bias};
    }
    qsort(question->bias, question->n_bias, sizeof *question->bias, compare_biases);
    for (size_t i = 1; i < question->n_bias; i++) /* "7" and "07" */
        if (question->bias[i].token == question->bias[i - 1].token)
            return refuse(refusal, 400, "invalid_value", "logit_bias has token %d twice",
                          question->bias[i].token);
    return 0;
}

/* repeat_penalty, which vLLM and transformers call repetition_penalty. */
static int take_repetition(const json_t *body, float *penalty, struct refusal *refusal)
{
    float other = *penalty;
    int has_both = member_get(body, "repeat_penalty") && member_get(body, "repetition_penalty");
    if (member_float(body, "repeat_penalty", 0.01, 100, penalty, refusal)) return -1;
    if (member_get(body, "repeat_penalty")) other = *penalty;
    if (member_float(body, "repetition_penalty", 0.01, 100, &other, refusal)) return -1;
    if (has_both && other != *penalty)
        return refuse_value(refusal, "repetition_penalty", "the same as repeat_penalty");
    *penalty = other;
    return 0;
}

static int take_sampling(const json_t *body, struct question *question, struct refusal *refusal)
{
    riffle_sampling *sampling = &question->sampling;
    sampling->seed = rf_random();
    const json_t *seed = member_get(body, "seed");
    int64_t number;
    if (seed && !rf_json_to_int64(seed, &number))
        return refuse_value(refusal, "seed", "an integer of 64 bits");
    if (seed) sampling->seed = (uint64_t)number;
    if (member_float(body, "temperature", 0, 100, &sampling->temperature, refusal)) return -1;
    if (member_float(body, "top_p", 0, 1, &sampling->top_p, refusal)) return -1;
    if (member_float(body, "min_p", 0, 1, &sampling->min_p, refusal)) return -1;
    if (member_float(body, "frequency_penalty", -2, 2, &sampling->frequency_penalty, refusal))
        return -1;
    if (member_float(body, "presence_penalty", -2, 2, &sampling->presence_penalty, refusal))
        return -1;
    if (member_int(body, "top_k", -1, INT32_MAX, &sampling->top_k, refusal)) return -1;
    if (sampling->top_k < 0) sampling->top_k = 0; /* all tokens, as other servers write it */
    if (member_int(body, "repeat_last_n", -1, INT32_MAX, &sampling->repeat_last_n, refusal))
        return -1;
    return take_repetition(body, &sampling->repeat_penalty, refusal);
}

static int add_stop(const json_t *value, struct question *question, struct refusal *refusal)
{
    size_t n = question->generate.n_stop;
    const char *text = rf_json_c_string(value);
    if (!text || !*text || n == MOST_STOPS)
        return refuse_value(refusal, "stop",
                            "a text or an array of up to 16 texts, none empty or with a zero byte");
    question->stops[n] = strdup(text);
    if (!question->stops[n]) return refuse_memory(refusal);
    question->generate.n_stop++;
    return 0;
}

static int take_stops(const json_t *body, struct question *question, struct refusal *refusal)
{
    const json_t *stop = member_get(body, "stop");
    if (!stop) return 0;
    if (!json_is_array(stop)) return add_stop(stop, question, refusal);
    for (size_t i = 0; i < json_array_size(stop); i++)
        if (add_stop(json_array_get(stop, i), question, refusal)) return -1;
    return 0;
}

static int take_stream_options(const json_t *body, struct question *question,
                               struct refusal *refusal)
{
    json_t *options = (json_t *)member_get(body, "stream_options"), *value;
    const char *name;
    int is_obscured = 0; /* padding against listeners, which changes no answer */
    if (!options) return 0;
    if (!json_is_object(options)) return refuse_value(refusal, "stream_options", "an object");
    json_object_foreach(options, name, value)
    {
        if (strcmp(name, "include_usage") != 0 && strcmp(name, "include_levels") != 0 &&
            strcmp(name, "include_obfuscation") != 0 && !json_is_null(value))
            return refuse(refusal, 400, "unsupported_parameter",
                          "stream_options.%.100s is not supported", name);
    }
    if (member_flag(options, "include_obfuscation", &is_obscured, refusal)) return -1;
    if (member_flag(options, "include_usage", &question->tells_usage, refusal)) return -1;
    if (member_flag(options, "include_levels", &question->tells_levels, refusal)) return -1;
    if (!question->streams && json_object_size(options))
        return refuse(refusal, 400, "invalid_value", "stream_options is without stream");
    return 0;
}

/* -1 is llama.cpp's word for no limit. */
static int take_most(const json_t *body, const char *name, int32_t least, int32_t *most,
                     struct refusal *refusal)
{
    int64_t given;
    if (rf_json_to_int64(json_object_get(body, name), &given) && given == -1) {
        *most = INT32_MAX;
        return 0;
    }
    return member_int(body, name, least, INT32_MAX, most, refusal);
}

int question_take_answer(const json_t *body, int32_t least_tokens, struct question *question,
                         struct refusal *refusal)
{
    int32_t *most = &question->generate.max_tokens;
    int *ignores_end = &question->generate.ignore_eos;
    if (take_n(body, question, refusal)) return -1;
    if (member_flag(body, "stream", &question->streams, refusal)) return -1;
    if (take_stream_options(body, question, refusal)) return -1;
    if (take_most(body, "max_tokens", least_tokens, most, refusal)) return -1;
    if (take_most(body, "max_completion_tokens", 1, most, refusal)) return -1;
    if (member_flag(body, "ignore_eos", ignores_end, refusal)) return -1;
    if (take_sampling(body, question, refusal)) return -1;
    return take_stops(body, question, refusal);
}

/* The name is NULL where the body has none. */
static int take_model(const json_t *body, const char *other, const char **name,
                      struct refusal *refusal)
{
    if (!rf_json_is_map(body)) return refuse_value(refusal, "the body", "a JSON object");
    const json_t *model = member_get(body, "model");
    if (!model && other) model = member_get(body, other);
    *name = rf_json_c_string(model);
    return model && !*name ? refuse_value(refusal, "model", "a text without zero bytes") : 0;
}

json_t *question_read(const char *body, size_t bytes, const char *other, const char **model,
                      struct refusal *refusal)
{
    struct rf_json_problem problem;
    if (check_values(body, bytes, refusal)) return NULL;
    json_t *parsed = rf_json_load(body, bytes, NULL, &problem);
    if (!parsed && problem.is_memory)
        refuse_memory(refusal);
    else if (!parsed)
        refuse(refusal, 400, "invalid_json", "the body is no JSON: line %zu, column %zu: %s",
               problem.line, problem.column, problem.text);
    if (!parsed || !take_model(parsed, other, model, refusal)) return parsed;
    json_decref(parsed);
    return NULL;
}

int question_take(struct question *question, question_fn *take, const json_t *body,
                  const struct answerer *of, struct refusal *refusal)
{
    *question = (struct question){.sampling = *of->sampling, .n_ctx = of->n_ctx};
    riffle_generate_options_init(&question->generate, sizeof question->generate);
    question->generate.stop = (const char *const *)question->stops;
    int code = take(body, of, question, refusal);
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
    json_decref(question->told);
    free(question->opening);
    free(question->known);
    free(question->schema);
    riffle_grammar_free(question->grammar);
    *question = (struct question){.prompts = NULL};
}
