/* The vocabulary of a folder: chooses its tokenizer and reads added tokens, special ids, settings
 * and the chat template. */
#include <inttypes.h>
#include <stdio.h>

#include "model/hf.h"

static void add_token(struct rf_hf *hf, int64_t id, const struct rf_json *token)
{
    const struct rf_vocab *vocab = &hf->reading.source->vocab;
    struct rf_str text = rf_json_text(rf_json_get(token, "content"));
    if (text.bytes == 0)
        rf_bad(&hf->reading, RF_ERR_FORMAT, "the added token of id %" PRId64 " has no content", id);
    if (rf_json_is_true(rf_json_get(token, "single_word")))
        rf_bad(&hf->reading, RF_ERR_UNSUPPORTED,
               "the added token \"%.*s\" has single_word set, which is not supported",
               rf_shown(text), text.data);
    enum rf_token_type type =
        rf_json_is_true(rf_json_get(token, "special")) ? RF_TOKEN_CONTROL : RF_TOKEN_USER_DEFINED;
    /* Unknown, control and byte pieces of sentencepiece keep their types. */
    int own = id >= 0 && id < vocab->n_tokens && vocab->tokens[id].data &&
              vocab->types[id] != RF_TOKEN_NORMAL;
    rf_vocab_set_token(&hf->reading, id, text, own ? (enum rf_token_type)vocab->types[id] : type);
    if (hf->reading.code) return;
    if (rf_json_is_true(rf_json_get(token, "lstrip"))) vocab->strips[id] |= RF_STRIP_LEFT;
    if (rf_json_is_true(rf_json_get(token, "rstrip"))) vocab->strips[id] |= RF_STRIP_RIGHT;
}

/* A decimal id, or -1. */
static int64_t id_of_key(struct rf_str key)
{
    int64_t id = key.bytes ? 0 : -1;
    for (size_t i = 0; i < key.bytes && id >= 0; i++)
        id = key.data[i] >= '0' && key.data[i] <= '9' && id < INT32_MAX
                 ? id * 10 + (key.data[i] - '0')
                 : -1;
    return id;
}

/* Added tokens: a list in tokenizer.json or, where that is missing, an object by id in
 * tokenizer_config.json. */
static void read_added_tokens(struct rf_hf *hf)
{
    const struct rf_json *list = rf_json_get(hf->tokenizer, "added_tokens"), *token;
    for (size_t i = 0; !hf->reading.code && i < rf_json_count(list); i++) {
        int64_t id = -1;
        rf_json_integer(rf_json_get(rf_json_at(list, i), "id"), &id);
        add_token(hf, id, rf_json_at(list, i));
    }
    const struct rf_json *map = rf_json_get(hf->tokenizer_config, "added_tokens_decoder");
    struct rf_str key;
    for (void *at = NULL;
         !hf->tokenizer && !hf->reading.code && rf_json_next(map, &at, &key, &token);)
        add_token(hf, id_of_key(key), token);
}

/* Embeddings often have more rows than there are tokens. */
static void fill_unused(struct rf_hf *hf)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    for (int32_t i = 0; !hf->reading.code && i < vocab->n_tokens; i++) {
        if (vocab->tokens[i].data) continue;
        char text[32];
        snprintf(text, sizeof text, "[PAD%" PRId32 "]", i);
        rf_vocab_set_token(&hf->reading, i, rf_str_of(text), RF_TOKEN_UNUSED);
    }
}

static int32_t hf_checked_id(struct rf_hf *hf, const char *file, const char *key, int32_t id)
{
    int32_t n_tokens = hf->reading.source->vocab.n_tokens;
    if (id < 0 || id >= n_tokens)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "%s is not the id of one of the %" PRId32 " tokens", key, n_tokens);
    return id;
}

/* One of the ids at `key`, which is a number or a list of them. -1 when there is none. */
static int32_t id_at(const struct rf_json *object, const char *key, size_t index)
{
    const struct rf_json *value = rf_json_get(object, key);
    if (rf_json_is_array(value))
        value = rf_json_at(value, index);
    else if (index > 0)
        value = NULL;
    int64_t id = -1;
    if (rf_json_integer(value, &id) && (id < 0 || id > INT32_MAX))
        id = INT32_MAX; /* refused by hf_checked_id */
    return (int32_t)id;
}

