/* Splits text into words by the regular expressions of each pre-tokenizer, step by step. PCRE2
 * runs them; stretches that are not UTF-8 are words of their own. bpe.c calls it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include <pcre2.h>
#include <stdint.h>

#include "base/utf8.h"
#include "model/letters.h"

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

/* o200k and its relatives: an upper-case beginning and a lower-case rest are one word. */
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

/* deepseek-v3's step for text that is neither a number nor Chinese or Japanese. */
#define WORDS_DEEPSEEK3                                                                         \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}" \
    "\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|[" S "]*[\\r\\n]+|[" S "]+(?![^" S "])|[" S "]+"
/* Ranges of characters as the files of deepseek-llm and deepseek-coder have them. */
#define DEEPSEEK_MARKS \
    "!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}"
#define DEEPSEEK_ASIAN "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"

static const struct rf_pretokenizer_info gpt2 = {.name = "gpt-2", .steps = {{WORDS_GPT2, 0}}};
static const struct rf_pretokenizer_info llama3 = {.name = "llama-bpe",
                                                   .steps = {{WORDS_LLAMA3("\\p{N}{1,3}"), 0}},
                                                   .adds_bos = 1,
                                                   .ignores_merges = 1};
static const struct rf_pretokenizer_info qwen2 = {
    .name = "qwen2", .steps = {{WORDS_LLAMA3("\\p{N}"), 0}}, .nfc = 1};
static const struct rf_pretokenizer_info smollm = {.name = "smollm", .steps = {{WORDS_SMOLLM, 0}}};
/* cl100k: llama 3's words without its habits */
static const struct rf_pretokenizer_info dbrx = {.name = "dbrx",
                                                 .steps = {{WORDS_LLAMA3("\\p{N}{1,3}"), 0}}};
static const struct rf_pretokenizer_info gpt4o = {
    .name = "gpt-4o", .steps = {{WORDS_O200K("(?i:" CONTRACTIONS ")?", "\\p{N}{1,3}"), 0}}};
static const struct rf_pretokenizer_info tekken = {.name = "tekken",
                                                   .steps = {{WORDS_O200K("", "\\p{N}"), 0}},
                                                   .adds_bos = 1,
                                                   .ignores_merges = 1};
static const struct rf_pretokenizer_info qwen35 = {
    .name = "qwen35", .steps = {{WORDS_QWEN35, 0}}, .nfc = 1};
/* HF looks for digits after it has replaced bytes by letters of the byte alphabet. Six of these
 * letters, such as U+00BC, count as numbers. */
static const struct rf_pretokenizer_info falcon = {
    .name = "falcon",
    .steps = {{"[\\p{P}$+<=>^`|~]+", 0},
              {WORDS_GPT2, 0},
              {"[0-9\\xb2\\xb3\\xb9\\xbc-\\xbe]+", 1},
              {"[0-9]{3}", 1}}};
/* The lookbehind keeps the search for white space at the end linear: in a run of it, only the
 * first character begins a match. */
static const struct rf_pretokenizer_info deepseek_llm = {
    .name = "deepseek-llm",
    .steps = {{"[\\r\\n]", 0},
              {"[" S "]?[" RF_DEEPSEEK_LETTERS "]+", 0},
              {"[" S "]?[" DEEPSEEK_MARKS "]+", 0},
              {"(?<![" S "])[" S "]++\\z", 0},
              {DEEPSEEK_ASIAN, 0},
              {"\\p{N}", 0}}};
static const struct rf_pretokenizer_info deepseek_coder = {.name = "deepseek-coder",
                                                           .steps = {{"[\\r\\n]", 0},
                                                                     {"[" S "]?\\p{L}+", 0},
                                                                     {"[" S "]?\\p{P}+", 0},
                                                                     {DEEPSEEK_ASIAN, 0},
                                                                     {"\\p{N}", 0}}};
static const struct rf_pretokenizer_info deepseek_v3 = {
    .name = "deepseek-v3",
    .steps = {{"\\p{N}{1,3}", 0},
              {"[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+", 0},
              {WORDS_DEEPSEEK3, 0}}};

static const struct {
    const char *name;
    const struct rf_pretokenizer_info *info;
} known[] = {{"gpt-2", &gpt2},
             {"gpt2", &gpt2},
             {"phi-2", &gpt2},
             {"mpt", &gpt2},
             {"olmo", &gpt2},
             {"jais", &gpt2},
             {"trillion", &gpt2},
             {"granite-docling", &gpt2},
             {"llama-bpe", &llama3},
             {"llama3", &llama3},
             {"llama-v3", &llama3},
             {"falcon3", &llama3},
             {"falcon-h1", &llama3},
             {"pixtral", &llama3},
             {"midm-2.0", &llama3},
             {"lfm2", &llama3},
             {"dbrx", &dbrx},
             {"smaug-bpe", &dbrx},
             {"qwen2", &qwen2},
             {"deepseek-r1-qwen", &qwen2},
             {"smollm", &smollm},
             {"starcoder", &smollm},
             {"refact", &smollm},
             {"command-r", &smollm},
             {"codeshell", &smollm},
             {"exaone", &smollm},
             {"minerva-7b", &smollm},
             {"gpt-4o", &gpt4o},
             {"llama4", &gpt4o},
             {"kanana2", &gpt4o},
             {"tekken", &tekken},
             {"qwen35", &qwen35},
             {"stablelm2", &qwen2},
             {"falcon", &falcon},
             {"deepseek-llm", &deepseek_llm},
             {"deepseek-coder", &deepseek_coder},
             {"deepseek-v3", &deepseek_v3},
             {"hunyuan-dense", &deepseek_v3},
             {"joyai-llm", &deepseek_v3}};

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
    pcre2_code *codes[RF_WORD_STEPS];
    int n_steps;
};

