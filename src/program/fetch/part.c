/* The bytes of a file that is not complete, with their running hash and the state beside them. The
 * lock of the file is held from part_open until it is published, closed or dropped. */
#include "fetch/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/folder.h"

static void part_state_path(const struct part *part, char path[FETCH_PATH + 8])
{
    snprintf(path, FETCH_PATH + 8, "%s.state", part->file.path);
}

/* A state that cannot be read names no source, so nothing is resumed. */
static void part_load(struct part *part)
{
    char path[FETCH_PATH + 8], *text;
    struct part_state *state = &part->state;
    struct rf_error error;
    size_t n;
    int consumed = 0;
    *state = (struct part_state){.total = -1};
    part_state_path(part, path);
    if (rf_kind_of(path) != RF_KIND_FILE) return; /* neither a link nor a pipe is ours */
    if (rf_slurp(path, sizeof *state + 256, &text, &n, &error) != 0) return;
    int fields = sscanf(text,
                        "source %2047[^\n]\ntotal %" SCNd64 "\nkept %" SCNu64 "\nsteps %d\n"
                        "validator%n",
                        state->source, &state->total, &state->kept, &state->steps, &consumed);
    if (fields == 4 && consumed)
        sscanf(text + consumed, " %255[^\n]", state->validator);
    else
        *state = (struct part_state){.total = -1};
    free(text);
}

int part_save(const struct part *part, struct rf_error *error)
{
    char path[FETCH_PATH + 8], text[sizeof part->state + 256];
    const struct part_state *state = &part->state;
    part_state_path(part, path);
    int n = snprintf(text, sizeof text,
                     "source %s\ntotal %" PRId64 "\nkept %" PRIu64 "\nsteps %d\nvalidator %s\n",
                     state->source, state->total, state->kept, state->steps, state->validator);
    struct rf_span span = {text, (size_t)n};
    /* An address may hold a password. */
    return rf_write_file(path, &span, 1, RF_NEW_CACHE | RF_NEW_PRIVATE, error);
}

int part_open(struct part *part, const char *path, const char *suffix, struct rf_error *error)
{
    char beside[FETCH_PATH];
    *part = (struct part){.state.total = -1};
    if (fetch_beside(path, suffix, beside) != 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", path);
    int code = rf_partial_open(&part->file, beside, error);
    if (!code) part_load(part);
    return code;
}

int part_keep(struct part *part, uint64_t bytes, fetch_progress *progress, void *user,
              struct rf_error *error)
{
    static char chunk[1 << 20];
    int code = rf_partial_cut(&part->file, bytes, error);
    if (!code) code = sha256_begin(&part->hash, error);
    for (uint64_t at = 0; !code && at < bytes;) {
        int64_t n = rf_partial_read(&part->file, at, chunk, sizeof chunk, error);
        if (n <= 0)
            return n ? (int)n : rf_fail(error, RF_ERR_IO, "%s: ends early", part->file.path);
        code = sha256_update(&part->hash, chunk, (size_t)n, error);
        at += (uint64_t)n;
        if (!code && progress(user, "checking", at, bytes))
            code = rf_fail(error, RF_ERR_CANCELLED, "interrupted");
    }
    return code;
}

int part_restart(struct part *part, const char *source, struct rf_error *error)
{
    part->state = (struct part_state){.total = -1};
    snprintf(part->state.source, sizeof part->state.source, "%s", source);
    int code = rf_partial_cut(&part->file, 0, error);
    return code ? code : sha256_begin(&part->hash, error);
}

int part_append(struct part *part, const void *data, size_t n, struct rf_error *error)
{
    int code = rf_partial_append(&part->file, data, n, error);
    return code ? code : sha256_update(&part->hash, data, n, error);
}

static void part_remove_state(const struct part *part)
{
    char path[FETCH_PATH + 8];
    struct rf_error ignored;
    part_state_path(part, path);
    rf_remove(path, &ignored);
}

int part_publish(struct part *part, const char *path, struct rf_error *error)
{
    int code = rf_partial_publish(&part->file, path, error);
    if (code) return code;
    part_remove_state(part);
    sha256_close(&part->hash);
    return 0;
}

void part_close(struct part *part)
{
    if (!part->file.bytes) {
        part_drop(part);
        return;
    }
    rf_partial_close(&part->file);
    sha256_close(&part->hash);
}

void part_drop(struct part *part)
{
    part_remove_state(part); /* while the lock is held */
    rf_partial_drop(&part->file);
    sha256_close(&part->hash);
}
