/* GET /api/tags: the models that requests may name, in ollama's form. What is in a file is known of
 * open models alone. */
#include "serve/endpoints/ollama/tags.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/file.h"
#include "requests/ollama_reply.h"
#include "serve/send.h"

enum { DIGEST_TEXT = 65, WORD = 32 };

/* The text's hash of 64 bits (FNV-1a), from a beginning of its own for each part of a digest. */
static uint64_t hash_of(const char *text, uint64_t hash)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Clients show the beginning of a digest as the model's id. The file is not read for it, so a
 * closed model has that of an open one. */
static void write_digest(const char *name, int64_t bytes, char digest[DIGEST_TEXT])
{
    char text[512];
    snprintf(text, sizeof text, "%.400s %" PRId64, name, bytes);
    for (uint64_t i = 0; i < 4; i++)
        snprintf(digest + 16 * i, DIGEST_TEXT - 16 * i, "%016" PRIx64,
                 hash_of(text, UINT64_C(0xcbf29ce484222325) + i));
}

/* "134.5M", "1.5B" */
static void write_size(uint64_t params, char text[WORD])
{
    double millions = (double)params / 1e6;
    if (millions >= 1000.0)
        snprintf(text, WORD, "%.1fB", millions / 1000.0);
    else
        snprintf(text, WORD, "%.2fM", millions);
}

/* The first word, in small letters. */
static void first_word(const char *text, char word[WORD])
{
    size_t n = 0;
    for (; text[n] && text[n] != ' ' && n + 1 < WORD; n++)
        word[n] = (char)tolower((unsigned char)text[n]);
    word[n] = '\0';
}

static json_t *details_of(const riffle_model_info *info)
{
    char size[WORD], format[WORD], type[WORD];
    write_size(info->n_params, size);
    first_word(info->container, format);
    first_word(info->stored_types, type);
    for (char *at = type; *at; at++) *at = (char)toupper((unsigned char)*at);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", format,
                     "family", info->architecture, "families", info->architecture, "parameter_size",
                     size, "quantization_level", info->file_type[0] ? info->file_type : type);
}

json_t *ollama_entry(const struct answerer *of)
{
    char digest[DIGEST_TEXT];
    riffle_model_info info;
    riffle_model_get_info(of->model, &info, sizeof info);
    write_digest(of->name, (int64_t)info.file_bytes, digest);
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", of->name, "model", of->name, "size",
                     (json_int_t)info.file_bytes, "digest", digest, "details", details_of(&info));
}

/* A model that is not open. */
static json_t *closed_entry(const char *name, const char *path)
{
    static const riffle_model_info nothing = {
        .architecture = "", .container = "", .stored_types = "", .file_type = ""};
    char digest[DIGEST_TEXT];
    int64_t bytes = rf_file_bytes(path);
    write_digest(name, bytes, digest);
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", name, "model", name, "size",
                     (json_int_t)(bytes > 0 ? bytes : 0), "digest", digest, "details",
                     details_of(&nothing));
}

struct tags {
    struct server *server;
    json_t *list;
    char time[RF_UTC_TEXT];
};

static void list_tag(void *to, const char *name, const char *path)
{
    const struct tags *tags = to;
    rf_lock_take(&tags->server->lock);
    const struct served_model *row = models_row(&tags->server->models, name, path);
    json_t *entry = row && row->open ? ollama_entry(&row->open->answerer) : NULL;
    rf_lock_release(&tags->server->lock);
    if (!entry && reply_can_name(name)) entry = closed_entry(name, path);
    if (!entry) return;
    json_object_set_new(entry, "modified_at", json_string(tags->time));
    json_array_append_new(tags->list, entry);
}

static char *tell_tags(struct server *server, const char *rest, struct refusal *refusal)
{
    const struct rf_serve_options *options = server->options;
    struct tags tags = {.server = server, .list = json_array()};
    (void)rest, (void)refusal;
    if (!tags.list) return NULL;
    rf_clock_utc_of(server->started, tags.time);
    options->each(options->user, list_tag, &tags);
    return reply_write(json_pack("{s:o}", "models", tags.list), 0);
}

const struct endpoint endpoint_ollama_tags = {"GET", "/api/tags", .tell = tell_tags,
                                              .form = &ollama_form};
