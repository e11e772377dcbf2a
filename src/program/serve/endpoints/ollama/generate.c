/* POST /api/generate: the answer to a prompt, in ollama's form. A prompt is a chat of one message;
 * one that is formatted already, or has a suffix, is continued as a completion. */
#include "serve/endpoints/ollama/generate.h"

#include "requests/ollama_reply.h"
#include "requests/prompts.h"
#include "translate/ollama.h"
#include "translate/ollama_options.h"

extern const struct endpoint endpoint_chat_completions, endpoint_completions;

int ollama_take_within(const struct endpoint *endpoint, const json_t *translated,
                       const json_t *body, const struct answerer *of, struct question *question,
                       struct refusal *refusal)
{
    int32_t n_ctx = of->n_ctx, *most = &question->generate.max_tokens;
    if (ollama_options_context(body, &n_ctx, refusal)) return -1;
    question->n_ctx = n_ctx;
    if (endpoint->take(translated, of, question, refusal)) return -1;
    for (int32_t i = 0; i < question->n_prompts && n_ctx; i++) {
        size_t n = question->prompts[i].n, room = question->wants_vector ? 0 : 1;
        if (n + room > (size_t)n_ctx)
            return refuse(refusal, 400, "context_length_exceeded",
                          "the prompt has %zu tokens, n_ctx is %d", n, n_ctx);
        if (n_ctx < of->n_ctx && (!*most || *most > n_ctx - (int32_t)n)) *most = n_ctx - (int32_t)n;
    }
    return 0;
}

int ollama_take_loading(const json_t *body, enum accepted_by endpoint,
                        const struct reply_form *form, const struct answerer *of,
                        struct question *question, struct refusal *refusal)
{
    int32_t n_ctx = of->n_ctx;
    if (accepted_check(body, endpoint, refusal)) return -1;
    if (ollama_options_check(body, refusal)) return -1;
    if (ollama_options_context(body, &n_ctx, refusal)) return -1;
    return prompts_need_none(question, ollama_reply_loaded(form, of->name), refusal);
}

static int ollama_generate_take(const json_t *body, const struct answerer *of,
                                struct question *question, struct refusal *refusal)
{
    enum ollama_target target;
    if (ollama_only_loads(body, "prompt"))
        return ollama_take_loading(body, ACCEPTED_OLLAMA_GENERATE, &ollama_generate_form, of,
                                   question, refusal);
    json_t *to = ollama_generate_to(body, of, &target, refusal);
    const struct endpoint *endpoint =
        target == OLLAMA_TO_CHAT ? &endpoint_chat_completions : &endpoint_completions;
    int code = to ? ollama_take_within(endpoint, to, body, of, question, refusal) : -1;
    json_decref(to);
    return code;
}

const struct endpoint endpoint_ollama_generate = {"POST",
                                                  "/api/generate",
                                                  .most_body = ENDPOINT_BODY,
                                                  .is_ollama = 1,
                                                  .take = ollama_generate_take,
                                                  .form = &ollama_generate_form};
