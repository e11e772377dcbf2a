/* The vocabulary of a folder: chooses its tokenizer and reads added tokens, special ids, settings
 * and the chat template. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/hf.h"

int32_t rf_hf_find_token(const struct rf_hf *hf, struct rf_str text)
{
    const struct rf_vocab *vocab = &hf->source->vocab;
    for (int32_t i = 0; i < vocab->n_tokens; i++)
        if (vocab->tokens[i].bytes == text.bytes && vocab->tokens[i].data &&
            memcmp(vocab->tokens[i].data, text.data, text.bytes) == 0)
            return i;
    return -1;
}

static int add_token(struct rf_hf *hf, int64_t id, const struct rf_json *token)
{
    static const char *const habits[] = {"lstrip", "rstrip", "single_word"};
    struct rf_vocab *vocab = &hf->source->vocab;
    struct rf_str text = rf_json_text(rf_json_get(token, "content"));
    if (text.bytes == 0)
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s: the added token of id %" PRId64 " has no content", hf->files->folder,
                       id);
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (rf_json_is_true(rf_json_get(token, habits[i])))
            return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                           "%s: the added token \"%.*s\" has %s set, which is not supported",
                           hf->files->folder, rf_shown(text), text.data, habits[i]);
    enum rf_token_type type =
        rf_json_is_true(rf_json_get(token, "special")) ? RF_TOKEN_CONTROL : RF_TOKEN_USER_DEFINED;
    /* Unknown, control and byte pieces of sentencepiece keep their types. */
    int own = id >= 0 && id < vocab->n_tokens && vocab->tokens[id].data &&
              vocab->types[id] != RF_TOKEN_NORMAL;
    return rf_hf_set_token(hf, id, text, own ? (enum rf_token_type)vocab->types[id] : type);
}

/* Added tokens: a list in tokenizer.json or, where that is missing, an object by id in
 * tokenizer_config.json. */
static int read_added_tokens(struct rf_hf *hf)
{
    const struct rf_json *list = rf_json_get(hf->tokenizer, "added_tokens");
    for (size_t i = 0; i < rf_json_count(list); i++) {
        int64_t id = -1;
        rf_json_integer(rf_json_get(rf_json_at(list, i), "id"), &id);
        int code = add_token(hf, id, rf_json_at(list, i));
        if (code) return code;
    }
    if (hf->tokenizer) return 0;
    const struct rf_json *map = rf_json_get(hf->tokenizer_config, "added_tokens_decoder"), *token;
    struct rf_str key;
    for (void *at = NULL; rf_json_next(map, &at, &key, &token);) {
        int64_t id = 0;
        for (size_t i = 0; i < key.bytes && id >= 0; i++)
            id = key.data[i] >= '0' && key.data[i] <= '9' && id < INT32_MAX
                     ? id * 10 + (key.data[i] - '0')
                     : -1;
        int code = add_token(hf, key.bytes ? id : -1, token);
        if (code) return code;
    }
    return 0;
}

/* Embeddings often have more rows than there are tokens. */
static int fill_unused(struct rf_hf *hf)
{
    struct rf_vocab *vocab = &hf->source->vocab;
    for (int32_t i = 0; i < vocab->n_tokens; i++) {
        if (vocab->tokens[i].data) continue;
        char text[32];
        int n = snprintf(text, sizeof text, "[PAD%" PRId32 "]", i);
        int code = rf_hf_set_token(hf, i, (struct rf_str){text, (size_t)n}, RF_TOKEN_UNUSED);
        if (code) return code;
    }
    return 0;
}

static int check_id(const struct rf_hf *hf, const char *file, const char *key, int64_t id)
{
    if (id >= 0 && id < hf->source->vocab.n_tokens) return 0;
    return rf_fail(hf->error, RF_ERR_FORMAT,
                   "%s/%s: %s is not the id of one of the %" PRId32 " tokens", hf->files->folder,
                   file, key, hf->source->vocab.n_tokens);
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
        id = INT32_MAX; /* refused by check_id */
    return (int32_t)id;
}

/* A special token. tokenizer_config.json names it by its text (a string, or an object with content;
 * null is "none"), config.json by its id. */
static int read_special(struct rf_hf *hf, const char *text_key, const char *id_key, int32_t *id)
{
    const struct rf_json *named = rf_json_get(hf->tokenizer_config, text_key);
    struct rf_str text;
    if (rf_json_string(named, &text) || rf_json_string(rf_json_get(named, "content"), &text)) {
        *id = rf_hf_find_token(hf, text);
        if (*id >= 0) return 0;
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/tokenizer_config.json: %s \"%.*s\" is not in the vocabulary",
                       hf->files->folder, text_key, rf_shown(text), text.data);
    }
    if (rf_json_has(hf->tokenizer_config, text_key)) {
        *id = -1;
        return 0;
    }
    int32_t stated = id_at(hf->config, id_key, 0);
    if (stated < 0) return 0;
    *id = stated;
    return check_id(hf, "config.json", id_key, stated);
}

/* The generation configuration may list further tokens that end an answer. The first that is not
 * eos becomes eot. */
