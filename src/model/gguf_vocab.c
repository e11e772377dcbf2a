/* A GGUF file's vocabulary: keys "tokenizer.ggml.something", with llama.cpp's defaults. */
#include <inttypes.h>

#include "model/cursor.h"
#include "model/gguf.h"

/* Gemma 4: merges of characters, and bytes where no piece fits. */
static int is_gemma4(struct rf_gguf *gguf)
{
    return rf_str_is(rf_gguf_string(gguf, "tokenizer.ggml.model", (struct rf_str){NULL, 0}),
                     "gemma4");
}

static void read_kind(struct rf_gguf *gguf)
{
    struct rf_vocab *vocab = &gguf->reading->source->vocab;
    struct rf_str model = rf_gguf_string(gguf, "tokenizer.ggml.model", (struct rf_str){NULL, 0});
    if (!model.data)
        rf_gguf_missing(gguf);
    else if (rf_str_is(model, "llama"))
        vocab->kind = RF_VOCAB_SENTENCEPIECE;
    else if (rf_str_is(model, "gpt2"))
        vocab->kind = RF_VOCAB_BPE;
    else if (rf_str_is(model, "gemma4"))
        vocab->kind = RF_VOCAB_SENTENCEPIECE; /* with merges of characters */
    else if (rf_str_is(model, "bert") && gguf->reading->source->params.encoder)
        vocab->kind = RF_VOCAB_WORDPIECE;
    else
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "the tokenizer \"%.*s\" (tokenizer.ggml.model) is not known here; llama, gpt2 and "
               "gemma4 are, and bert of encoders",
               rf_shown(model), model.data);
    vocab->pre = rf_gguf_string(gguf, "tokenizer.ggml.pre", rf_str_of("default"));
}

/* A list of strings that must exist. NULL on failure. */
static const struct rf_gguf_value *string_list(struct rf_gguf *gguf, const char *key)
{
    const struct rf_gguf_value *list = rf_gguf_array(gguf, key, RF_GGUF_STRING);
    if (!list)
        rf_gguf_missing(gguf);
    else
        rf_count(gguf->reading, list->count, key);
    return gguf->reading->code ? NULL : list;
}

/* An array with one element for each token; NULL when the key does not exist. */
static const struct rf_gguf_value *per_token(struct rf_gguf *gguf, const char *key,
                                             uint32_t elem_type)
{
    const struct rf_gguf_value *value = rf_gguf_array(gguf, key, elem_type);
    int32_t n_tokens = gguf->reading->source->vocab.n_tokens;
    if (value && value->count != (uint64_t)n_tokens)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s has %" PRIu64 " elements, but there are %" PRId32 " tokens", key,
               value->count, n_tokens);
    return gguf->reading->code ? NULL : value;
}

static void gguf_tokens(struct rf_gguf *gguf)
{
    struct rf_reading *reading = gguf->reading;
    struct rf_vocab *vocab = &reading->source->vocab;
    const struct rf_gguf_value *list = string_list(gguf, "tokenizer.ggml.tokens");
    if (!list) return;
    size_t n = (size_t)list->count;
    vocab->n_tokens = (int32_t)n;
    vocab->tokens = rf_keep(reading, n, sizeof *vocab->tokens, "vocabulary");
    vocab->types = rf_keep(reading, n, sizeof *vocab->types, "vocabulary");
    const unsigned char *at = list->data;
    for (size_t i = 0; !reading->code && i < n; i++) vocab->tokens[i] = rf_gguf_next_string(&at);

    const struct rf_gguf_value *scores = per_token(gguf, "tokenizer.ggml.scores", RF_GGUF_F32);
    if (scores) vocab->scores = rf_keep(reading, n, sizeof *vocab->scores, "vocabulary");
    if (vocab->scores && n) memcpy(vocab->scores, scores->data, n * sizeof *vocab->scores);

    const struct rf_gguf_value *types = per_token(gguf, "tokenizer.ggml.token_type", RF_GGUF_I32);
    for (size_t i = 0; !reading->code && i < n; i++) {
        uint64_t type = types ? rf_load_le(types->data + 4 * i, 4) : RF_TOKEN_NORMAL;
        /* A value that does not fit a byte becomes 0, which is no type. */
        vocab->types[i] = type <= UINT8_MAX ? (uint8_t)type : 0;
    }
}

