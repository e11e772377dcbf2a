/* The tokenizer of a model: cuts special tokens out of the text, hands the stretches between to
 * one of these encoders (BPE, word pieces, sentencepiece, unigrams, merges of characters), and
 * knows each token's bytes and kind. Immutable; sessions, corpora and the API call it. */
#include "text/tokenizer.h"

#include <stdio.h>

#include "base/utf8.h"
#include "text/bpe.h"
#include "text/charsmap.h"
#include "text/clusters.h"
#include "text/pretokenize.h"
#include "text/special.h"
#include "text/spm.h"
#include "text/spm_cut.h"
#include "text/spm_merge.h"
#include "text/spm_model.h"
#include "text/spm_unigram.h"
#include "text/tokens.h"
#include "text/wordpiece.h"

enum { MAX_END_TOKENS = 32 };

struct rf_tokenizer {
    struct rf_arena arena; /* the memory of everything but parts of bpe and spm */
    const struct rf_vocab *vocab;
    char name[64];
    struct rf_bpe *bpe; /* one of bpe, words, spm, unigram and merge is set */
    struct rf_wordpiece *words;
    struct rf_spm *spm;
    struct rf_spm_unigram *unigram;
    struct rf_spm_merge *merge;
    struct rf_spm_model model; /* read for spm, unigram and merge */
    struct rf_spm_cut cut;     /* for them as well */
    struct rf_charsmap charsmap;
    struct rf_clusters *clusters; /* NULL: the map is looked up as sentencepiece does */
    struct rf_special special;
    /* One element for each token of the vocabulary: */
    uint8_t *types;       /* corrected for control tokens that a file calls user-defined */
    struct rf_str *texts; /* the token's bytes */
    int32_t end_tokens[MAX_END_TOKENS];
    int32_t n_end_tokens;
    size_t longest; /* bytes of a text that one token may stand for; 0: without bound */
    int32_t bos, eos, sep;
    int adds_bos;
    int space_prefix; /* enum rf_space_prefix bits */
};

/* The names that chat models give to tokens that end an answer. */
static const char *const end_names[] = {
    "<|im_end|>", "<|eot_id|>",    "<|end_of_text|>", "<|endoftext|>", "<|eom_id|>",
    "<|end|>",    "<end_of_turn>", "<|end_of_turn|>", "<|return|>",    "</s>",
    "<eos>",      "<EOT>",         "<|end_of_role|>", "<|eot|>",       "<|call|>",
};

static int is_end_name(struct rf_str text)
{
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++)
        if (rf_str_is(text, end_names[i])) return 1;
    return 0;
}

/* Whether answers are several messages, as gpt-oss's are: <|end|> ends one message only, <|return|>
 * and <|call|> the answer. */
static int has_messages(const struct rf_vocab *vocab)
{
    int found = 0;
    for (int32_t id = 0; id < vocab->n_tokens; id++)
        found |= rf_str_is(vocab->tokens[id], "<|return|>");
    return found;
}

static int is_control_type(uint8_t type)
{
    return type == RF_TOKEN_CONTROL || type == RF_TOKEN_UNKNOWN;
}

static int is_special(uint8_t type)
{
    return type == RF_TOKEN_CONTROL || type == RF_TOKEN_USER_DEFINED;
}

static int32_t checked_special(const struct rf_vocab *vocab, int32_t id)
{
    return id >= 0 && id < vocab->n_tokens ? id : -1;
}

