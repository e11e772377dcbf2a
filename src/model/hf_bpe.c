/* The tokenizer.json of a BPE, over bytes or, as SentencePiece's, over characters, or of a Unigram:
 * finds out how it prepares a text, and reads its vocabulary and merges. */
#include "base/utf8.h"
#include "model/hf.h"
#include "model/letters.h"

static const char file[] = "tokenizer.json";

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3(digits)                                                \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define O200K(ending, digits)                                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" \
    "+" ending "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"                  \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" ending "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES

enum step_kind {
    END,
    SPLIT,       /* splits by a regular expression */
    DIGIT,       /* single numbers */
    DIGITS,      /* runs of numbers */
    PUNCTUATION, /* runs of punctuation */
    WORDS,       /* ByteLevel with its own (gpt-2's) expression */
    BYTES        /* ByteLevel without it */
};

/* The known pre-tokenizers. */
static const struct {
    const char *name;
    struct step {
        enum step_kind kind;
        const char *pattern;
    } steps[8];
} sequences[] = {
    {"gpt-2", {{WORDS, NULL}}},
    {"smollm", {{DIGIT, NULL}, {WORDS, NULL}}},
    {"llama-bpe", {{SPLIT, LLAMA3("\\p{N}{1,3}")}, {BYTES, NULL}}},
    {"qwen2", {{SPLIT, LLAMA3("\\p{N}")}, {BYTES, NULL}}},
    {"gpt-4o", {{SPLIT, O200K("(?i:" CONTRACTIONS ")?", "\\p{N}{1,3}")}, {BYTES, NULL}}},
    {"tekken", {{SPLIT, O200K("", "\\p{N}")}, {BYTES, NULL}}},
    {"seed-coder",
     {{SPLIT, "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}|"
              " ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES},
      {BYTES, NULL}}},
    {"qwen35",
     {{SPLIT, "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
              " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES},
      {BYTES, NULL}}},
    {"falcon", {{PUNCTUATION, NULL}, {WORDS, NULL}, {DIGITS, NULL}, {SPLIT, "[0-9][0-9][0-9]"}}},
    {"deepseek-llm",
     {{SPLIT, "[\\r\\n]"},
      {SPLIT, "\\s?[" RF_DEEPSEEK_LETTERS "]+"},
      {SPLIT, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"},
      {SPLIT, "\\s+$"},
      {SPLIT, "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
      {DIGIT, NULL},
      {BYTES, NULL}}},
    {"deepseek-coder",
     {{SPLIT, "[\\r\\n]"},
      {SPLIT, "\\s?\\p{L}+"},
      {SPLIT, "\\s?\\p{P}+"},
      {SPLIT, "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
      {DIGIT, NULL},
      {BYTES, NULL}}},
    {"deepseek-v3",
     {{SPLIT, "\\p{N}{1,3}"},
      {SPLIT, "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
      {SPLIT, "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
              "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES},
      {BYTES, NULL}}},
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
static int is_byte_level_step(const struct rf_json *value, int use_regex)
{
    int flag = 1; /* the default of use_regex */
    rf_json_bool(rf_json_get(value, "use_regex"), &flag);
    return is_type(value, "ByteLevel") &&
           !rf_json_is_true(rf_json_get(value, "add_prefix_space")) && flag == use_regex;
}

/* 1 for the same regular expression. Some files have the characters CR and LF where the table has
 * "\r" and "\n". */
static int is_pattern(struct rf_str text, const char *pattern)
{
    size_t at = 0;
    for (; at < text.bytes && *pattern; at++, pattern++) {
        int is_line_end = (text.data[at] == '\r' && pattern[1] == 'r') ||
                          (text.data[at] == '\n' && pattern[1] == 'n');
        if (*pattern == '\\' && is_line_end)
            pattern++;
        else if (text.data[at] != *pattern)
            return 0;
    }
    return at == text.bytes && !*pattern;
}

static struct rf_str split_pattern(const struct rf_json *value)
{
    return rf_json_text(rf_json_get(rf_json_get(value, "pattern"), "Regex"));
}

static int is_step(const struct rf_json *value, const struct step *step)
{
    struct rf_str behavior = rf_json_text(rf_json_get(value, "behavior"));
    int single = rf_json_is_true(rf_json_get(value, "individual_digits"));
    switch (step->kind) {
    case SPLIT:
        return is_type(value, "Split") && rf_str_is(behavior, "Isolated") &&
               !rf_json_is_true(rf_json_get(value, "invert")) &&
               is_pattern(split_pattern(value), step->pattern);
    case DIGIT: return is_type(value, "Digits") && single;
    case DIGITS: return is_type(value, "Digits") && !single;
    case PUNCTUATION: return is_type(value, "Punctuation") && rf_str_is(behavior, "Contiguous");
    case WORDS: return is_byte_level_step(value, 1);
    case BYTES: return is_byte_level_step(value, 0);
    case END: break;
    }
    return 0;
}

/* A pre-tokenizer that is no Sequence is a sequence of one. */
static int is_sequence(const struct rf_json *pre, const struct step *steps)
{
    const struct rf_json *list = rf_json_get(pre, "pretokenizers");
    int is_list = is_type(pre, "Sequence");
    size_t n = is_list ? rf_json_count(list) : 1;
    for (size_t i = 0; i < n; i++)
        if (!is_step(is_list ? rf_json_at(list, i) : pre, &steps[i])) return 0;
    return n > 0 && steps[n].kind == END;
}

static void read_pre_tokenizer(struct rf_hf *hf)
{
    const struct rf_json *pre = rf_json_get(hf->tokenizer, "pre_tokenizer");
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        if (!is_sequence(pre, sequences[i].steps)) continue;
        hf->reading.source->vocab.pre = rf_str_of(sequences[i].name);
        return;
    }
    struct rf_str pattern = split_pattern(rf_json_at(rf_json_get(pre, "pretokenizers"), 0));
    fail_unknown(hf, "the pre-tokenizer",
                 pattern.bytes ? pattern : rf_json_text(rf_json_get(pre, "type")));
}

static void bpe_normalizer(struct rf_hf *hf)
{
    const struct rf_json *normalizer = rf_json_get(hf->tokenizer, "normalizer");
    const struct rf_json *list = rf_json_get(normalizer, "normalizers");
    if (is_type(normalizer, "Sequence") && rf_json_count(list) < 2)
        normalizer = rf_json_at(list, 0); /* NULL for an empty one */
    if (normalizer && !is_type(normalizer, "NFC"))
        fail_unknown(hf, "the normalizer", rf_json_text(rf_json_get(normalizer, "type")));
    hf->reading.source->vocab.nfc = normalizer != NULL;
}

static void bpe_model(struct rf_hf *hf, const struct rf_json *model)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rf_str text = rf_json_text(rf_json_get(model, texts[i]));
        if (text.bytes) fail_unknown(hf, texts[i], text);
    }
    int falls_back = rf_json_is_true(rf_json_get(model, "byte_fallback"));
    vocab->ignore_merges = (int8_t)rf_json_is_true(rf_json_get(model, "ignore_merges"));
    if (vocab->kind == RF_VOCAB_BPE && falls_back)
        fail_unknown(hf, "a byte-level model with", rf_str_of("byte_fallback"));
    if (vocab->kind == RF_VOCAB_SENTENCEPIECE && !falls_back)
        fail_unknown(hf, "a model of characters without", rf_str_of("byte_fallback"));
    if (vocab->kind == RF_VOCAB_SENTENCEPIECE && vocab->ignore_merges)
        fail_unknown(hf, "a model of characters with", rf_str_of("ignore_merges"));
}

static void bpe_tokens(struct rf_hf *hf, const struct rf_json *model)
{
    const struct rf_json *vocab = rf_json_get(model, "vocab"), *value;
    if (!rf_json_is_object(vocab))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.vocab is missing or not an object");
    struct rf_str text;
    for (void *at = NULL; !hf->reading.code && rf_json_next(vocab, &at, &text, &value);) {
        int64_t id = -1;
        rf_json_integer(value, &id);
        if (rf_utf8_valid_prefix(text.data, text.bytes) < text.bytes)
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "model.vocab has a token with a zero byte");
        rf_vocab_set_token(&hf->reading, id, text, RF_TOKEN_NORMAL);
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

static void bpe_merges(struct rf_hf *hf, const struct rf_json *model)
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
    bpe_normalizer(hf);
    bpe_model(hf, model);
    bpe_tokens(hf, model);
    bpe_merges(hf, model);
}

/* ---- over characters ---- */

static int is_json_text(const struct rf_json *value, const char *key, const char *text)
{
    return rf_str_is(rf_json_text(rf_json_get(value, key)), text);
}

#define MARKER "\u2581" /* stands for a space */

/* 1 if spaces become markers. */
static int is_space_replacement(const struct rf_json *value)
{
    return is_type(value, "Replace") &&
           is_json_text(rf_json_get(value, "pattern"), "String", " ") &&
           is_json_text(value, "content", MARKER);
}

/* The normalizer replaces spaces, and may put one before the text; otherwise a Metaspace does. */
static int replaces_spaces(struct rf_hf *hf)
{
    const struct rf_json *normalizer = rf_json_get(hf->tokenizer, "normalizer");
    const struct rf_json *list = rf_json_get(normalizer, "normalizers"), *last = normalizer;
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    size_t n = rf_json_count(list);
    vocab->add_space_prefix = 0;
    if (is_type(normalizer, "Sequence")) {
        const struct rf_json *first = rf_json_at(list, 0);
        last = n ? rf_json_at(list, n - 1) : NULL;
        if (n == 2 && is_type(first, "Prepend") && is_json_text(first, "prepend", MARKER))
            vocab->add_space_prefix = RF_PREFIX_ON;
        else if (n > 1)
            fail_unknown(hf, "the normalizer", rf_json_text(rf_json_get(first, "type")));
    }
    if (last && !is_space_replacement(last))
        fail_unknown(hf, "the normalizer", rf_json_text(rf_json_get(last, "type")));
    return last != NULL;
}

/* If a text is split before spaces, no piece may have a space behind its beginning: then the whole
 * text gives the same pieces. */
static void check_split(struct rf_hf *hf)
{
    const struct rf_vocab *vocab = &hf->reading.source->vocab;
    for (int32_t id = 0; !hf->reading.code && id < vocab->n_tokens; id++) {
        struct rf_str text = vocab->tokens[id];
        for (size_t i = 1; text.data && i + strlen(MARKER) <= text.bytes; i++)
            if (memcmp(text.data + i, MARKER, strlen(MARKER)) == 0)
                fail_unknown(hf, "a Metaspace that splits, with the piece", text);
    }
}

static void read_metaspace(struct rf_hf *hf, const struct rf_json *pre)
{
    int splits = 1; /* the default */
    struct rf_str scheme = rf_json_text(rf_json_get(pre, "prepend_scheme"));
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    rf_json_bool(rf_json_get(pre, "split"), &splits);
    if (!is_type(pre, "Metaspace") || !is_json_text(pre, "replacement", MARKER))
        fail_unknown(hf, "the pre-tokenizer", rf_json_text(rf_json_get(pre, "type")));
    if (splits) check_split(hf);
    if (rf_str_is(scheme, "first"))
        vocab->add_space_prefix = RF_PREFIX_ON | RF_PREFIX_ONCE | RF_PREFIX_UNLESS;
    else if (rf_str_is(scheme, "always"))
        vocab->add_space_prefix = RF_PREFIX_ON | RF_PREFIX_UNLESS;
    else if (!rf_str_is(scheme, "never"))
        fail_unknown(hf, "Metaspace's prepend_scheme", scheme);
}

void rf_hf_read_spaces(struct rf_hf *hf)
{
    const struct rf_json *pre = rf_json_get(hf->tokenizer, "pre_tokenizer");
    if (!replaces_spaces(hf)) {
        read_metaspace(hf, pre);
        return;
    }
    /* Gemma's splits at spaces, which the normalizer has replaced. */
    int is_idle = is_type(pre, "Split") && is_json_text(rf_json_get(pre, "pattern"), "String", " ");
    if (pre && !is_idle)
        fail_unknown(hf, "the pre-tokenizer", rf_json_text(rf_json_get(pre, "type")));
}

/* The model's entries for bytes, and its entry for unknown text. */
static void set_piece_types(struct rf_hf *hf, const struct rf_json *model)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    struct rf_str unknown = rf_json_text(rf_json_get(model, "unk_token"));
    for (int32_t id = 0; !hf->reading.code && id < vocab->n_tokens; id++) {
        if (!vocab->tokens[id].data) continue;
        if (rf_is_byte_token(vocab->tokens[id])) vocab->types[id] = RF_TOKEN_BYTE;
        if (!unknown.bytes || !rf_str_same(vocab->tokens[id], unknown)) continue;
        vocab->types[id] = RF_TOKEN_UNKNOWN;
        vocab->unk = id;
    }
}

void rf_hf_read_character_bpe(struct rf_hf *hf)
{
    const struct rf_json *model = rf_json_get(hf->tokenizer, "model");
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    vocab->scores =
        rf_keep(&hf->reading, (size_t)vocab->n_tokens, sizeof *vocab->scores, "vocabulary");
    vocab->remove_extra_whitespaces = 0;
    bpe_tokens(hf, model);
    rf_hf_read_spaces(hf);
    bpe_model(hf, model);
    bpe_merges(hf, model);
    if (vocab->n_merges == 0)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "model.merges is empty");
    set_piece_types(hf, model);
}
