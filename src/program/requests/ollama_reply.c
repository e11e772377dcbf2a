/* Writes replies in ollama's form. The last object of an answer has its counts, and its times in
 * nanoseconds; streams begin with the texts and end with it. */
#include "requests/ollama_reply.h"

#include <string.h>

#include "base/json.h"
#include "platform/clock.h"
#include "platform/memory.h"

static json_int_t nanoseconds(double seconds)
{
    return (json_int_t)(seconds * 1e9);
}

/* ---- what an answer says ---- */

/* Calls with their arguments as objects. */
static json_t *ollama_calls(const struct reply_part *part)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(part->calls); i++) {
        json_t *call = json_array_get(part->calls, i),
               *function = json_object_get(call, "function");
        const json_t *text = json_object_get(function, "arguments");
        json_t *arguments =
            rf_json_load(json_string_value(text), json_string_length(text), NULL, NULL);
        json_array_append_new(calls, json_pack("{s:O, s:{s:I, s:O, s:o}}", "id",
                                               json_object_get(call, "id"), "function", "index",
                                               (json_int_t)part->n_calls + (json_int_t)i, "name",
                                               json_object_get(function, "name"), "arguments",
                                               arguments ? arguments : json_object()));
    }
    return calls;
}

/* The members with the part's text; NULL: no memory. */
static json_t *ollama_say(const struct reply_form *form, const struct reply_part *part)
{
    int is_chat = form == &ollama_chat_form;
    json_t *text = reply_text(part->text, part->bytes);
    json_t *said = is_chat ? json_pack("{s:s, s:o}", "role", "assistant", "content", text)
                           : json_pack("{s:o}", "response", text);
    if (part->thought_bytes)
        json_object_set_new(said, "thinking", reply_text(part->thought, part->thought_bytes));
    if (json_array_size(part->calls)) json_object_set_new(said, "tool_calls", ollama_calls(part));
    return said && is_chat ? json_pack("{s:o}", "message", said) : said;
}

/* Writes an object of what the part says, with more members, which are taken. */
static void ollama_write(struct rf_writer *out, const struct reply_form *form, const char *model,
                         const struct reply_part *part, json_t *more)
{
    char time[RF_UTC_TEXT];
    rf_clock_utc(time);
    json_t *value = json_pack("{s:s, s:s}", "model", model, "created_at", time),
           *said = ollama_say(form, part);
    int code = json_object_update(value, said) || json_object_update(value, more);
    json_decref(said);
    json_decref(more);
    if (code) {
        json_decref(value);
        value = NULL;
    }
    reply_write_json(out, value);
    if (out->code || !part->tokens || !part->tokens->n) return;
    out->bytes->count--; /* the object goes on */
    rf_write_text(out, ",\"logprobs\":[");
    rf_write(out, part->tokens->lists[0].data, part->tokens->lists[0].count);
    rf_write_text(out, "]}");
}

/* The members that end an answer. */
static json_t *ollama_ending(const struct reply *reply, const char *finish,
                             const struct reply_usage *usage)
{
    return json_pack("{s:b, s:s, s:I, s:i, s:I, s:I, s:I, s:I}", "done", 1, "done_reason",
                     strcmp(finish, "length") == 0 ? "length" : "stop", "total_duration",
                     nanoseconds(rf_clock_seconds() - reply->arrived), "load_duration", 0,
                     "prompt_eval_count", (json_int_t)usage->prompt, "prompt_eval_duration",
                     nanoseconds(usage->prompt_seconds), "eval_count", (json_int_t)usage->generated,
                     "eval_duration", nanoseconds(usage->token_seconds));
}

static char *ollama_whole(const struct reply *reply, const struct reply_part *parts,
                          int32_t n_parts, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    (void)n_parts; /* one */
    ollama_write(&out, reply->form, reply->model, &parts[0],
                 ollama_ending(reply, parts[0].finish, usage));
    return reply_take(&bytes, &out);
}

/* ---- streams ---- */