static int read_end_of_turn(struct rf_hf *hf)
{
    static const char key[] = "eos_token_id";
    struct rf_vocab *vocab = &hf->source->vocab;
    for (size_t i = 0; i < 64; i++) {
        int32_t id = id_at(hf->generation_config, key, i);
        if (id < 0) break;
        int code = check_id(hf, "generation_config.json", key, id);
        if (code) return code;
        if (vocab->eos < 0) vocab->eos = id;
        if (id != vocab->eos && vocab->eot < 0) vocab->eot = id;
    }
    return 0;
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

static void read_habits(struct rf_hf *hf)
{
    struct rf_vocab *vocab = &hf->source->vocab;
    int flag;
    if (rf_json_bool(rf_json_get(hf->tokenizer_config, "add_bos_token"), &flag))
        vocab->add_bos = (int8_t)flag;
    if (rf_json_bool(rf_json_get(hf->tokenizer_config, "add_eos_token"), &flag))
        vocab->add_eos = (int8_t)flag;
    const struct rf_json *single = single_template(rf_json_get(hf->tokenizer, "post_processor"));
    size_t n = rf_json_count(single);
    if (n > 0) {
        /* Fast tokenizers add the tokens that the template puts around the text. */
        vocab->add_bos = rf_json_get(rf_json_at(single, 0), "SpecialToken") != NULL;
        vocab->add_eos = n > 1 && rf_json_get(rf_json_at(single, n - 1), "SpecialToken") != NULL;
    } else if (vocab->kind == RF_VOCAB_BPE) {
        if (vocab->add_bos < 0) vocab->add_bos = 0;
        if (vocab->add_eos < 0) vocab->add_eos = 0;
    }
}

/* Looks in this order: chat_template.jinja, tokenizer_config.json (one text, or a list of named
 * ones), chat_template.json. */
static int read_chat_template(struct rf_hf *hf)
{
    struct rf_str text = hf->files->chat_template_jinja;
    const struct rf_json *stated = rf_json_get(hf->tokenizer_config, "chat_template");
    if (!stated) stated = rf_json_get(hf->chat_template, "chat_template");
    if (!text.data && rf_json_is_array(stated)) {
        for (size_t i = 0; i < rf_json_count(stated); i++) {
            const struct rf_json *entry = rf_json_at(stated, i);
            if (rf_str_is(rf_json_text(rf_json_get(entry, "name")), "default"))
                text = rf_json_text(rf_json_get(entry, "template"));
        }
    } else if (!text.data) {
        text = rf_json_text(stated);
    }
    if (text.bytes == 0) return 0;
    hf->source->chat_template =
        rf_arena_strndup(&hf->source->private_->arena, text.data, text.bytes, hf->error);
    hf->source->chat_template_bytes = text.bytes;
    return hf->source->chat_template ? 0 : RF_ERR_MEMORY;
}

static int contains_byte_level(const struct rf_json *pre)
{
    const struct rf_json *list = rf_json_get(pre, "pretokenizers");
    for (size_t i = 0; i < rf_json_count(list); i++)
        if (rf_str_is(rf_json_text(rf_json_get(rf_json_at(list, i), "type")), "ByteLevel"))
            return 1;
    return rf_str_is(rf_json_text(rf_json_get(pre, "type")), "ByteLevel");
}

static int read_tokenizer(struct rf_hf *hf)
{
    const char *folder = hf->files->folder;
    const struct rf_json *model = rf_json_get(hf->tokenizer, "model");
    struct rf_str type = rf_json_text(rf_json_get(model, "type"));
    int is_bpe = rf_str_is(type, "BPE");
    if (is_bpe && contains_byte_level(rf_json_get(hf->tokenizer, "pre_tokenizer"))) {
        hf->source->vocab.kind = RF_VOCAB_BPE;
        return rf_hf_read_bpe(hf);
    }
    if (hf->files->sentencepiece.data) {
        hf->source->vocab.kind = RF_VOCAB_SENTENCEPIECE;
        return rf_hf_read_sentencepiece(hf);
    }
    if (!hf->tokenizer)
        return rf_fail(hf->error, RF_ERR_IO, "%s: holds neither tokenizer.json nor tokenizer.model",
                       folder);
    if (is_bpe)
        return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                       "%s/tokenizer.json: is a BPE in the style of sentencepiece; put the model's "
                       "tokenizer.model beside it",
                       folder);
    return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                   "%s/tokenizer.json: a model of type \"%.*s\" is not supported; BPE is", folder,
                   rf_shown(type), type.data);
}

int rf_hf_read_vocab(struct rf_hf *hf)
{
    struct rf_source *source = hf->source;
    struct rf_vocab *vocab = &source->vocab;
    vocab->n_tokens = source->params.n_vocab;
    size_t n = (size_t)vocab->n_tokens;
    vocab->tokens = rf_source_alloc(source, n, sizeof *vocab->tokens, "vocabulary", hf->error);
    vocab->types = rf_source_alloc(source, n, sizeof *vocab->types, "vocabulary", hf->error);
    if (!vocab->tokens || !vocab->types) return RF_ERR_MEMORY;
    vocab->pre = (struct rf_str){"default", 7};
    vocab->bos = vocab->eos = vocab->unk = vocab->pad = vocab->eot = -1;
    vocab->add_bos = vocab->add_eos = vocab->add_space_prefix = vocab->remove_extra_whitespaces =
        vocab->nfc = -1;

    int code = read_tokenizer(hf);
    if (!code) code = read_added_tokens(hf);
    if (!code) code = fill_unused(hf);
    if (!code) code = read_special(hf, "bos_token", "bos_token_id", &vocab->bos);
    if (!code) code = read_special(hf, "eos_token", "eos_token_id", &vocab->eos);
    if (!code) code = read_special(hf, "unk_token", "unk_token_id", &vocab->unk);
    if (!code) code = read_special(hf, "pad_token", "pad_token_id", &vocab->pad);
    if (!code) code = read_end_of_turn(hf);
    if (code) return code;
    read_habits(hf);
    code = read_chat_template(hf);
    return code ? code : rf_vocab_check(source, hf->files->folder, hf->error);
}
