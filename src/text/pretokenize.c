#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include <pcre2.h>
#include <stdint.h>

#include "base/utf8.h"

/* White space as Unicode and Oniguruma (HF's engine) have it. PCRE2's own \s differs in U+180E. */
#define S "\\t-\\r\\x{85}\\p{Z}"
/* The patterns of the models' tokenizer.json files, with \s and \S written out. */
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define WORDS_GPT2 \
    CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^" S "\\p{L}\\p{N}]+|[" S "]+(?![^" S "])|[" S "]+"
/* HF splits off single digits before it applies GPT-2's pattern to the rest, so white space before
 * a digit stands at the end of its piece. In this single pattern, the lookahead treats a digit as
 * that end. */
#define WORDS_SMOLLM \
    CONTRACTIONS "|\\p{N}| ?\\p{L}+| ?[^" S "\\p{L}\\p{N}]+|[" S "]+(?![^" S "\\p{N}])|[" S "]+"
#define WORDS_LLAMA3(digits)                                                \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" S \
    "\\p{L}\\p{N}]+[\\r\\n]*|[" S "]*[\\r\\n]+|[" S "]+(?![^" S "])|[" S "]+"

/* Of o200k and its relatives: an upper-case beginning and a lower-case rest are one word. */
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define WORDS_O200K(ending, digits)                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" ending "|[^\\r\\n\\p{L}\\p{N}]?[" UPPER      \
    "]+[" LOWER "]*" ending "|" digits "| ?[^" S "\\p{L}\\p{N}]+[\\r\\n/]*|[" S "]*[\\r\\n]+|[" S \
    "]+(?![^" S "])|[" S "]+"
/* Marks belong to letters. */
#define WORDS_QWEN35                                                            \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" S \
    "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|[" S "]*[\\r\\n]+|[" S "]+(?![^" S "])|[" S "]+"

static const struct rf_pretokenizer_info gpt2 = {"gpt-2", WORDS_GPT2, 0, 0, 0};
static const struct rf_pretokenizer_info llama3 = {"llama-bpe", WORDS_LLAMA3("\\p{N}{1,3}"), 0, 1,
                                                   1};
static const struct rf_pretokenizer_info qwen2 = {"qwen2", WORDS_LLAMA3("\\p{N}"), 1, 0, 0};
static const struct rf_pretokenizer_info smollm = {"smollm", WORDS_SMOLLM, 0, 0, 0};
/* cl100k: llama 3's words without its habits */
static const struct rf_pretokenizer_info dbrx = {"dbrx", WORDS_LLAMA3("\\p{N}{1,3}"), 0, 0, 0};
static const struct rf_pretokenizer_info gpt4o = {
    "gpt-4o", WORDS_O200K("(?i:" CONTRACTIONS ")?", "\\p{N}{1,3}"), 0, 0, 0};
static const struct rf_pretokenizer_info tekken = {"tekken", WORDS_O200K("", "\\p{N}"), 0, 1, 1};
static const struct rf_pretokenizer_info qwen35 = {"qwen35", WORDS_QWEN35, 1, 0, 0};

static const struct {
    const char *name;
    const struct rf_pretokenizer_info *info;
} known[] = {{"gpt-2", &gpt2},        {"gpt2", &gpt2},
             {"phi-2", &gpt2},        {"mpt", &gpt2},
             {"olmo", &gpt2},         {"jais", &gpt2},
             {"trillion", &gpt2},     {"granite-docling", &gpt2},
             {"llama-bpe", &llama3},  {"llama3", &llama3},
             {"llama-v3", &llama3},   {"falcon3", &llama3},
             {"falcon-h1", &llama3},  {"pixtral", &llama3},
             {"midm-2.0", &llama3},   {"lfm2", &llama3},
             {"dbrx", &dbrx},         {"smaug-bpe", &dbrx},
             {"qwen2", &qwen2},       {"deepseek-r1-qwen", &qwen2},
             {"smollm", &smollm},     {"starcoder", &smollm},
             {"refact", &smollm},     {"command-r", &smollm},
             {"codeshell", &smollm},  {"exaone", &smollm},
             {"minerva-7b", &smollm}, {"gpt-4o", &gpt4o},
             {"llama4", &gpt4o},      {"kanana2", &gpt4o},
             {"tekken", &tekken},     {"qwen35", &qwen35}};

const struct rf_pretokenizer_info *rf_pretokenizer_find(struct rf_str name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (rf_str_is(name, known[i].name)) return known[i].info;
    return NULL;
}