/* Some files call their end token user-defined. Then a user's text could end the turn. */
static void set_types(struct rf_tokenizer *t, struct rf_reading *reading)
{
    const struct rf_vocab *vocab = t->vocab;
    const uint8_t *types = t->bpe || t->words ? vocab->types : t->model.types;
    const int continues = has_messages(vocab);
    t->types = rf_take(reading, (size_t)vocab->n_tokens, 1, "vocabulary");
    for (int32_t id = 0; t->types && id < vocab->n_tokens; id++) {
        uint8_t type = types ? types[id] : RF_TOKEN_NORMAL;
        int stated = id == t->eos || id == vocab->eot,
            special = type == RF_TOKEN_USER_DEFINED || is_control_type(type);
        int ends = stated || (special && is_end_name(vocab->tokens[id]));
        if (type == RF_TOKEN_USER_DEFINED && (ends || id == t->bos)) type = RF_TOKEN_CONTROL;
        t->types[id] = type;
        if (continues && !stated && rf_str_is(vocab->tokens[id], "<|end|>")) ends = 0;
        if (ends && t->n_end_tokens < MAX_END_TOKENS) t->end_tokens[t->n_end_tokens++] = id;
    }
}

/* The word marker of sentencepiece, U+2581, is a space. */
static size_t spell_piece(struct rf_str text, char *out)
{
    size_t made = 0;
    for (size_t i = 0; i < text.bytes;) {
        if (text.bytes - i >= 3 && memcmp(text.data + i, "\xe2\x96\x81", 3) == 0) {
            out[made++] = ' ';
            i += 3;
        } else {
            out[made++] = text.data[i++];
        }
    }
    return made;
}

static void set_texts(struct rf_tokenizer *t, struct rf_reading *reading)
{
    const struct rf_vocab *vocab = t->vocab;
    size_t total = 0;
    for (int32_t id = 0; id < vocab->n_tokens; id++) total += vocab->tokens[id].bytes;
    t->texts = rf_take(reading, (size_t)vocab->n_tokens, sizeof *t->texts, "vocabulary");
    char *all = rf_take(reading, total, 1, "vocabulary"), *out = all;
    if (!all) return;
    for (int32_t id = 0; id < vocab->n_tokens; id++) {
        struct rf_str token = vocab->tokens[id];
        size_t bytes = token.bytes;
        if (is_control_type(t->types[id]) || (t->bpe && t->types[id] == RF_TOKEN_USER_DEFINED)) {
            if (bytes) memcpy(out, token.data, bytes);
        } else if (t->bpe) {
            bytes = rf_bpe_spell(token, out);
        } else {
            bytes = spell_piece(token, out);
        }
        t->texts[id] = (struct rf_str){out, bytes};
        out += bytes;
    }
    for (int byte = 0; !t->bpe && !t->words && t->model.bytes[0] >= 0 && byte < 256; byte++) {
        struct rf_str *text = &t->texts[t->model.bytes[byte]];
        all[text->data - all] = (char)byte; /* "<0x0A>" is longer than its byte */
        text->bytes = 1;
    }
}

static void set_special(struct rf_tokenizer *t, struct rf_reading *reading)
{
    int32_t n = 0, n_tokens = t->vocab->n_tokens;
    for (int32_t id = 0; !reading->code && id < n_tokens; id++) n += is_special(t->types[id]);
    struct rf_special_entry *entries =
        rf_take(reading, (size_t)n, sizeof *entries, "special tokens");
    if (!entries) return;
    n = 0;
    for (int32_t id = 0; id < n_tokens; id++)
        if (is_special(t->types[id]) && t->texts[id].bytes)
            entries[n++] =
                (struct rf_special_entry){t->texts[id], id, t->types[id] == RF_TOKEN_CONTROL};
    rf_special_init(&t->special, entries, n, reading);
}

/* Every token stands for its own bytes, where nothing of a text is left out: neither white space
 * nor bytes without a token. Characters in form C have at least a third of the bytes. */
static size_t longest_text(const struct rf_tokenizer *t)
{
    size_t longest = 0;
    if (t->words) return 0; /* white space and controls have no token */
    int drops = t->bpe ? !rf_bpe_has_all_bytes(t->bpe)
                       : t->model.remove_extra_whitespaces || t->model.bytes[0] < 0;
    if (drops || t->vocab->strips || t->charsmap.n_units) return 0;
    for (int32_t id = 0; id < t->vocab->n_tokens; id++)
        longest = t->texts[id].bytes > longest ? t->texts[id].bytes : longest;
    return t->bpe && rf_bpe_normalises(t->bpe) ? 3 * longest : longest;
}

