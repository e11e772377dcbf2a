/* Downloads one URL into a part. Bytes of an earlier call are only kept if the server proves that
 * they are of the same version of the file. */
#include "fetch/download.h"

#include <inttypes.h>
#include <string.h>

#include "fetch/order.h"
#include "platform/folder.h"

static const uint64_t margin = 64u << 20; /* bytes that are left free on the disk for others */

struct state {
    const struct download *wanted;
    struct part *part;
    int restarts; /* the whole file comes, but the part was not emptied yet */
    int64_t total;
    char validator[256];
};

int download_check_space(const char *path, uint64_t more, struct rf_error *error)
{
    uint64_t free_bytes;
    int code = rf_free_bytes(path, &free_bytes, error);
    if (code || free_bytes >= margin + more) return code;
    return rf_fail(error, RF_ERR_SYSTEM,
                   "%s: %" PRIu64 " MB more do not fit, %" PRIu64 " MB are free (%" PRIu64
                   " are left for others)",
                   path, more / 1000000, free_bytes / 1000000, margin / 1000000);
}

int download_check_hash(struct part *part, const char *source, const char *sha256,
                        char text[SHA256_TEXT], struct rf_error *error)
{
    char shown[HTTP_SHOWN];
    int code = sha256_end(&part->hash, text, error);
    if (code || !sha256 || strcmp(text, sha256) == 0) return code;
    return rf_fail(error, RF_ERR_FORMAT, "%s gave a file with the SHA-256 %s, not %s",
                   http_shown(source, shown), text, sha256);
}

/* Whether the bytes in the part are known to be of the file that the URL gives now: the server is
 * asked with If-Range, or the hash will tell. */
static int can_continue(const struct download *wanted, const struct part *part)
{
    const struct part_state *state = &part->state;
    return part->file.bytes > 0 && strcmp(state->source, wanted->url) == 0 &&
           (state->validator[0] || wanted->sha256) &&
           (state->total < 0 || part->file.bytes <= (uint64_t)state->total);
}

static int check_length(const struct download *wanted, int64_t total, struct rf_error *error)
{
    char shown[HTTP_SHOWN];
    http_shown(wanted->url, shown);
    if (total < 0 && !wanted->sha256)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: the server does not say how long the file is, so nothing shows that "
                       "all of it came; --sha256 would",
                       shown);
    if (total >= 0 && wanted->bytes >= 0 && total != wanted->bytes)
        return rf_fail(error, RF_ERR_FORMAT, "%s has %" PRId64 " bytes instead of %" PRId64, shown,
                       total, wanted->bytes);
    if (wanted->most_bytes && total > 0 && (uint64_t)total > wanted->most_bytes)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s has %" PRId64 " bytes, more than the %" PRIu64 " that are allowed",
                       shown, total, wanted->most_bytes);
    return 0;
}

/* The reply is good: its bytes are appended, or replace the bytes of the part. */
static int adopt(struct state *state, struct rf_error *error)
{
    struct part *part = state->part;
    int code = state->restarts ? part_restart(part, state->wanted->url, error) : 0;
    if (code) return code;
    state->restarts = 0;
    part->state.total = state->total;
    memcpy(part->state.validator, state->validator, sizeof state->validator);
    if (state->total > 0)
        code =
            download_check_space(part->file.path, (uint64_t)state->total - part->file.bytes, error);
    return code ? code : part_save(part, error);
}

static int download_on_begin(void *user, const struct http_reply *reply, struct rf_error *error)
{
    struct state *state = user;
    const struct part *part = state->part;
    int code = check_length(state->wanted, reply->total, error);
    /* Not every answer is the server's: a network that wants a login must not cost the part. */
    if (code && part->file.bytes) code = error->code = RF_ERR_IO;
    if (code) return code;
    state->total = reply->total;
    state->validator[0] = 0;
    if (strlen(reply->validator) < sizeof state->validator)
        strcpy(state->validator, reply->validator);
    state->restarts = reply->from != part->file.bytes; /* no ranges, or another version */
    if (state->restarts) return 0;
    if (part->file.bytes && reply->total != part->state.total)
        return rf_fail(error, RF_ERR_CONTEXT, "the file has another length now");
    return adopt(state, error);
}

static int check_magic(const struct download *wanted, const struct part *part,
                       struct rf_error *error)
{
    char first[8], shown[HTTP_SHOWN];
    size_t n = strlen(wanted->magic);
    int64_t got = rf_partial_read(&part->file, 0, first, n, error);
    if (got < 0) return (int)got;
    if ((size_t)got == n && memcmp(first, wanted->magic, n) == 0) return 0;
    return rf_fail(error, RF_ERR_FORMAT, "%s gave something that is not a %s file",
                   http_shown(wanted->url, shown), wanted->magic);
}

