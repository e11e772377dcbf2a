/* GET /page/NAME: what the page for chatting loads. */
#include <string.h>

#include "serve/endpoint.h"
#include "serve/exchange.h"
#include "serve/page.h"
#include "serve/send.h"

static const char *media_of(const char *name)
{
    static const struct {
        const char *end, *media;
    } medias[] = {{".js", "text/javascript; charset=utf-8"},
                  {".css", "text/css; charset=utf-8"},
                  {".svg", "image/svg+xml"}};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof medias / sizeof *medias; i++) {
        size_t n_end = strlen(medias[i].end);
        if (n > n_end && strcmp(name + n - n_end, medias[i].end) == 0) return medias[i].media;
    }
    return "text/plain; charset=utf-8";
}

static void send_page_file(struct exchange *exchange)
{
    struct refusal refusal = {0};
    for (const struct page_file *file = page_files; file->name; file++) {
        if (strcmp(file->name, exchange->rest) != 0) continue;
        send_file(exchange, media_of(file->name), "", file->text);
        return;
    }
    refuse(&refusal, 404, NULL, "there is no /page/%.100s", exchange->rest);
    send_refusal(exchange, &refusal);
}

const struct endpoint endpoint_page_file = {"GET", "/page/", .is_open = 1, .takes_rest = 1,
                                            .send = send_page_file};
