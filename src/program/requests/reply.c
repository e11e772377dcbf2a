/* Writes objects of OpenAI's reference. The frame, usage and log-probabilities are here; the form
 * of an endpoint writes the members that differ. */
#include "requests/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json.h"

char *reply_write(json_t *value, int is_event)
{
    char *text = rf_json_dump(value, 0, NULL), *event = NULL;
    json_decref(value);
    if (!is_event || !text) return text;
    size_t bytes = strlen(text) + sizeof "data: \n\n";
    event = malloc(bytes);
    if (event) snprintf(event, bytes, "data: %s\n\n", text);
    free(text);
    return event;
}

json_t *reply_text(const char *text, size_t bytes)
{
    return json_stringn(bytes ? text : "", bytes);
}

int reply_can_name(const char *name)
{
    json_t *text = json_string(name);
    json_decref(text);
    return text != NULL;
}

const char *reply_finish(riffle_finish finish)
{
    return finish == RIFFLE_FINISH_LENGTH ? "length" : "stop";
}

static json_t *usage_object(const struct reply_usage *usage)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I, s:I}}", "prompt_tokens",
                     (json_int_t)usage->prompt, "completion_tokens", (json_int_t)usage->generated,
                     "total_tokens", (json_int_t)(usage->prompt + usage->generated),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)usage->kept,
                     "completion_tokens_details", "accepted_prediction_tokens",
                     (json_int_t)usage->accepted, "rejected_prediction_tokens",
                     (json_int_t)(usage->drafted - usage->accepted));
}

/* Takes choices and usage (NULL: none). */
static json_t *reply_frame(const struct reply *reply, int is_piece, json_t *choices, json_t *usage)
{
    const struct reply_form *form = reply->form;
    char id[40];
    snprintf(id, sizeof id, "%s-%016" PRIx64, form->id, reply->id);
    json_t *made = json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", id, "object",
                             is_piece ? form->piece_object : form->object, "created",
                             (json_int_t)reply->created, "model", reply->model, "choices", choices);
    if (made && usage) json_object_set_new(made, "usage", usage);
    return made;
}

/* ---- log-probabilities ---- */

static json_t *byte_array(const char *text, size_t n)
{
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return bytes;
}

/* A token's bytes need not be whole characters. */
static json_t *token_object(const riffle_model *model, const riffle_logprob *found)
{
    char text[256];
    int64_t n =
        riffle_detokenize(model, &found->token, 1, RIFFLE_DETOKENIZE_SPECIAL, text, sizeof text);
    size_t held = n < 0 ? 0 : n < (int64_t)sizeof text ? (size_t)n : sizeof text;
    json_t *token = json_stringn(text, held), *bytes = byte_array(text, held);
    if (!token) token = json_string("\xef\xbf\xbd");
    /* JSON has no infinity. */
    double logprob = found->logprob < -9999.0f ? -9999.0 : rf_double_of_float(found->logprob);
    return json_pack("{s:o, s:f, s:o}", "token", token, "logprob", logprob, "bytes", bytes);
}

json_t *reply_token(const riffle_model *model, const riffle_logprobs *logprobs)
{
    json_t *entry = token_object(model, &logprobs->chosen), *top = json_array();
    for (int32_t i = 0; i < logprobs->n_top; i++)
        json_array_append_new(top, token_object(model, &logprobs->top[i]));
    json_object_set_new(entry, "top_logprobs", top);
    return entry;
}

json_t *reply_prompt_token(const riffle_model *model, const int32_t *tokens, size_t n, int begins,
                           const riffle_logprobs *logprobs)
{
    const riffle_logprobs none = {.chosen = {tokens[n - 1], 0.0f}};
    json_t *entry = reply_token(model, logprobs ? logprobs : &none);
    char text[256];
    int64_t bytes =
        begins ? riffle_detokenize(model, tokens, n, RIFFLE_DETOKENIZE_START, text, sizeof text)
               : riffle_detokenize(model, tokens + n - 1, 1, 0, text, sizeof text);
    size_t held = bytes < 0 ? 0 : bytes < (int64_t)sizeof text ? (size_t)bytes : sizeof text;
    json_object_set_new(entry, "bytes", byte_array(text, held));
    if (!logprobs) {
        json_object_set_new(entry, "logprob", json_null());
        json_object_set_new(entry, "top_logprobs", json_null());
    }
    return entry;
}

size_t reply_token_characters(const json_t *entry)
{
    const json_t *bytes = json_object_get(entry, "bytes");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(bytes); i++)
        n += (json_integer_value(json_array_get(bytes, i)) & 0xc0) != 0x80;
    return n;
}

size_t reply_characters(const json_t *tokens)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(tokens); i++)
        n += reply_token_characters(json_array_get(tokens, i));
    return n;
}

/* ---- answers ---- */

static json_t *reply_choice(const struct reply *reply, const struct reply_part *part, int is_piece)
{
    json_t *said = reply->form->say(part, is_piece);
    if (said)
        json_object_update_new(said,
                               json_pack("{s:i, s:o, s:s?}", "index", part->index, "logprobs",
                                         part->tokens ? reply->form->logprobs(part) : json_null(),
                                         "finish_reason", part->finish));
    return said;
}

char *reply_whole(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage)
{
    json_t *choices = json_array();
    for (int32_t i = 0; i < n_parts; i++)
        json_array_append_new(choices, reply_choice(reply, &parts[i], 0));
    return reply_write(reply_frame(reply, 0, choices, usage_object(usage)), 0);
}

char *reply_piece(const struct reply *reply, const struct reply_part *part)
{
    json_t *usage = reply->question->tells_usage ? json_null() : NULL;
    return reply_write(reply_frame(reply, 1, json_pack("[o]", reply_choice(reply, part, 1)), usage),
                       1);
}

char *reply_usage(const struct reply *reply, const struct reply_usage *usage)
{
    return reply_write(reply_frame(reply, 1, json_array(), usage_object(usage)), 1);
}

/* ---- refusals ---- */

static json_t *refusal_object(const struct refusal *refusal)
{
    const char *type = refusal->status == 429   ? "rate_limit_error"
                       : refusal->status == 401 ? "authentication_error"
                       : refusal->status >= 500 ? "server_error"
                                                : "invalid_request_error";
    json_t *text = json_string(refusal->text);
    if (!text) text = json_string("the request has bytes that are not UTF-8");
    return json_pack("{s:{s:o, s:s, s:n, s:s?}}", "error", "message", text, "type", type, "param",
                     "code", refusal->code);
}

char *reply_refusal(const struct refusal *refusal)
{
    return reply_write(refusal_object(refusal), 0);
}

char *reply_cut(const struct refusal *refusal)
{
    return reply_write(refusal_object(refusal), 1);
}
