/* SentencePiece vocabularies with merges in place of scores: characters are the symbols that
 * bpe_merge.c joins. All 256 byte tokens must exist; they stand for characters without a piece.
 * tokenizer.c calls it. */
#include "text/spm_merge.h"

#include "base/utf8.h"
#include "text/bpe_merge.h"
#include "text/strmap.h"

struct rf_spm_merge {
    const struct rf_allocator *allocator;
    const struct rf_spm_model *model;
    struct rf_strmap ids; /* key: text */
    struct rf_merges merges;
};

struct rf_spm_merge *rf_spm_merge_new(const struct rf_spm_model *model,
                                      const struct rf_vocab *vocab, struct rf_reading *reading)
{
    struct rf_spm_merge *merge = rf_take(reading, 1, sizeof *merge, "tokenizer");
    if (!merge) return NULL;
    merge->allocator = reading->arena.allocator;
    merge->model = model;
    if (model->bytes[0] < 0)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "a vocabulary of characters with merges needs the 256 byte tokens");
    if (reading->code) return NULL;
    reading->code = rf_strmap_init(&merge->ids, model->pieces, model->n_pieces, merge->allocator,
                                   reading->error);
    for (int32_t id = 0; !reading->code && id < model->n_pieces; id++)
        if (model->pieces[id].bytes) rf_strmap_put(&merge->ids, id, 0);
    rf_merges_read(&merge->merges, &merge->ids, vocab, reading);
    if (!reading->code) return merge;
    rf_spm_merge_free(merge);
    return NULL;
}

void rf_spm_merge_free(struct rf_spm_merge *merge)
{
    if (merge) rf_strmap_free(&merge->ids, merge->allocator);
}

/* Writes the piece of a character, or the pieces of its bytes, and returns their number. */
static size_t put_character(const struct rf_spm_merge *merge, struct rf_str text, int32_t *symbols)
{
    const struct rf_spm_model *model = merge->model;
    if (text.bytes == 1 && text.data[0] == ' ') text = rf_str_of("\xe2\x96\x81");
    int32_t id = rf_strmap_find(&merge->ids, text, (struct rf_str){"", 0});
    if (id >= 0 && model->types[id] == RF_TOKEN_NORMAL) {
        symbols[0] = id;
        return 1;
    }
    for (size_t i = 0; i < text.bytes; i++) symbols[i] = model->bytes[(unsigned char)text.data[i]];
    return text.bytes;
}

void rf_spm_merge_encode(const struct rf_spm_merge *merge, const char *text, size_t n, int prefix,
                         struct rf_token_writer *out)
{
    enum { SPACE = 3 /* symbols of a space that has no piece */ };
    if (out->code) return;
    size_t made = 0, most = SPACE;
    for (size_t i = 0; i < n; i++) most += text[i] == ' ' ? SPACE : 1;
    int32_t *symbols = rf_malloc(out->allocator, most, sizeof *symbols, "token ids", out->error);
    int64_t left = RF_ERR_MEMORY;
    if (symbols) {
        if (prefix) made += put_character(merge, rf_str_of(" "), symbols);
        for (size_t at = 0, length; at < n; at += length) {
            length = rf_utf8_length(text + at, n - at);
            made += put_character(merge, (struct rf_str){text + at, length}, symbols + made);
        }
        left = rf_merge_word(&merge->merges, symbols, made, out->allocator, out->error);
    }
    if (left < 0)
        out->code = (int)left;
    else
        rf_tokens_append(out, symbols, (size_t)left);
    rf_free(out->allocator, symbols);
}
