/* Splits text into words by the regular expressions of each pre-tokenizer, step by step. PCRE2
 * runs them; stretches that are not UTF-8 are words of their own. bpe.c calls it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include <pcre2.h>
#include <stdint.h>

#include "base/utf8.h"
#include "model/letters.h"
#include "text/unicode_kinds.h"

/* The expressions run over a text with one byte for each character: ASCII stands for itself, every
 * other character is 0x80 + 8 * its kind (unicode_kinds.h) + its flags. So classes do not depend on
 * the version of Unicode that PCRE2 knows, and PCRE2 looks at single bytes. Of the sets below, the
 * second part lists the bytes of kinds. */
#define SPACE "\\t-\\r \\x88-\\x8f"
#define PUNCTUATION "!-#%-*,-/:;?@\\[-\\]_{}\\x90-\\x97"
#define SYMBOL "$+<=>^`|~\\x98-\\x9f"
#define NUMBER "0-9\\xa0-\\xa7"
#define MARK "\\xa8-\\xaf"
#define LETTER "A-Za-z\\xb0-\\xdf"
/* o200k and its relatives: an upper-case beginning and a lower-case rest are one word. */
#define UPPER "A-Z\\xa8-\\xbf\\xd0-\\xdf"
#define LOWER "a-z\\xa8-\\xcf"
/* The flags, which a pre-tokenizer gives to characters beyond ASCII. */
enum { FLAG_MARKS = 1, FLAG_LETTERS = 2, FLAG_ASIAN = 4 };
#define HAS_MARKS                                                                                  \
    "\\x81\\x83\\x85\\x87\\x89\\x8b\\x8d\\x8f\\x91\\x93\\x95\\x97\\x99\\x9b\\x9d\\x9f\\xa1\\xa3\\" \
    "xa5\\xa7\\xa9"                                                                                \
    "\\xab\\xad\\xaf\\xb1\\xb3\\xb5\\xb7\\xb9\\xbb\\xbd\\xbf\\xc1\\xc3\\xc5\\xc7\\xc9\\xcb\\xcd\\" \
    "xcf\\xd1\\xd3"                                                                                \
    "\\xd5\\xd7\\xd9\\xdb\\xdd\\xdf"
#define HAS_LETTERS                                                                                \
    "\\x82\\x83\\x86\\x87\\x8a\\x8b\\x8e\\x8f\\x92\\x93\\x96\\x97\\x9a\\x9b\\x9e\\x9f\\xa2\\xa3\\" \
    "xa6\\xa7\\xaa"                                                                                \
    "\\xab\\xae\\xaf\\xb2\\xb3\\xb6\\xb7\\xba\\xbb\\xbe\\xbf\\xc2\\xc3\\xc6\\xc7\\xca\\xcb\\xce\\" \
    "xcf\\xd2\\xd3"                                                                                \
    "\\xd6\\xd7\\xda\\xdb\\xde\\xdf"
#define HAS_ASIAN                                                                         \
    "\\x84-\\x87\\x8c-\\x8f\\x94-\\x97\\x9c-\\x9f\\xa4-\\xa7\\xac-\\xaf\\xb4-\\xb7\\xbc-" \
    "\\xbf\\xc4-\\xc7\\xcc-"                                                              \
    "\\xcf\\xd4-\\xd7\\xdc-\\xdf"

/* The patterns of the models' tokenizer.json files. */
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
/* U+017F is an s where case is ignored. */
#define ANY_CASE "(?i:" CONTRACTIONS "|'[\\xc8-\\xcf])"
#define ENDS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define WORDS_GPT2 \
    CONTRACTIONS "| ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" SPACE LETTER NUMBER "]+|" ENDS
/* HF splits off single digits before it applies GPT-2's pattern to the rest, so white space before
 * a digit stands at the end of its piece. In this single pattern, the lookahead treats a digit as
 * that end. */
#define WORDS_SMOLLM                                                                   \
    CONTRACTIONS "|[" NUMBER "]| ?[" LETTER "]+| ?[^" SPACE LETTER NUMBER "]+|[" SPACE \
                 "]+(?![^" SPACE NUMBER "])|[" SPACE "]+"
#define LINES "[" SPACE "]*[\\r\\n]+|" ENDS
#define WORDS_LLAMA3(digits)                                                                 \
    ANY_CASE "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|" digits "| ?[^" SPACE LETTER NUMBER \
             "]+[\\r\\n]*|" LINES
/* Signs do not take the line ends behind them. */
#define WORDS_SEED                                                                             \
    ANY_CASE "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER "]| ?[^" SPACE LETTER NUMBER \
             "]+|" LINES
