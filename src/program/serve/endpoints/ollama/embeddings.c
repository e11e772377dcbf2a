/* POST /api/embeddings: the vector of one text, in the older of ollama's forms. */
#include "requests/members.h"
#include "requests/ollama_reply.h"
#include "serve/endpoints/ollama/generate.h"
#include "translate/ollama.h"

extern const struct endpoint endpoint_embeddings;

static int ollama_embedding_take(const json_t *body, const struct answerer *of,
                                 struct question *question, struct refusal *refusal)
{
    json_t *to = ollama_to_embedding(body, "prompt", refusal);
    int code = -1;
    if (to && ollama_only_loads(body, "prompt"))
        code = ollama_take_loading(body, ACCEPTED_OLLAMA_EMBED, &ollama_embedding_form, of,
                                   question, refusal);
    else if (to && !json_is_string(member_get(body, "prompt")))
        refuse_value(refusal, "prompt", "a text");
    else if (to)
        code = ollama_take_within(&endpoint_embeddings, to, body, of, question, refusal);
    json_decref(to);
    return code;
}

const struct endpoint endpoint_ollama_embeddings = {"POST",
                                                    "/api/embeddings",
                                                    .most_body = ENDPOINT_BODY,
                                                    .is_ollama = 1,
                                                    .take = ollama_embedding_take,
                                                    .form = &ollama_embedding_form};