/* A special token. tokenizer_config.json names it by its text (a string, or an object with content;
 * null is "none"), config.json by its id. */
static int32_t read_special(struct rf_hf *hf, const char *text_key, const char *id_key,
                            int32_t otherwise)
{
    const struct rf_vocab *vocab = &hf->reading.source->vocab;
    const struct rf_json *named = rf_json_get(hf->tokenizer_config, text_key);
    struct rf_str text;
    if (hf->reading.code) return -1;
    if (rf_json_string(named, &text) || rf_json_string(rf_json_get(named, "content"), &text)) {
        for (int32_t id = 0; id < vocab->n_tokens; id++)
            if (rf_str_same(vocab->tokens[id], text)) return id;
        rf_bad_part(&hf->reading, "tokenizer_config.json", RF_ERR_FORMAT,
                    "%s \"%.*s\" is not in the vocabulary", text_key, rf_shown(text), text.data);
    }
    if (rf_json_has(hf->tokenizer_config, text_key)) return -1;
    int32_t id = id_at(hf->config, id_key, 0);
    return id < 0 ? otherwise : hf_checked_id(hf, "config.json", id_key, id);
}

/* The generation configuration may list further tokens that end an answer. The first that is not
 * eos becomes eot. */
static void read_end_of_turn(struct rf_hf *hf)
{
    static const char key[] = "eos_token_id";
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    for (size_t i = 0; i < 64; i++) {
        int32_t id = id_at(hf->generation_config, key, i);
        if (id < 0) break;
        hf_checked_id(hf, "generation_config.json", key, id);
        if (vocab->eos < 0) vocab->eos = id;
        if (id != vocab->eos && vocab->eot < 0) vocab->eot = id;
    }
}

/* The template for one text of a TemplateProcessing post-processor, alone or in a Sequence. */
static const struct rf_json *single_template(const struct rf_json *processor)
{
    const struct rf_json *list = rf_json_get(processor, "processors");
    for (size_t i = 0; i < rf_json_count(list); i++) {
        const struct rf_json *found = rf_json_get(rf_json_at(list, i), "single");
        if (found) return found;
    }
    return rf_json_get(processor, "single");
}

static int8_t read_flag(const struct rf_json *object, const char *key, int8_t otherwise)
{
    int flag = otherwise;
    rf_json_bool(rf_json_get(object, key), &flag);
    return (int8_t)flag;
}

static void read_habits(struct rf_hf *hf)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    const struct rf_json *single = single_template(rf_json_get(hf->tokenizer, "post_processor"));
    size_t n = rf_json_count(single);
    if (n > 0) {
        /* Fast tokenizers add the tokens that the template puts around the text. */
        vocab->add_bos = rf_json_get(rf_json_at(single, 0), "SpecialToken") != NULL;
        vocab->add_eos = n > 1 && rf_json_get(rf_json_at(single, n - 1), "SpecialToken") != NULL;
    } else {
        int8_t otherwise = vocab->kind == RF_VOCAB_BPE ? 0 : -1;
        vocab->add_bos = read_flag(hf->tokenizer_config, "add_bos_token", otherwise);
        vocab->add_eos = read_flag(hf->tokenizer_config, "add_eos_token", otherwise);
    }
}

/* Looks in this order: chat_template.jinja, tokenizer_config.json (one text, or a list of named
 * ones), chat_template.json. */
static void read_chat_template(struct rf_hf *hf)
{
    struct rf_str text = hf->files->chat_template_jinja;
    const struct rf_json *stated = rf_json_get(hf->tokenizer_config, "chat_template");
    if (!stated) stated = rf_json_get(hf->chat_template, "chat_template");
    if (!text.data) {
        text = rf_json_text(stated);
        for (size_t i = 0; rf_json_is_array(stated) && i < rf_json_count(stated); i++) {
            const struct rf_json *entry = rf_json_at(stated, i);
            if (rf_str_is(rf_json_text(rf_json_get(entry, "name")), "default"))
                text = rf_json_text(rf_json_get(entry, "template"));
        }
    }
    if (text.bytes) hf->reading.source->chat_template = rf_keep_text(&hf->reading, text);
    hf->reading.source->chat_template_bytes = text.bytes;
}

