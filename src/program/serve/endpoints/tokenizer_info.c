/* GET /tokenizer_info: what a client needs to format and cut texts itself, as vLLM's server tells
 * it. */
#include "serve/endpoint.h"
#include "serve/send.h"

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

static void send_tokenizer_info(struct exchange *exchange)
{
    riffle_model_info info;
    rf_lock_take(&exchange->server->lock);
    const struct answerer *of = served_hold(exchange);
    rf_lock_release(&exchange->server->lock);
    riffle_model_get_info(of->model, &info, sizeof info);
    json_t *template = json_string(riffle_model_template(of->model));
    json_t *value = json_pack("{s:s, s:o, s:o, s:n, s:b, s:i, s:i, s:o}", "tokenizer_class",
                              info.tokenizer, "bos_token", control_text(of->model, info.bos_token),
                              "eos_token", control_text(of->model, info.eos_token), "pad_token",
                              "add_bos_token", info.adds_bos != 0, "vocab_size", info.n_vocab,
                              "model_max_length", of->n_ctx, "chat_template",
                              json_string_length(template) ? json_incref(template) : json_null());
    json_decref(template);
    send_text(exchange, 200, json_media, value ? reply_write(value, 0) : NULL);
}

const struct endpoint endpoint_tokenizer_info = {"GET", "/tokenizer_info",
                                                 .send = send_tokenizer_info};
