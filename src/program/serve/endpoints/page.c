/* GET /: a page for chatting, which the program carries. Its policy lets it load nothing from
 * elsewhere. */
#include "serve/page.h"
#include <string.h>

#include "serve/endpoint.h"
#include "serve/send.h"

static void send_page(struct exchange *exchange)
{
    send_bytes(exchange, 200, "text/html; charset=utf-8",
               "Content-Security-Policy: default-src 'none'; connect-src 'self'; style-src "
               "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
               "frame-ancestors 'none'\r\n",
               serve_page, strlen(serve_page));
}

const struct endpoint endpoint_page = {"GET", "/", .is_open = 1, .send = send_page};
