/* POST /api/pull: says when the model is open. The server fetches one only as for any other request
 * that names it. */
#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/ollama_reply.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"

static int pull_take(const json_t *body, const struct answerer *of, struct question *question,
                     struct refusal *refusal)
{
    (void)of;
    if (accepted_check(body, ACCEPTED_OLLAMA_MODEL, refusal)) return -1;
    if (!member_get(body, "model") && !member_get(body, "name"))
        return refuse_value(refusal, "model", "there");
    if (member_get(body, "model") && member_get(body, "name"))
        return refuse_value(refusal, "name", "alone: model is another name of it");
    return prompts_need_none(question, reply_write(json_pack("{s:s}", "status", "success"), 0),
                             refusal);
}

const struct endpoint endpoint_ollama_pull = {
    "POST",         "/api/pull",       .most_body = ENDPOINT_BODY,
    .is_ollama = 1, .take = pull_take, .form = &ollama_form};
