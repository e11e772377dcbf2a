/* POST /v1/responses: the answer to a conversation, in the form of OpenAI's Responses interface,
 * which stores nothing here. The chat's endpoint reads the translated question, so the answer has
 * the tokens of the chat's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "platform/memory.h"
#include "requests/members.h"
#include "serve/endpoint.h"
#include "translate/items.h"
#include "translate/spaces.h"

extern const struct endpoint endpoint_chat_completions;

/* ---- the question ---- */

/* The members of the request that its responses repeat. NULL: no memory. */
static json_t *response_told(const json_t *body)
{
    static const char *const names[] = {
        "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning", "text",
        "tools",        "tool_choice"};
    json_t *told =
        json_pack("{s:n, s:n, s:{}, s:b, s:{s:n, s:n}, s:{s:{s:s}}, s:[], s:s}", "instructions",
                  "max_output_tokens", "metadata", "parallel_tool_calls", 1, "reasoning", "effort",
                  "summary", "text", "format", "type", "text", "tools", "tool_choice", "auto");
    for (size_t i = 0; told && i < sizeof names / sizeof *names; i++) {
        json_t *given = (json_t *)member_get(body, names[i]);
        if (given) json_object_set(told, names[i], given);
    }
    return told;
}

static int response_take(const json_t *body, const struct answerer *of, struct question *question,
                         struct refusal *refusal)
{
    json_t *chat = items_to_chat(body, of, refusal);
    int code = chat ? endpoint_chat_completions.take(chat, of, question, refusal) : -1;
    json_decref(chat);
    if (code) return code;
    question->told = response_told(body);
    return question->told ? 0 : refuse_memory(refusal);
}

/* ---- items ---- */

enum item_kind { ITEM_NONE, ITEM_THOUGHT, ITEM_TEXT, ITEM_CALL };

enum { ITEM_ID = 48 };

static void item_id(char id[ITEM_ID], const struct reply *reply, int kind, int index)
{
    static const char *const beginnings[] = {"", "rs", "msg", "fc"};
    snprintf(id, ITEM_ID, "%s_%016" PRIx64 "_%d", beginnings[kind], reply->id, index);
}

static json_t *item_part(int kind, const char *text, size_t bytes)
{
    return kind == ITEM_TEXT
               ? json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text",
                           reply_text(text, bytes), "annotations", "logprobs")
               : json_pack("{s:s, s:o}", "type", "reasoning_text", "text", reply_text(text, bytes));
}

/* Takes the content. */
static json_t *item_make(const struct reply *reply, int kind, int index, const char *status,
                         json_t *content)
{
    char id[ITEM_ID];
    item_id(id, reply, kind, index);
    return kind == ITEM_TEXT
               ? json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status",
                           status, "role", "assistant", "content", content)
               : json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", id, "type", "reasoning", "status",
                           status, "summary", "content", content);
}

static json_t *item_of_text(const struct reply *reply, int kind, int index, const char *status,
                            const char *text, size_t bytes)
{
    return item_make(reply, kind, index, status, json_pack("[o]", item_part(kind, text, bytes)));
}

static json_t *call_member(const json_t *call, const char *name)
{
    return json_object_get(json_object_get(call, "function"), name);
}

/* Takes the arguments. */
static json_t *item_of_call(const struct reply *reply, int index, const char *status,
                            const json_t *call, json_t *arguments)
{
    char id[ITEM_ID];
    json_t *space, *name;
    spaces_split(json_object_get(reply->question->told, "tools"), call_member(call, "name"), &space,
                 &name);
    item_id(id, reply, ITEM_CALL, index);
    return json_pack("{s:s, s:s, s:s, s:O, s:O*, s:O, s:o}", "id", id, "type", "function_call",
                     "status", status, "call_id", json_object_get(call, "id"), "namespace", space,
                     "name", name, "arguments", arguments);
}

/* ---- the response ---- */

static const char *status_of(const char *finish)
{
    return strcmp(finish, "length") == 0 ? "incomplete" : "completed";
}

static json_t *response_usage(const struct reply_usage *usage)
{
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)usage->prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)usage->kept,
                     "output_tokens", (json_int_t)usage->generated, "output_tokens_details",
                     "reasoning_tokens", (json_int_t)usage->thought, "total_tokens",
                     (json_int_t)(usage->prompt + usage->generated));
}

static json_t *response_error(const struct refusal *refusal)
{
    const char *code = refusal->code && refusal->status < 500 ? refusal->code
                       : refusal->status < 500                ? "invalid_prompt"
                                                              : "server_error";
    json_t *text = json_string(refusal->text);
    if (!text) text = json_string("the answer failed");
    return json_pack("{s:s, s:o}", "code", code, "message", text);
}

/* A response. Takes the output. The usage is NULL while it is not known, the refusal where there is
 * none. */
