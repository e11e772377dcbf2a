/* The vocabulary of word pieces of a tokenizer.json, and the tokens around an encoder's text.
 * hf_tokenizer.c calls this. */
#include <stdio.h>
#include <string.h>

#include "model/hf.h"

static const char file[] = "tokenizer.json";

/* Pieces that begin a word begin with U+2581 here, others lose the file's mark ("##"). Tokens in
 * brackets are special ones and keep their names. */
static void set_piece(struct rf_hf *hf, struct rf_str text, int64_t id, struct rf_str mark)
{
    enum { LONGEST = 1024 };
    char piece[LONGEST + 4];
    int is_rest = text.bytes > mark.bytes && memcmp(text.data, mark.data, mark.bytes) == 0;
    int is_named = text.bytes > 2 && text.data[0] == '[' && text.data[text.bytes - 1] == ']';
    if (text.bytes > LONGEST)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED, "a piece of %zu bytes is too long",
                    text.bytes);
    if (hf->reading.code) return;
    if (is_rest)
        snprintf(piece, sizeof piece, "%.*s", (int)(text.bytes - mark.bytes),
                 text.data + mark.bytes);
    else
        snprintf(piece, sizeof piece, "%s%.*s", is_named ? "" : "\xe2\x96\x81", (int)text.bytes,
                 text.data);
    rf_vocab_set_token(&hf->reading, id, rf_str_of(piece), RF_TOKEN_NORMAL);
}

static int8_t flag_of(const struct rf_json *object, const char *key)
{
    int flag = -1;
    rf_json_bool(rf_json_get(object, key), &flag);
    return (int8_t)flag;
}

/* What the normaliser does; parts of it that are off would change texts. */
static void read_normaliser(struct rf_hf *hf)
{
    const struct rf_json *normaliser = rf_json_get(hf->tokenizer, "normalizer"),
                         *pre = rf_json_get(hf->tokenizer, "pre_tokenizer");
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    struct rf_str kind = rf_json_text(rf_json_get(normaliser, "type")),
                  cut = rf_json_text(rf_json_get(pre, "type"));
    if (!rf_str_is(kind, "BertNormalizer") || !rf_str_is(cut, "BertPreTokenizer"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "word pieces need a BertNormalizer and a BertPreTokenizer");
    if (flag_of(normaliser, "clean_text") == 0 || flag_of(normaliser, "handle_chinese_chars") == 0)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "normalizer.clean_text and handle_chinese_chars must be true");
    vocab->lowercase = flag_of(normaliser, "lowercase");
    vocab->strip_accents = flag_of(normaliser, "strip_accents");
}

void rf_hf_read_wordpiece(struct rf_hf *hf)
{
    const struct rf_json *model = rf_json_get(hf->tokenizer, "model"), *value;
    const struct rf_json *list = rf_json_get(model, "vocab");
    struct rf_str text, mark = rf_json_text(rf_json_get(model, "continuing_subword_prefix")),
                        unknown = rf_json_text(rf_json_get(model, "unk_token"));
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    if (!rf_json_is_object(list))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.vocab is missing or not an object");
    for (void *at = NULL; !hf->reading.code && rf_json_next(list, &at, &text, &value);) {
        int64_t id = -1;
        rf_json_integer(value, &id);
        set_piece(hf, text, id, mark.bytes ? mark : rf_str_of("##"));
        if (!hf->reading.code && rf_str_same(text, unknown)) vocab->unk = (int32_t)id;
    }
    if (!hf->reading.code) read_normaliser(hf);
}

/* A special token of the template for one text; -1: there is none. */
static int32_t special_at(const struct rf_vocab *vocab, const struct rf_json *single, size_t i)
{
    struct rf_str name =
        rf_json_text(rf_json_get(rf_json_get(rf_json_at(single, i), "SpecialToken"), "id"));
    for (int32_t id = 0; name.bytes && id < vocab->n_tokens; id++)
        if (rf_str_same(vocab->tokens[id], name)) return id;
    return -1;
}

/* A pair of a token's text and its id, as older files have; -1: there is none. */
static int32_t second_of(const struct rf_vocab *vocab, const struct rf_json *pair)
{
    int64_t id = -1;
    return rf_json_integer(rf_json_at(pair, 1), &id) && id >= 0 && id < vocab->n_tokens
               ? (int32_t)id
               : -1;
}

void rf_hf_read_ends(struct rf_hf *hf)
{
    const struct rf_json *processor = rf_json_get(hf->tokenizer, "post_processor"),
                         *single = rf_json_get(processor, "single");
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    size_t n = rf_json_count(single);
    if (hf->reading.code) return;
    if (n > 0) {
        vocab->bos = special_at(vocab, single, 0);
        vocab->sep = special_at(vocab, single, n - 1);
    } else {
        vocab->bos = second_of(vocab, rf_json_get(processor, "cls"));
        vocab->sep = second_of(vocab, rf_json_get(processor, "sep"));
    }
    vocab->add_bos = vocab->bos >= 0;
    if (vocab->bos < 0 || vocab->sep < 0)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "post_processor names no tokens for the beginning and the end of a text");
}
