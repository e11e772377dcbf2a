/* POST /api/embed: the vectors of texts, in ollama's form. The endpoint of embeddings reads the
 * translated question. */
#include "requests/ollama_reply.h"
#include "serve/endpoints/ollama/generate.h"
#include "translate/ollama.h"

extern const struct endpoint endpoint_embeddings;

static int ollama_embed_take(const json_t *body, const struct answerer *of,
                             struct question *question, struct refusal *refusal)
{
    json_t *to = ollama_to_embedding(body, "input", refusal);
    int code = -1;
    if (to && ollama_only_loads(body, "input"))
        code = ollama_take_loading(body, ACCEPTED_OLLAMA_EMBED, &ollama_embed_form, of, question,
                                   refusal);
    else if (to)
        code = ollama_take_within(&endpoint_embeddings, to, body, of, question, refusal);
    json_decref(to);
    return code;
}

const struct endpoint endpoint_ollama_embed = {"POST",
                                               "/api/embed",
                                               .most_body = ENDPOINT_BODY,
                                               .is_ollama = 1,
                                               .take = ollama_embed_take,
                                               .form = &ollama_embed_form};