static json_t *response_make(const struct reply *reply, const char *status, json_t *output,
                             const struct reply_usage *usage, const struct refusal *refusal)
{
    const riffle_sampling *sampling = &reply->question->sampling;
    char id[32];
    snprintf(id, sizeof id, "resp_%016" PRIx64, reply->id);
    json_t *incomplete = strcmp(status, "incomplete") == 0
                             ? json_pack("{s:s}", "reason", "max_output_tokens")
                             : json_null();
    json_t *response = json_pack(
        "{s:s, s:s, s:I, s:s, s:o, s:o, s:s, s:o, s:o, s:f, s:f, s:b, s:b, s:n, s:s, s:s}", "id",
        id, "object", "response", "created_at", (json_int_t)reply->created, "status", status,
        "error", refusal ? response_error(refusal) : json_null(), "incomplete_details", incomplete,
        "model", reply->model, "output", output, "usage",
        usage ? response_usage(usage) : json_null(), "temperature",
        rf_double_of_float(sampling->temperature), "top_p", rf_double_of_float(sampling->top_p),
        "background", 0, "store", 0, "previous_response_id", "service_tier", "default",
        "truncation", "disabled");
    json_object_update_missing(response, reply->question->told);
    return response;
}

/* NULL: out of memory. A cut answer ends within its last item. */
static json_t *response_output(const struct reply *reply, const struct reply_part *part)
{
    json_t *output = json_array();
    const char *status = status_of(part->finish);
    int n = 0, code = output ? 0 : -1;
    if (!code && part->thought_bytes)
        code = json_array_append_new(output, item_of_text(reply, ITEM_THOUGHT, n++,
                                                          part->bytes ? "completed" : status,
                                                          part->thought, part->thought_bytes));
    if (!code && part->bytes)
        code = json_array_append_new(
            output, item_of_text(reply, ITEM_TEXT, n++, status, part->text, part->bytes));
    for (size_t i = 0; !code && i < json_array_size(part->calls); i++) {
        const json_t *call = json_array_get(part->calls, i);
        json_t *arguments = json_incref(call_member(call, "arguments"));
        code = json_array_append_new(output, item_of_call(reply, n++, status, call, arguments));
    }
    if (!code) return output;
    json_decref(output);
    return NULL;
}

static char *response_reply(const struct reply *reply, const struct reply_part *parts,
                            int32_t n_parts, const struct reply_usage *usage)
{
    (void)n_parts; /* one */
    json_t *output = response_output(reply, &parts[0]);
    json_t *response =
        output ? response_make(reply, status_of(parts[0].finish), output, usage, NULL) : NULL;
    return response ? reply_write(response, 0) : NULL;
}

/* ---- the stream ---- */

/* Writes an event, whose members are taken. */
static void put_event(struct rf_writer *out, struct reply_blocks *blocks, const char *type,
                      json_t *members)
{
    json_t *event =
        json_pack("{s:s, s:I}", "type", type, "sequence_number", (json_int_t)blocks->n_events++);
    if (json_object_update(event, members)) {
        json_decref(event);
        event = NULL;
    }
    json_decref(members);
    reply_write_event(out, event);
}

/* An event about the open item; takes the value of `name`. */
static void put_about(struct rf_writer *out, const struct reply *reply, const char *type,
                      const char *name, json_t *value)
{
    struct reply_blocks *blocks = reply->blocks;
    char id[ITEM_ID];
    item_id(id, reply, blocks->open, blocks->n - 1);
    json_t *members =
        json_pack("{s:s, s:i, s:o}", "item_id", id, "output_index", blocks->n - 1, name, value);
    if (blocks->open != ITEM_CALL) json_object_set_new(members, "content_index", json_integer(0));
    if (strncmp(type, "response.output_text", 20) == 0)
        json_object_set_new(members, "logprobs", json_array());
    put_event(out, blocks, type, members);
}

/* Begins or ends an item, which is taken. */
static void put_item(struct rf_writer *out, struct reply_blocks *blocks, const char *type,
                     json_t *item)
{
    put_event(out, blocks, type,
              json_pack("{s:i, s:o}", "output_index", blocks->n - 1, "item", item));
}

/* Ends the open item, which is taken, and keeps it for the end of the stream. */
static void end_item(struct rf_writer *out, struct reply_blocks *blocks, json_t *item)
{
    if (!blocks->items) blocks->items = json_array();
    if (json_array_append(blocks->items, item) && !out->code)
        out->code = rf_fail(out->error, RF_ERR_MEMORY, "out of memory");
    put_item(out, blocks, "response.output_item.done", item);
    blocks->open = ITEM_NONE;
    blocks->text.count = 0;
}

