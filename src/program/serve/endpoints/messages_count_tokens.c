/* POST /v1/messages/count_tokens: how many tokens the prompt of a message has. The model is not
 * asked. */
#include "serve/endpoint.h"
#include "serve/endpoints/messages.h"

static int count_take(const json_t *body, const struct answerer *of, struct question *question,
                      struct refusal *refusal)
{
    if (messages_take(body, of, 0, question, refusal)) return -1;
    question->only_counts = 1;
    question->streams = 0;
    return 0;
}

static char *count_reply(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                         const struct reply_usage *usage)
{
    (void)reply, (void)parts, (void)n_parts;
    return reply_write(json_pack("{s:I}", "input_tokens", (json_int_t)usage->prompt), 0);
}

static const struct reply_form count_form = {.whole = count_reply, .refusal = messages_refusal};

const struct endpoint endpoint_messages_count_tokens = {"POST", "/v1/messages/count_tokens",
                                                        .most_body = ENDPOINT_BODY,
                                                        .take = count_take, .form = &count_form};
