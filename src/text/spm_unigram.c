/* Viterbi's search over the pieces that begin at each character. Of paths with equal sums the one
 * that was found first stays: its last piece is the longest. tokenizer.c calls it. */
#include "text/spm_unigram.h"

#include <stdlib.h>

#include "base/utf8.h"

#define MARKER "\xe2\x96\x81" /* U+2581 stands for a space */
#define BROKEN "\xef\xbf\xbd" /* U+FFFD stands for bytes that are not UTF-8 */
enum { MARKER_BYTES = sizeof MARKER - 1, UNKNOWN = -1, UNKNOWN_PENALTY = 10 };

struct piece {
    const char *text;
    int32_t bytes, id;
};

struct rf_spm_unigram {
    const struct rf_spm_model *model;
    struct piece *pieces; /* normal ones, sorted by their bytes */
    int32_t n_pieces;
    int32_t from[257]; /* the first piece whose first byte is this one or a greater one */
    double unknown;    /* the score of a character without a piece */
    int keeps_marker;
};

static int piece_order(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int least = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = memcmp(x->text, y->text, (size_t)least);
    return order ? order : x->bytes - y->bytes;
}

struct rf_spm_unigram *rf_spm_unigram_new(const struct rf_spm_model *model, int keeps_marker,
                                          struct rf_reading *reading)
{
    struct rf_spm_unigram *unigram = rf_take(reading, 1, sizeof *unigram, "tokenizer");
    struct piece *pieces =
        unigram ? rf_take(reading, (size_t)model->n_pieces, sizeof *pieces, "tokenizer") : NULL;
    double least = 0;
    int32_t n = 0;
    if (!pieces) return NULL;
    for (int32_t id = 0; id < model->n_pieces; id++) {
        struct rf_str text = model->pieces[id];
        if (model->types[id] != RF_TOKEN_NORMAL) continue;
        pieces[n++] = (struct piece){text.data, (int32_t)text.bytes, id};
        double score = (double)model->scores[id];
        if (n == 1 || score < least) least = score;
    }
    if (n) qsort(pieces, (size_t)n, sizeof *pieces, piece_order);
    *unigram = (struct rf_spm_unigram){.model = model,
                                       .pieces = pieces,
                                       .n_pieces = n,
                                       .unknown = least - UNKNOWN_PENALTY,
                                       .keeps_marker = keeps_marker};
    for (int32_t i = 0, c = 0; c <= 256; c++) {
        while (i < n && (unsigned char)pieces[i].text[0] < c) i++;
        unigram->from[c] = i;
    }
    return unigram;
}

/* ---- the text ---- */

static size_t put(char *out, size_t at, const char *bytes, size_t n)
{
    memcpy(out + at, bytes, n);
    return at + n;
}

/* Writes a marker, unless a word has one already. */
static size_t put_marker(const struct rf_spm_unigram *unigram, char *out, size_t at,
                         const char *rest, size_t n)
{
    int has = unigram->keeps_marker && n >= MARKER_BYTES && memcmp(rest, MARKER, MARKER_BYTES) == 0;
    return has ? at : put(out, at, MARKER, MARKER_BYTES);
}

/* Writes the text with markers in place of spaces and returns its bytes: at most three for each
 * byte, and three for the prefix. */
static size_t prepare(const struct rf_spm_unigram *unigram, const char *text, size_t n, int prefix,
                      char *out)
{
    const int trims = unigram->model->remove_extra_whitespaces;
    size_t i = 0, at = 0;
    while (trims && i < n && text[i] == ' ') i++;
    if (prefix && (!trims || i < n)) at = put_marker(unigram, out, at, text + i, n - i);
    while (i < n) {
        size_t length = rf_utf8_length(text + i, n - i);
        if (text[i] == ' ') {
            do i++;
            while (trims && i < n && text[i] == ' ');
            if (!trims || i < n) at = put_marker(unigram, out, at, text + i, n - i);
            continue;
        }
        at = length ? put(out, at, text + i, length) : put(out, at, BROKEN, sizeof BROKEN - 1);
        i += length ? length : 1;
    }
    return at;
}

/* ---- the search ---- */