#define WORDS_O200K(ending, digits)                                                        \
    "[^\\r\\n" LETTER NUMBER "]?[" UPPER "]*[" LOWER "]+" ending "|[^\\r\\n" LETTER NUMBER \
    "]?[" UPPER "]+[" LOWER "]*" ending "|" digits "| ?[^" SPACE LETTER NUMBER             \
    "]+[\\r\\n/]*|" LINES
/* Marks belong to letters. */
#define WORDS_QWEN35                                                   \
    ANY_CASE "|[^\\r\\n" LETTER NUMBER "]?[" LETTER MARK "]+|[" NUMBER \
             "]| ?[^" SPACE LETTER MARK NUMBER "]+[\\r\\n]*|" LINES
/* deepseek-v3's step for text that is neither a number nor Chinese or Japanese. */
#define WORDS_DEEPSEEK3                                                                        \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n" LETTER PUNCTUATION SYMBOL \
    "]?[" LETTER MARK "]+| ?[" PUNCTUATION SYMBOL "]+[\\r\\n]*|" LINES
#define NUMBERS "[" NUMBER "]{1,3}"

/* Ranges of characters, in order, as the files of deepseek-llm, -coder and -v3 have them. */
static const struct range {
    uint32_t first, last;
} deepseek_marks[] = {{0x2018, 0x201f}, {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}},
  deepseek_asian[] = {{0x800, 0x9fa5}, {0xac00, 0xd7ff}},
  deepseek3_asian[] = {{0x3040, 0x30ff}, {0x4e00, 0x9fa5}};

static int in_ranges(const struct range *ranges, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return 1;
    return 0;
}
#define IN(ranges, c) in_ranges(ranges, sizeof ranges / sizeof *ranges, c)

/* The begin of the character or range "a-b" that has the byte at `at`. */
static size_t item_begin(struct rf_str list, size_t at)
{
    while (at > 0 && (((unsigned char)list.data[at] & 0xc0) == 0x80 || list.data[at] == '-' ||
                      list.data[at - 1] == '-'))
        at--;
    return at;
}

/* Whether a list of characters and ranges in UTF-8, which are in order, has a character. */
static int in_list(struct rf_str list, uint32_t c)
{
    for (size_t low = 0, high = list.bytes; low < high;) {
        size_t at = item_begin(list, low + (high - low) / 2),
               length = rf_utf8_length(list.data + at, list.bytes - at), end = at + length;
        uint32_t first = rf_utf8_decode(list.data + at, length), last = first;
        if (end < list.bytes && list.data[end] == '-') {
            length = rf_utf8_length(list.data + end + 1, list.bytes - end - 1);
            last = rf_utf8_decode(list.data + end + 1, length);
            end += 1 + length;
        }
        if (c >= first && c <= last) return 1;
        if (c < first)
            high = at;
        else
            low = end;
    }
    return 0;
}

/* HF's step "Digits" knows numbers of Unicode 17, and its step "Punctuation" the punctuation of
 * Unicode 8, with two characters that are something else since. */
static const struct range young_numbers[] = {{0x11de0, 0x11de9}, {0x16ff4, 0x16ff6}},
                          young_punctuation[] = {
                              {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},
                              {0xc77, 0xc77},     {0xc84, 0xc84},     {0x1b4e, 0x1b4f},
                              {0x1b7d, 0x1b7f},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},
                              {0x10d6e, 0x10d6e}, {0x10ead, 0x10ead}, {0x10f55, 0x10f59},
                              {0x10f86, 0x10f89}, {0x113d4, 0x113d5}, {0x113d7, 0x113d8},
                              {0x1144b, 0x1144f}, {0x1145a, 0x1145b}, {0x1145d, 0x1145d},
                              {0x11660, 0x1166c}, {0x116b9, 0x116b9}, {0x1183b, 0x1183b},
                              {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
                              {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09},
                              {0x11be1, 0x11be1}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
                              {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff},
                              {0x12ff1, 0x12ff2}, {0x16d6d, 0x16d6f}, {0x16e97, 0x16e9a},
                              {0x16fe2, 0x16fe2}, {0x1e5ff, 0x1e5ff}, {0x1e95e, 0x1e95f}};

static unsigned kind_bits(uint32_t c)
{
    return (unsigned)rf_unicode_kind(c) << 3;
}

static unsigned digits_bits(uint32_t c)
{
    return IN(young_numbers, c) ? (unsigned)RF_KIND_NUMBER << 3 : kind_bits(c);
}

static unsigned falcon_bits(uint32_t c)
{
    if (c == 0x166d || c == 0x111c9) return (unsigned)RF_KIND_PUNCTUATION << 3;
    unsigned bits = kind_bits(c);
    int young = bits == (unsigned)RF_KIND_PUNCTUATION << 3 && IN(young_punctuation, c);
    return young ? (unsigned)RF_KIND_OTHER << 3 : bits;
}

