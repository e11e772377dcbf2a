/* GET /openapi.json: the document of this interface, which the program carries. A new endpoint is
 * described in serve/openapi.json. */
#include <string.h>

#include "serve/endpoint.h"
#include "serve/page.h"
#include "serve/send.h"

static enum MHD_Result send_openapi(struct exchange *exchange)
{
    return send_response(exchange, 200, json_media,
                         MHD_create_response_from_buffer(
                             strlen(serve_openapi), (void *)serve_openapi, MHD_RESPMEM_PERSISTENT));
}

const struct endpoint endpoint_openapi = {"GET", "/openapi.json", .is_open = 1,
                                          .send = send_openapi};
