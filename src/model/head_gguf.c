/* A draft head in a GGUF file: llama.cpp's keys of the architecture eagle3, or those of a model
 * with a layer for further tokens, and ours under riffle.head. head.c gives it to open.c as a
 * reader. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"
#include "model/gguf.h"
#include "model/head_reader.h"

static int32_t head_count(struct rf_gguf *gguf, const char *key)
{
    return (int32_t)rf_gguf_integer(gguf, key, 1, INT32_MAX, 0);
}

/* llama.cpp's converter writes the target's vocabulary, too. */
static int32_t read_vocab_size(struct rf_gguf *gguf)
{
    int32_t stated = head_count(gguf, ".vocab_size");
    const struct rf_gguf_value *tokens = rf_gguf_find(gguf, "tokenizer.ggml.tokens");
    if (stated || !tokens || tokens->type != RF_GGUF_ARRAY || tokens->count > INT32_MAX)
        return stated;
    return (int32_t)tokens->count;
}

static void read_target_layers(struct rf_gguf *gguf, struct rf_head_reading *of)
{
    const struct rf_gguf_value *layers = rf_gguf_integers(gguf, ".target_layers");
    if (!layers) {
        rf_gguf_missing(gguf);
        return;
    }
    if (layers->count != RF_HEAD_TAPS)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s has %" PRIu64 " elements; a draft head reads %d layers", gguf->key,
               layers->count, RF_HEAD_TAPS);
    for (uint64_t i = 0; !gguf->reading->code && i < RF_HEAD_TAPS; i++)
        of->layers[i] = rf_gguf_element(layers, i);
}

/* The target's fingerprint, 16 lower-case digits. */
static uint64_t read_fingerprint(struct rf_gguf *gguf)
{
    static const char digits[] = "0123456789abcdef";
    struct rf_str text = rf_gguf_string(gguf, "riffle.head.target", (struct rf_str){NULL, 0});
    uint64_t value = 0;
    int is_bad = text.data && text.bytes != 16;
    for (size_t i = 0; i < text.bytes && !is_bad; i++) {
        const char *digit = memchr(digits, text.data[i], 16);
        is_bad = !digit;
        if (digit) value = value << 4 | (uint64_t)(digit - digits);
    }
    if (is_bad)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key riffle.head.target is not a fingerprint of 16 lower-case hexadecimal digits");
    return value;
}

/* The first line. */
static const char *read_recipe(struct rf_gguf *gguf)
{
    struct rf_str text = rf_gguf_string(gguf, "riffle.head.recipe", (struct rf_str){NULL, 0});
    const char *end = text.bytes ? memchr(text.data, '\n', text.bytes) : NULL;
    if (end) text.bytes = (size_t)(end - text.data);
    return text.bytes ? rf_keep_text(gguf->reading, text) : NULL;
}

/* The rows of the target's output matrix that are the head's, by their tokens. */
static void read_output_rows(struct rf_gguf *gguf, struct rf_head_reading *of)
{
    struct rf_reading *reading = gguf->reading;
    const struct rf_gguf_value *rows = rf_gguf_integers(gguf, "riffle.head.output_rows");
    int32_t n_vocab = of->target->params.n_vocab;
    int64_t before = -1;
    if (!rows) return;
    if (rows->count < 1 || rows->count > (uint64_t)n_vocab)
        rf_bad(reading, rows->count ? RF_ERR_ARGUMENT : RF_ERR_FORMAT,
               "chooses %" PRIu64 " output rows (riffle.head.output_rows), but the target has "
               "%" PRId32,
               rows->count, n_vocab);
    int32_t *tokens =
        reading->code ? NULL : rf_keep(reading, (size_t)rows->count, sizeof *tokens, "output rows");
    for (uint64_t i = 0; tokens && i < rows->count; i++) {
        int64_t value = rf_gguf_element(rows, i);
        if (value < 0)
            rf_bad(reading, RF_ERR_FORMAT, "key %s has the row %" PRId64, gguf->key, value);
        else if (value <= before)
            rf_bad(reading, RF_ERR_FORMAT, "key %s is not ascending: %" PRId64 " follows %" PRId64,
                   gguf->key, value, before);
        else if (value >= n_vocab)
            rf_bad(reading, RF_ERR_ARGUMENT,
                   "is a head of another target: it chooses output row %" PRId64
                   " (riffle.head.output_rows), but the target has %" PRId32,
                   value, n_vocab);
        if (reading->code) return;
        tokens[i] = (int32_t)value;
        before = value;
    }
    of->head->tokens = tokens;
    of->head->n_rows = tokens ? (int32_t)rows->count : 0;
}

