/* Byte-level BPE: text to words (pretokenize.c), words to symbols of the byte alphabet, symbols
 * to tokens by merges (bpe_merge.c). A byte that has no token is left out, and stray bytes
 * without one become U+FFFD. tokenizer.c calls it. */
#include "text/bpe.h"

#include <limits.h>
#include <string.h>

#include "base/utf8.h"
#include "text/bpe_merge.h"
#include "text/nfc.h"
#include "text/pretokenize.h"
#include "text/strmap.h"
#include "text/tokens.h"

enum { SHOWN = 100 /* bytes of a token in a sentence */ };

struct rf_bpe {
    const struct rf_allocator *allocator;
    const struct rf_vocab *vocab;
    struct rf_pretokenizer *pre;
    struct rf_strmap ids; /* key: spelling in the byte alphabet */
    struct rf_merges merges;
    uint16_t alphabet[256]; /* the character that stands for a byte */
    int32_t byte_ids[256];  /* -1: the vocabulary has no token for this byte */
    int nfc, ignores_merges;
};

/* GPT-2's byte alphabet: a printable Latin-1 character stands for its own byte; the other 68 bytes
 * are U+0100 and the following characters, in order. */
static int is_own_letter(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void make_alphabet(uint16_t alphabet[256])
{
    uint16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++)
        alphabet[byte] = is_own_letter(byte) ? (uint16_t)byte : next++;
}

/* The byte for a character of the alphabet, or -1. */
static int alphabet_byte(uint32_t code_point)
{
    if (code_point < 0x100) return is_own_letter(code_point) ? (int)code_point : -1;
    if (code_point <= 0x120) return (int)(code_point - 0x100);        /* 0x00 to 0x20 */
    if (code_point <= 0x142) return (int)(code_point - 0x121 + 0x7f); /* 0x7f to 0xa0 */
    return code_point == 0x143 ? 0xad : -1;
}

size_t rf_bpe_spell(struct rf_str text, char *out)
{
    size_t made = 0;
    for (size_t at = 0; at < text.bytes;) {
        unsigned char c = (unsigned char)text.data[at];
        int byte;
        size_t length = 1;
        if (c > 0x20 && c < 0x7f) {
            byte = c;
        } else {
            length = rf_utf8_length(text.data + at, text.bytes - at);
            byte = length ? alphabet_byte(rf_utf8_decode(text.data + at, length)) : -1;
        }
        if (byte < 0) {
            memcpy(out, text.data, text.bytes);
            return text.bytes;
        }
        out[made++] = (char)byte;
        at += length;
    }
    return made;
}

static int is_word_type(const struct rf_vocab *vocab, int32_t id)
{
    return !vocab->types ||
           (vocab->types[id] != RF_TOKEN_CONTROL && vocab->types[id] != RF_TOKEN_USER_DEFINED &&
            vocab->types[id] != RF_TOKEN_UNKNOWN);
}

/* The id of an ordinary token with that spelling, or -1. */
static int32_t find_word(const struct rf_bpe *bpe, struct rf_str spelling)
{
    int32_t id = rf_strmap_find(&bpe->ids, spelling, (struct rf_str){"", 0});
    return id >= 0 && is_word_type(bpe->vocab, id) ? id : -1;
}

/* Merges may name special tokens, so the index holds them too. The spelling of an ordinary token
 * replaces them. */
static void index_tokens(struct rf_bpe *bpe, struct rf_reading *reading)
{
    const struct rf_vocab *vocab = bpe->vocab;
    reading->code =
        rf_strmap_init(&bpe->ids, vocab->tokens, vocab->n_tokens, bpe->allocator, reading->error);
    for (int32_t id = 0; !reading->code && id < vocab->n_tokens; id++) {
        struct rf_str text = vocab->tokens[id];
        if (text.bytes == 0) continue; /* an id without a token */
        int32_t other = rf_strmap_put(&bpe->ids, id, 0);
        if (other == id) continue;
        if (is_word_type(vocab, id) == is_word_type(vocab, other))
            rf_bad(reading, RF_ERR_FORMAT, "tokens %d and %d are both \"%.*s\"", (int)other,
                   (int)id, rf_shown_up_to(text, SHOWN), text.data);
        if (is_word_type(vocab, id)) rf_strmap_put(&bpe->ids, id, 1);
    }
}

static void index_bytes(struct rf_bpe *bpe, struct rf_reading *reading)
{
    int known = 0;
    make_alphabet(bpe->alphabet);
    for (int byte = 0; byte < 256; byte++) {
        char spelling[4];
        struct rf_str text = {spelling, rf_utf8_encode(bpe->alphabet[byte], spelling)};
        bpe->byte_ids[byte] = find_word(bpe, text);
        known += bpe->byte_ids[byte] >= 0;
    }
    if (!known)
        rf_bad(reading, RF_ERR_FORMAT,
               "no token of the vocabulary is a single byte, as byte-level BPE needs");
}

