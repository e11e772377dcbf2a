/* GET /: a page for chatting, which the program carries. Its policy lets it load nothing from
 * elsewhere, and run nothing that an answer brings. */
#include "serve/page.h"

#include "serve/endpoint.h"
#include "serve/send.h"

static void send_page(struct exchange *exchange)
{
    send_file(exchange, "text/html; charset=utf-8",
              "Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src 'self'; "
              "style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n"
              "Referrer-Policy: no-referrer\r\n",
              serve_page);
}

const struct endpoint endpoint_page = {"GET", "/", .is_open = 1, .send = send_page};
