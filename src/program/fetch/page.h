/* A page of a server as a text in memory: lists of a package index and of model hubs. */
#ifndef FETCH_PAGE_H
#define FETCH_PAGE_H

#include "fetch/http.h"

struct page_request {
    const char *url, *accept, *token; /* as in struct http_request */
    int timeout_seconds;
    int (*poll)(void *user);
    void *user;
    struct http_refusal *refusal;
};

/* All zero is no page. */
struct page {
    char *text; /* NULL where the page is empty; ends in a zero that is not counted */
    size_t count, cap;
    char url[HTTP_URL];  /* source of the page, after redirects */
    char next[HTTP_URL]; /* the page behind it; "" */
};

/* As http_get. page_free is allowed in any case. RF_ERR_FORMAT: it has more than 32 MiB. */
int page_get(const struct page_request *request, struct page *page, struct rf_error *error);
void page_free(struct page *page);

#endif