/* "a b": the byte alphabet has no space, so there is exactly one. */
static void gguf_merges(struct rf_gguf *gguf)
{
    static const char key[] = "tokenizer.ggml.merges";
    struct rf_reading *reading = gguf->reading;
    struct rf_vocab *vocab = &reading->source->vocab;
    const struct rf_gguf_value *list = string_list(gguf, key);
    if (!list) return;
    vocab->merges = rf_keep(reading, (size_t)list->count, sizeof *vocab->merges, "merges");
    const unsigned char *at = list->data;
    for (size_t i = 0; !reading->code && i < list->count; i++) {
        struct rf_str merge = rf_gguf_next_string(&at);
        if (!rf_merge_split(merge, &vocab->merges[i]))
            rf_bad(reading, RF_ERR_FORMAT,
                   "%s[%zu] is \"%.*s\", not two pieces with a space between", key, i,
                   rf_shown(merge), merge.data);
    }
    vocab->n_merges = (size_t)list->count;
}

/* A token id. If the key is missing, it is `otherwise` where the vocabulary has that id. All bits
 * set, or -1, means "none". */
static int32_t read_id(struct rf_gguf *gguf, const char *key, int32_t otherwise)
{
    int32_t n_tokens = gguf->reading->source->vocab.n_tokens;
    int64_t id = rf_gguf_integer(gguf, key, -1, UINT32_MAX, otherwise < n_tokens ? otherwise : -1);
    if (id == UINT32_MAX) id = -1;
    if (id >= n_tokens)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s is %" PRId64 ", but there are %" PRId32 " tokens", key, id, n_tokens);
    return (int32_t)id;
}

/* BERT's own ids, which files may leave out. */
enum { BERT_UNK = 100, BERT_CLS = 101, BERT_SEP = 102 };

static void read_ids(struct rf_gguf *gguf, struct rf_vocab *vocab)
{
    int spm = vocab->kind == RF_VOCAB_SENTENCEPIECE, words = vocab->kind == RF_VOCAB_WORDPIECE;
    vocab->bos = read_id(gguf, "tokenizer.ggml.bos_token_id", spm ? 1 : words ? BERT_CLS : -1);
    vocab->eos = read_id(gguf, "tokenizer.ggml.eos_token_id", spm ? 2 : -1);
    vocab->unk = read_id(gguf, "tokenizer.ggml.unknown_token_id", spm ? 0 : words ? BERT_UNK : -1);
    vocab->sep = -1;
    if (gguf->reading->source->params.encoder) {
        /* The first key is what llama.cpp's converter has always written. */
        vocab->sep = read_id(gguf, "tokenizer.ggml.seperator_token_id", words ? BERT_SEP : -1);
        if (vocab->sep < 0) vocab->sep = read_id(gguf, "tokenizer.ggml.separator_token_id", -1);
        if (vocab->sep < 0) vocab->sep = vocab->eos;
        if (vocab->sep < 0)
            rf_bad(gguf->reading, RF_ERR_FORMAT,
                   "the vocabulary of an encoder has no token that ends texts "
                   "(tokenizer.ggml.seperator_token_id)");
    }
    vocab->pad = read_id(gguf, "tokenizer.ggml.padding_token_id", -1);
    vocab->eot = read_id(gguf, "tokenizer.ggml.eot_token_id", -1);
}

static void read_flags(struct rf_gguf *gguf, struct rf_vocab *vocab)
{
    vocab->ignore_merges = -1; /* no keys: the pre-tokenizer decides */
    vocab->nfc = -1;
    vocab->lowercase = rf_gguf_bool(gguf, "tokenizer.ggml.normalizer.lowercase", -1);
    vocab->strip_accents = rf_gguf_bool(gguf, "tokenizer.ggml.normalizer.strip_accents", -1);
    vocab->add_bos = rf_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", -1);
    vocab->add_eos = rf_gguf_bool(gguf, "tokenizer.ggml.add_eos_token", -1);
    vocab->add_space_prefix = rf_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", -1);
    vocab->remove_extra_whitespaces =
        rf_gguf_bool(gguf, "tokenizer.ggml.remove_extra_whitespaces", -1);
}

/* What its tokenizer.json states and the file does not. Files of early converters have a false
 * add_bos_token. */
static void set_gemma4(struct rf_vocab *vocab)
{
    vocab->add_bos = 1;
    vocab->add_space_prefix = 0;
    vocab->remove_extra_whitespaces = 0;
}

void rf_gguf_read_vocab(struct rf_gguf *gguf)
{
    struct rf_vocab *vocab = &gguf->reading->source->vocab;
    read_kind(gguf);
    gguf_tokens(gguf);
    int gemma4 = is_gemma4(gguf);
    if (vocab->kind == RF_VOCAB_BPE || gemma4) gguf_merges(gguf);
    read_ids(gguf, vocab);
    read_flags(gguf, vocab);
    if (gemma4) set_gemma4(vocab);
    if (!gguf->reading->code) rf_vocab_check(gguf->reading);
}
