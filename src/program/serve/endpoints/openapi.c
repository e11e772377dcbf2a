/* GET /openapi.json: the document of this interface, which the program carries. A new endpoint is
 * described in serve/openapi.json. */
#include <string.h>

#include "serve/endpoint.h"
#include "serve/page.h"
#include "serve/send.h"

static void send_openapi(struct exchange *exchange)
{
    send_bytes(exchange, 200, json_media, "", serve_openapi, strlen(serve_openapi));
}

const struct endpoint endpoint_openapi = {"GET", "/openapi.json", .is_open = 1,
                                          .send = send_openapi};
