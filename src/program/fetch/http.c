/* One transfer with libcurl. After redirects the protocol never becomes weaker, and a compressed
 * reply is refused, as hashes are of the plain bytes. download.c and index.c call it. */
#include "fetch/http.h"

#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "platform/clock.h"
#include "platform/file.h"

enum { MOST_REDIRECTS = 10, MOST_ATTEMPTS = 5, MOST_WAIT = 300 /* seconds before an attempt */ };

struct transfer {
    const struct http_request *request;
    CURL *curl;
    struct rf_error *error;
    int code;  /* result of the callback that ended the transfer; 0: none did */
    int began; /* `begin` was called */
    int64_t range_from, range_total; /* values of Content-Range; -1: not said */
    char etag[256], modified[64], encoding[32];
    char next[HTTP_URL]; /* the link as it was sent */
    struct http_refusal refusal;
    char words[CURL_ERROR_SIZE];
};

int http_is_url(const char *text)
{
    return strncasecmp(text, "https://", 8) == 0 || strncasecmp(text, "http://", 7) == 0 ||
           strncasecmp(text, "file://", 7) == 0;
}

const char *http_shown(const char *url, char shown[HTTP_SHOWN])
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t n = strcspn(host, "?#");
    for (const char *at = host; at < host + strcspn(host, "/?#"); at++)
        if (*at == '@') {
            n -= (size_t)(at + 1 - host);
            host = at + 1;
            break;
        }
    int scheme = (int)(strstr(url, "://") ? strstr(url, "://") + 3 - url : 0);
    snprintf(shown, HTTP_SHOWN, "%.*s%.*s", scheme, url, n < 150 ? (int)n : 150, host);
    return shown;
}

int http_escape(const char *text, int slashes, char *escaped, size_t cap)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t n = 0;
    for (; *text && n + 4 <= cap; text++)
        if (strchr(plain, *text) || (slashes && *text == '/'))
            escaped[n++] = *text;
        else
            n += (size_t)snprintf(escaped + n, 4, "%%%02X", (unsigned char)*text);
    if (*text || !cap) return -1;
    escaped[n] = 0;
    return 0;
}

int http_unescape(const char *text, size_t n, char *plain, size_t cap)
{
    int n_plain = 0, fits = 0;
    char *decoded = curl_easy_unescape(NULL, text, (int)n, &n_plain);
    if (decoded && n && n_plain > 0 && (size_t)n_plain < cap) {
        memcpy(plain, decoded, (size_t)n_plain + 1);
        fits = 1;
        for (int i = 0; i < n_plain; i++) fits &= (unsigned char)plain[i] >= 32 && plain[i] != 127;
    }
    curl_free(decoded);
    return fits ? 0 : -1;
}

int http_file_name(const char *url, char *name, size_t cap)
{
    char *path = NULL, *last = NULL;
    int n = 0, fits = 0;
    CURLU *parts = curl_url();
    if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_PATH, &path, 0) == CURLUE_OK) {
        /* Decoded after it is cut off: an encoded slash separates nothing. */
        const char *slash = strrchr(path, '/');
        last = curl_easy_unescape(NULL, slash ? slash + 1 : path, 0, &n);
    }
    if (last && n > 0 && (size_t)n < cap && strlen(last) == (size_t)n) {
        memcpy(name, last, (size_t)n + 1);
        fits = 1;
    }
    curl_free(last);
    curl_free(path);
    curl_url_cleanup(parts);
    return fits ? 0 : -1;
}

int http_resolve(const char *base, const char *link, char url[HTTP_URL])
{
    char *whole = NULL;
    int result = -1;
    CURLU *parts = curl_url();
    if (parts && curl_url_set(parts, CURLUPART_URL, base, 0) == CURLUE_OK &&
        curl_url_set(parts, CURLUPART_URL, link, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_URL, &whole, 0) == CURLUE_OK) {
        int n = snprintf(url, HTTP_URL, "%s", whole);
        result = n > 0 && n < HTTP_URL ? 0 : -1;
    }
    curl_free(whole);
    curl_url_cleanup(parts);
    return result;
}

/* The certificates of this machine: libcurl was built for one distribution's path, and a program
 * that is carried to another finds them elsewhere. NULL: libcurl's own choice. */
