/* Drafts by a model with another vocabulary, through text (Universal Assisted Generation; Timor et
 * al. 2025). The draft reads the target's text in its own tokens, and its output is converted to
 * the target's tokens.
 *
 * A round: rf_translator_read; the draft's model reads these tokens and chooses some more; then
 * rf_translator_write. Text that the target accepts is part of the next read.
 *
 * The conversion may be imperfect, since the target judges all drafts. But the text of what write
 * returns is, byte for byte, what the draft wrote or a beginning of it. */
#ifndef RF_SPECULATE_TRANSLATE_H
#define RF_SPECULATE_TRANSLATE_H

#include "speculate/draft.h"
#include "speculate/vocab_pair.h"

struct rf_translator;

/* Makes a translator for texts of up to n_text tokens of the target and n_tokens of the draft. The
 * tokenizers must outlive it. */
int rf_translator_new(struct rf_translator **translator, const struct rf_tokenizer *target,
                      const struct rf_tokenizer *draft, int32_t n_text, int32_t n_tokens,
                      const struct rf_allocator *allocator, struct rf_error *error);
void rf_translator_free(struct rf_translator *translator);

/* The draft's tokens for text[0 .. n), any tokens of the target; a view until the next read, up to
 * which `text` must stay too. Returns how many, or a negative code: RF_ERR_CONTEXT when either is
 * longer than rf_translator_new allowed.
 *
 * The tokens begin with the draft's BOS where its model adds one. Control tokens become the
 * corresponding ones, or are left out. The bytes of an unfinished character at the end are held
 * back until it is finished.
 *
 * text[0 .. n) continues the text of the last read, unless rf_translator_rewind said otherwise. The
 * draft's tokens for the old part stay the same, except for a few at its end. The time is linear in
 * the new text. */
int32_t rf_translator_read(struct rf_translator *translator, const int32_t *text, int32_t n,
                           const int32_t **tokens, struct rf_error *error);

/* Forgets all tokens of the text after the first n. To be called before a read whose text differs
 * there. */
void rf_translator_rewind(struct rf_translator *translator, int32_t n);
/* Number of the draft's first tokens that have not changed since the last call; it may be too low.
 */
int32_t rf_translator_kept(struct rf_translator *translator);

/* Tokens of the target for what the draft wrote after the tokens of the last read: at most `max`,
 * whose text is that of written[0 .. n) or a beginning of it. Returns how many, or a negative code.
 *
 * Returns 0 when the draft contradicts the bytes that were held back. An unfinished character at
 * the end is left out. A control token ends the text; a corresponding one comes last. `whole`: also
 * return the last token, although more text might make it longer. With vocabularies of some ten
 * thousand tokens it is right nine times out of ten.
 *
 * The confidence of a token is the product of those of the draft's tokens that begin in it. If none
 * does, it is that of the draft's token around it. `whole` lowers the last one's a little. */
int32_t rf_translator_write(struct rf_translator *translator, const struct rf_choice *written,
                            int32_t n, int whole, int32_t max, struct rf_choice *out,
                            struct rf_error *error);

#endif