static void make_bpe(struct rf_tokenizer *t, struct rf_reading *reading)
{
    if (t->vocab->n_tokens <= 0) rf_bad(reading, RF_ERR_FORMAT, "the vocabulary is empty");
    t->bpe = rf_bpe_new(t->vocab, reading);
    if (!t->bpe) return;
    const struct rf_pretokenizer_info *info = rf_pretokenizer_find(t->vocab->pre);
    t->adds_bos = info->adds_bos;
    snprintf(t->name, sizeof t->name, "bpe:%s", info->name);
}

static void make_words(struct rf_tokenizer *t, struct rf_reading *reading)
{
    t->words = rf_wordpiece_new(t->vocab, reading);
    t->adds_bos = 1;
    snprintf(t->name, sizeof t->name, "wordpiece");
}

static void make_spm(struct rf_tokenizer *t, struct rf_reading *reading)
{
    const struct rf_allocator *allocator = reading->arena.allocator;
    rf_spm_model_read(&t->model, t->vocab, reading);
    rf_spm_cut_init(&t->cut, &t->model, reading);
    rf_charsmap_read(&t->charsmap, t->model.charsmap, reading);
    if (reading->code) return;
    t->adds_bos = 1;
    t->space_prefix = t->model.add_dummy_prefix;
    snprintf(t->name, sizeof t->name, "sentencepiece");
    if (t->vocab->n_merges) {
        t->merge = rf_spm_merge_new(&t->model, t->vocab, reading);
        return;
    }
    if (t->vocab->unigram && !t->vocab->spm_proto.bytes) {
        t->unigram = rf_spm_unigram_new(&t->model, t->vocab->by_clusters, reading);
        if (!reading->code && t->charsmap.n_units && t->vocab->by_clusters)
            reading->code = rf_clusters_new(&t->clusters, allocator, reading->error);
        return;
    }
    /* sentencepiece removes leading spaces when it removes extra ones, so it must add the prefix
     * itself, of a text or of a part of it. */
    int twice = t->model.remove_extra_whitespaces;
    struct rf_bytes proto = {0}, prefixed = {0};
    struct rf_writer out = {allocator, &proto, reading->error, 0};
    rf_spm_model_write(&t->model, 0, &out);
    out.bytes = &prefixed;
    if (twice) rf_spm_model_write(&t->model, 1, &out);
    reading->code = out.code;
    if (!reading->code)
        reading->code = rf_spm_new(&t->spm, &proto, twice ? &prefixed : NULL, reading->path,
                                   allocator, reading->error);
    rf_bytes_free(allocator, &proto);
    rf_bytes_free(allocator, &prefixed);
}

static void tokenizer_build(struct rf_tokenizer *t, struct rf_reading *reading)
{
    const struct rf_vocab *vocab = t->vocab;
    if (vocab->kind == RF_VOCAB_BPE)
        make_bpe(t, reading);
    else if (vocab->kind == RF_VOCAB_WORDPIECE)
        make_words(t, reading);
    else if (vocab->kind == RF_VOCAB_SENTENCEPIECE)
        make_spm(t, reading);
    else
        rf_bad(reading, RF_ERR_UNSUPPORTED, "the file has no vocabulary that can be used");
    if (reading->code) return;
    t->bos = checked_special(vocab, vocab->bos);
    t->eos = checked_special(vocab, vocab->eos);
    t->sep = checked_special(vocab, vocab->sep);
    if (vocab->add_bos >= 0) t->adds_bos = vocab->add_bos;
    if (t->bos < 0) t->adds_bos = 0;
    set_types(t, reading);
    set_texts(t, reading);
    set_special(t, reading);
    if (!reading->code) t->longest = longest_text(t);
}

