/* Writes objects of OpenAI's reference. The frame, usage and log-probabilities are here; the form
 * of an endpoint writes the members that differ. */
#define _POSIX_C_SOURCE 200809L
#include "requests/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json.h"
#include "base/utf8.h"
#include "platform/memory.h"

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

void reply_count_seconds(struct reply_usage *usage, const riffle_answer *answer)
{
    double first = answer->first_seconds > 0.0 ? answer->first_seconds : answer->seconds;
    double prompt = first - answer->waiting_seconds, rest = answer->seconds - first;
    if (prompt + rest <= usage->prompt_seconds + usage->token_seconds) return;
    usage->prompt_seconds = prompt;
    usage->token_seconds = rest;
}

/* ---- writing ---- */

struct rf_writer reply_writer(struct rf_bytes *bytes, struct rf_error *error)
{
    return (struct rf_writer){.allocator = &rf_system_allocator, .bytes = bytes, .error = error};
}

void reply_write_json(struct rf_writer *out, json_t *value)
{
    if (value)
        rf_json_put(value, 0, out);
    else if (!out->code)
        out->code = rf_fail(out->error, RF_ERR_MEMORY, "out of memory");
    json_decref(value);
}

void reply_write_event(struct rf_writer *out, json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    rf_write_text(out, "event: ");
    rf_write_text(out, type ? type : "");
    rf_write_text(out, "\ndata: ");
    reply_write_json(out, value);
    rf_write_text(out, "\n\n");
}

void reply_write_real(struct rf_writer *out, float value)
{
    char text[RF_DOUBLE_TEXT];
    rf_double_write(rf_double_of_float(value), text);
    rf_write_text(out, text);
}

void reply_write_vector(struct rf_writer *out, const float *vector, int32_t width)
{
    rf_write_text(out, "[");
    for (int32_t i = 0; i < width; i++) {
        if (i) rf_write_text(out, ",");
        reply_write_real(out, vector[i]);
    }
    rf_write_text(out, "]");
}

void reply_write_broken_text(struct rf_writer *out, const char *text, size_t bytes)
{
    struct rf_bytes whole = {0};
    struct rf_error error;
    int code = 0, partial;
    for (size_t at = 0, n, broken; at < bytes && !code; at += n) {
        n = rf_utf8_examine(text + at, bytes - at, &partial, &broken);
        code = n ? rf_bytes_append(out->allocator, &whole, text + at, n, &error)
                 : rf_bytes_append(out->allocator, &whole, "\xef\xbf\xbd", 3, &error);
        if (!n) n = partial ? bytes - at : broken;
    }
    if (!code) rf_json_put_string(whole.count ? whole.data : "", whole.count, out);
    if (code && !out->code) out->code = rf_fail(out->error, RF_ERR_MEMORY, "out of memory");
    rf_bytes_free(out->allocator, &whole);
}

char *reply_take(struct rf_bytes *bytes, const struct rf_writer *out)
{
    struct rf_error error;
    char *text = NULL;
    int code = out->code ? out->code : rf_bytes_append(out->allocator, bytes, "", 1, &error);
    if (!code) text = malloc(bytes->count);
    if (text) memcpy(text, bytes->data, bytes->count);
    rf_bytes_free(out->allocator, bytes);
    return text;
}

/* Everything before the choices. */
static void write_frame(struct rf_writer *out, const struct reply *reply, int is_piece)
{
    const struct reply_form *form = reply->form;
    char text[200];
    snprintf(
        text, sizeof text,
        "{\"id\":\"%s-%016" PRIx64 "\",\"object\":\"%s\",\"created\":%lld,\"model\":", form->id,
        reply->id, is_piece ? form->piece_object : form->object, (long long)reply->created);
    rf_write_text(out, text);
    reply_write_json(out, json_string(reply->model));
    rf_write_text(out, ",\"system_fingerprint\":");
    reply_write_json(out, json_string(reply->fingerprint));
    rf_write_text(out, ",\"choices\":[");
}

/* ---- log-probabilities ---- */

/* The text of a token; its bytes need not be whole characters. */
struct token_text {
    char text[256];
    size_t bytes;
};

static struct token_text text_of(int64_t bytes, struct token_text text)
{
    text.bytes = bytes < 0                           ? 0
                 : bytes < (int64_t)sizeof text.text ? (size_t)bytes
                                                     : sizeof text.text;
    return text;
}

static struct token_text token_text(const riffle_model *model, int32_t token)
{
    struct token_text text;
    int64_t n =
        riffle_detokenize(model, &token, 1, RIFFLE_DETOKENIZE_SPECIAL, text.text, sizeof text.text);
    return text_of(n, text);
}

