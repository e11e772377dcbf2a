/* The tokenizer.json of a byte-level BPE: finds out which pre-tokenizer it describes, and reads its
 * vocabulary and merges. */
#include "model/hf.h"

static const char file[] = "tokenizer.json";

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
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "gpt-4o"},
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
     "\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "tekken"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "qwen35"},
};

static void fail_unknown(struct rf_hf *hf, const char *part, struct rf_str what)
{
    rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                "%s \"%.*s\" is not one of a known tokenizer", part, rf_shown(what), what.data);
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

static void read_pre_tokenizer(struct rf_hf *hf)
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
    struct rf_str pattern = rf_json_text(rf_json_get(rf_json_get(first, "pattern"), "Regex"));
    if (name)
        hf->reading.source->vocab.pre = rf_str_of(name);
    else
        fail_unknown(hf, "the pre-tokenizer",
                     pattern.bytes ? pattern : rf_json_text(rf_json_get(pre, "type")));
}

static void read_normalizer(struct rf_hf *hf)
{
    const struct rf_json *normalizer = rf_json_get(hf->tokenizer, "normalizer");
    const struct rf_json *list = rf_json_get(normalizer, "normalizers");
    if (is_type(normalizer, "Sequence") && rf_json_count(list) == 1)
        normalizer = rf_json_at(list, 0);
    if (normalizer && !is_type(normalizer, "NFC"))
        fail_unknown(hf, "the normalizer", rf_json_text(rf_json_get(normalizer, "type")));
    hf->reading.source->vocab.nfc = normalizer != NULL;
}

static void read_model(struct rf_hf *hf, const struct rf_json *model)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rf_str text = rf_json_text(rf_json_get(model, texts[i]));
        if (text.bytes) fail_unknown(hf, texts[i], text);
    }
    if (rf_json_is_true(rf_json_get(model, "byte_fallback")))
        fail_unknown(hf, "a byte-level model with", rf_str_of("byte_fallback"));
    hf->reading.source->vocab.ignore_merges =
        (int8_t)rf_json_is_true(rf_json_get(model, "ignore_merges"));
}

static void read_tokens(struct rf_hf *hf, const struct rf_json *model)
{
    const struct rf_json *vocab = rf_json_get(model, "vocab"), *value;
    if (!rf_json_is_object(vocab))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.vocab is missing or not an object");
    struct rf_str text;
    for (void *at = NULL; !hf->reading.code && rf_json_next(vocab, &at, &text, &value);) {
        int64_t id = -1;
        rf_json_integer(value, &id);
        rf_hf_set_token(hf, id, text, RF_TOKEN_NORMAL);
    }
}

/* A merge is "a b" or, in newer files, ["a", "b"]. */
static void read_merge(struct rf_hf *hf, const struct rf_json *value, size_t index,
                       struct rf_merge *merge)
{
    struct rf_str text = {"", 0};
    int good = rf_json_string(value, &text) && rf_merge_split(text, merge);
    if (rf_json_is_array(value) && rf_json_count(value) == 2) {
        *merge = (struct rf_merge){rf_json_text(rf_json_at(value, 0)),
                                   rf_json_text(rf_json_at(value, 1))};
        good = merge->left.bytes && merge->right.bytes &&
               !memchr(merge->left.data, ' ', merge->left.bytes) &&
               !memchr(merge->right.data, ' ', merge->right.bytes);
    }
    if (!good)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.merges[%zu] is not two pieces",
                    index);
    char *copy = rf_keep(&hf->reading, merge->left.bytes + merge->right.bytes, 1, "merges");
    if (!copy) return;
    merge->left.data = memcpy(copy, merge->left.data, merge->left.bytes);
    merge->right.data = memcpy(copy + merge->left.bytes, merge->right.data, merge->right.bytes);
}

static void read_merges(struct rf_hf *hf, const struct rf_json *model)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    const struct rf_json *list = rf_json_get(model, "merges");
    if (!rf_json_is_array(list))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.merges is missing or not an array");
    vocab->n_merges = rf_json_count(list);
    rf_count(&hf->reading, vocab->n_merges, "merges");
    vocab->merges = rf_keep(&hf->reading, vocab->n_merges, sizeof *vocab->merges, "merges");
    for (size_t i = 0; !hf->reading.code && i < vocab->n_merges; i++)
        read_merge(hf, rf_json_at(list, i), i, &vocab->merges[i]);
}

void rf_hf_read_bpe(struct rf_hf *hf)
{
    const struct rf_json *model = rf_json_get(hf->tokenizer, "model");
    read_pre_tokenizer(hf);
    read_normalizer(hf);
    read_model(hf, model);
    read_tokens(hf, model);
    read_merges(hf, model);
}