/* The best path to a place in the text. */
struct place {
    double score;
    int32_t begin, id; /* of its last piece; begin is -1: no path leads here */
    int32_t next;      /* the end of the piece that follows on the best path of all */
};

/* Pieces that begin with the bytes that were read. */
struct range {
    int32_t first, end;
};

/* The first piece in the range whose byte `at` is not less than c. A piece without it comes first.
 */
static int32_t lower_bound(const struct piece *pieces, struct range range, int32_t at, int c)
{
    while (range.first < range.end) {
        int32_t middle = range.first + (range.end - range.first) / 2;
        const struct piece *piece = &pieces[middle];
        if (piece->bytes <= at || (unsigned char)piece->text[at] < c)
            range.first = middle + 1;
        else
            range.end = middle;
    }
    return range.first;
}

static void reach(struct place *place, double score, size_t begin, int32_t id)
{
    if (place->begin >= 0 && !(score > place->score)) return;
    place->score = score;
    place->begin = (int32_t)begin;
    place->id = id;
}

/* Reaches the ends of all pieces that begin at this place, and of a character without one. */
static void reach_from(const struct rf_spm_unigram *unigram, const char *text, size_t n,
                       size_t begin, size_t character, struct place *places)
{
    const struct piece *pieces = unigram->pieces;
    const double score = places[begin].score;
    unsigned first = (unsigned char)text[begin];
    struct range range = {unigram->from[first], unigram->from[first + 1]};
    int has_character = 0;
    for (size_t at = 1; range.first < range.end; at++) {
        const struct piece *found = &pieces[range.first];
        if ((size_t)found->bytes == at) {
            reach(&places[begin + at], score + (double)unigram->model->scores[found->id], begin,
                  found->id);
            has_character |= at == character;
        }
        if (begin + at >= n) break;
        int c = (unsigned char)text[begin + at];
        range.first = lower_bound(pieces, range, (int32_t)at, c);
        range.end = lower_bound(pieces, range, (int32_t)at, c + 1);
    }
    if (!has_character) reach(&places[begin + character], score + unigram->unknown, begin, UNKNOWN);
}

/* Unknown characters become their bytes' pieces, or one unknown piece for a run of them. */
static void put_ids(const struct rf_spm_unigram *unigram, const char *text, size_t n,
                    const struct place *places, struct rf_token_writer *out)
{
    const struct rf_spm_model *model = unigram->model;
    int was_unknown = 0;
    for (size_t at = 0, end; at < n; at = end) {
        end = (size_t)places[at].next;
        int32_t id = places[end].id;
        int is_unknown = id == UNKNOWN;
        if (!is_unknown) {
            rf_tokens_append(out, &id, 1);
        } else if (model->bytes[0] >= 0) {
            for (size_t i = at; i < end; i++)
                rf_tokens_append(out, &model->bytes[(unsigned char)text[i]], 1);
        } else if (!was_unknown) {
            rf_tokens_append(out, &model->unk, 1);
        }
        was_unknown = is_unknown;
    }
}

void rf_spm_unigram_encode(const struct rf_spm_unigram *unigram, const char *text, size_t n,
                           int prefix, struct rf_token_writer *out)
{
    if (out->code) return;
    char *prepared = rf_malloc(out->allocator, 3 * n + MARKER_BYTES, 1, "token ids", out->error);
    size_t bytes = prepared ? prepare(unigram, text, n, prefix, prepared) : 0;
    struct place *places =
        prepared ? rf_malloc(out->allocator, bytes + 1, sizeof *places, "token ids", out->error)
                 : NULL;
    if (!places) {
        out->code = RF_ERR_MEMORY;
        rf_free(out->allocator, prepared);
        return;
    }
    for (size_t i = 0; i <= bytes; i++) places[i] = (struct place){.begin = -1};
    for (size_t at = 0, length; at < bytes; at += length) {
        length = rf_utf8_length(prepared + at, bytes - at);
        reach_from(unigram, prepared, bytes, at, length, places);
    }
    for (size_t end = bytes, begin; end > 0; end = begin) {
        begin = (size_t)places[end].begin;
        places[begin].next = (int32_t)end;
    }
    put_ids(unigram, prepared, bytes, places, out);
    rf_free(out->allocator, places);
    rf_free(out->allocator, prepared);
}
