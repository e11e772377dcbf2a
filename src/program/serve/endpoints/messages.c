/* POST /v1/messages: the answer to a conversation, in Anthropic's form. The chat's endpoint reads
 * the translated question, so the answer has the tokens of the chat's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "serve/endpoint.h"
#include "serve/endpoints/messages.h"
#include "translate/blocks.h"

extern const struct endpoint endpoint_chat_completions;

/* ---- the question ---- */

int messages_take(const json_t *body, const struct answerer *of, int has_most,
                  struct question *question, struct refusal *refusal)
{
    json_t *chat = blocks_to_chat(body, of, has_most, refusal);
    int code = chat ? endpoint_chat_completions.take(chat, of, question, refusal) : -1;
    json_decref(chat);
    return code;
}

static int messages_take_question(const json_t *body, const struct answerer *of,
                                  struct question *question, struct refusal *refusal)
{
    return messages_take(body, of, 1, question, refusal);
}

/* ---- the reply ---- */

enum block_kind { BLOCK_NONE, BLOCK_TEXT, BLOCK_THOUGHT, BLOCK_CALL };

static const char *stop_reason(const char *finish, const char *stop)
{
    return strcmp(finish, "tool_calls") == 0 ? "tool_use"
           : strcmp(finish, "length") == 0   ? "max_tokens"
           : stop                            ? "stop_sequence"
                                             : "end_turn";
}

/* The stop text that is told with the reason. */
static const char *stop_told(const char *finish, const char *stop)
{
    return strcmp(stop_reason(finish, stop), "stop_sequence") == 0 ? stop : NULL;
}

static json_t *message_usage(const struct reply_usage *usage)
{
    return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens",
                     (json_int_t)(usage->prompt - usage->kept), "cache_creation_input_tokens", 0,
                     "cache_read_input_tokens", (json_int_t)usage->kept, "output_tokens",
                     (json_int_t)usage->generated);
}

/* A message; takes the content. */
static json_t *message_make(const struct reply *reply, json_t *content, const char *reason,
                            const char *stop, const struct reply_usage *usage)
{
    char id[32];
    snprintf(id, sizeof id, "msg_%016" PRIx64, reply->id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id", id, "type", "message",
                     "role", "assistant", "model", reply->model, "content", content, "stop_reason",
                     reason, "stop_sequence", stop, "usage", message_usage(usage));
}

static json_t *call_name(const json_t *call)
{
    return json_object_get(json_object_get(call, "function"), "name");
}

static json_t *call_arguments(const json_t *call)
{
    return json_object_get(json_object_get(call, "function"), "arguments");
}

static json_t *call_block(const json_t *call, json_t *input)
{
    return json_pack("{s:s, s:O, s:O, s:o}", "type", "tool_use", "id", json_object_get(call, "id"),
                     "name", call_name(call), "input", input);
}

/* NULL: out of memory. */
static json_t *message_content(const struct reply_part *part)
{
    json_t *content = json_array();
    int code = content ? 0 : -1;
    if (!code && part->thought_bytes)
        code = json_array_append_new(
            content, json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                               reply_text(part->thought, part->thought_bytes), "signature", ""));
    if (!code && part->bytes)
        code = json_array_append_new(content, json_pack("{s:s, s:o}", "type", "text", "text",
                                                        reply_text(part->text, part->bytes)));
    for (size_t i = 0; !code && i < json_array_size(part->calls); i++) {
        const json_t *call = json_array_get(part->calls, i), *text = call_arguments(call);
        json_t *input = rf_json_load(json_string_value(text), json_string_length(text), NULL, NULL);
        code = json_array_append_new(content, call_block(call, input));
    }
    if (!code) return content;
    json_decref(content);
    return NULL;
}

static char *message_reply(const struct reply *reply, const struct reply_part *parts,
                           int32_t n_parts, const struct reply_usage *usage)
{
    const struct reply_part *part = &parts[0];
    (void)n_parts; /* one */
    json_t *message =
        message_make(reply, message_content(part), stop_reason(part->finish, part->stop),
                     stop_told(part->finish, part->stop), usage);
    return message ? reply_write(message, 0) : NULL;
}

/* ---- the stream ---- */

static void put_delta(struct rf_writer *out, const struct reply_blocks *blocks, const char *type,
                      const char *name, json_t *text)
{
    reply_write_event(out, json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta",
                                     "index", blocks->n - 1, "delta", "type", type, name, text));
}