static char *ollama_piece(const struct reply *reply, const struct reply_part *part)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    int says = part->bytes || part->thought_bytes || json_array_size(part->calls) ||
               (part->tokens && part->tokens->n);
    if (says) {
        ollama_write(&out, reply->form, reply->model, part, json_pack("{s:b}", "done", 0));
        rf_write_text(&out, "\n");
    }
    if (part->finish) reply->blocks->finish = part->finish;
    return reply_take(&bytes, &out);
}

static char *ollama_end(const struct reply *reply, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    const struct reply_part nothing = {.text = ""};
    ollama_write(&out, reply->form, reply->model, &nothing,
                 ollama_ending(reply, reply->blocks->finish, usage));
    rf_write_text(&out, "\n");
    return reply_take(&bytes, &out);
}

static char *ollama_refusal(const struct refusal *refusal, const struct reply *begun)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    rf_write_text(&out, "{\"error\":");
    reply_write_broken_text(&out, refusal->text, strlen(refusal->text));
    rf_write_text(&out, begun ? "}\n" : "}");
    return reply_take(&bytes, &out);
}

/* ---- vectors ---- */

static char *ollama_vectors(const struct reply *reply, const struct reply_part *parts,
                            int32_t n_parts, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    json_t *more = json_pack("{s:s, s:I, s:i, s:I}", "model", reply->model, "total_duration",
                             nanoseconds(rf_clock_seconds() - reply->arrived), "load_duration", 0,
                             "prompt_eval_count", (json_int_t)usage->prompt);
    reply_write_json(&out, more);
    if (!out.code) bytes.count--; /* the object goes on */
    rf_write_text(&out, ",\"embeddings\":[");
    for (int32_t i = 0; i < n_parts; i++) {
        if (i) rf_write_text(&out, ",");
        reply_write_vector(&out, parts[i].vector, parts[i].width);
    }
    rf_write_text(&out, "]}");
    return reply_take(&bytes, &out);
}

static char *ollama_vector(const struct reply *reply, const struct reply_part *parts,
                           int32_t n_parts, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    (void)reply, (void)n_parts, (void)usage; /* there is one */
    rf_write_text(&out, "{\"embedding\":");
    reply_write_vector(&out, parts[0].vector, parts[0].width);
    rf_write_text(&out, "}");
    return reply_take(&bytes, &out);
}

/* ---- replies without an answer ---- */

char *ollama_reply_loaded(const struct reply_form *form, const char *model)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    const struct reply_part nothing = {.text = ""};
    if (form == &ollama_embed_form)
        reply_write_json(&out, json_pack("{s:s, s:[]}", "model", model, "embeddings"));
    else if (form == &ollama_embedding_form)
        reply_write_json(&out, json_pack("{s:[]}", "embedding"));
    else
        ollama_write(&out, form, model, &nothing,
                     json_pack("{s:b, s:s}", "done", 1, "done_reason", "load"));
    return reply_take(&bytes, &out);
}

/* A question of any endpoint may have its reply already. */
static char *whole_or_known(const struct reply *reply, const struct reply_part *parts,
                            int32_t n_parts, const struct reply_usage *usage)
{
    if (reply->question->known) return reply_known(reply, parts, n_parts, usage);
    if (reply->form == &ollama_embed_form) return ollama_vectors(reply, parts, n_parts, usage);
    if (reply->form == &ollama_embedding_form) return ollama_vector(reply, parts, n_parts, usage);
    return ollama_whole(reply, parts, n_parts, usage);
}

static const char ndjson_media[] = "application/x-ndjson";

const struct reply_form ollama_chat_form = {.whole = whole_or_known,
                                            .piece = ollama_piece,
                                            .end = ollama_end,
                                            .refusal = ollama_refusal,
                                            .add_token = reply_add_chat_token,
                                            .media = ndjson_media};
const struct reply_form ollama_generate_form = {.whole = whole_or_known,
                                                .piece = ollama_piece,
                                                .end = ollama_end,
                                                .refusal = ollama_refusal,
                                                .add_token = reply_add_chat_token,
                                                .media = ndjson_media};
const struct reply_form ollama_embed_form = {.whole = whole_or_known, .refusal = ollama_refusal},
                        ollama_embedding_form = {.whole = whole_or_known,
                                                 .refusal = ollama_refusal},
                        ollama_form = {.whole = whole_or_known, .refusal = ollama_refusal};