int rf_tokenizer_new(struct rf_tokenizer **out, const struct rf_vocab *vocab, const char *path,
                     const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_reading reading = {.path = path, .error = error, .arena.allocator = allocator};
    struct rf_tokenizer *t = rf_take(&reading, 1, sizeof *t, "tokenizer");
    *out = NULL;
    if (!t) return reading.code;
    t->vocab = vocab;
    tokenizer_build(t, &reading);
    t->arena = reading.arena;
    if (reading.code)
        rf_tokenizer_free(t);
    else
        *out = t;
    return reading.code;
}

void rf_tokenizer_free(struct rf_tokenizer *t)
{
    if (!t) return;
    struct rf_arena arena = t->arena; /* t is in it */
    rf_bpe_free(t->bpe);
    rf_wordpiece_free(t->words);
    rf_spm_free(t->spm);
    rf_spm_merge_free(t->merge);
    rf_clusters_free(t->clusters);
    rf_arena_free(&arena);
}

/* ---- encoding ---- */

struct encoding {
    const struct rf_tokenizer *t;
    struct rf_token_writer out;
    int prefix; /* sentencepiece: the next text gets the space prefix */
};

/* A space, or the character that stands for one. */
static int begins_with_space(const char *text, size_t n)
{
    return n && (*text == ' ' || (n >= 3 && memcmp(text, "\xe2\x96\x81", 3) == 0));
}

/* The spaces that the text begins with. */
static size_t first_spaces(const char *text, size_t n)
{
    size_t spaces = 0;
    while (spaces < n && text[spaces] == ' ') spaces++;
    return spaces;
}

/* Joins unknown characters on both sides of the token `at`, as sentencepiece does. */
static void join_unknown(struct encoding *e, size_t before, size_t at)
{
    struct rf_tokens *tokens = e->out.tokens;
    int32_t unknown = e->t->model.unk, *ids = tokens->ids;
    if (e->out.code || e->t->model.bytes[0] >= 0 || at == before || at == tokens->count) return;
    if (ids[at - 1] != unknown || ids[at] != unknown) return;
    memmove(ids + at, ids + at + 1, (tokens->count - at - 1) * sizeof *ids);
    tokens->count--;
}

/* Encodes text in parts that keep memory small. Where sentencepiece removes spaces, a part that
 * begins with some gets a single one, as a prefix. */
static void encode_parts(struct encoding *e, const char *text, size_t n, int prefix)
{
    const size_t before = e->out.tokens->count;
    for (size_t at = 0; (at < n || prefix) && !e->out.code;) {
        size_t part = rf_spm_cut_part(&e->t->cut, text + at, n - at), border = e->out.tokens->count;
        if (e->t->spm)
            rf_spm_encode(e->t->spm, text + at, part, prefix, &e->out);
        else if (e->t->unigram)
            rf_spm_unigram_encode(e->t->unigram, text + at, part, prefix, &e->out);
        else
            rf_spm_merge_encode(e->t->merge, text + at, part, prefix, &e->out);
        if (at) join_unknown(e, before, border);
        at += part;
        size_t spaces =
            !e->t->merge && e->t->cut.trims && at < n ? first_spaces(text + at, n - at) : 0;
        at += spaces;
        prefix = spaces && at < n;
    }
}

/* Invalid bytes become byte tokens where the vocabulary has them. Otherwise sentencepiece makes
 * U+FFFD of them. */
static void encode_pieces(struct encoding *e, const char *text, size_t n)
{
    const int32_t *bytes = e->t->model.bytes;
    int prefix = e->prefix && e->t->space_prefix;
    if (e->t->space_prefix & RF_PREFIX_UNLESS && begins_with_space(text, n)) prefix = 0;
    for (size_t at = 0; at < n && !e->out.code; prefix = 0) {
        size_t valid = bytes[0] >= 0 ? rf_utf8_valid_prefix(text + at, n - at) : n - at;
        encode_parts(e, text + at, valid, prefix);
        at += valid;
        if (at < n) rf_tokens_append(&e->out, &bytes[(unsigned char)text[at++]], 1);
    }
}