static const char *certificates(void)
{
    static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/ssl/ca-bundle.pem",             /* openSUSE */
        "/etc/ssl/cert.pem",                  /* Alpine, OpenBSD */
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *file = getenv(variables[i]);
        if (file && file[0]) return file;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (rf_path_exists(files[i])) return files[i];
    return NULL;
}

/* The value of the header `name` in a line, without spaces around it; "" for other headers. */
static int header_is(const char *line, size_t n, const char *name, char *value, size_t cap)
{
    size_t n_name = strlen(name);
    if (n <= n_name || strncasecmp(line, name, n_name) != 0 || line[n_name] != ':') return 0;
    const char *at = line + n_name + 1, *end = line + n;
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    while (end > at && strchr(" \t\r\n", end[-1])) end--;
    if ((size_t)(end - at) >= cap) at = end; /* too long to be of use */
    snprintf(value, cap, "%.*s", (int)(end - at), at);
    return 1;
}

/* The address of rel="next" in a Link header (RFC 8288): <URL>; rel="next", ... */
static void take_link(struct transfer *transfer, const char *value)
{
    for (const char *at = value; (at = strchr(at, '<'));) {
        const char *end = strchr(at, '>');
        if (!end) return;
        size_t n = (size_t)(end - at - 1), rest = strcspn(end, ",");
        const char *rel = strstr(end, "rel=\"next\"");
        if (rel && rel < end + rest && n < sizeof transfer->next) {
            memcpy(transfer->next, at + 1, n);
            transfer->next[n] = 0;
            return;
        }
        at = end;
    }
}

/* Headers of refusals: Retry-After in seconds (RFC 9110, 10.2.3), or RateLimit with the seconds
 * until its window ends, t (draft-ietf-httpapi-ratelimit-headers). */
static void take_refusal(struct transfer *transfer, const char *line, size_t n)
{
    struct http_refusal *refusal = &transfer->refusal;
    char value[128];
    header_is(line, n, "X-Error-Code", refusal->reason, sizeof refusal->reason);
    int is_after = header_is(line, n, "Retry-After", value, sizeof value);
    if (!is_after &&
        (refusal->retry_after >= 0 || !header_is(line, n, "RateLimit", value, sizeof value)))
        return;
    const char *number = value, *t = strstr(value, ";t=");
    if (!is_after) number = t ? t + 3 : "";
    size_t digits = strspn(number, "0123456789");
    if (digits && digits < 7) refusal->retry_after = atoi(number);
}

static size_t http_on_header(char *line, size_t size, size_t n, void *user)
{
    struct transfer *transfer = user;
    char value[64];
    (void)size;                                    /* 1 */
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) { /* another answer, after a redirect */
        transfer->etag[0] = transfer->modified[0] = transfer->encoding[0] = 0;
        transfer->range_from = transfer->range_total = -1;
        transfer->next[0] = 0;
        transfer->refusal = (struct http_refusal){.retry_after = -1};
    }
    char link[HTTP_URL + 256];
    if (header_is(line, n, "Link", link, sizeof link)) take_link(transfer, link);
    take_refusal(transfer, line, n);
    if (header_is(line, n, "Content-Range", value, sizeof value)) {
        long long from, to, total;
        int fields = sscanf(value, "bytes %lld-%lld/%lld", &from, &to, &total);
        if (fields >= 2) transfer->range_from = from;
        if (fields == 3) transfer->range_total = total;
    }
    header_is(line, n, "ETag", transfer->etag, sizeof transfer->etag);
    header_is(line, n, "Last-Modified", transfer->modified, sizeof transfer->modified);
    header_is(line, n, "Content-Encoding", transfer->encoding, sizeof transfer->encoding);
    return n;
}

static int http_fail(struct transfer *transfer, int code, const char *format, ...)
{
    char shown[HTTP_SHOWN], text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rf_fail(transfer->error, code, "%s: %s", http_shown(transfer->request->url, shown),
                   text);
}

