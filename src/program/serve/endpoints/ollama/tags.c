/* GET /api/tags: the models, in ollama's form. */
#include "serve/endpoints/ollama/tags.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "requests/ollama_reply.h"
#include "serve/send.h"

enum { DIGEST_TEXT = 65, WORD = 32 };

/* The text's hash of 64 bits (FNV-1a), from a beginning of its own for each part of a digest. */
static uint64_t hash_of(const char *text, uint64_t hash)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Clients show the beginning of a digest as the model's id. The file is not read for it: what is
 * known of the model takes its place. */
static void write_digest(const struct answerer *of, const riffle_model_info *info,
                         char digest[DIGEST_TEXT])
{
    char text[512];
    snprintf(text, sizeof text, "%.200s %" PRIu64 " %" PRIu64 " %.200s", of->name, info->file_bytes,
             info->n_params, info->stored_types);
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
    write_digest(of, &info, digest);
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", of->name, "model", of->name, "size",
                     (json_int_t)info.file_bytes, "digest", digest, "details", details_of(&info));
}

static json_t *say_tag(const struct answerer *of, const struct server *server)
{
    char time[RF_UTC_TEXT];
    json_t *entry = ollama_entry(of);
    rf_clock_utc_of(server->started, time);
    json_object_set_new(entry, "modified_at", json_string(time));
    return entry;
}

static void send_tags(struct exchange *exchange)
{
    send_models(exchange, json_object(), "models", say_tag);
}

const struct endpoint endpoint_ollama_tags = {"GET", "/api/tags", .send = send_tags,
                                              .form = &ollama_form};