static void read_ours(struct rf_gguf *gguf, struct rf_head_reading *of)
{
    static const struct rf_str none = {NULL, 0};
    struct rf_source *source = gguf->reading->source;
    read_output_rows(gguf, of);
    of->head->target = read_fingerprint(gguf);
    const char *recipe = read_recipe(gguf);
    if (recipe) of->head->recipe = recipe;
    source->name = rf_keep_text(gguf->reading, rf_gguf_string(gguf, "general.name", none));
    source->container = gguf->version == 2 ? "GGUF v2" : "GGUF v3";
}

static void read_head(struct rf_gguf *gguf, struct rf_head_reading *of)
{
    struct rf_head_file *head = of->head;
    head->n_embd_target = head_count(gguf, ".target_hidden_size");
    head->n_vocab_target = read_vocab_size(gguf);
    head->norm_before_fc = rf_gguf_bool(gguf, ".norm_before_fc", 0);
    head->norm_before_residual = rf_gguf_bool(gguf, ".norm_before_residual", 0);
    read_target_layers(gguf, of);
    read_ours(gguf, of);
    of->ids = gguf->ids;
    of->n_ids = gguf->n_ids;
}

/* Whether the file is of a model with a layer for further tokens that is known. */
static int has_mtp(struct rf_gguf *gguf)
{
    struct rf_str name = rf_gguf_string(gguf, "general.architecture", (struct rf_str){NULL, 0});
    char key[64];
    snprintf(key, sizeof key, "%.*s.nextn_predict_layers", rf_shown(name), name.data);
    for (const struct rf_arch_row *row = rf_arch_rows; row->name; row++)
        if (rf_str_is(name, row->name)) return rf_knows_mtp(row->arch) && rf_gguf_find(gguf, key);
    return 0;
}

/* A file of the target's architecture: the target's own, or one of the head alone. */
static void read_mtp(struct rf_gguf *gguf, struct rf_head_reading *of)
{
    struct rf_reading *reading = gguf->reading;
    rf_gguf_join_parts(gguf);
    if (!reading->code && has_mtp(gguf))
        rf_gguf_read_params(gguf);
    else
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is not a draft head: general.architecture is not " RF_GGUF_HEAD
               ", and the file has no draft of its own that is known here");
    rf_mtp_begin(of, reading, gguf->n_further);
    if (!reading->code) read_ours(gguf, of);
    rf_mtp_check(of, reading);
}

int rf_head_read_gguf(struct rf_source *source, const char *path, const unsigned char *data,
                      size_t bytes, void *user, struct rf_error *error)
{
    struct rf_head_reading *of = user;
    struct rf_reading reading = rf_reading_of(source, path, error);
    struct rf_gguf gguf = {.reading = &reading};
    int code = rf_gguf_parse(&gguf, data, bytes);
    if (!code && !gguf.is_head) {
        read_mtp(&gguf, of);
    } else {
        if (!code) rf_gguf_read_params(&gguf);
        if (!reading.code && rf_head_new(of, &reading)) read_head(&gguf, of);
        rf_head_check(of, &reading);
    }
    rf_arena_free(&reading.arena);
    return reading.code;
}
