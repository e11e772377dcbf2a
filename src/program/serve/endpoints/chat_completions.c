/* POST /v1/chat/completions: the answer to a conversation, with thoughts and calls of tools.
 * Streamed pieces have "delta" where whole replies have "message". */
#include <string.h>

#include "base/json.h"
#include "messages/messages.h"
#include "requests/accepted.h"
#include "requests/limits.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "requests/tool_choice.h"
#include "serve/endpoint.h"

/* ---- the question ---- */

static int chat_take_logprobs(const json_t *body, struct question *question,
                              struct refusal *refusal)
{
    int32_t *top = &question->top_logprobs;
    if (member_flag(body, "logprobs", &question->wants_logprobs, refusal)) return -1;
    if (member_int(body, "top_logprobs", 0, RIFFLE_MOST_LOGPROBS, top, refusal)) return -1;
    if (*top && !question->wants_logprobs)
        return refuse(refusal, 400, "invalid_value", "top_logprobs is without logprobs");
    return 0;
}

/* Copies the members of the request that templates may read beside the messages. */
static int tell_template(const json_t *body, const struct answerer *of, json_t *conversation,
                         struct refusal *refusal)
{
    json_t *more = (json_t *)member_get(body, "chat_template_kwargs"),
           *effort = (json_t *)member_get(body, "reasoning_effort");
    if (more && !rf_json_is_map(more))
        return refuse_value(refusal, "chat_template_kwargs", "an object");
    if (effort && !json_is_string(effort))
        return refuse_value(refusal, "reasoning_effort", "a text");
    if (effort && !of->has_effort) {
        refuse(refusal, 400, "unsupported_parameter",
               "reasoning_effort is not supported: the model's chat template does not read it");
        return refuse_param(refusal, "reasoning_effort");
    }
    if (effort) json_object_set(conversation, "reasoning_effort", effort);
    json_object_update_missing(conversation, more);
    return 0;
}

static int chat_take_messages(const json_t *body, const struct answerer *of,
                              struct question *question, struct refusal *refusal)
{
    size_t n = json_array_size(member_get(body, "messages"));
    if (of->n_ctx && n > (size_t)of->n_ctx)
        return refuse(refusal, 400, "context_length_exceeded",
                      "the conversation has %zu messages, n_ctx is %d", n, of->n_ctx);
    if (prompts_make(question, 1, refusal)) return -1;
    json_t *conversation =
        conversation_make(member_get(body, "messages"), question->tools, refusal);
    if (!conversation) return -1;
    int code = tell_template(body, of, conversation, refusal);
    json_t *adapted = code ? NULL : rf_tools_adapt(&of->tools, conversation);
    if (!code && !adapted) code = refuse_memory(refusal);
    if (!code) code = prompt_add_chat(question->prompts, of->model, adapted, refusal);
    json_decref(adapted);
    json_decref(conversation);
    return code;
}

/* A limited answer has no thoughts, so those that the prompt has opened end there; then comes the
 * beginning of a call. */
static int chat_limit(const struct answerer *of, struct question *question, struct refusal *refusal)
{
    const char *opening = question->opening;
    if (!question->schema) return 0;
    if (prompt_end_thoughts(question->prompts, of->model, of->thoughts, refusal)) return -1;
    return opening && *opening ? prompt_add_text(question->prompts, of->model, opening,
                                                 strlen(opening), RIFFLE_TOKENIZE_SPECIAL, refusal)
                               : 0;
}

static int chat_take(const json_t *body, const struct answerer *of, struct question *question,
                     struct refusal *refusal)
{
    if (accepted_check(body, ACCEPTED_CHAT, refusal)) return -1;
    if (question_take_answer(body, 1, question, refusal)) return -1;
    if (chat_take_logprobs(body, question, refusal)) return -1;
    if (question_take_bias(body, question, refusal)) return -1;
    if (tool_choice_take(body, of, 1, question, refusal)) return -1;
    if (chat_take_messages(body, of, question, refusal)) return -1;
    if (limits_take(body, question, refusal)) return -1;
    if (chat_limit(of, question, refusal)) return -1;
    question->has_thoughts = !question->schema;
    return 0;
}

/* ---- the reply ---- */

static json_t *chat_message(const struct reply_part *part)
{
    int has_calls = json_array_size(part->calls) > 0;
    json_t *message =
        json_pack("{s:s, s:o}", "role", "assistant", "content",
                  has_calls && !part->bytes ? json_null() : reply_text(part->text, part->bytes));
    if (part->thought_bytes)
        json_object_set_new(message, "reasoning_content",
                            reply_text(part->thought, part->thought_bytes));
    if (has_calls) json_object_set(message, "tool_calls", (json_t *)part->calls);
    return message;
}

static json_t *chat_delta(const struct reply_part *part)
{
    json_t *delta = json_object(), *calls = json_array();
    if (part->is_opening) {
        json_object_set_new(delta, "role", json_string("assistant"));
        json_object_set_new(delta, "content", json_string(""));
    }
    if (part->thought_bytes)
        json_object_set_new(delta, "reasoning_content",
                            reply_text(part->thought, part->thought_bytes));
    if (part->bytes) json_object_set_new(delta, "content", reply_text(part->text, part->bytes));
    for (size_t i = 0; i < json_array_size(part->calls); i++) {
        json_t *call = json_copy(json_array_get(part->calls, i));
        json_object_set_new(call, "index", json_integer(part->n_calls + (json_int_t)i));
        json_array_append_new(calls, call);
    }
    if (json_array_size(calls)) json_object_set(delta, "tool_calls", calls);
    json_decref(calls);
    return delta;
}

static json_t *chat_say(const struct reply_part *part, int is_piece)
{
    return is_piece ? json_pack("{s:o}", "delta", chat_delta(part))
                    : json_pack("{s:o}", "message", chat_message(part));
}

static void chat_write_tokens(struct rf_writer *out, const struct reply_tokens *tokens)
{
    rf_write_text(out, "{\"content\":[");
    rf_write(out, tokens->lists[0].data, tokens->lists[0].count);
    rf_write_text(out, "],\"refusal\":null}");
}

static const struct reply_form chat_form = {.whole = reply_whole,
                                            .id = "chatcmpl",
                                            .object = "chat.completion",
                                            .piece_object = "chat.completion.chunk",
                                            .has_opening = 1,
                                            .say = chat_say,
                                            .add_token = reply_add_chat_token,
                                            .write_tokens = chat_write_tokens};

const struct endpoint endpoint_chat_completions = {"POST", "/v1/chat/completions",
                                                   .most_body = ENDPOINT_BODY, .take = chat_take,
                                                   .form = &chat_form};