/* Checks the answer's status and headers, and tells them to the caller. */
static int http_begin(struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    struct http_reply reply = {.total = -1, .validator = "", .next = transfer->next};
    curl_off_t length = -1;
    long status = 0;
    char *url = NULL;
    curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_easy_getinfo(transfer->curl, CURLINFO_EFFECTIVE_URL, &url);
    transfer->began = 1;
    if (status == 416)
        return http_fail(transfer, RF_ERR_CONTEXT, "the file ends before byte %llu",
                         (unsigned long long)request->from);
    if (status != 0 && status != 200 && status != 206) { /* 0: a file */
        transfer->refusal.status = (int)status;
        return http_fail(transfer, RF_ERR_IO, "the server answered with status %ld%s", status,
                         status == 404                    ? " (not found)"
                         : status == 401 || status == 403 ? " (not allowed)"
                         : status == 429                  ? " (too many requests)"
                                                          : "");
    }
    if (transfer->encoding[0] && strcasecmp(transfer->encoding, "identity") != 0)
        return http_fail(transfer, RF_ERR_IO, "the server sends it compressed (%s), unasked",
                         transfer->encoding);
    reply.url = url ? url : request->url;
    /* Weak validators (W/) do not promise equal bytes, so RFC 9110 keeps them out of If-Range. */
    if (transfer->etag[0] == '"')
        reply.validator = transfer->etag;
    else if (!transfer->etag[0])
        reply.validator = transfer->modified;
    reply.total = length;
    if (status == 206) {
        if (transfer->range_from != (int64_t)request->from)
            return http_fail(transfer, RF_ERR_IO, "the server sent another part than asked for");
        reply.from = request->from;
        reply.total = transfer->range_total >= 0 ? transfer->range_total
                      : length >= 0              ? (int64_t)request->from + length
                                                 : -1;
    }
    return request->begin(request->user, &reply, transfer->error);
}

static size_t http_on_data(char *data, size_t size, size_t n, void *user)
{
    struct transfer *transfer = user;
    const struct http_request *request = transfer->request;
    (void)size; /* 1 */
    if (!transfer->began) transfer->code = http_begin(transfer);
    if (!transfer->code) transfer->code = request->data(request->user, data, n, transfer->error);
    return transfer->code ? 0 : n;
}

static int http_on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct transfer *transfer = user;
    (void)a, (void)b, (void)c, (void)d;
    if (transfer->request->poll(transfer->request->user))
        transfer->code = http_fail(transfer, RF_ERR_CANCELLED, "interrupted");
    return transfer->code != 0;
}

/* Only these protocols, and after redirects no weaker one: https stays https. */
static void allow_protocols(CURL *curl, int is_https)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http,file");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "https,http");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS,
                     (long)(CURLPROTO_HTTPS | CURLPROTO_HTTP | CURLPROTO_FILE));
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS,
                     (long)(is_https ? CURLPROTO_HTTPS : CURLPROTO_HTTPS | CURLPROTO_HTTP));
#endif
}

/* Whether nobody can read what is sent to this address on its way. */
static int keeps_secrets(const char *url)
{
    static const char *const local[] = {"http://localhost", "http://127.0.0.1", "http://[::1]"};
    if (strncasecmp(url, "https://", 8) == 0) return 1;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        size_t n = strlen(local[i]);
        if (strncasecmp(url, local[i], n) == 0 && (!url[n] || strchr(":/", url[n]))) return 1;
    }
    return 0;
}

/* The request's headers, for curl_slist_free_all; NULL if memory is short. */
static struct curl_slist *http_headers(const struct http_request *request)
{
    char line[1024];
    /* The hash is of the file, so nothing may be compressed on the way. */
    struct curl_slist *all = curl_slist_append(NULL, "Accept-Encoding: identity"), *more = all;
    if (more && request->accept) {
        snprintf(line, sizeof line, "Accept: %s", request->accept);
        more = curl_slist_append(all, line);
    }
    if (more && request->from && request->validator && request->validator[0]) {
        snprintf(line, sizeof line, "If-Range: %s", request->validator);
        more = curl_slist_append(all, line);
    }
    /* curl leaves this header out once a redirect leads to another host, port or protocol. */
    if (more && request->token && keeps_secrets(request->url)) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", request->token);
        more = curl_slist_append(all, line);
    }
    if (!more) curl_slist_free_all(all);
    return more ? all : NULL;
}

