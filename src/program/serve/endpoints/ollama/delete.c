/* DELETE /api/delete: refused, for no request may change files. */
#include "requests/ollama_reply.h"
#include "serve/send.h"

static void send_no_delete(struct exchange *exchange)
{
    struct refusal refusal = {0};
    refuse(&refusal, 403, "unsupported", "this server deletes nothing; riffle rm does");
    send_refusal(exchange, &refusal);
}

const struct endpoint endpoint_ollama_delete = {"DELETE", "/api/delete", .send = send_no_delete,
                                                .form = &ollama_form};