static unsigned llm_bits(uint32_t c)
{
    return digits_bits(c) | (IN(deepseek_marks, c) ? FLAG_MARKS : 0u) |
           (IN(deepseek_asian, c) ? FLAG_ASIAN : 0u) |
           (in_list(rf_str_of(RF_DEEPSEEK_LETTERS), c) ? FLAG_LETTERS : 0u);
}

static unsigned coder_bits(uint32_t c)
{
    return digits_bits(c) | (IN(deepseek_asian, c) ? FLAG_ASIAN : 0u);
}

static unsigned v3_bits(uint32_t c)
{
    return kind_bits(c) | (IN(deepseek3_asian, c) ? FLAG_ASIAN : 0u);
}

static const struct rf_pretokenizer_info gpt2 = {.name = "gpt-2", .steps = {{WORDS_GPT2, 0}}};
static const struct rf_pretokenizer_info modern_bert = {
    .name = "modern-bert", .steps = {{WORDS_GPT2, 0}}, .nfc = 1};
static const struct rf_pretokenizer_info llama3 = {
    .name = "llama-bpe", .steps = {{WORDS_LLAMA3(NUMBERS), 0}}, .adds_bos = 1, .ignores_merges = 1};
static const struct rf_pretokenizer_info qwen2 = {
    .name = "qwen2", .steps = {{WORDS_LLAMA3("[" NUMBER "]"), 0}}, .nfc = 1};
static const struct rf_pretokenizer_info smollm = {
    .name = "smollm", .bits = digits_bits, .steps = {{WORDS_SMOLLM, 0}}};
/* cl100k: llama 3's words without its habits */
static const struct rf_pretokenizer_info dbrx = {.name = "dbrx",
                                                 .steps = {{WORDS_LLAMA3(NUMBERS), 0}}};
static const struct rf_pretokenizer_info glm4 = {
    .name = "glm4", .steps = {{WORDS_LLAMA3(NUMBERS), 0}}, .ignores_merges = 1};
static const struct rf_pretokenizer_info seed = {.name = "seed-coder", .steps = {{WORDS_SEED, 0}}};
static const struct rf_pretokenizer_info gpt4o = {
    .name = "gpt-4o", .steps = {{WORDS_O200K(ANY_CASE "?", NUMBERS), 0}}};
static const struct rf_pretokenizer_info tekken = {.name = "tekken",
                                                   .steps = {{WORDS_O200K("", "[" NUMBER "]"), 0}},
                                                   .adds_bos = 1,
                                                   .ignores_merges = 1};
static const struct rf_pretokenizer_info qwen35 = {
    .name = "qwen35", .steps = {{WORDS_QWEN35, 0}}, .nfc = 1};
/* HF looks for digits after it has replaced bytes by letters of the byte alphabet. Six of these
 * letters, such as U+00BC, count as numbers. */
static const struct rf_pretokenizer_info falcon = {
    .name = "falcon",
    .bits = falcon_bits,
    .steps = {{"[" PUNCTUATION "$+<=>^`|~]+", 0},
              {WORDS_GPT2, 0},
              {"[0-9\\xb2\\xb3\\xb9\\xbc-\\xbe]+", 1},
              {"[0-9]{3}", 1}}};
/* The lookbehind keeps the search for white space at the end linear: in a run of it, only the
 * first character begins a match. */
static const struct rf_pretokenizer_info deepseek_llm = {
    .name = "deepseek-llm",
    .bits = llm_bits,
    .steps = {{"[\\r\\n]", 0},
              {"[" SPACE "]?[A-Za-z" HAS_LETTERS "]+", 0},
              {"[" SPACE "]?[!-/:-~" HAS_MARKS "]+", 0},
              {"(?<![" SPACE "])[" SPACE "]++\\z", 0},
              {"[" HAS_ASIAN "]+", 0},
              {"[" NUMBER "]", 0}}};
static const struct rf_pretokenizer_info deepseek_coder = {
    .name = "deepseek-coder",
    .bits = coder_bits,
    .steps = {{"[\\r\\n]", 0},
              {"[" SPACE "]?[" LETTER "]+", 0},
              {"[" SPACE "]?[" PUNCTUATION "]+", 0},
              {"[" HAS_ASIAN "]+", 0},
              {"[" NUMBER "]", 0}}};
static const struct rf_pretokenizer_info deepseek_v3 = {
    .name = "deepseek-v3",
    .bits = v3_bits,
    .steps = {{NUMBERS, 0}, {"[" HAS_ASIAN "]+", 0}, {WORDS_DEEPSEEK3, 0}}};

