/* GET /api/version: clients compare it before they use newer parts of the interface. */
#include <riffle.h>

#include "requests/ollama_reply.h"
#include "serve/send.h"

/* The release of ollama whose interface this is. */
static const char followed[] = "0.33.0";

static void send_version(struct exchange *exchange)
{
    send_text(
        exchange, 200, json_media,
        reply_write(json_pack("{s:s, s:s}", "version", followed, "riffle", riffle_version()), 0));
}

const struct endpoint endpoint_ollama_version = {"GET", "/api/version", .send = send_version,
                                                 .form = &ollama_form};
