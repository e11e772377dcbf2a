#include "serve/reply.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the value. As JSON, or as a server-sent event. */
static char *write_out(json_t *value, int is_event)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL, *event = NULL;
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

static json_t *usage_of(const riffle_answer *answer)
{
    return json_pack("{s:i, s:i, s:i, s:{s:i}, s:{s:I, s:I}}", "prompt_tokens",
                     answer->prompt_tokens, "completion_tokens", answer->generated_tokens,
                     "total_tokens", answer->prompt_tokens + answer->generated_tokens,
                     "prompt_tokens_details", "cached_tokens", answer->kept_tokens,
                     "completion_tokens_details", "accepted_prediction_tokens",
                     (json_int_t)answer->accepted, "rejected_prediction_tokens",
                     (json_int_t)(answer->drafted - answer->accepted));
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

char *reply_whole(const struct reply *reply, const char *text, size_t bytes,
                  const riffle_answer *answer)
{
    const char *finish = reply_finish(answer->finish);
    json_t *said = text_of(text, bytes);
    json_t *choice =
        reply->kind == QUESTION_CHAT
            ? json_pack("{s:i, s:{s:s, s:o}, s:s, s:n}", "index", 0, "message", "role", "assistant",
                        "content", said, "finish_reason", finish, "logprobs")
            : json_pack("{s:i, s:o, s:s, s:n}", "index", 0, "text", said, "finish_reason", finish,
                        "logprobs");
    return write_out(frame(reply, 0, json_pack("[o]", choice), usage_of(answer)), 0);
}

char *reply_piece(const struct reply *reply, const char *text, size_t bytes, int is_first,
                  const char *finish)
{
    json_t *choice;
    if (reply->kind == QUESTION_CHAT) {
        json_t *delta = json_object();
        if (is_first) json_object_set_new(delta, "role", json_string("assistant"));
        if (bytes || is_first) json_object_set_new(delta, "content", text_of(text, bytes));
        choice = json_pack("{s:i, s:o, s:s?, s:n}", "index", 0, "delta", delta, "finish_reason",
                           finish, "logprobs");
    } else {
        choice = json_pack("{s:i, s:o, s:s?, s:n}", "index", 0, "text", text_of(text, bytes),
                           "finish_reason", finish, "logprobs");
    }
    return write_out(frame(reply, 1, json_pack("[o]", choice), NULL), 1);
}

char *reply_usage(const struct reply *reply, const riffle_answer *answer)
{
    return write_out(frame(reply, 1, json_array(), usage_of(answer)), 1);
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
