/* The tokenizer.json of a byte-level BPE: finds out which pre-tokenizer it describes, and reads its
 * vocabulary and merges. */
#include <inttypes.h>
#include <string.h>

#include "model/hf.h"

/* The regular expressions of the known pre-tokenizers that split before bytes. */
static const struct {
    const char *pattern, *name;
} splits[] = {
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "llama-bpe"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "qwen2"},
};

static int fail_unknown(const struct rf_hf *hf, const char *part, struct rf_str what)
{
    return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                   "%s/tokenizer.json: %s \"%.*s\" is not one of a known tokenizer",
                   hf->files->folder, part, rf_shown(what), what.data);
}

static int is_type(const struct rf_json *value, const char *type)
{
    return rf_str_is(rf_json_text(rf_json_get(value, "type")), type);
}

/* ByteLevel as the known tokenizers have it: without a prefix space, with or without its own
 * (gpt-2's) expression. */
static int is_byte_level(const struct rf_json *value, int use_regex)
{
    int flag = 1; /* the default of use_regex */
    rf_json_bool(rf_json_get(value, "use_regex"), &flag);
    return is_type(value, "ByteLevel") &&
           !rf_json_is_true(rf_json_get(value, "add_prefix_space")) && flag == use_regex;
}

static const char *pre_of_split(const struct rf_json *split)
{
    struct rf_str pattern = rf_json_text(rf_json_get(rf_json_get(split, "pattern"), "Regex"));
    if (!is_type(split, "Split") ||
        !rf_str_is(rf_json_text(rf_json_get(split, "behavior")), "Isolated") ||
        rf_json_is_true(rf_json_get(split, "invert")))
        return NULL;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (rf_str_is(pattern, splits[i].pattern)) return splits[i].name;
    return NULL;
}

static int read_pre_tokenizer(struct rf_hf *hf)
{
    const struct rf_json *pre = rf_json_get(hf->tokenizer, "pre_tokenizer");
    const struct rf_json *list = rf_json_get(pre, "pretokenizers");
    const struct rf_json *first = rf_json_at(list, 0), *second = rf_json_at(list, 1);
    const char *name = NULL;
    if (is_byte_level(pre, 1)) {
        name = "gpt-2";
    } else if (is_type(pre, "Sequence") && rf_json_count(list) == 2) {
        if (is_type(first, "Digits") && rf_json_is_true(rf_json_get(first, "individual_digits")) &&
            is_byte_level(second, 1))
            name = "smollm";
        else if (is_byte_level(second, 0))
            name = pre_of_split(first);
    }
    if (name) {
        hf->source->vocab.pre = (struct rf_str){name, strlen(name)};
        return 0;
    }
    struct rf_str pattern = rf_json_text(rf_json_get(rf_json_get(first, "pattern"), "Regex"));
    return fail_unknown(hf, "the pre-tokenizer",
                        pattern.bytes ? pattern : rf_json_text(rf_json_get(pre, "type")));
}

static int read_normalizer(struct rf_hf *hf)
{
    const struct rf_json *normalizer = rf_json_get(hf->tokenizer, "normalizer");
    const struct rf_json *list = rf_json_get(normalizer, "normalizers");
    if (is_type(normalizer, "Sequence") && rf_json_count(list) == 1)
        normalizer = rf_json_at(list, 0);
    if (normalizer && !is_type(normalizer, "NFC"))
        return fail_unknown(hf, "the normalizer", rf_json_text(rf_json_get(normalizer, "type")));
    hf->source->vocab.nfc = normalizer != NULL;
    return 0;
}

static int read_model(struct rf_hf *hf, const struct rf_json *model)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rf_str text = rf_json_text(rf_json_get(model, texts[i]));
        if (text.bytes) return fail_unknown(hf, texts[i], text);
    }
    if (rf_json_is_true(rf_json_get(model, "byte_fallback")))
        return fail_unknown(hf, "a byte-level model with", (struct rf_str){"byte_fallback", 13});
    hf->source->vocab.ignore_merges = (int8_t)rf_json_is_true(rf_json_get(model, "ignore_merges"));
    return 0;
}

static int read_tokens(struct rf_hf *hf, const struct rf_json *model)
{
    const struct rf_json *vocab = rf_json_get(model, "vocab"), *value;
    if (!rf_json_is_object(vocab))
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/tokenizer.json: model.vocab is missing or not an object",
                       hf->files->folder);
    struct rf_str text;
    for (void *at = NULL; rf_json_next(vocab, &at, &text, &value);) {
        int64_t id = -1;
        rf_json_integer(value, &id);
        int code = rf_hf_set_token(hf, id, text, RF_TOKEN_NORMAL);
        if (code) return code;
    }
    return 0;
}

/* A merge is "a b" or, in newer files, ["a", "b"]. */
static int read_merge(struct rf_hf *hf, const struct rf_json *value, size_t index,
                      struct rf_merge *merge)
{
    struct rf_str left = {"", 0}, right = {"", 0}, text;
    if (rf_json_string(value, &text)) {
        const char *space = memchr(text.data, ' ', text.bytes);
        if (space) {
            left = (struct rf_str){text.data, (size_t)(space - text.data)};
            right = (struct rf_str){space + 1, text.bytes - left.bytes - 1};
        }
    } else if (rf_json_count(value) == 2) {
        left = rf_json_text(rf_json_at(value, 0));
        right = rf_json_text(rf_json_at(value, 1));
    }
    if (left.bytes == 0 || right.bytes == 0 || memchr(left.data, ' ', left.bytes) ||
        memchr(right.data, ' ', right.bytes))
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/tokenizer.json: model.merges[%zu] is not two pieces", hf->files->folder,
                       index);
    char *copy = rf_source_alloc(hf->source, left.bytes + right.bytes, 1, "merges", hf->error);
    if (!copy) return RF_ERR_MEMORY;
    memcpy(copy, left.data, left.bytes);
    memcpy(copy + left.bytes, right.data, right.bytes);
    *merge = (struct rf_merge){{copy, left.bytes}, {copy + left.bytes, right.bytes}};
    return 0;
}

static int read_merges(struct rf_hf *hf, const struct rf_json *model)
{
    struct rf_vocab *vocab = &hf->source->vocab;
    const struct rf_json *list = rf_json_get(model, "merges");
    if (!rf_json_is_array(list))
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/tokenizer.json: model.merges is missing or not an array",
                       hf->files->folder);
    size_t n = rf_json_count(list);
    vocab->merges = rf_source_alloc(hf->source, n, sizeof *vocab->merges, "merges", hf->error);
    if (!vocab->merges) return RF_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        int code = read_merge(hf, rf_json_at(list, i), i, &vocab->merges[i]);
        if (code) return code;
    }
    vocab->n_merges = n;
    return 0;
}

int rf_hf_read_bpe(struct rf_hf *hf)
{
    const struct rf_json *model = rf_json_get(hf->tokenizer, "model");
    int code = read_pre_tokenizer(hf);
    if (!code) code = read_normalizer(hf);
    if (!code) code = read_model(hf, model);
    if (!code) code = read_tokens(hf, model);
    if (!code) code = read_merges(hf, model);
    return code;
}
