#include "serve/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the value. As JSON, or as a server-sent event. */
static char *write_out(json_t *value, int is_event)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL,
         *event = NULL;
    json_decref(value);
    if (!is_event || !text) return text;
    size_t bytes = strlen(text) + sizeof "data: \n\n";
    event = malloc(bytes);
    if (event) snprintf(event, bytes, "data: %s\n\n", text);
    free(text);
    return event;
}

static json_t *text_of(const char *text, size_t bytes)
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

static json_t *usage_of(const struct reply_usage *usage)
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
static json_t *frame(const struct reply *reply, int is_chunk, json_t *choices, json_t *usage)
{
    int is_chat = reply->kind == QUESTION_CHAT;
    char id[40];
    snprintf(id, sizeof id, "%s-%016" PRIx64, is_chat ? "chatcmpl" : "cmpl", reply->id);
    json_t *made =
        json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", id, "object",
                  !is_chat   ? "text_completion"
                  : is_chunk ? "chat.completion.chunk"
                             : "chat.completion",
                  "created", (json_int_t)reply->created, "model", reply->model, "choices", choices);
    if (made && usage) json_object_set_new(made, "usage", usage);
    return made;
}

/* ---- log-probabilities ---- */

static json_t *bytes_of(const char *text, size_t n)
{
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return bytes;
}

/* A token's bytes need not be whole characters. */
static json_t *token_entry(const riffle_model *model, const riffle_logprob *found)
{
    char text[256];
    int64_t n =
        riffle_detokenize(model, &found->token, 1, RIFFLE_DETOKENIZE_SPECIAL, text, sizeof text);
    size_t held = n < 0 ? 0 : n < (int64_t)sizeof text ? (size_t)n : sizeof text;
    json_t *token = json_stringn(text, held), *bytes = bytes_of(text, held);
    if (!token) token = json_string("\xef\xbf\xbd");
    /* JSON has no infinity. */
    double logprob = found->logprob < -9999.0f ? -9999.0 : (double)found->logprob;
    return json_pack("{s:o, s:f, s:o}", "token", token, "logprob", logprob, "bytes", bytes);
}

json_t *reply_token(const riffle_model *model, const riffle_logprobs *logprobs)
{
    json_t *entry = token_entry(model, &logprobs->chosen), *top = json_array();
    for (int32_t i = 0; i < logprobs->n_top; i++)
        json_array_append_new(top, token_entry(model, &logprobs->top[i]));
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
    json_object_set_new(entry, "bytes", bytes_of(text, held));
    if (!logprobs) {
        json_object_set_new(entry, "logprob", json_null());
        json_object_set_new(entry, "top_logprobs", json_null());
    }
    return entry;
}

static size_t characters_of(const json_t *entry)
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
        n += characters_of(json_array_get(tokens, i));
    return n;
}

/* The form of completions: lists beside each other. */
static json_t *lists_of(const struct reply_part *part)
{
    json_t *texts = json_array(), *numbers = json_array(), *tops = json_array(),
           *offsets = json_array();
    size_t offset = part->offset;
    for (size_t i = 0; i < json_array_size(part->tokens); i++) {
        const json_t *entry = json_array_get(part->tokens, i),
                     *likely = json_object_get(entry, "top_logprobs");
        json_t *top = json_is_null(likely) ? json_null() : json_object();
        for (size_t k = 0; k < json_array_size(likely); k++) {
            const json_t *one = json_array_get(likely, k);
            const char *name = json_string_value(json_object_get(one, "token"));
            if (!json_object_get(top, name))
                json_object_set(top, name, json_object_get(one, "logprob"));
        }
        json_array_append(texts, json_object_get(entry, "token"));
        json_array_append(numbers, json_object_get(entry, "logprob"));
        json_array_append_new(tops, top);
        json_array_append_new(offsets, json_integer((json_int_t)offset));
        offset += characters_of(entry);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", texts, "token_logprobs", numbers,
                     "top_logprobs", tops, "text_offset", offsets);
}

static json_t *logprobs_of(const struct reply *reply, const struct reply_part *part)
{
    if (!part->tokens) return json_null();
    if (reply->kind == QUESTION_COMPLETION) return lists_of(part);
    return json_pack("{s:O, s:n}", "content", (json_t *)part->tokens, "refusal");
}

/* ---- answers ---- */

/* Takes the members that say the text. */
static json_t *choice_of(const struct reply *reply, const struct reply_part *part, json_t *said)
{
    if (said)
        json_object_update_new(said,
                               json_pack("{s:i, s:o, s:s?}", "index", part->index, "logprobs",
                                         logprobs_of(reply, part), "finish_reason", part->finish));
    return said;
}