struct rf_bpe *rf_bpe_new(const struct rf_vocab *vocab, struct rf_reading *reading)
{
    const struct rf_pretokenizer_info *info = rf_pretokenizer_find(vocab->pre);
    if (!info && vocab->pre.bytes == 0)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "the file does not name its pre-tokenizer; known are " RF_PRETOKENIZERS);
    if (!info)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "pre-tokenizer \"%.*s\" is not known; known are " RF_PRETOKENIZERS,
               rf_shown_up_to(vocab->pre, SHOWN), vocab->pre.data);
    struct rf_bpe *bpe = rf_take(reading, 1, sizeof *bpe, "tokenizer");
    if (!bpe) return NULL;
    bpe->allocator = reading->arena.allocator;
    bpe->vocab = vocab;
    bpe->nfc = vocab->nfc >= 0 ? vocab->nfc : info->nfc;
    bpe->ignores_merges = vocab->ignore_merges >= 0 ? vocab->ignore_merges : info->ignores_merges;
    reading->code = rf_pretokenizer_new(&bpe->pre, info, bpe->allocator, reading->error);
    if (!reading->code) index_tokens(bpe, reading);
    if (!reading->code) index_bytes(bpe, reading);
    if (!reading->code) rf_merges_read(&bpe->merges, &bpe->ids, vocab, reading);
    if (!reading->code) return bpe;
    rf_bpe_free(bpe);
    return NULL;
}

int rf_bpe_has_all_bytes(const struct rf_bpe *bpe)
{
    int all = 1;
    for (int byte = 0; byte < 256; byte++) all &= bpe->byte_ids[byte] >= 0;
    return all;
}

int rf_bpe_normalises(const struct rf_bpe *bpe)
{
    return bpe->nfc;
}

void rf_bpe_free(struct rf_bpe *bpe)
{
    if (!bpe) return;
    rf_pretokenizer_free(bpe->pre);
    rf_strmap_free(&bpe->ids, bpe->allocator);
}

/* The id of a word that is a token by itself, or -1. */
static int32_t whole_word(const struct rf_bpe *bpe, struct rf_str word)
{
    enum { LONGEST = 256 }; /* longer tokens are made by merges only */
    char spelling[2 * LONGEST];
    if (word.bytes == 1) return bpe->byte_ids[(unsigned char)word.data[0]];
    if (word.bytes > LONGEST) return -1;
    struct rf_str spelled = {spelling, 0};
    for (size_t i = 0; i < word.bytes; i++)
        spelled.bytes +=
            rf_utf8_encode(bpe->alphabet[(unsigned char)word.data[i]], spelling + spelled.bytes);
    return find_word(bpe, spelled);
}

/* Turns the bytes of a word into symbols and returns their number. `symbols` has room for three
 * times the bytes. A byte without a token is left out, as in HF's tokenizers. But a byte that
 * belongs to no character cannot have been in the training text; U+FFFD replaces it. */
static size_t word_symbols(const struct rf_bpe *bpe, struct rf_str word, int broken,
                           int32_t *symbols)
{
    static const unsigned char replacement[3] = {0xef, 0xbf, 0xbd};
    size_t n = 0;
    for (size_t i = 0; i < word.bytes; i++) {
        int32_t id = bpe->byte_ids[(unsigned char)word.data[i]];
        if (id >= 0) {
            symbols[n++] = id;
        } else if (broken) {
            for (int k = 0; k < 3; k++)
                if (bpe->byte_ids[replacement[k]] >= 0)
                    symbols[n++] = bpe->byte_ids[replacement[k]];
        }
    }
    return n;
}

static void encode_word(const struct rf_bpe *bpe, struct rf_str word, int broken,
                        struct rf_token_writer *out)
{
    enum { ORDINARY = 128 };
    int32_t on_stack[3 * ORDINARY], *symbols = on_stack;
    int32_t id = bpe->ignores_merges ? whole_word(bpe, word) : -1;
    if (id >= 0) {
        rf_tokens_append(out, &id, 1);
        return;
    }
    if (word.bytes > ORDINARY)
        symbols =
            rf_malloc(out->allocator, word.bytes, 3 * sizeof *symbols, "a long word", out->error);
    int64_t left = RF_ERR_MEMORY;
    if (symbols) {
        size_t n = word_symbols(bpe, word, broken, symbols);
        left = rf_merge_word(&bpe->merges, symbols, n, out->allocator, out->error);
    }
    if (left < 0)
        out->code = (int)left;
    else
        rf_tokens_append(out, symbols, (size_t)left);
    if (symbols != on_stack) rf_free(out->allocator, symbols);
}

static void encode_normalised(const struct rf_bpe *bpe, const char *text, size_t n,
                              struct rf_token_writer *out)
{
    struct rf_words words;
    struct rf_str word;
    out->code = rf_words_begin(&words, bpe->pre, text, n, out->error);
    if (out->code) return;
    int more;
    while (!out->code && (more = rf_words_next(&words, &word, out->error)) != 0) {
        if (more > 0)
            encode_word(bpe, word, words.broken, out);
        else
            out->code = more;
    }
    rf_words_end(&words);
}

void rf_bpe_encode(const struct rf_bpe *bpe, const char *text, size_t n,
                   struct rf_token_writer *out)
{
    struct rf_bytes normal = {0};
    if (out->code) return;
    if (!bpe->nfc || rf_nfc_is_trivial(text, n)) {
        encode_normalised(bpe, text, n, out);
        return;
    }
    out->code = rf_nfc(text, n, out->allocator, &normal, out->error);
    if (!out->code) encode_normalised(bpe, normal.data, normal.count, out);
    rf_bytes_free(out->allocator, &normal);
}