/* Shows the first bytes to the caller. */
static int peek(const struct download *wanted, const struct part *part, struct rf_error *error)
{
    char first[FETCH_PEEK];
    if (!wanted->peek) return 0;
    int64_t got = rf_partial_read(&part->file, 0, first, sizeof first, error);
    if (got < 0) return (int)got;
    return got == FETCH_PEEK ? wanted->peek(wanted->user, first, error) : 0;
}

/* The first bytes of the whole file have come. What there is of it goes if they can be a model's.
 */
static int download_replace(struct state *state, const void *data, size_t n, struct rf_error *error)
{
    const char *magic = state->wanted->magic ? state->wanted->magic : "";
    char shown[HTTP_SHOWN];
    if (n >= strlen(magic) && memcmp(data, magic, strlen(magic)) == 0) return adopt(state, error);
    return rf_fail(error, RF_ERR_IO, "%s gives something that is not a %s file now",
                   http_shown(state->wanted->url, shown), magic);
}

static int download_on_data(void *user, const void *data, size_t n, struct rf_error *error)
{
    struct state *state = user;
    const struct download *wanted = state->wanted;
    struct part *part = state->part;
    int code = state->restarts ? download_replace(state, data, n, error) : 0;
    if (code) return code;
    uint64_t before = part->file.bytes, most = wanted->most_bytes;
    if (wanted->bytes >= 0) most = (uint64_t)wanted->bytes;
    if (part->state.total >= 0) most = (uint64_t)part->state.total;
    if (most && n > most - before) {
        char shown[HTTP_SHOWN];
        return rf_fail(error, RF_ERR_FORMAT, "%s sends more than %" PRIu64 " bytes",
                       http_shown(wanted->url, shown), most);
    }
    /* Only the disk limits a file without an announced length, so its space is asked at times. */
    if (part->state.total < 0 && before >> 24 != (before + n) >> 24) {
        code = download_check_space(part->file.path, 0, error);
        if (code) return code;
    }
    code = part_append(part, data, n, error);
    size_t needed = wanted->magic ? strlen(wanted->magic) : 0;
    if (!code && before < needed && before + n >= needed) code = check_magic(wanted, part, error);
    if (!code && before < FETCH_PEEK && before + n >= FETCH_PEEK) code = peek(wanted, part, error);
    return code;
}

static int download_on_poll(void *user)
{
    struct state *state = user;
    const struct download *wanted = state->wanted;
    uint64_t total = wanted->done_total;
    if (!total && state->part->state.total > 0) total = (uint64_t)state->part->state.total;
    return wanted->progress(wanted->user, "fetching", wanted->done_before + state->part->file.bytes,
                            total);
}

/* Asks for the missing bytes. A whole part gives its last byte back, so that the server can say
 * whether it is still that file. */
static int attempt(const struct download *wanted, struct part *part, struct rf_error *error)
{
    struct state state = {.wanted = wanted, .part = part};
    uint64_t from = part->file.bytes;
    int code;
    if (can_continue(wanted, part)) {
        if (part->state.total > 0 && from == (uint64_t)part->state.total) from--;
        code = part_keep(part, from, wanted->progress, wanted->user, error);
    } else {
        from = 0;
        code = part_restart(part, wanted->url, error);
    }
    if (code) return code;
    const struct http_request request = {.url = wanted->url,
                                         .from = from,
                                         .validator = part->state.validator,
                                         .token = wanted->token,
                                         .refusal = wanted->refusal,
                                         .timeout_seconds = wanted->timeout_seconds,
                                         .begin = download_on_begin,
                                         .data = download_on_data,
                                         .poll = download_on_poll,
                                         .user = &state};
    return http_get(&request, error);
}

int download(const struct download *wanted, struct part *part, char sha256[SHA256_TEXT],
             struct rf_error *error)
{
    char shown[HTTP_SHOWN];
    if (strlen(wanted->url) >= HTTP_URL)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.100s...: the address is too long", wanted->url);
    int code = attempt(wanted, part, error);
    if (code == RF_ERR_CONTEXT &&
        part->file.bytes) { /* the bytes on the disk are of another version */
        code = part_restart(part, "", error);
        if (!code) code = attempt(wanted, part, error);
    }
    if (code == RF_ERR_CONTEXT) code = error->code = RF_ERR_IO; /* the file keeps changing */
    if (code) return code;
    int64_t bytes = part->state.total >= 0 ? part->state.total : wanted->bytes;
    if (bytes >= 0 && part->file.bytes != (uint64_t)bytes)
        return rf_fail(error, RF_ERR_IO, "%s ended after %" PRIu64 " of %" PRId64 " bytes",
                       http_shown(wanted->url, shown), part->file.bytes, bytes);
    if (wanted->magic && (code = check_magic(wanted, part, error))) return code;
    return download_check_hash(part, wanted->url, wanted->sha256, sha256, error);
}
