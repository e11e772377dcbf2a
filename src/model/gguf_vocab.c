/* A GGUF file's vocabulary: keys "tokenizer.ggml.something", with llama.cpp's defaults. */
#include <inttypes.h>
#include <string.h>

#include "model/cursor.h"
#include "model/gguf.h"
#include "model/reader.h"

enum { MAX_TOKENS = 1 << 24 };

static int read_kind(const struct rf_gguf *gguf, struct rf_vocab *vocab)
{
    struct rf_str model;
    int found = rf_gguf_string(gguf, "tokenizer.ggml.model", &model);
    if (found < 0) return found;
    if (!found) return rf_gguf_missing(gguf, "tokenizer.ggml.model");
    if (rf_str_is(model, "llama"))
        vocab->kind = RF_VOCAB_SENTENCEPIECE;
    else if (rf_str_is(model, "gpt2"))
        vocab->kind = RF_VOCAB_BPE;
    else
        return rf_fail(
            gguf->error, RF_ERR_UNSUPPORTED,
            "%s: the tokenizer \"%.*s\" (tokenizer.ggml.model) is not known; llama and gpt2 are",
            gguf->path, rf_shown(model), model.data);
    vocab->pre = (struct rf_str){"default", 7};
    found = rf_gguf_string(gguf, "tokenizer.ggml.pre", &vocab->pre);
    return found < 0 ? found : 0;
}

/* An array with one element for each token. */
static int per_token_array(const struct rf_gguf *gguf, const struct rf_vocab *vocab,
                           const char *key, uint32_t elem_type, const struct rf_gguf_value **value)
{
    int found = rf_gguf_array(gguf, key, elem_type, value);
    if (found == 1 && (*value)->count != (uint64_t)vocab->n_tokens)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: key %s has %" PRIu64 " elements, but there are %" PRId32 " tokens",
                       gguf->path, key, (*value)->count, vocab->n_tokens);
    return found;
}

static int read_tokens(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_vocab *vocab = &source->vocab;
    const struct rf_gguf_value *list, *scores, *types;
    int found = rf_gguf_array(gguf, "tokenizer.ggml.tokens", RF_GGUF_STRING, &list);
    if (found < 0) return found;
    if (!found) return rf_gguf_missing(gguf, "tokenizer.ggml.tokens");
    if (list->count > MAX_TOKENS)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: key tokenizer.ggml.tokens has %" PRIu64 " elements", gguf->path,
                       list->count);
    vocab->n_tokens = (int32_t)list->count;
    size_t n = (size_t)list->count;
    vocab->tokens = rf_source_alloc(source, n, sizeof *vocab->tokens, "vocabulary", gguf->error);
    vocab->types = rf_source_alloc(source, n, sizeof *vocab->types, "vocabulary", gguf->error);
    if (!vocab->tokens || !vocab->types) return RF_ERR_MEMORY;
    const unsigned char *at = list->data;
    for (size_t i = 0; i < n; i++) vocab->tokens[i] = rf_gguf_next_string(&at);

    found = per_token_array(gguf, vocab, "tokenizer.ggml.scores", RF_GGUF_F32, &scores);
    if (found < 0) return found;
    if (found) {
        vocab->scores =
            rf_source_alloc(source, n, sizeof *vocab->scores, "vocabulary", gguf->error);
        if (!vocab->scores) return RF_ERR_MEMORY;
        if (n) memcpy(vocab->scores, scores->data, n * sizeof *vocab->scores);
    }

    found = per_token_array(gguf, vocab, "tokenizer.ggml.token_type", RF_GGUF_I32, &types);
    if (found < 0) return found;
    memset(vocab->types, RF_TOKEN_NORMAL, n);
    for (size_t i = 0; found && i < n; i++) {
        uint64_t type = rf_load_le(types->data + 4 * i, 4);
        /* A value that does not fit a byte becomes 0, which is no type. */
        vocab->types[i] = type <= UINT8_MAX ? (uint8_t)type : 0;
    }
    return 0;
}

