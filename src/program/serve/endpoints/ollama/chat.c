/* POST /api/chat: the answer to a conversation, in ollama's form. The chat's endpoint reads the
 * translated question, so the answer has the tokens of the chat's. */
#include "requests/ollama_reply.h"
#include "serve/endpoint.h"
#include "serve/endpoints/ollama/generate.h"
#include "translate/ollama.h"

extern const struct endpoint endpoint_chat_completions;

static int ollama_chat_take(const json_t *body, const struct answerer *of,
                            struct question *question, struct refusal *refusal)
{
    if (ollama_only_loads(body, "messages"))
        return ollama_take_loading(body, ACCEPTED_OLLAMA_CHAT, &ollama_chat_form, of, question,
                                   refusal);
    json_t *chat = ollama_to_chat(body, of, refusal);
    int code =
        chat ? ollama_take_within(&endpoint_chat_completions, chat, body, of, question, refusal)
             : -1;
    json_decref(chat);
    return code;
}

const struct endpoint endpoint_ollama_chat = {"POST",
                                              "/api/chat",
                                              .most_body = ENDPOINT_BODY,
                                              .is_ollama = 1,
                                              .take = ollama_chat_take,
                                              .form = &ollama_chat_form};