static int is_utf8(const char *text, size_t bytes)
{
    size_t n;
    for (size_t at = 0; at < bytes; at += n)
        if (!(n = rf_utf8_length(text + at, bytes - at))) return 0;
    return 1;
}

/* Written without jansson's objects, since a reply may have a million of these. */
void reply_write_token_text(struct rf_writer *out, const riffle_model *model, int32_t token)
{
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    struct token_text text = token_text(model, token);
    char escape[8];
    if (!is_utf8(text.text, text.bytes)) {
        rf_write_text(out, "\"\xef\xbf\xbd\"");
        return;
    }
    rf_write_text(out, "\"");
    for (size_t i = 0, from = 0; i <= text.bytes; i++) {
        unsigned char c = i < text.bytes ? (unsigned char)text.text[i] : 0;
        if (i < text.bytes && c >= 0x20 && c != '"' && c != '\\') continue;
        if (i > from) rf_write(out, text.text + from, i - from);
        from = i + 1;
        if (i == text.bytes) break;
        const char *found = c ? strchr(escapes, c) : NULL;
        snprintf(escape, sizeof escape, found ? "\\%c" : "\\u%04X", found ? found[1] : c);
        rf_write_text(out, escape);
    }
    rf_write_text(out, "\"");
}

void reply_write_token_bytes(struct rf_writer *out, const riffle_model *model, int32_t token)
{
    struct token_text text = token_text(model, token);
    char number[8];
    rf_write_text(out, "[");
    for (size_t i = 0; i < text.bytes; i++) {
        snprintf(number, sizeof number, "%s%d", i ? "," : "", (unsigned char)text.text[i]);
        rf_write_text(out, number);
    }
    rf_write_text(out, "]");
}

void reply_write_logprob(struct rf_writer *out, float logprob)
{
    /* JSON has no infinity. */
    reply_write_real(out, logprob < -9999.0f ? -9999.0f : logprob);
}

/* {"token", "logprob", "bytes"}, without its end. */
static void write_chat_token(struct rf_writer *out, const riffle_model *model,
                             const riffle_logprob *found)
{
    rf_write_text(out, "{\"token\":");
    reply_write_token_text(out, model, found->token);
    rf_write_text(out, ",\"logprob\":");
    reply_write_logprob(out, found->logprob);
    rf_write_text(out, ",\"bytes\":");
    reply_write_token_bytes(out, model, found->token);
}

int reply_add_chat_token(struct reply_tokens *tokens, const riffle_model *model,
                         const riffle_logprobs *logprobs, int has_logprob)
{
    struct rf_error error;
    struct rf_writer out = reply_writer(&tokens->lists[0], &error);
    (void)has_logprob; /* chats do not echo */
    if (tokens->n) rf_write_text(&out, ",");
    write_chat_token(&out, model, &logprobs->chosen);
    rf_write_text(&out, ",\"top_logprobs\":[");
    for (int32_t i = 0; i < logprobs->n_top; i++) {
        if (i) rf_write_text(&out, ",");
        write_chat_token(&out, model, &logprobs->top[i]);
        rf_write_text(&out, "}");
    }
    rf_write_text(&out, "]}");
    return out.code;
}

static size_t count_characters(const struct token_text *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->bytes; i++) n += ((unsigned char)text->text[i] & 0xc0) != 0x80;
    return n;
}

static int add_token(const struct reply_form *form, struct reply_tokens *tokens,
                     const riffle_model *model, const riffle_logprobs *logprobs, int has_logprob,
                     const struct token_text *shown)
{
    size_t before = reply_tokens_bytes(tokens);
    int code = form->add_token(tokens, model, logprobs, has_logprob);
    tokens->n++;
    tokens->offset += count_characters(shown);
    tokens->total += reply_tokens_bytes(tokens) - before;
    return code;
}

int reply_add_token(const struct reply_form *form, struct reply_tokens *tokens,
                    const riffle_model *model, const riffle_logprobs *logprobs)
{
    struct token_text shown = token_text(model, logprobs->chosen.token);
    return add_token(form, tokens, model, logprobs, 1, &shown);
}

int reply_add_prompt_token(const struct reply_form *form, struct reply_tokens *tokens,
                           const riffle_model *model, const int32_t *ids, size_t n,
                           const riffle_logprobs *logprobs)
{
    const riffle_logprobs none = {.chosen = {ids[n - 1], 0.0f}};
    struct token_text shown;
    int64_t bytes = tokens->has_echoed
                        ? riffle_detokenize(model, ids + n - 1, 1, 0, shown.text, sizeof shown.text)
                        : riffle_detokenize(model, ids, n, RIFFLE_DETOKENIZE_START, shown.text,
                                            sizeof shown.text);
    shown = text_of(bytes, shown);
    tokens->has_echoed |= shown.bytes > 0;
    return add_token(form, tokens, model, logprobs ? logprobs : &none, logprobs != NULL, &shown);
}