static const struct {
    const char *name;
    const struct rf_pretokenizer_info *info;
} known[] = {{"gpt-2", &gpt2},
             {"gpt2", &gpt2},
             {"modern-bert", &modern_bert},
             {"phi-2", &gpt2},
             {"mpt", &gpt2},
             {"olmo", &gpt2},
             {"jais", &gpt2},
             {"trillion", &gpt2},
             {"granite-docling", &gpt2},
             {"exaone4", &gpt2},
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
             {"chatglm-bpe", &dbrx},
             {"glm4", &glm4},
             {"seed-coder", &seed},
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
    int n_symbol_steps; /* the first of them, which see a byte for each character */
    unsigned (*bits)(uint32_t c);
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
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)step->pattern, PCRE2_ZERO_TERMINATED, 0, &number,
                                     &where, compile);
    if (!code)
        return rf_fail(error, number == PCRE2_ERROR_HEAP_FAILED ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
                       "libpcre2 cannot compile word pattern %d of \"%s\" (error %d at %zu)",
                       pre->n_steps, info->name, number, (size_t)where);
    pre->codes[pre->n_steps++] = code;
    pre->n_symbol_steps += !step->on_bytes;
    return 0;
}

int rf_pretokenizer_new(struct rf_pretokenizer **out, const struct rf_pretokenizer_info *info,
                        const struct rf_allocator *allocator, struct rf_error *error)
{
    *out = NULL;
    struct rf_pretokenizer *pre = rf_calloc(allocator, 1, sizeof *pre, "word pattern", error);
    if (!pre) return RF_ERR_MEMORY;
    pre->allocator = allocator;
    pre->bits = info->bits ? info->bits : kind_bits;
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
    words->symbols = rf_malloc(pre->allocator, bytes, 1, "cutting a text into words", error);
    if (words->match && words->symbols) return 0;
    rf_words_end(words);
    return rf_fail(error, RF_ERR_MEMORY, "cutting a text into words: no memory");
}

/* The end of the run of bytes at `at` that are not UTF-8. */
static size_t broken_end(const struct rf_words *words, size_t at)
{
    while (at < words->bytes && !rf_utf8_length(words->text + at, words->bytes - at)) at++;
    return at;
}

/* One byte for each character of the text's stretch of UTF-8. */
static size_t make_symbols(struct rf_words *words, size_t begin, size_t end)
{
    size_t n = 0;
    for (size_t at = begin, length; at < end; at += length) {
        unsigned char byte = (unsigned char)words->text[at];
        length = 1;
        if (byte < 0x80) {
            words->symbols[n++] = byte;
            continue;
        }
        length = rf_utf8_length(words->text + at, end - at);
        uint32_t c = rf_utf8_decode(words->text + at, length);
        words->symbols[n++] = (uint8_t)(0x80u | words->pre->bits(c));
    }
    return n;
}

/* A piece of symbols as one of the text. Pieces come in order, each begins where the last ended. */
static struct rf_word_piece in_text(struct rf_words *words, struct rf_word_piece piece)
{
    size_t begin = words->done;
    for (size_t n = piece.end - piece.begin; n > 0; n--) {
        unsigned char byte = (unsigned char)words->text[words->done];
        words->done += byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    }
    return (struct rf_word_piece){begin, begin, words->done};
}

/* Takes the next piece from the stretch that the step is cutting. A search that passes over a gap
 * finds its match again at the next call, so every character is searched at most twice. */
static int cut_piece(struct rf_words *words, int step, struct rf_word_piece *piece,
                     struct rf_error *error)
{
    struct rf_word_piece *whole = &words->pieces[step];
    if (whole->end - whole->at == 1) { /* a piece, whether it matches or not */
        *piece = (struct rf_word_piece){whole->at, whole->at, whole->end};
        whole->at = whole->end;
        return 0;
    }
    PCRE2_SPTR subject =
        step < words->pre->n_symbol_steps ? words->symbols : (PCRE2_SPTR)words->text;
    int count =
        pcre2_match(words->pre->codes[step], subject + whole->begin, whole->end - whole->begin,
                    whole->at - whole->begin, 0, words->match, words->pre->limits);
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
        words->done = begin;
        words->pieces[step = 0] =
            (struct rf_word_piece){0, 0, make_symbols(words, begin, words->at)};
    }
    for (;; step++) {
        int code = cut_piece(words, step, &piece, error);
        if (code) return code;
        if (step == words->pre->n_symbol_steps - 1) piece = in_text(words, piece);
        if (step == last) break;
        words->pieces[step + 1] = piece;
    }
    *word = (struct rf_str){words->text + piece.begin, piece.end - piece.begin};
    return 1;
}

void rf_words_end(struct rf_words *words)
{
    pcre2_match_data_free(words->match);
    rf_free(words->pre->allocator, words->symbols);
    words->match = NULL;
    words->symbols = NULL;
}
