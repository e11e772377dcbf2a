/* Finds places where sentencepiece's texts may be cut: a table has all pairs of characters that
 * pieces of the vocabulary hold. tokenizer.c calls it for long texts. */
#include "text/spm_cut.h"

#include "base/utf8.h"
#include "platform/random.h"

enum { PART = 1 << 13, LONGEST_PART = 1 << 17 /* bytes that a part has at least, and at most */ };

enum { WORD_MARKER = 0x2581, REPLACEMENT = 0xfffd };

/* The character at the beginning, and its bytes. A space is the word marker, a byte that is not
 * UTF-8 what sentencepiece takes it for. */
static uint32_t character(const char *text, size_t n, size_t *length)
{
    *length = rf_utf8_length(text, n);
    if (*length == 0) return *length = 1, REPLACEMENT;
    uint32_t c = rf_utf8_decode(text, *length);
    return c == ' ' ? WORD_MARKER : c;
}

/* The slot of a pair, or the free one where it would be. */
static uint64_t *pair_slot(const struct rf_spm_cut *cut, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right | (uint64_t)1 << 63; /* never 0, a free slot */
    size_t at = (size_t)(pair * cut->factor >> 32) & cut->mask;
    while (cut->pairs[at] && cut->pairs[at] != pair) at = (at + 1) & cut->mask;
    return &cut->pairs[at];
}

static void add_pairs(struct rf_spm_cut *cut, struct rf_str piece)
{
    uint32_t left = 0;
    for (size_t at = 0, length; at < piece.bytes; at += length) {
        uint32_t right = character(piece.data + at, piece.bytes - at, &length);
        if (at) *pair_slot(cut, left, right) = (uint64_t)left << 32 | right | (uint64_t)1 << 63;
        left = right;
    }
}

void rf_spm_cut_init(struct rf_spm_cut *cut, const struct rf_spm_model *model,
                     struct rf_reading *reading)
{
    size_t n = 0, slots = 16;
    *cut = (struct rf_spm_cut){.factor = rf_random() | 1, .trims = model->remove_extra_whitespaces};
    if (reading->code) return;
    for (int32_t id = 0; id < model->n_pieces; id++) n += model->pieces[id].bytes;
    while (slots < 2 * n) slots *= 2;
    cut->mask = slots - 1;
    cut->pairs = rf_take(reading, slots, sizeof *cut->pairs, "vocabulary index");
    for (int32_t id = 0; cut->pairs && id < model->n_pieces; id++)
        add_pairs(cut, model->pieces[id]);
}

size_t rf_spm_cut_part(const struct rf_spm_cut *cut, const char *text, size_t n)
{
    uint32_t left = 0;
    if (n <= PART) return n;
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t right = character(text + at, n - at, &length);
        if (at >= PART && !(cut->trims && left == WORD_MARKER) &&
            (at >= LONGEST_PART || !*pair_slot(cut, left, right)))
            return at;
        left = right;
    }
    return n;
}
