/* POST /api/show: what is known of the model, in ollama's form. Clients read from it what a model
 * can do and how long its context is. */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/ollama_reply.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"
#include "serve/endpoints/completions.h"
#include "serve/endpoints/ollama/tags.h"

/* "completion", and what else the model can do. */
static json_t *capabilities_of(const struct answerer *of)
{
    json_t *list = json_pack("[s, s]", "completion", "embedding");
    if (completions_fill_gaps(of->model)) json_array_append_new(list, json_string("insert"));
    if (of->tools.form) json_array_append_new(list, json_string("tools"));
    if (of->thinking != THINKS_NOT || of->has_effort)
        json_array_append_new(list, json_string("thinking"));
    return list;
}

/* Sets "ARCHITECTURE.NAME". */
static void set_number(json_t *facts, const riffle_model_info *info, const char *name,
                       int64_t value)
{
    char key[160];
    snprintf(key, sizeof key, "%.80s.%s", info->architecture, name);
    json_object_set_new(facts, key, json_integer(value));
}

/* The context is the server's, which a request must keep to. */
static json_t *facts_of(const struct answerer *of, const riffle_model_info *info)
{
    json_t *facts = json_pack("{s:s, s:I, s:s}", "general.architecture", info->architecture,
                              "general.parameter_count", (json_int_t)info->n_params,
                              "tokenizer.ggml.model", info->tokenizer);
    set_number(facts, info, "context_length", of->n_ctx);
    set_number(facts, info, "block_count", info->n_layer);
    set_number(facts, info, "embedding_length", info->n_embd);
    set_number(facts, info, "feed_forward_length", info->n_ff);
    set_number(facts, info, "attention.head_count", info->n_head);
    set_number(facts, info, "attention.head_count_kv", info->n_head_kv);
    set_number(facts, info, "vocab_size", info->n_vocab);
    return facts;
}

/* The values that a request leaves open, a line each. */
static json_t *parameters_of(const riffle_sampling *sampling)
{
    char text[256], temperature[RF_DOUBLE_TEXT], top_p[RF_DOUBLE_TEXT], min_p[RF_DOUBLE_TEXT],
        penalty[RF_DOUBLE_TEXT];
    rf_double_write(rf_double_of_float(sampling->temperature), temperature);
    rf_double_write(rf_double_of_float(sampling->top_p), top_p);
    rf_double_write(rf_double_of_float(sampling->min_p), min_p);
    rf_double_write(rf_double_of_float(sampling->repeat_penalty), penalty);
    snprintf(text, sizeof text, "temperature %s\ntop_k %d\ntop_p %s\nmin_p %s\nrepeat_penalty %s",
             temperature, sampling->top_k, top_p, min_p, penalty);
    return json_string(text);
}

static json_t *show_model(const struct answerer *of)
{
    riffle_model_info info;
    json_t *entry = ollama_entry(of);
    const char *source = riffle_model_template(of->model);
    json_t *template = json_string(source);
    riffle_model_get_info(of->model, &info, sizeof info);
    json_t *shown = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:O, s:o, s:o}", "license", "", "modelfile", "", "system", "",
        "parameters", parameters_of(of->sampling), "template",
        template ? template : json_string(""), "details", json_object_get(entry, "details"),
        "model_info", facts_of(of, &info), "capabilities", capabilities_of(of));
    json_decref(entry);
    return shown;
}

static int show_take(const json_t *body, const struct answerer *of, struct question *question,
                     struct refusal *refusal)
{
    if (accepted_check(body, ACCEPTED_OLLAMA_MODEL, refusal)) return -1;
    if (member_get(body, "model") && member_get(body, "name"))
        return refuse_value(refusal, "name", "alone: model is another name of it");
    json_t *shown = show_model(of);
    return prompts_need_none(question, shown ? reply_write(shown, 0) : NULL, refusal);
}

const struct endpoint endpoint_ollama_show = {
    "POST",         "/api/show",       .most_body = ENDPOINT_BODY,
    .is_ollama = 1, .take = show_take, .form = &ollama_form};
