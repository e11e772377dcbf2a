/* An answer as a message: thoughts, text and calls of tools, divided as `riffle serve` divides
 * them. It stands on riffle.h alone, like the readers beside it; the Python package calls it. */
#include <stdlib.h>
#include <string.h>

#include "answers/thoughts.h"
#include "answers/tools.h"
#include "api/handles.h"
#include "base/json.h"
#include "platform/memory.h"
#include "text/utf8_stream.h"

struct answer {
    const riffle_model *model;
    struct thoughts thoughts;
    struct tool_reader reader;
    struct rf_utf8_stream characters;
    json_t *tools, *calls; /* NULL: none were offered */
    struct rf_bytes reply, thought;
    struct rf_error error;
    int code; /* the first failure */
};

static void answer_keep(struct answer *answer, int code)
{
    if (!answer->code) answer->code = code;
}

static void answer_add_reply(struct answer *answer, const char *text, size_t n, int is_last)
{
    int code = answer->calls ? rf_tool_reader_push(&answer->reader, text, n, is_last,
                                                   &answer->reply, answer->calls, &answer->error)
               : n ? rf_bytes_append(&rf_system_allocator, &answer->reply, text, n, &answer->error)
                   : 0;
    answer_keep(answer, code);
}

static void answer_on_part(void *user, enum thought_part part, const char *text, size_t n)
{
    struct answer *answer = user;
    if (part == PART_REPLY) answer_add_reply(answer, text, n, 0);
    if (part == PART_THOUGHT)
        answer_keep(answer, rf_bytes_append(&rf_system_allocator, &answer->thought, text, n,
                                            &answer->error));
}