static void close_block(struct rf_writer *out, struct reply_blocks *blocks)
{
    if (!blocks->open) return;
    if (blocks->open == BLOCK_THOUGHT)
        put_delta(out, blocks, "signature_delta", "signature", json_string(""));
    reply_write_event(
        out, json_pack("{s:s, s:i}", "type", "content_block_stop", "index", blocks->n - 1));
    blocks->open = BLOCK_NONE;
}

/* Takes the block. */
static void open_block(struct rf_writer *out, struct reply_blocks *blocks, enum block_kind kind,
                       json_t *block)
{
    close_block(out, blocks);
    blocks->open = (int)kind;
    reply_write_event(out, json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index",
                                     blocks->n++, "content_block", block));
}

static void put_text(struct rf_writer *out, struct reply_blocks *blocks,
                     const struct reply_part *part)
{
    if (!part->bytes) return;
    if (blocks->open != BLOCK_TEXT)
        open_block(out, blocks, BLOCK_TEXT, json_pack("{s:s, s:s}", "type", "text", "text", ""));
    put_delta(out, blocks, "text_delta", "text", reply_text(part->text, part->bytes));
}

static void put_thought(struct rf_writer *out, struct reply_blocks *blocks,
                        const struct reply_part *part)
{
    if (!part->thought_bytes) return;
    if (blocks->open != BLOCK_THOUGHT)
        open_block(
            out, blocks, BLOCK_THOUGHT,
            json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
    put_delta(out, blocks, "thinking_delta", "thinking",
              reply_text(part->thought, part->thought_bytes));
}

static void put_calls(struct rf_writer *out, struct reply_blocks *blocks, const json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        open_block(out, blocks, BLOCK_CALL, call_block(call, json_object()));
        put_delta(out, blocks, "input_json_delta", "partial_json",
                  json_incref(call_arguments(call)));
        close_block(out, blocks);
    }
}

/* How many of the prompt's tokens were kept is known at the end only. */
static void put_start(struct rf_writer *out, const struct reply *reply)
{
    struct reply_usage usage = {.prompt = (int64_t)reply->question->prompts[0].n};
    json_t *message = message_make(reply, json_array(), NULL, NULL, &usage);
    reply_write_event(out, json_pack("{s:s, s:o}", "type", "message_start", "message", message));
    reply_write_event(out, json_pack("{s:s}", "type", "ping"));
    reply->blocks->has_begun = 1;
}

static char *message_piece(const struct reply *reply, const struct reply_part *part)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    if (!reply->blocks->has_begun) put_start(&out, reply);
    put_thought(&out, reply->blocks, part);
    put_text(&out, reply->blocks, part);
    put_calls(&out, reply->blocks, part->calls);
    if (part->finish) {
        close_block(&out, reply->blocks);
        reply->blocks->finish = part->finish;
        reply->blocks->stop = part->stop;
    }
    return reply_take(&bytes, &out);
}

static char *message_end(const struct reply *reply, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    const struct reply_blocks *blocks = reply->blocks;
    reply_write_event(&out, json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta",
                                      "stop_reason", stop_reason(blocks->finish, blocks->stop),
                                      "stop_sequence", stop_told(blocks->finish, blocks->stop),
                                      "usage", message_usage(usage)));
    reply_write_event(&out, json_pack("{s:s}", "type", "message_stop"));
    return reply_take(&bytes, &out);
}

/* ---- refusals ---- */

static const char *refusal_type(int status)
{
    return status == 401   ? "authentication_error"
           : status == 403 ? "permission_error"
           : status == 404 ? "not_found_error"
           : status == 413 ? "request_too_large"
           : status == 429 ? "overloaded_error"
           : status == 503 ? "overloaded_error"
           : status >= 500 ? "api_error"
                           : "invalid_request_error";
}

char *messages_refusal(const struct refusal *refusal, const struct reply *begun)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    json_t *text = json_string(refusal->text);
    if (!text) text = json_string("the request has bytes that are not UTF-8");
    json_t *value = json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type",
                              refusal_type(refusal->status), "message", text);
    if (!begun) return reply_write(value, 0);
    reply_write_event(&out, value);
    return reply_take(&bytes, &out);
}

static const struct reply_form message_form = {.whole = message_reply,
                                               .piece = message_piece,
                                               .end = message_end,
                                               .refusal = messages_refusal};

const struct endpoint endpoint_messages = {"POST", "/v1/messages", .most_body = ENDPOINT_BODY,
                                           .take = messages_take_question, .form = &message_form};