static void *pcre2_take(PCRE2_SIZE bytes, void *user)
{
    return rf_malloc(user, bytes, 1, "word pattern", NULL);
}

static void pcre2_give(void *memory, void *user)
{
    rf_free(user, memory);
}

static int compile_step(struct rf_pretokenizer *pre, const struct rf_pretokenizer_info *info,
                        pcre2_compile_context *compile, struct rf_error *error)
{
    const struct rf_word_step *step = &info->steps[pre->n_steps];
    int number;
    PCRE2_SIZE where;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)step->pattern, PCRE2_ZERO_TERMINATED,
                      step->on_bytes ? 0 : PCRE2_UTF | PCRE2_UCP, &number, &where, compile);
    if (!code)
        return rf_fail(error, number == PCRE2_ERROR_HEAP_FAILED ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
                       "libpcre2 cannot compile word pattern %d of \"%s\" (error %d at %zu)",
                       pre->n_steps, info->name, number, (size_t)where);
    pre->codes[pre->n_steps++] = code;
    return 0;
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
    int code = compile ? 0 : rf_fail(error, RF_ERR_MEMORY, "word pattern: no memory");
    while (!code && pre->n_steps < RF_WORD_STEPS && info->steps[pre->n_steps].pattern)
        code = compile_step(pre, info, compile, error);
    pcre2_compile_context_free(compile);
    if (code) {
        rf_pretokenizer_free(pre);
        return code;
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
    for (int i = 0; i < pre->n_steps; i++) pcre2_code_free(pre->codes[i]);
    pcre2_match_context_free(pre->limits);
    pcre2_general_context_free(pre->context);
    rf_free(pre->allocator, pre);
}

int rf_words_begin(struct rf_words *words, const struct rf_pretokenizer *pre, const char *text,
                   size_t bytes, struct rf_error *error)
{
    *words = (struct rf_words){.pre = pre, .text = text, .bytes = bytes};
    words->match = pcre2_match_data_create(1, pre->context);
    if (!words->match) return rf_fail(error, RF_ERR_MEMORY, "cutting a text into words: no memory");
    return 0;
}

/* The end of the run of bytes at `at` that are not UTF-8. */
static size_t broken_end(const struct rf_words *words, size_t at)
{
    while (at < words->bytes && !rf_utf8_length(words->text + at, words->bytes - at)) at++;
    return at;
}

/* Takes the next piece from the stretch that the step is cutting. A search that passes over a gap
 * finds its match again at the next call, so every character is searched at most twice. */
static int cut_piece(struct rf_words *words, int step, struct rf_word_piece *piece,
                     struct rf_error *error)
{
    struct rf_word_piece *whole = &words->pieces[step];
    int count = pcre2_match(words->pre->codes[step], (PCRE2_SPTR)words->text + whole->begin,
                            whole->end - whole->begin, whole->at - whole->begin, PCRE2_NO_UTF_CHECK,
                            words->match, words->pre->limits);
    if (count < 0 && count != PCRE2_ERROR_NOMATCH)
        return rf_fail(error, count == PCRE2_ERROR_NOMEMORY ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
                       "libpcre2 cannot cut the text into words (error %d)", count);
    size_t end = whole->end;
    if (count > 0) {
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(words->match);
        size_t begin = whole->begin + span[0];
        size_t cut = begin > whole->at ? begin : whole->begin + span[1];
        if (cut > whole->at) end = cut;
    }
    *piece = (struct rf_word_piece){whole->at, whole->at, end};
    whole->at = end;
    return 0;
}

int rf_words_next(struct rf_words *words, struct rf_str *word, struct rf_error *error)
{
    const int last = words->pre->n_steps - 1;
    struct rf_word_piece piece;
    int step = last;
    while (step >= 0 && words->pieces[step].at == words->pieces[step].end) step--;
    words->broken = 0;
    if (step < 0) { /* all is cut: the next stretch */
        size_t begin = words->at;
        if (begin == words->bytes) return 0;
        words->at += rf_utf8_valid_prefix(words->text + begin, words->bytes - begin);
        if (words->at == begin) {
            words->at = broken_end(words, begin);
            words->broken = 1;
            *word = (struct rf_str){words->text + begin, words->at - begin};
            return 1;
        }
        words->pieces[step = 0] = (struct rf_word_piece){begin, begin, words->at};
    }
    for (;; step++) {
        int code = cut_piece(words, step, &piece, error);
        if (code) return code;
        if (step == last) break;
        words->pieces[step + 1] = piece;
    }
    *word = (struct rf_str){words->text + piece.begin, piece.end - piece.begin};
    return 1;
}

void rf_words_end(struct rf_words *words)
{
    pcre2_match_data_free(words->match);
    words->match = NULL;
}