static void http_set_options(struct transfer *transfer, struct curl_slist *headers)
{
    const struct http_request *request = transfer->request;
    CURL *curl = transfer->curl;
    const char *file = certificates();
    curl_easy_setopt(curl, CURLOPT_URL, request->url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "riffle");
    allow_protocols(curl, strncasecmp(request->url, "https:", 6) == 0);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (file) curl_easy_setopt(curl, CURLOPT_CAINFO, file);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)request->timeout_seconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)request->timeout_seconds);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->words);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, http_on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, http_on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, http_on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
    if (request->from && strncasecmp(request->url, "file:", 5) != 0) {
        char range[32];
        snprintf(range, sizeof range, "%llu-", (unsigned long long)request->from);
        curl_easy_setopt(curl, CURLOPT_RANGE, range);
    }
}

/* A sentence for libcurl's failure. */
static int http_explain(struct transfer *transfer, CURLcode result)
{
    int seconds = transfer->request->timeout_seconds;
    curl_off_t connected = 0;
    curl_easy_getinfo(transfer->curl, CURLINFO_PRETRANSFER_TIME_T, &connected);
    const char *words = transfer->words[0] ? transfer->words : curl_easy_strerror(result);
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return connected
                   ? http_fail(transfer, RF_ERR_IO, "nothing came for %d seconds", seconds)
                   : http_fail(transfer, RF_ERR_IO, "no connection within %d seconds", seconds);
    case CURLE_PARTIAL_FILE:
        return http_fail(transfer, RF_ERR_IO, "the connection ended before the file did");
    case CURLE_TOO_MANY_REDIRECTS:
        return http_fail(transfer, RF_ERR_IO, "more than %d redirects", MOST_REDIRECTS);
    case CURLE_UNSUPPORTED_PROTOCOL:
        return http_fail(transfer, RF_ERR_IO,
                         "redirects to an address that is not encrypted, or to "
                         "another kind of address");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: {
        const char *file = certificates();
        return http_fail(transfer, RF_ERR_IO, "%s (certificates: %s; SSL_CERT_FILE names others)",
                         words, file ? file : "libcurl's own");
    }
    default: break;
    }
    return http_fail(transfer, RF_ERR_IO, "%s", words);
}

/* One attempt. */
static int http_attempt(const struct http_request *request, struct http_refusal *refusal,
                        struct rf_error *error)
{
    struct transfer transfer = {.request = request, .error = error, .curl = curl_easy_init()};
    struct curl_slist *headers = http_headers(request);
    int code = 0;
    transfer.range_from = transfer.range_total = -1;
    transfer.refusal.retry_after = -1;
    if (!transfer.curl || !headers) {
        code = rf_fail(error, RF_ERR_MEMORY, "no memory for a transfer");
    } else {
        http_set_options(&transfer, headers);
        CURLcode result = curl_easy_perform(transfer.curl);
        if (result == CURLE_OK && !transfer.began) transfer.code = http_begin(&transfer);
        code = transfer.code        ? transfer.code
               : result != CURLE_OK ? http_explain(&transfer, result)
                                    : 0;
    }
    *refusal = transfer.refusal;
    curl_slist_free_all(headers);
    if (transfer.curl) curl_easy_cleanup(transfer.curl);
    return code;
}

/* Waits so many seconds, unless it is interrupted. */
static int http_wait(const struct http_request *request, int seconds, struct rf_error *error)
{
    char shown[HTTP_SHOWN];
    CURLM *nothing = curl_multi_init();
    int stops = 0;
    double end = rf_clock_seconds() + seconds;
    while (nothing && !stops && rf_clock_seconds() < end) {
        curl_multi_poll(nothing, NULL, 0, 100, NULL);
        stops = request->poll(request->user);
    }
    curl_multi_cleanup(nothing);
    return stops ? rf_fail(error, RF_ERR_CANCELLED, "%s: interrupted",
                           http_shown(request->url, shown))
                 : 0;
}

int http_get(const struct http_request *request, struct rf_error *error)
{
    static int prepared;
    struct http_refusal own, *refusal = request->refusal ? request->refusal : &own;
    if (!prepared && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return rf_fail(error, RF_ERR_SYSTEM, "libcurl cannot be used");
    prepared = 1;
    for (int attempt = 1;; attempt++) {
        int code = http_attempt(request, refusal, error);
        int is_busy = refusal->status == 429 || refusal->status == 503;
        if (!is_busy || refusal->retry_after < 0 || refusal->retry_after > MOST_WAIT ||
            attempt == MOST_ATTEMPTS)
            return code;
        code = http_wait(request, refusal->retry_after, error);
        if (code) return code;
    }
}