/* "a b": the byte alphabet has no space, so there is exactly one. */
static int read_merges(const struct rf_gguf *gguf, struct rf_source *source)
{
    static const char key[] = "tokenizer.ggml.merges";
    struct rf_vocab *vocab = &source->vocab;
    const struct rf_gguf_value *list;
    int found = rf_gguf_array(gguf, key, RF_GGUF_STRING, &list);
    if (found < 0) return found;
    if (!found) return rf_gguf_missing(gguf, key);
    if (list->count > MAX_TOKENS)
        return rf_fail(gguf->error, RF_ERR_FORMAT, "%s: key %s has %" PRIu64 " elements",
                       gguf->path, key, list->count);
    vocab->merges =
        rf_source_alloc(source, (size_t)list->count, sizeof *vocab->merges, "merges", gguf->error);
    if (!vocab->merges) return RF_ERR_MEMORY;
    vocab->n_merges = (size_t)list->count;
    const unsigned char *at = list->data;
    for (size_t i = 0; i < vocab->n_merges; i++) {
        struct rf_str merge = rf_gguf_next_string(&at);
        const char *space = merge.bytes ? memchr(merge.data, ' ', merge.bytes) : NULL;
        size_t left = space ? (size_t)(space - merge.data) : 0;
        size_t right = space ? merge.bytes - left - 1 : 0;
        if (left == 0 || right == 0 || memchr(space + 1, ' ', right))
            return rf_fail(gguf->error, RF_ERR_FORMAT,
                           "%s: %s[%zu] is \"%.*s\", not two pieces with a space between",
                           gguf->path, key, i, rf_shown(merge), merge.data);
        vocab->merges[i] = (struct rf_merge){{merge.data, left}, {space + 1, right}};
    }
    return 0;
}

/* A token id. If the key is missing, it is `otherwise` where the vocabulary has that id. All bits
 * set, or -1, means "none". */
static int read_id(const struct rf_gguf *gguf, const struct rf_vocab *vocab, const char *key,
                   int32_t otherwise, int32_t *id)
{
    int64_t value = otherwise < vocab->n_tokens ? otherwise : -1;
    int found = rf_gguf_integer(gguf, key, -1, UINT32_MAX, &value);
    if (found < 0) return found;
    if (value == UINT32_MAX) value = -1;
    if (value >= vocab->n_tokens)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: key %s is %" PRId64 ", but there are %" PRId32 " tokens", gguf->path,
                       key, value, vocab->n_tokens);
    *id = (int32_t)value;
    return 0;
}

static int read_ids(const struct rf_gguf *gguf, struct rf_vocab *vocab)
{
    int spm = vocab->kind == RF_VOCAB_SENTENCEPIECE;
    int code = read_id(gguf, vocab, "tokenizer.ggml.bos_token_id", spm ? 1 : -1, &vocab->bos);
    if (!code)
        code = read_id(gguf, vocab, "tokenizer.ggml.eos_token_id", spm ? 2 : -1, &vocab->eos);
    if (!code)
        code = read_id(gguf, vocab, "tokenizer.ggml.unknown_token_id", spm ? 0 : -1, &vocab->unk);
    if (!code) code = read_id(gguf, vocab, "tokenizer.ggml.padding_token_id", -1, &vocab->pad);
    if (!code) code = read_id(gguf, vocab, "tokenizer.ggml.eot_token_id", -1, &vocab->eot);
    return code;
}

static int read_flag(const struct rf_gguf *gguf, const char *key, int8_t *flag)
{
    int value = *flag;
    int found = rf_gguf_bool(gguf, key, &value);
    if (found < 0) return found;
    *flag = (int8_t)value;
    return 0;
}

static int read_flags(const struct rf_gguf *gguf, struct rf_vocab *vocab)
{
    /* As in llama.cpp, the llama 3 pre-tokenizer implies these settings. */
    int llama3 = vocab->kind == RF_VOCAB_BPE &&
                 (rf_str_is(vocab->pre, "llama-bpe") || rf_str_is(vocab->pre, "llama3") ||
                  rf_str_is(vocab->pre, "llama-v3"));
    vocab->ignore_merges = (int8_t)llama3;
    vocab->add_bos = llama3 ? 1 : -1;
    vocab->add_eos = vocab->add_space_prefix = vocab->remove_extra_whitespaces = vocab->nfc = -1;
    int code = read_flag(gguf, "tokenizer.ggml.add_bos_token", &vocab->add_bos);
    if (!code) code = read_flag(gguf, "tokenizer.ggml.add_eos_token", &vocab->add_eos);
    if (!code) code = read_flag(gguf, "tokenizer.ggml.add_space_prefix", &vocab->add_space_prefix);
    if (!code)
        code = read_flag(gguf, "tokenizer.ggml.remove_extra_whitespaces",
                         &vocab->remove_extra_whitespaces);
    return code;
}

int rf_gguf_read_vocab(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_vocab *vocab = &source->vocab;
    int code = read_kind(gguf, vocab);
    if (!code) code = read_tokens(gguf, source);
    if (!code && vocab->kind == RF_VOCAB_BPE) code = read_merges(gguf, source);
    if (!code) code = read_ids(gguf, vocab);
    if (!code) code = read_flags(gguf, vocab);
    return code ? code : rf_vocab_check(source, gguf->path, gguf->error);
}
