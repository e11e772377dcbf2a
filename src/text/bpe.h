/* Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes as in GPT-2). */
#ifndef RF_TEXT_BPE_H
#define RF_TEXT_BPE_H

#include "model/reader.h"
#include "text/tokens.h"

struct rf_bpe;

/* Lives in the reading's arena; NULL after a failure. The vocabulary must outlive it. */
struct rf_bpe *rf_bpe_new(const struct rf_vocab *vocab, struct rf_reading *reading);
/* Frees the parts that are not in the arena. */
void rf_bpe_free(struct rf_bpe *bpe);

/* Whether every byte has a token. */
int rf_bpe_has_all_bytes(const struct rf_bpe *bpe);
/* Whether texts are brought to form C first. */
int rf_bpe_normalises(const struct rf_bpe *bpe);

/* Appends the ids of a text that has no special tokens. */
void rf_bpe_encode(const struct rf_bpe *bpe, const char *text, size_t n,
                   struct rf_token_writer *out);

/* Writes the bytes for a token's spelling in GPT-2's byte alphabet, at most text.bytes of them, and
 * returns their number. A spelling with a character outside the alphabet is copied. */
size_t rf_bpe_spell(struct rf_str text, char *out);

#endif