struct rf_pretokenizer {
    const struct rf_allocator *allocator;
    pcre2_general_context *context;
    pcre2_match_context *limits;
    pcre2_code *code;
};

static void *pcre2_take(PCRE2_SIZE bytes, void *user)
{
    return rf_malloc(user, bytes, 1, "word pattern", NULL);
}

static void pcre2_give(void *memory, void *user)
{
    rf_free(user, memory);
}

int rf_pretokenizer_new(struct rf_pretokenizer **out, const struct rf_pretokenizer_info *info,
                        const struct rf_allocator *allocator, struct rf_error *error)
{
    *out = NULL;
    struct rf_pretokenizer *pre = rf_calloc(allocator, 1, sizeof *pre, "word pattern", error);
    if (!pre) return RF_ERR_MEMORY;
    pre->allocator = allocator;
    pre->context =
        pcre2_general_context_create(pcre2_take, pcre2_give, (void *)(uintptr_t)allocator);
    if (pre->context) pre->limits = pcre2_match_context_create(pre->context);
    pcre2_compile_context *compile =
        pre->limits ? pcre2_compile_context_create(pre->context) : NULL;
    if (!compile) {
        rf_pretokenizer_free(pre);
        return rf_fail(error, RF_ERR_MEMORY, "word pattern: no memory");
    }
    int number;
    PCRE2_SIZE where;
    pre->code = pcre2_compile((PCRE2_SPTR)info->pattern, PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP, &number, &where, compile);
    pcre2_compile_context_free(compile);
    if (!pre->code) {
        int code = number == PCRE2_ERROR_HEAP_FAILED ? RF_ERR_MEMORY : RF_ERR_SYSTEM;
        rf_pretokenizer_free(pre);
        return rf_fail(error, code,
                       "libpcre2 cannot compile the word pattern of \"%s\" (error %d at %zu)",
                       info->name, number, (size_t)where);
    }
    /* Not pcre2_jit_compile: its pages are writable and executable at once. There is no match
     * limit, since a long run of spaces would exceed it; the patterns cannot backtrack
     * exponentially. */
    pcre2_set_match_limit(pre->limits, UINT32_MAX);
    *out = pre;
    return 0;
}

void rf_pretokenizer_free(struct rf_pretokenizer *pre)
{
    if (!pre) return;
    pcre2_code_free(pre->code);
    pcre2_match_context_free(pre->limits);
    pcre2_general_context_free(pre->context);
    rf_free(pre->allocator, pre);
}

int rf_words_begin(struct rf_words *words, const struct rf_pretokenizer *pre, const char *text,
                   size_t bytes, struct rf_error *error)
{
    *words = (struct rf_words){.pre = pre, .text = text, .bytes = bytes};
    words->valid = rf_utf8_valid_prefix(text, bytes);
    words->match = pcre2_match_data_create(1, pre->context);
    if (!words->match) return rf_fail(error, RF_ERR_MEMORY, "cutting a text into words: no memory");
    return 0;
}

int rf_words_next(struct rf_words *words, struct rf_str *word, struct rf_error *error)
{
    size_t at = words->at, end;
    if (at == words->bytes) return 0;
    if (at == words->valid) {
        for (end = at + 1;
             end < words->bytes && !rf_utf8_length(words->text + end, words->bytes - end);)
            end++;
        words->valid = end + rf_utf8_valid_prefix(words->text + end, words->bytes - end);
    } else {
        int count = pcre2_match(words->pre->code, (PCRE2_SPTR)words->text + at, words->valid - at,
                                0, PCRE2_NO_UTF_CHECK, words->match, words->pre->limits);
        if (count < 0 && count != PCRE2_ERROR_NOMATCH)
            return rf_fail(error, count == PCRE2_ERROR_NOMEMORY ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
                           "libpcre2 cannot cut the text into words (error %d)", count);
        /* The patterns match at every position. If one left a gap, the gap would be a word. */
        end = words->valid;
        if (count > 0) {
            const PCRE2_SIZE *span = pcre2_get_ovector_pointer(words->match);
            size_t cut = span[0] ? span[0] : span[1];
            if (cut) end = at + cut;
        }
    }
    *word = (struct rf_str){words->text + at, end - at};
    words->at = end;
    return 1;
}

void rf_words_end(struct rf_words *words)
{
    pcre2_match_data_free(words->match);
    words->match = NULL;
}
