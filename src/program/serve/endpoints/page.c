/* GET /: a page for chatting, which the program carries. Its policy lets it load nothing from
 * elsewhere. */
#include "serve/page.h"
#include <string.h>

#include "serve/endpoint.h"
#include "serve/send.h"

static enum MHD_Result send_page(struct exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(serve_page), (void *)serve_page, MHD_RESPMEM_PERSISTENT);
    if (response)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'none'; connect-src 'self'; style-src "
                                "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'");
    return send_response(exchange, 200, "text/html; charset=utf-8", response);
}

const struct endpoint endpoint_page = {"GET", "/", .is_open = 1, .send = send_page};