/* The same of text that has gone through the map of characters. */
static void encode_mapped(struct encoding *e, const char *text, size_t n)
{
    struct rf_bytes mapped = {0};
    struct rf_writer out = {e->out.allocator, &mapped, e->out.error, e->out.code};
    if (e->t->clusters)
        rf_charsmap_apply_clusters(&e->t->charsmap, e->t->clusters, text, n, &out);
    else
        rf_charsmap_apply(&e->t->charsmap, text, n, &out);
    e->out.code = out.code;
    encode_pieces(e, mapped.data, mapped.count);
    rf_bytes_free(e->out.allocator, &mapped);
}

/* Encodes text without special tokens. */
static void encode_stretch(struct encoding *e, const char *text, size_t n)
{
    if (n == 0) return;
    if (e->t->bpe)
        rf_bpe_encode(e->t->bpe, text, n, &e->out);
    else if (e->t->words)
        rf_wordpiece_encode(e->t->words, text, n, &e->out);
    else if (e->t->charsmap.n_units)
        encode_mapped(e, text, n);
    else
        encode_pieces(e, text, n);
    e->prefix = 0;
}

/* Tracks where control tokens may be: in runs of adjacent `special` segments. */
struct special_run {
    const struct rf_segment *segments;
    size_t n_segments, next; /* the first segment that has not been counted */
    size_t counted;          /* bytes of the segments before `next` */
    size_t end;              /* the end of the last special run */
};

/* The bytes from `at` to the end of its special run; 0 outside one. `at` never decreases. */
static size_t special_bytes(struct special_run *run, size_t at)
{
    while (run->next < run->n_segments && run->counted <= at) {
        run->counted += run->segments[run->next].bytes;
        if (run->segments[run->next++].special) run->end = run->counted;
    }
    /* A run includes the special segments that follow it. */
    while (run->end == run->counted && run->end > at && run->next < run->n_segments &&
           (run->segments[run->next].special || run->segments[run->next].bytes == 0)) {
        run->counted += run->segments[run->next++].bytes;
        run->end = run->counted;
    }
    return run->end > at ? run->end - at : 0;
}

