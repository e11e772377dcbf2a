/* POST /api/pull: has the model already, since this server fetches nothing. Another one's name is
 * refused as in all requests. */
#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/ollama_reply.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"

static int pull_take(const json_t *body, const struct answerer *of, struct question *question,
                     struct refusal *refusal)
{
    if (accepted_check(body, ACCEPTED_OLLAMA_MODEL, refusal)) return -1;
    if (!member_get(body, "model") && !member_get(body, "name"))
        return refuse_value(refusal, "model", "there");
    if (question_check_model(json_object_get(body, "name"), of, refusal)) return -1;
    return prompts_need_none(question, reply_write(json_pack("{s:s}", "status", "success"), 0),
                             refusal);
}

const struct endpoint endpoint_ollama_pull = {
    "POST",         "/api/pull",       .most_body = ENDPOINT_BODY,
    .any_media = 1, .take = pull_take, .form = &ollama_form};