static json_t *message_of(const struct reply_part *part)
{
    int has_calls = json_array_size(part->calls) > 0;
    json_t *message =
        json_pack("{s:s, s:o}", "role", "assistant", "content",
                  has_calls && !part->bytes ? json_null() : text_of(part->text, part->bytes));
    if (part->thought_bytes)
        json_object_set_new(message, "reasoning_content",
                            text_of(part->thought, part->thought_bytes));
    if (has_calls) json_object_set(message, "tool_calls", (json_t *)part->calls);
    return message;
}

char *reply_whole(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage)
{
    json_t *choices = json_array();
    for (int32_t i = 0; i < n_parts; i++) {
        json_t *said = reply->kind == QUESTION_CHAT
                           ? json_pack("{s:o}", "message", message_of(&parts[i]))
                           : json_pack("{s:o}", "text", text_of(parts[i].text, parts[i].bytes));
        json_array_append_new(choices, choice_of(reply, &parts[i], said));
    }
    return write_out(frame(reply, 0, choices, usage_of(usage)), 0);
}

static json_t *delta_of(const struct reply_part *part)
{
    json_t *delta = json_object(), *calls = json_array();
    if (part->is_first) json_object_set_new(delta, "role", json_string("assistant"));
    if (part->thought_bytes)
        json_object_set_new(delta, "reasoning_content",
                            text_of(part->thought, part->thought_bytes));
    if (part->bytes || (part->is_first && !part->thought_bytes))
        json_object_set_new(delta, "content", text_of(part->text, part->bytes));
    for (size_t i = 0; i < json_array_size(part->calls); i++) {
        json_t *call = json_copy(json_array_get(part->calls, i));
        json_object_set_new(call, "index", json_integer(part->n_calls + (json_int_t)i));
        json_array_append_new(calls, call);
    }
    if (json_array_size(calls)) json_object_set(delta, "tool_calls", calls);
    json_decref(calls);
    return delta;
}

char *reply_piece(const struct reply *reply, const struct reply_part *part)
{
    json_t *said = reply->kind == QUESTION_CHAT
                       ? json_pack("{s:o}", "delta", delta_of(part))
                       : json_pack("{s:o}", "text", text_of(part->text, part->bytes));
    return write_out(frame(reply, 1, json_pack("[o]", choice_of(reply, part, said)), NULL), 1);
}

char *reply_usage(const struct reply *reply, const struct reply_usage *usage)
{
    return write_out(frame(reply, 1, json_array(), usage_of(usage)), 1);
}

/* ---- vectors ---- */

/* The vector's bytes, of which the least significant comes first, in base64 (RFC 4648). */
static json_t *base64_of(const float *vector, int32_t width)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = (size_t)width * sizeof *vector, out = 0;
    const unsigned char *bytes = (const unsigned char *)vector;
    char *text = malloc((n + 2) / 3 * 4 + 1);
    if (!text) return NULL;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        if (i + 1 < n) three |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < n) three |= bytes[i + 2];
        for (size_t k = 0; k < 4; k++)
            text[out++] = k > n - i ? '=' : digits[three >> (18 - 6 * k) & 63];
    }
    json_t *value = json_stringn(text, out);
    free(text);
    return value;
}

static json_t *numbers_of(const float *vector, int32_t width)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < width; i++) json_array_append_new(list, json_real((double)vector[i]));
    return list;
}

char *reply_embeddings(const struct reply *reply, float *const *vectors, int32_t n, int32_t width,
                       int is_base64, const struct reply_usage *usage)
{
    json_t *data = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(
            data,
            json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", i, "embedding",
                      is_base64 ? base64_of(vectors[i], width) : numbers_of(vectors[i], width)));
    return write_out(json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "object", "list", "model",
                               reply->model, "data", data, "usage", "prompt_tokens",
                               (json_int_t)usage->prompt, "total_tokens",
                               (json_int_t)usage->prompt),
                     0);
}

static json_t *error_of(const struct refusal *refusal)
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
    return write_out(error_of(refusal), 0);
}

char *reply_cut(const struct refusal *refusal)
{
    return write_out(error_of(refusal), 1);
}

char *reply_models(const char *name, int64_t created)
{
    return write_out(json_pack("{s:s, s:[{s:s, s:s, s:I, s:s}]}", "object", "list", "data", "id",
                               name, "object", "model", "created", (json_int_t)created, "owned_by",
                               "riffle"),
                     0);
}
