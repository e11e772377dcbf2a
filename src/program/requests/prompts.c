/* Makes prompts of texts, tokens and conversations. Each prompt owns its tokens. */
#include "requests/prompts.h"

#include <riffle_experimental.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "requests/members.h"
#include "requests/reply.h"

int prompts_make(struct question *question, size_t n, struct refusal *refusal)
{
    question->prompts = calloc(n, sizeof *question->prompts);
    if (!question->prompts) return refuse_memory(refusal);
    question->n_prompts = (int32_t)n;
    for (size_t i = 0; i < n; i++) question->prompts[i].most = question->n_ctx;
    return 0;
}

int prompts_need_none(struct question *question, char *known, struct refusal *refusal)
{
    if (!known) return refuse_memory(refusal);
    question->known = known;
    if (strlen(known) > REPLY_BYTES)
        return refuse(refusal, 400, "reply_too_long", "the reply has more than %d MiB",
                      REPLY_BYTES >> 20);
    question->only_counts = question->n = 1;
    return prompts_make(question, 1, refusal);
}

static int refuse_length(const char *least, int64_t n, int32_t most, struct refusal *refusal)
{
    return refuse(refusal, 400, "context_length_exceeded",
                  "the prompt has %s%lld tokens, n_ctx is %d", least, (long long)n, most);
}

/* Refuses a text that is far too long, by its beginning, for tokenising takes time and memory. The
 * tokens of a beginning are about those that the whole text begins with, so twice as many as the
 * context holds are too many. */
static int check_length(const riffle_model *model, const char *text, size_t bytes, int32_t most,
                        struct refusal *refusal)
{
    for (size_t some = (size_t)most * 8; most && some < bytes; some *= 2) {
        int64_t n = riffle_tokenize(model, text, some, 0, NULL, 0);
        if (n < 0) return refuse_last(refusal, n);
        if (n > 2 * (int64_t)most) return refuse_length("more than ", n, most, refusal);
    }
    return 0;
}

/* Makes room for `more` tokens, and no more. */
static int prompt_grow(struct prompt *prompt, int64_t more, struct refusal *refusal)
{
    int32_t *grown =
        realloc(prompt->tokens, (prompt->n + (size_t)more + 1) * sizeof *prompt->tokens);
    if (!grown) return refuse_memory(refusal);
    prompt->tokens = grown;
    return 0;
}

int prompt_add_text(struct prompt *prompt, const riffle_model *model, const char *text,
                    size_t bytes, unsigned flags, struct refusal *refusal)
{
    size_t room = bytes + 2; /* a token has a byte at least, but for BOS */
    if (check_length(model, text, bytes, prompt->most, refusal)) return -1;
    if (prompt_grow(prompt, (int64_t)room, refusal)) return -1;
    int64_t n = riffle_tokenize(model, text, bytes, flags, prompt->tokens + prompt->n, room);
    if (n > (int64_t)room) {
        if (prompt_grow(prompt, n, refusal)) return -1;
        n = riffle_tokenize(model, text, bytes, flags, prompt->tokens + prompt->n, (size_t)n);
    }
    if (n < 0) return refuse_last(refusal, n);
    prompt->n += (size_t)n;
    return prompt_grow(prompt, 0, refusal);
}

int prompt_add_chat(struct prompt *prompt, const riffle_model *model, const json_t *conversation,
                    struct refusal *refusal)
{
    const json_t *messages = json_object_get(conversation, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        if (check_length(model, json_string_value(content), json_string_length(content),
                         prompt->most, refusal))
            return -1;
    }
    size_t bytes;
    char *text = rf_json_dump(conversation, 0, &bytes);
    if (!text) return refuse_memory(refusal);
    size_t room = bytes + 4096;
    int code = prompt_grow(prompt, (int64_t)room, refusal);
    int64_t n = code ? 0 : riffle_chat_tokenize_json(model, text, bytes, prompt->tokens, room);
    if (n > (int64_t)room && !(code = prompt_grow(prompt, n, refusal)))
        n = riffle_chat_tokenize_json(model, text, bytes, prompt->tokens, (size_t)n);
    if (!code && n < 0) code = refuse_last(refusal, n);
    if (!code) prompt->n = (size_t)n;
    free(text);
    return code ? code : prompt_grow(prompt, 0, refusal);
}

int prompt_end_thoughts(struct prompt *prompt, const riffle_model *model,
                        const struct thought_form *form, struct refusal *refusal)
{
    enum { TAIL = 64 };
    char tail[1024], ending[THOUGHTS_CONTROL];
    size_t n = prompt->n < TAIL ? prompt->n : TAIL;
    int64_t bytes = riffle_detokenize(model, prompt->tokens + prompt->n - n, n,
                                      RIFFLE_DETOKENIZE_SPECIAL, tail, sizeof tail);
    if (bytes < 0 || bytes > (int64_t)sizeof tail) return 0;
    const char *closing = rf_thoughts_closing(form, tail, (size_t)bytes);
    if (!closing) return 0;
    snprintf(ending, sizeof ending, "\n%s\n\n", closing);
    return prompt_add_text(prompt, model, ending, strlen(ending), RIFFLE_TOKENIZE_SPECIAL, refusal);
}

/* A list of tokens. */
static int prompt_add_tokens(struct prompt *prompt, const json_t *list, struct refusal *refusal)
{
    if (prompt->most && json_array_size(list) > (size_t)prompt->most)
        return refuse_length("", (int64_t)json_array_size(list), prompt->most, refusal);
    if (prompt_grow(prompt, (int64_t)json_array_size(list), refusal)) return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        if (!json_is_integer(token) || json_integer_value(token) < 0 ||
            json_integer_value(token) > INT32_MAX)
            return refuse(refusal, 400, "invalid_value", "index %zu of the prompt is no token", i);
        prompt->tokens[prompt->n++] = (int32_t)json_integer_value(token);
    }
    return 0;
}

/* The prompts: a text, a list of tokens, or a list of these. */
int prompts_take(const json_t *body, const char *name, const riffle_model *model,
                 struct question *question, struct refusal *refusal)
{
    static const char wanted[] = "a text, tokens, or an array of up to 256 of these";
    const json_t *given = member_get(body, name);
    int is_list = json_is_array(given) && !json_is_integer(json_array_get(given, 0));
    size_t n = is_list ? json_array_size(given) : 1;
    if (n == 0 || n > MOST_PROMPTS) return refuse_value(refusal, name, wanted);
    if (prompts_make(question, n, refusal)) return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *prompt = is_list ? json_array_get(given, i) : given;
        int code = json_is_array(prompt) ? prompt_add_tokens(&question->prompts[i], prompt, refusal)
                   : json_is_string(prompt)
                       ? prompt_add_text(&question->prompts[i], model, json_string_value(prompt),
                                         json_string_length(prompt), RIFFLE_TOKENIZE_BOS, refusal)
                       : refuse_value(refusal, name, wanted);
        if (code) return code;
    }
    return 0;
}
