/* Drafts by a model with another vocabulary, through text (Universal Assisted Generation; Timor et
 * al. 2025): the draft reads the target's text in its own tokens, and what it writes becomes tokens
 * of the target.
 *
 * A round: rf_translator_read, then the draft's model follows the tokens that it gives and chooses
 * some more, then rf_translator_write. Text that the target takes comes back with the next read.
 *
 * Nothing here is exact by necessity: a draft is judged by the target. But what write gives back is
 * byte for byte what the draft wrote, or the beginning of it. */
#ifndef RF_SPECULATE_TRANSLATE_H
#define RF_SPECULATE_TRANSLATE_H

#include "speculate/draft.h"
#include "speculate/vocab_pair.h"

struct rf_translator;

/* For texts of up to n_text tokens of the target and n_tokens of the draft. The tokenizers must
 * outlive it. */
int rf_translator_new(struct rf_translator **translator, const struct rf_tokenizer *target,
                      const struct rf_tokenizer *draft, int32_t n_text, int32_t n_tokens,
                      const struct rf_allocator *allocator, struct rf_error *error);
void rf_translator_free(struct rf_translator *translator);

/* The draft's tokens for text[0 .. n), any tokens of the target; a view until the next read.
 * Returns how many, or a negative code: RF_ERR_CONTEXT when either is longer than was promised.
 *
 * The tokens begin with the draft's BOS where its model adds one. Control tokens become those that
 * correspond, and are left out where there are none. The bytes of an unfinished character at the
 * end are held back until it is finished.
 *
 * What the text shares with the last read's is kept: but for the last few tokens before the first
 * that differs, so are the draft's tokens, and with them what its model has read. Time grows with
 * what is new, but for one comparison of ids. */
int32_t rf_translator_read(struct rf_translator *translator, const int32_t *text, int32_t n,
                           const int32_t **tokens, struct rf_error *error);

/* Tokens of the target for what the draft wrote behind the tokens of the last read: at most `max`,
 * whose text is that of written[0 .. n) or a beginning of it. Returns how many, or a negative code.
 *
 * 0 when the draft contradicts the bytes that were held back. An unfinished character at the end is
 * left out. A control token ends the text; one that corresponds to it comes last. `whole`: also the
 * last token, though it might become a part of a longer one if the text went on.
 *
 * A token is as sure as the draft's tokens that begin in it are together, or as the one that it is
 * inside of; the last one of `whole` a little less. It pays to set it: between vocabularies of some
 * ten thousand tokens that one is right nine times out of ten. */
int32_t rf_translator_write(struct rf_translator *translator, const struct rf_choice *written,
                            int32_t n, int whole, int32_t max, struct rf_choice *out,
                            struct rf_error *error);

#endif