/* The text of n tokens, for free(); NULL: a token is none, or there is no memory. */
static char *answer_text(struct answer *answer, const int32_t *tokens, size_t n, uint32_t flags,
                         size_t *bytes)
{
    int64_t length = riffle_detokenize(answer->model, tokens, n, flags, NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (length < 0)
        answer_keep(answer, rf_fail(&answer->error, (int)length, "%s", riffle_last_error()));
    else if (!text)
        answer_keep(answer, rf_fail(&answer->error, RF_ERR_MEMORY, "out of memory"));
    if (!text) return NULL;
    riffle_detokenize(answer->model, tokens, n, flags, text, (size_t)length);
    *bytes = (size_t)length;
    return text;
}

static void answer_push(struct answer *answer, const char *text, size_t n)
{
    answer_keep(answer, rf_thoughts_push(&answer->thoughts, text, n, &answer->error));
}

/* Text of tokens that are no control tokens: in whole characters. */
static void answer_push_tokens(struct answer *answer, const int32_t *tokens, size_t n,
                               uint32_t flags)
{
    size_t bytes;
    char *text = answer_text(answer, tokens, n, flags, &bytes);
    char *whole = text ? malloc(RF_UTF8_STREAM_ROOM(bytes)) : NULL;
    if (text && !whole)
        answer_keep(answer, rf_fail(&answer->error, RF_ERR_MEMORY, "out of memory"));
    if (whole)
        answer_push(answer, whole, rf_utf8_stream_push(&answer->characters, text, bytes, whole));
    free(whole);
    free(text);
}

/* `flags`: for the first tokens. */
static void answer_read(struct answer *answer, const int32_t *tokens, size_t n, uint32_t flags)
{
    char control[THOUGHTS_CONTROL], rest[RF_UTF8_STREAM_ROOM(0)];
    for (size_t i = 0; i < n && !answer->code;) {
        size_t end = i;
        do rf_thoughts_control(answer->model, tokens[end], control);
        while (!control[0] && ++end < n);
        if (end > i) answer_push_tokens(answer, tokens + i, end - i, i ? 0 : flags);
        if (control[0] && (rf_thoughts_want(&answer->thoughts, control) ||
                           (answer->calls && rf_tool_reader_wants(&answer->reader, control))))
            answer_push(answer, control, strlen(control));
        i = end + 1;
    }
    answer_push(answer, rest, rf_utf8_stream_flush(&answer->characters, rest));
    if (!answer->code) rf_thoughts_end(&answer->thoughts);
    if (!answer->code) answer_add_reply(answer, "", 0, 1);
}

/* Begins behind the prompt, whose end may have opened a thought. */
static void answer_begin(struct answer *answer, const int32_t *prompt, size_t n)
{
    enum { TAIL = 64 };
    size_t bytes = 0, tail = n < TAIL ? n : TAIL;
    char *text = answer_text(answer, prompt + n - tail, tail, RIFFLE_DETOKENIZE_SPECIAL, &bytes);
    const struct thought_form *form = rf_thought_form_of(answer->model);
    if (!form) answer_keep(answer, rf_fail(&answer->error, RF_ERR_MEMORY, "out of memory"));
    if (!form) form = rf_thought_form_find("<think>");
    rf_thoughts_begin(&answer->thoughts, form, text ? text : "", bytes, answer_on_part, answer);
    free(text);
}

static void answer_take_tools(struct answer *answer, const char *tools, size_t bytes)
{
    struct rf_json_problem problem = {0};
    if (!tools) return;
    answer->tools = rf_json_load(tools, bytes, NULL, &problem);
    if (!answer->tools || !rf_tools_are_valid(answer->tools)) {
        answer_keep(answer, rf_fail(&answer->error, RF_ERR_ARGUMENT,
                                    "tools: not a list of functions as OpenAI's reference has it"));
        return;
    }
    answer->calls = json_array();
    if (!answer->calls)
        answer_keep(answer, rf_fail(&answer->error, RF_ERR_MEMORY, "out of memory"));
    rf_tool_reader_begin(&answer->reader, rf_tools_manner(answer->model).form, answer->tools);
}

/* The message's JSON, for free(). */
static char *answer_write(struct answer *answer, size_t *bytes)
{
    json_t *message = json_pack("{s:s, s:s%}", "role", "assistant", "content",
                                answer->reply.count ? answer->reply.data : "", answer->reply.count);
    if (message && answer->thought.count)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(answer->thought.data, answer->thought.count));
    if (message && json_array_size(answer->calls))
        json_object_set(message, "tool_calls", answer->calls);
    char *text = message ? rf_json_dump(message, 0, bytes) : NULL;
    if (!text) answer_keep(answer, rf_fail(&answer->error, RF_ERR_MEMORY, "out of memory"));
    json_decref(message);
    return text;
}

static void answer_free(struct answer *answer)
{
    rf_thoughts_free(&answer->thoughts);
    if (answer->calls) rf_tool_reader_free(&answer->reader);
    json_decref(answer->tools);
    json_decref(answer->calls);
    rf_bytes_free(&rf_system_allocator, &answer->reply);
    rf_bytes_free(&rf_system_allocator, &answer->thought);
}

int64_t riffle_answer_message(const riffle_model *model, const int32_t *tokens, size_t n_tokens,
                              size_t n_prompt, const char *tools, size_t tools_bytes, char *json,
                              size_t cap)
{
    if (!model || (!tokens && n_tokens) || n_prompt > n_tokens || (!json && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, !model                ? "model is NULL"
                                                 : n_prompt > n_tokens ? "n_prompt exceeds n_tokens"
                                                 : (!json && cap)      ? "json is NULL"
                                                                       : "tokens is NULL");
    struct answer answer = {.model = model};
    size_t bytes = 0;
    answer_take_tools(&answer, tools, tools_bytes);
    answer_begin(&answer, tokens, n_prompt);
    if (!answer.code)
        answer_read(&answer, tokens + n_prompt, n_tokens - n_prompt,
                    n_prompt ? 0 : RIFFLE_DETOKENIZE_START);
    char *text = answer.code ? NULL : answer_write(&answer, &bytes);
    if (text && cap) memcpy(json, text, bytes < cap ? bytes : cap);
    free(text);
    answer_free(&answer);
    return answer.code ? rf_api_fail(&answer.error) : (int64_t)bytes;
}
