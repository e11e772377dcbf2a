/* GET /tokenizer_info: what a client needs to format and cut texts itself, as vLLM's server tells
 * it. */
#include "serve/endpoint.h"
#include "serve/server.h"

/* The token's text; null: there is none. */
static json_t *control_text(const riffle_model *model, int32_t token)
{
    char text[256];
    int64_t n = token < 0 ? 0
                          : riffle_detokenize(model, &token, 1, RIFFLE_DETOKENIZE_SPECIAL, text,
                                              sizeof text);
    json_t *value = n > 0 && n <= (int64_t)sizeof text ? json_stringn(text, (size_t)n) : NULL;
    return value ? value : json_null();
}

static json_t *info_of(const struct answerer *of)
{
    riffle_model_info info;
    riffle_model_get_info(of->model, &info, sizeof info);
    json_t *template = json_string(riffle_model_template(of->model));
    json_t *value = json_pack("{s:s, s:o, s:o, s:n, s:b, s:i, s:i, s:o}", "tokenizer_class",
                              info.tokenizer, "bos_token", control_text(of->model, info.bos_token),
                              "eos_token", control_text(of->model, info.eos_token), "pad_token",
                              "add_bos_token", info.adds_bos != 0, "vocab_size", info.n_vocab,
                              "model_max_length", of->n_ctx, "chat_template",
                              json_string_length(template) ? json_incref(template) : json_null());
    json_decref(template);
    return value;
}

/* Describes the model that requests without a name mean. */
static char *tell_tokenizer_info(struct server *server, const char *rest, struct refusal *refusal)
{
    struct served *served;
    struct served_model *row;
    enum asked asked = models_ask(&server->models, NULL, &served, &row, refusal);
    (void)rest;
    if (asked == MODEL_AWAITED) {
        rf_lock_take(&server->lock);
        models_leave(row);
        rf_lock_release(&server->lock);
        refuse(refusal, 503, "model_loading", "the model is not open yet; try again later");
    }
    if (asked != MODEL_TAKEN) return NULL;
    json_t *value = info_of(&served->answerer);
    models_release(served);
    return value ? reply_write(value, 0) : NULL;
}

const struct endpoint endpoint_tokenizer_info = {"GET", "/tokenizer_info",
                                                 .tell = tell_tokenizer_info};
