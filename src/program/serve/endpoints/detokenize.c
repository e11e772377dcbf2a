/* POST /detokenize: the text of tokens, under the names that vLLM's and llama.cpp's servers have
 * for it. Nothing is computed. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"

/* The tokens, for free(); NULL: a refusal. */
static int32_t *tokens_of(const json_t *list, struct refusal *refusal)
{
    size_t n = json_array_size(list);
    int32_t *tokens = malloc((n + 1) * sizeof *tokens);
    int64_t token;
    if (!tokens) refuse_memory(refusal);
    for (size_t i = 0; tokens && i < n; i++) {
        if (rf_json_to_int64(json_array_get(list, i), &token) && token >= 0 && token <= INT32_MAX) {
            tokens[i] = (int32_t)token;
            continue;
        }
        refuse(refusal, 400, "invalid_value", "tokens[%zu] is no token", i);
        refuse_param(refusal, "tokens");
        free(tokens);
        return NULL;
    }
    return tokens;
}

/* {"prompt": TEXT, "content": TEXT} */
static char *write_text(const char *text, size_t bytes)
{
    struct rf_bytes written = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&written, &error);
    rf_write_text(&out, "{\"prompt\":");
    reply_write_broken_text(&out, text, bytes);
    rf_write_text(&out, ",\"content\":");
    reply_write_broken_text(&out, text, bytes);
    rf_write_text(&out, "}");
    return reply_take(&written, &out);
}

static int detokenize_take(const json_t *body, const struct answerer *of, struct question *question,
                           struct refusal *refusal)
{
    enum { FLAGS = RIFFLE_DETOKENIZE_SPECIAL | RIFFLE_DETOKENIZE_START };
    const int64_t most = ENDPOINT_BODY; /* no body has more text */
    const json_t *list = member_get(body, "tokens");
    size_t n = json_array_size(list);
    if (accepted_check(body, ACCEPTED_TOKENS, refusal)) return -1;
    if (!json_is_array(list) || json_object_size(body) > 1 + (member_get(body, "model") != NULL))
        return refuse_value(refusal, "the body", "one with tokens, an array, alone");
    int32_t *tokens = tokens_of(list, refusal);
    if (!tokens) return -1;
    int64_t bytes = riffle_detokenize(of->model, tokens, n, FLAGS, NULL, 0);
    char *text = bytes >= 0 && bytes <= most ? malloc((size_t)bytes + 1) : NULL;
    int code = bytes < 0      ? refuse_last(refusal, bytes)
               : bytes > most ? refuse(refusal, 400, "reply_too_long",
                                       "the text has more than %d MiB", ENDPOINT_BODY >> 20)
               : text         ? 0
                              : refuse_memory(refusal);
    if (!code) riffle_detokenize(of->model, tokens, n, FLAGS, text, (size_t)bytes);
    if (!code) code = prompts_need_none(question, write_text(text, (size_t)bytes), refusal);
    free(text);
    free(tokens);
    return code;
}

static const struct reply_form detokenize_form = {.whole = reply_known};

const struct endpoint endpoint_detokenize = {"POST", "/detokenize", .most_body = ENDPOINT_BODY,
                                             .take = detokenize_take, .form = &detokenize_form};