size_t reply_tokens_bytes(const struct reply_tokens *tokens)
{
    size_t bytes = 0;
    for (size_t i = 0; i < REPLY_LISTS; i++) bytes += tokens->lists[i].count;
    return bytes;
}

void reply_tokens_clear(struct reply_tokens *tokens)
{
    for (size_t i = 0; i < REPLY_LISTS; i++) tokens->lists[i].count = 0;
    tokens->n = 0;
}

void reply_tokens_free(struct reply_tokens *tokens)
{
    for (size_t i = 0; i < REPLY_LISTS; i++) rf_bytes_free(&rf_system_allocator, &tokens->lists[i]);
}

/* ---- answers ---- */

static void write_choice(struct rf_writer *out, const struct reply *reply,
                         const struct reply_part *part, int is_piece)
{
    size_t at = out->bytes->count;
    char text[64];
    reply_write_json(out, reply->form->say(part, is_piece));
    if (out->bytes->count > at) out->bytes->count--; /* the object goes on */
    snprintf(text, sizeof text, ",\"index\":%d,\"logprobs\":", part->index);
    rf_write_text(out, text);
    if (part->tokens)
        reply->form->write_tokens(out, part->tokens);
    else
        rf_write_text(out, "null");
    rf_write_text(out, ",\"finish_reason\":");
    reply_write_json(out, part->finish ? json_string(part->finish) : json_null());
    if (is_piece && reply->question->tells_levels && part->bytes + part->thought_bytes) {
        rf_write_text(out, ",\"level\":");
        reply_write_json(out, json_integer(part->level));
    }
    rf_write_text(out, "}");
}

char *reply_whole(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    write_frame(&out, reply, 0);
    for (int32_t i = 0; i < n_parts; i++) {
        if (i) rf_write_text(&out, ",");
        write_choice(&out, reply, &parts[i], 0);
    }
    rf_write_text(&out, "],\"usage\":");
    reply_write_json(&out, usage_object(usage));
    rf_write_text(&out, "}");
    return reply_take(&bytes, &out);
}

char *reply_known(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage)
{
    (void)parts, (void)n_parts, (void)usage;
    return strdup(reply->question->known);
}

/* The end of a piece: where the usage is told at the end, all other pieces say that it is null. */
static void end_piece(const struct reply *reply, struct rf_writer *out,
                      const struct reply_usage *usage)
{
    rf_write_text(out, "]");
    if (reply->question->tells_usage) {
        rf_write_text(out, ",\"usage\":");
        reply_write_json(out, usage ? usage_object(usage) : json_null());
    }
    rf_write_text(out, "}\n\n");
}

char *reply_piece(const struct reply *reply, const struct reply_part *part)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    if (reply->form->piece) return reply->form->piece(reply, part);
    rf_write_text(&out, "data: ");
    write_frame(&out, reply, 1);
    write_choice(&out, reply, part, 1);
    end_piece(reply, &out, NULL);
    return reply_take(&bytes, &out);
}

char *reply_end(const struct reply *reply, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    if (reply->form->end) return reply->form->end(reply, usage);
    if (reply->question->tells_usage) {
        rf_write_text(&out, "data: ");
        write_frame(&out, reply, 1);
        end_piece(reply, &out, usage);
    }
    rf_write_text(&out, "data: [DONE]\n\n");
    return reply_take(&bytes, &out);
}

/* ---- refusals ---- */

static json_t *refusal_object(const struct refusal *refusal)
{
    const char *type = refusal->status == 429   ? "rate_limit_error"
                       : refusal->status == 401 ? "authentication_error"
                       : refusal->status >= 500 && refusal->status <= 503 && refusal->status != 501
                           ? "server_error"
                           : "invalid_request_error";
    json_t *text = json_string(refusal->text);
    if (!text) text = json_string("the request has bytes that are not UTF-8");
    json_t *param = refusal->param[0] ? json_string(refusal->param) : NULL;
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", text, "type", type, "param",
                     param ? param : json_null(), "code", refusal->code);
}

char *reply_refusal(const struct reply_form *form, const struct refusal *refusal,
                    const struct reply *begun)
{
    if (form && form->refusal) return form->refusal(refusal, begun);
    return reply_write(refusal_object(refusal), begun != NULL);
}
