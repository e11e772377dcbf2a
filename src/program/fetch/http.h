/* One transfer with libcurl: https, http or file. download.c fetches files with it, index.c
 * pages. */
#ifndef FETCH_HTTP_H
#define FETCH_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { HTTP_URL = 2048, HTTP_SHOWN = 200 };

/* The head of a server's reply. Texts live during the call only. */
struct http_reply {
    uint64_t from;         /* offset in the file of the first byte that comes */
    int64_t total;         /* bytes of the whole file; -1: unknown */
    const char *validator; /* names this version of the file in If-Range; "": nothing does */
    const char *url;       /* the address after redirects */
};

/* The callbacks return 0 or a negative code with a sentence, which ends the transfer. */
struct http_request {
    const char *url;
    uint64_t from;         /* ask for what follows these bytes */
    const char *validator; /* version of these bytes; "" or NULL: unknown */
    const char *accept;    /* media types; NULL: any */
    int timeout_seconds;   /* limit for connecting, and for waiting for another byte */
    int (*begin)(void *user, const struct http_reply *reply, struct rf_error *error);
    int (*data)(void *user, const void *data, size_t n, struct rf_error *error);
    int (*poll)(void *user); /* several times a second; other than 0 stops: RF_ERR_CANCELLED */
    void *user;
};

/* 0; RF_ERR_CONTEXT if there is nothing behind `from`; RF_ERR_IO if the server or the network
 * failed; or what a callback returned. */
int http_get(const struct http_request *request, struct rf_error *error);

/* Whether the text begins with https://, http:// or file://. */
int http_is_url(const char *text);
/* The address for messages: without user name, password and query, shortened. Returns `shown`. */
const char *http_shown(const char *url, char shown[HTTP_SHOWN]);
/* The last part of the path, decoded. 0, or -1 if there is none or it does not fit. */
int http_file_name(const char *url, char *name, size_t cap);
/* The address that a link in the page `base` leads to. 0 or -1. */
int http_resolve(const char *base, const char *link, char url[HTTP_URL]);

#endif