static int is_byte_level_part(const struct rf_json *pre)
{
    return rf_str_is(rf_json_text(rf_json_get(pre, "type")), "ByteLevel");
}

static int contains_byte_level(const struct rf_json *pre)
{
    const struct rf_json *list = rf_json_get(pre, "pretokenizers");
    int found = is_byte_level_part(pre);
    for (size_t i = 0; i < rf_json_count(list); i++)
        found |= is_byte_level_part(rf_json_at(list, i));
    return found;
}

static void read_tokenizer(struct rf_hf *hf)
{
    static const char file[] = "tokenizer.json";
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    struct rf_str type = rf_json_text(rf_json_get(rf_json_get(hf->tokenizer, "model"), "type"));
    int is_bpe = rf_str_is(type, "BPE");
    if (is_bpe && contains_byte_level(rf_json_get(hf->tokenizer, "pre_tokenizer"))) {
        vocab->kind = RF_VOCAB_BPE;
        rf_hf_read_bpe(hf);
    } else if (rf_str_is(type, "WordPiece") && hf->reading.source->params.encoder) {
        vocab->kind = RF_VOCAB_WORDPIECE;
        rf_hf_read_wordpiece(hf);
    } else if (hf->files->sentencepiece.data) {
        vocab->kind = RF_VOCAB_SENTENCEPIECE;
        rf_hf_read_sentencepiece(hf);
    } else if (!hf->tokenizer) {
        rf_bad(&hf->reading, RF_ERR_IO, "holds neither tokenizer.json nor tokenizer.model");
    } else if (is_bpe) {
        vocab->kind = RF_VOCAB_SENTENCEPIECE;
        rf_hf_read_character_bpe(hf);
    } else if (rf_str_is(type, "Unigram")) {
        vocab->kind = RF_VOCAB_SENTENCEPIECE;
        rf_hf_read_unigram(hf);
    } else {
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "a model of type \"%.*s\" is not supported; BPE and "
                    "Unigram are, and WordPiece of encoders",
                    rf_shown(type), type.data);
    }
}

void rf_hf_read_vocab(struct rf_hf *hf)
{
    struct rf_reading *reading = &hf->reading;
    struct rf_vocab *vocab = &reading->source->vocab;
    size_t n = (size_t)reading->source->params.n_vocab;
    vocab->n_tokens = reading->source->params.n_vocab;
    vocab->tokens = rf_keep(reading, n, sizeof *vocab->tokens, "vocabulary");
    vocab->types = rf_keep(reading, n, sizeof *vocab->types, "vocabulary");
    vocab->strips = rf_keep(reading, n, sizeof *vocab->strips, "vocabulary");
    if (reading->code) return;
    vocab->pre = rf_str_of("default");
    vocab->bos = vocab->eos = vocab->unk = vocab->pad = vocab->eot = vocab->sep = -1;
    vocab->add_space_prefix = vocab->remove_extra_whitespaces = vocab->nfc = -1;
    read_tokenizer(hf);
    read_added_tokens(hf);
    fill_unused(hf);
    vocab->bos = read_special(hf, "bos_token", "bos_token_id", vocab->bos);
    vocab->eos = read_special(hf, "eos_token", "eos_token_id", vocab->eos);
    vocab->unk = read_special(hf, "unk_token", "unk_token_id", vocab->unk);
    vocab->pad = read_special(hf, "pad_token", "pad_token_id", vocab->pad);
    read_end_of_turn(hf);
    read_habits(hf);
    if (reading->source->params.encoder) rf_hf_read_ends(hf);
    read_chat_template(hf);
    if (!reading->code) rf_vocab_check(reading);
}
