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
    const char *next;      /* the page behind this one (Link, rel="next"); "": there is none */
};

/* A server's refusal, for sentences that say more than its status. */
struct http_refusal {
    int status;      /* 0: it did not refuse */
    int retry_after; /* seconds after which it takes another request; -1: it did not say */
    char reason[48]; /* a model hub's word for it (X-Error-Code), or "" */
};

/* The callbacks return 0 or a negative code with a sentence, which ends the transfer. */
struct http_request {
    const char *url;
    uint64_t from;         /* ask for what follows these bytes */
    const char *validator; /* version of these bytes; "" or NULL: unknown */
    const char *accept;    /* media types; NULL: any */
    /* Shown to the host of `url` alone, never to one that it redirects to, and only where the way
     * is encrypted or does not leave this machine. NULL: none. */
    const char *token;
    struct http_refusal *refusal; /* NULL: not asked for */
    int timeout_seconds;          /* limit for connecting, and for waiting for another byte */
    int (*begin)(void *user, const struct http_reply *reply, struct rf_error *error);
    int (*data)(void *user, const void *data, size_t n, struct rf_error *error);
    int (*poll)(void *user); /* several times a second; other than 0 stops: RF_ERR_CANCELLED */
    void *user;
};

/* A server that is asked too often (429, 503) and says when to come again is waited for, some
 * minutes at most.
 * 0; RF_ERR_CONTEXT if there is nothing behind `from`; RF_ERR_IO if the server or the network
 * failed; or what a callback returned. */
int http_get(const struct http_request *request, struct rf_error *error);

/* Whether the text begins with https://, http:// or file://. */
int http_is_url(const char *text);
/* The address for messages: without user name, password and query, shortened. Returns `shown`. */
const char *http_shown(const char *url, char shown[HTTP_SHOWN]);
/* The text as a part of a path: all but letters, digits and "-._~" as %XX, '/' too unless
 * `slashes`. 0, or -1 if it does not fit. */
int http_escape(const char *text, int slashes, char *escaped, size_t cap);
/* The other way; a text with control characters is refused. 0 or -1. */
int http_unescape(const char *text, size_t n, char *plain, size_t cap);
/* The last part of the path, decoded. 0, or -1 if there is none or it does not fit. */
int http_file_name(const char *url, char *name, size_t cap);
/* The address that a link in the page `base` leads to. 0 or -1. */
int http_resolve(const char *base, const char *link, char url[HTTP_URL]);

#endif
