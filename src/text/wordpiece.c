/* WordPiece: a text is normalised and cut into words and signs, and each of them becomes the
 * longest pieces from its left end on, or the unknown token. tokenizer.c calls it.
 *
 * In a vocabulary of GGUF a piece that begins a word begins with U+2581; the safetensors reader
 * writes the same. */
#include "text/wordpiece.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/strmap.h"
#include "text/unicode_kinds.h"

enum {
    MOST_CHARACTERS = 100, /* of a word; a longer one is unknown (transformers) */
    MARK_BYTES = 3,        /* of U+2581 */
    WORD_BYTES = MARK_BYTES + 4 * MOST_CHARACTERS,
    MOST_PARTS = 4 /* of a character's canonical decomposition (Unicode 15) */
};

struct rf_wordpiece {
    const struct rf_allocator *allocator;
    const struct rf_vocab *vocab;
    struct rf_strmap ids;
    size_t longest; /* bytes of a piece */
    int lower, strips;
};

struct rf_wordpiece *rf_wordpiece_new(const struct rf_vocab *vocab, struct rf_reading *reading)
{
    struct rf_wordpiece *made = rf_take(reading, 1, sizeof *made, "vocabulary");
    if (!made) return NULL;
    if (vocab->unk < 0)
        rf_bad(reading, RF_ERR_FORMAT, "a vocabulary of word pieces needs an unknown token");
    made->allocator = reading->arena.allocator;
    made->vocab = vocab;
    made->lower = vocab->lowercase != 0;
    made->strips = vocab->strip_accents >= 0 ? vocab->strip_accents : made->lower;
    if (reading->code) return NULL;
    reading->code =
        rf_strmap_init(&made->ids, vocab->tokens, vocab->n_tokens, made->allocator, reading->error);
    for (int32_t id = 0; !reading->code && id < vocab->n_tokens; id++) {
        if (vocab->types[id] == RF_TOKEN_CONTROL || vocab->tokens[id].bytes == 0) continue;
        rf_strmap_put(&made->ids, id, 0);
        if (made->longest < vocab->tokens[id].bytes) made->longest = vocab->tokens[id].bytes;
    }
    return made;
}

void rf_wordpiece_free(struct rf_wordpiece *wordpiece)
{
    if (wordpiece) rf_strmap_free(&wordpiece->ids, wordpiece->allocator);
}

/* A word as it grows. */
struct word {
    const struct rf_wordpiece *of;
    struct rf_token_writer *out;
    char text[WORD_BYTES];
    size_t bytes, characters;
};

static void begin_word(struct word *word)
{
    memcpy(word->text, "\xe2\x96\x81", MARK_BYTES);
    word->bytes = MARK_BYTES;
    word->characters = 0;
}

/* The longest piece at `at`; its end in *end, which is the end of a character. -1: there is none.
 */
static int32_t longest_piece(const struct word *word, size_t at, size_t *end)
{
    size_t most = word->bytes - at, least = at ? 1 : MARK_BYTES + 1;
    if (most > word->of->longest) most = word->of->longest;
    for (size_t n = most; n >= least; n--) {
        const struct rf_str piece = {word->text + at, n}, nothing = {"", 0};
        int is_cut = at + n < word->bytes && ((unsigned char)word->text[at + n] & 0xc0) == 0x80;
        int32_t id = is_cut ? -1 : rf_strmap_find(&word->of->ids, piece, nothing);
        *end = at + n;
        if (id >= 0) return id;
    }
    return -1;
}

/* Appends the pieces of the word, and begins the next one. */
static void end_word(struct word *word)
{
    int32_t ids[MOST_CHARACTERS], unknown = word->of->vocab->unk;
    size_t n = 0;
    if (word->characters == 0) return;
    int is_known = word->characters <= MOST_CHARACTERS;
    for (size_t at = 0; is_known && at < word->bytes; n++) {
        ids[n] = longest_piece(word, at, &at);
        is_known = ids[n] >= 0;
    }
    rf_tokens_append(word->out, is_known ? ids : &unknown, is_known ? n : 1);
    begin_word(word);
}

static void add_character(struct word *word, uint32_t c)
{
    word->characters++;
    if (word->characters <= MOST_CHARACTERS)
        word->bytes += rf_utf8_encode(c, word->text + word->bytes);
}

/* Chinese characters are words of their own (transformers, BertNormalizer). */
static int is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* ASCII's signs count as punctuation, whatever Unicode calls them. */
static int is_sign(uint32_t c)
{
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    return rf_unicode_kind(c) == RF_KIND_PUNCTUATION;
}

/* Takes a character in lower case, which may be two. */
static void take_lower(struct word *word, uint32_t c, int is_alone)
{
    enum { DOTTED_I = 0x130, DOT_ABOVE = 0x307 };
    if (is_alone) end_word(word);
    if (word->of->lower && c == DOTTED_I) {
        add_character(word, 'i');
        c = DOT_ABOVE;
    } else if (word->of->lower) {
        c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    }
    add_character(word, c);
    if (is_alone) end_word(word);
}

static void take_character(struct word *word, uint32_t c)
{
    utf8proc_int32_t parts[MOST_PARTS] = {(utf8proc_int32_t)c};
    enum rf_unicode_kind kind = rf_unicode_kind(c);
    int bound = 0;
    if (kind == RF_KIND_SPACE) {
        end_word(word);
        return;
    }
    if (kind == RF_KIND_OTHER || c == 0xfffd) return;
    int is_alone = is_chinese(c);
    if (is_alone) end_word(word); /* before its decomposition */
    utf8proc_ssize_t n = 1;
    if (word->of->strips)
        n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, MOST_PARTS, UTF8PROC_DECOMPOSE,
                                    &bound);
    for (utf8proc_ssize_t i = 0; i < n && i < MOST_PARTS; i++) {
        uint32_t part = (uint32_t)parts[i];
        if (word->of->strips && utf8proc_category(parts[i]) == UTF8PROC_CATEGORY_MN) continue;
        take_lower(word, part, is_sign(part));
    }
    if (is_alone) end_word(word);
}

void rf_wordpiece_encode(const struct rf_wordpiece *wordpiece, const char *text, size_t n,
                         struct rf_token_writer *out)
{
    struct word word = {.of = wordpiece, .out = out};
    begin_word(&word);
    for (size_t at = 0; at < n && !out->code;) {
        size_t length = rf_utf8_length(text + at, n - at);
        if (length) take_character(&word, rf_utf8_decode(text + at, length));
        at += length ? length : 1;
    }
    end_word(&word);
}
