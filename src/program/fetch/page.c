/* Collects a page as it arrives. Its length is limited, as nothing else of it is known. */
#include "fetch/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collecting {
    const struct page_request *request;
    struct page *page;
};

static int page_on_begin(void *user, const struct http_reply *reply, struct rf_error *error)
{
    struct page *page = ((struct collecting *)user)->page;
    (void)error;
    page->count = 0;
    page->next[0] = 0;
    snprintf(page->url, sizeof page->url, "%s", reply->url);
    if (reply->next[0] && http_resolve(page->url, reply->next, page->next) != 0) page->next[0] = 0;
    return 0;
}

static int page_on_data(void *user, const void *data, size_t n, struct rf_error *error)
{
    enum { LONGEST_PAGE = 32 << 20 };
    struct page *page = ((struct collecting *)user)->page;
    char shown[HTTP_SHOWN];
    if (page->count + n > LONGEST_PAGE)
        return rf_fail(error, RF_ERR_FORMAT, "%s: the page has more than %d MiB",
                       http_shown(page->url, shown), LONGEST_PAGE >> 20);
    if (page->count + n + 1 > page->cap) {
        size_t cap = 2 * (page->count + n) + 4096;
        char *larger = realloc(page->text, cap);
        if (!larger) return rf_fail(error, RF_ERR_MEMORY, "no memory for a page");
        page->text = larger;
        page->cap = cap;
    }
    memcpy(page->text + page->count, data, n);
    page->count += n;
    page->text[page->count] = 0;
    return 0;
}

static int page_on_poll(void *user)
{
    const struct page_request *request = ((struct collecting *)user)->request;
    return request->poll(request->user);
}

int page_get(const struct page_request *request, struct page *page, struct rf_error *error)
{
    struct collecting collecting = {request, page};
    const struct http_request get = {.url = request->url,
                                     .accept = request->accept,
                                     .token = request->token,
                                     .refusal = request->refusal,
                                     .timeout_seconds = request->timeout_seconds,
                                     .begin = page_on_begin,
                                     .data = page_on_data,
                                     .poll = page_on_poll,
                                     .user = &collecting};
    return http_get(&get, error);
}

void page_free(struct page *page)
{
    free(page->text);
    *page = (struct page){0};
}