static void close_item(struct rf_writer *out, const struct reply *reply, const char *status)
{
    struct reply_blocks *blocks = reply->blocks;
    const char *text = blocks->text.data;
    size_t bytes = blocks->text.count;
    int kind = blocks->open;
    if (kind == ITEM_NONE) return;
    put_about(out, reply,
              kind == ITEM_TEXT ? "response.output_text.done" : "response.reasoning_text.done",
              "text", reply_text(text, bytes));
    put_about(out, reply, "response.content_part.done", "part", item_part(kind, text, bytes));
    end_item(out, blocks, item_of_text(reply, kind, blocks->n - 1, status, text, bytes));
}

/* Ends the item before. */
static void open_item(struct rf_writer *out, const struct reply *reply, int kind)
{
    struct reply_blocks *blocks = reply->blocks;
    close_item(out, reply, "completed");
    blocks->open = kind;
    blocks->n++;
    put_item(out, blocks, "response.output_item.added",
             item_make(reply, kind, blocks->n - 1, "in_progress", json_array()));
    put_about(out, reply, "response.content_part.added", "part", item_part(kind, "", 0));
}

static void put_item_text(struct rf_writer *out, const struct reply *reply, int kind,
                          const char *text, size_t bytes)
{
    struct reply_blocks *blocks = reply->blocks;
    if (!bytes) return;
    if (blocks->open != kind) open_item(out, reply, kind);
    int code = rf_bytes_append(&rf_system_allocator, &blocks->text, text, bytes, out->error);
    if (!out->code) out->code = code;
    put_about(out, reply,
              kind == ITEM_TEXT ? "response.output_text.delta" : "response.reasoning_text.delta",
              "delta", reply_text(text, bytes));
}

static void put_call(struct rf_writer *out, const struct reply *reply, const json_t *call)
{
    struct reply_blocks *blocks = reply->blocks;
    json_t *arguments = call_member(call, "arguments");
    close_item(out, reply, "completed");
    blocks->open = ITEM_CALL;
    int index = blocks->n++;
    json_t *item = item_of_call(reply, index, "completed", call, json_incref(arguments));
    put_item(out, blocks, "response.output_item.added",
             item_of_call(reply, index, "in_progress", call, json_string("")));
    put_about(out, reply, "response.function_call_arguments.delta", "delta",
              json_incref(arguments));
    put_event(out, blocks, "response.function_call_arguments.done",
              json_pack("{s:O, s:i, s:O, s:O}", "item_id", json_object_get(item, "id"),
                        "output_index", index, "name", json_object_get(item, "name"), "arguments",
                        arguments));
    end_item(out, blocks, item);
}

/* An event with the response, which is taken. */
static void put_response(struct rf_writer *out, const struct reply *reply, const char *type,
                         json_t *response)
{
    put_event(out, reply->blocks, type, json_pack("{s:o}", "response", response));
}

static void put_response_start(struct rf_writer *out, const struct reply *reply)
{
    static const char status[] = "in_progress";
    put_response(out, reply, "response.created",
                 response_make(reply, status, json_array(), NULL, NULL));
    put_response(out, reply, "response.in_progress",
                 response_make(reply, status, json_array(), NULL, NULL));
    reply->blocks->has_begun = 1;
}

static char *response_piece(const struct reply *reply, const struct reply_part *part)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    if (!reply->blocks->has_begun) put_response_start(&out, reply);
    put_item_text(&out, reply, ITEM_THOUGHT, part->thought, part->thought_bytes);
    put_item_text(&out, reply, ITEM_TEXT, part->text, part->bytes);
    for (size_t i = 0; i < json_array_size(part->calls); i++)
        put_call(&out, reply, json_array_get(part->calls, i));
    if (part->finish) {
        close_item(&out, reply, status_of(part->finish));
        reply->blocks->finish = part->finish;
    }
    return reply_take(&bytes, &out);
}

/* The last event: what the stream has said, as a whole. */
static char *response_last(const struct reply *reply, const char *status,
                           const struct reply_usage *usage, const struct refusal *refusal)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    json_t *items = reply->blocks->items;
    char type[32];
    snprintf(type, sizeof type, "response.%s", status);
    put_response(
        &out, reply, type,
        response_make(reply, status, items ? json_incref(items) : json_array(), usage, refusal));
    return reply_take(&bytes, &out);
}

static char *response_end(const struct reply *reply, const struct reply_usage *usage)
{
    return response_last(reply, status_of(reply->blocks->finish), usage, NULL);
}

static char *response_refusal(const struct refusal *refusal, const struct reply *begun)
{
    return begun ? response_last(begun, "failed", NULL, refusal)
                 : reply_refusal(NULL, refusal, NULL);
}

static const struct reply_form response_form = {.whole = response_reply,
                                                .piece = response_piece,
                                                .end = response_end,
                                                .refusal = response_refusal};

const struct endpoint endpoint_responses = {"POST", "/v1/responses", .most_body = ENDPOINT_BODY,
                                            .take = response_take, .form = &response_form};
