/* WordPiece (Schuster and Nakajima 2012; transformers, BertTokenizer): words to the longest pieces
 * of a vocabulary, from the left. */
#ifndef RF_TEXT_WORDPIECE_H
#define RF_TEXT_WORDPIECE_H

#include "model/reader.h"
#include "text/tokens.h"

struct rf_wordpiece;

/* Lives in the reading's arena; NULL after a failure. The vocabulary must outlive it. */
struct rf_wordpiece *rf_wordpiece_new(const struct rf_vocab *vocab, struct rf_reading *reading);
/* Frees the parts that are not in the arena. */
void rf_wordpiece_free(struct rf_wordpiece *wordpiece);

/* Appends the ids of a text that has no special tokens. Bytes that are no UTF-8 are left out. */
void rf_wordpiece_encode(const struct rf_wordpiece *wordpiece, const char *text, size_t n,
                         struct rf_token_writer *out);

#endif