/* The bytes of the white space (Unicode's property) that the text begins with; 0: it does not. */
static size_t white_space(const char *text, size_t n)
{
    size_t length = rf_utf8_length(text, n);
    uint32_t c = length ? rf_utf8_decode(text, length) : 0;
    int is_space = (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
                   (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
                   c == 0x205f || c == 0x3000;
    return is_space ? length : 0;
}

/* The end of text[begin .. end) without the white space behind it. */
static size_t trimmed(const char *text, size_t begin, size_t end)
{
    for (size_t length = 1; length <= 3 && length <= end - begin;)
        if (white_space(text + end - length, length) == length) {
            end -= length;
            length = 1;
        } else {
            length++;
        }
    return end;
}

static void encode_text(struct encoding *e, struct rf_special_search *search,
                        struct special_run *run)
{
    const char *text = search->text;
    size_t n = search->n, begin = 0, at = 0;
    while ((at = rf_special_next(search, at)) < n && !e->out.code) {
        const struct rf_special_entry *found =
            rf_special_longest(search, at, special_bytes(run, at));
        if (!found) {
            at++;
            continue;
        }
        unsigned strips = e->t->vocab->strips ? e->t->vocab->strips[found->id] : 0;
        size_t end = strips & RF_STRIP_LEFT ? trimmed(text, begin, at) : at;
        encode_stretch(e, text + begin, end - begin);
        rf_tokens_append(&e->out, &found->id, 1);
        /* Text after a special token gets the space prefix again, as in llama.cpp and in HF's
         * legacy Llama tokenizers. */
        e->prefix = !(e->t->space_prefix & RF_PREFIX_ONCE);
        at += found->text.bytes;
        for (size_t length = 1; strips & RF_STRIP_RIGHT && length; at += length)
            length = white_space(text + at, n - at);
        begin = at;
    }
    encode_stretch(e, text + begin, n - begin);
}

int rf_tokenizer_encode(const struct rf_tokenizer *t, const struct rf_segment *segments,
                        size_t n_segments, unsigned flags, const struct rf_allocator *allocator,
                        struct rf_tokens *tokens, struct rf_error *error)
{
    struct encoding e = {t, {allocator, tokens, error, 0}, !(flags & RF_ENCODE_CONTINUE)};
    struct rf_bytes joined = {0};
    struct rf_writer join = {allocator, &joined, error, 0};
    struct special_run run = {.segments = segments, .n_segments = n_segments};
    struct rf_str text = {"", 0};
    if (n_segments == 1 && segments[0].bytes)
        text = (struct rf_str){segments[0].text, segments[0].bytes};
    for (size_t i = 0; i < n_segments && n_segments > 1; i++)
        rf_write(&join, segments[i].text, segments[i].bytes);
    if (joined.count) text = (struct rf_str){joined.data, joined.count};
    e.out.code = join.code;
    struct rf_special_search search;
    rf_special_begin(&search, &t->special, text.data, text.bytes);
    size_t before = tokens->count;
    if (!e.out.code && tokens->limit && t->longest &&
        text.bytes / t->longest > tokens->limit - before)
        e.out.code =
            rf_fail(error, RF_ERR_CONTEXT, "the text has %zu bytes, which are more than %zu tokens",
                    text.bytes, tokens->limit);
    if (flags & RF_ENCODE_BOS && !(flags & RF_ENCODE_CONTINUE) && t->adds_bos) {
        const struct rf_special_entry *first = NULL;
        if (text.bytes && rf_special_begins(&search, 0))
            first = rf_special_longest(&search, 0, special_bytes(&run, 0));
        if (!first || first->id != t->bos) rf_tokens_append(&e.out, &t->bos, 1);
    }
    if (!e.out.code) encode_text(&e, &search, &run);
    if (flags & RF_ENCODE_BOS && !(flags & RF_ENCODE_CONTINUE) && t->sep >= 0)
        rf_tokens_append(&e.out, &t->sep, 1);
    if (e.out.code) tokens->count = before;
    rf_bytes_free(allocator, &joined);
    return e.out.code;
}

/* ---- queries ---- */

struct rf_str rf_token_text(const struct rf_tokenizer *t, int32_t token, int special)
{
    if (token < 0 || token >= t->vocab->n_tokens) return (struct rf_str){"", 0};
    if (is_control_type(t->types[token]) && !special) return (struct rf_str){"", 0};
    return t->texts[token];
}

int32_t rf_tokenizer_n_tokens(const struct rf_tokenizer *t)
{
    return t->vocab->n_tokens;
}

enum rf_token_type rf_token_kind(const struct rf_tokenizer *t, int32_t token)
{
    return token >= 0 && token < t->vocab->n_tokens ? (enum rf_token_type)t->types[token]
                                                    : RF_TOKEN_UNUSED;
}

int rf_tokenizer_strips_first_space(const struct rf_tokenizer *t)
{
    return !t->bpe && !t->words && t->space_prefix;
}

int rf_token_is_end(const struct rf_tokenizer *t, int32_t token)
{
    for (int32_t i = 0; i < t->n_end_tokens; i++)
        if (t->end_tokens[i] == token) return 1;
    return 0;
}

int32_t rf_tokenizer_bos(const struct rf_tokenizer *t)
{
    return t->bos;
}

int32_t rf_tokenizer_eos(const struct rf_tokenizer *t)
{
    return t->eos;
}

int32_t rf_tokenizer_sep(const struct rf_tokenizer *t)
{
    return t->sep;
}

int rf_tokenizer_adds_bos(const struct rf_tokenizer *t)
{
    return t->adds_bos;
}

const char *rf_tokenizer_name(const struct rf_tokenizer *t)
{
    return t->name;
}
