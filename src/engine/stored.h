/* Texts of batches in a folder, which outlive the process: saved sessions (state.h), found by the
 * tokens that they begin with. batch.c alone calls it. Files have names of their own; no other file
 * in the folder is touched. */
#ifndef RF_ENGINE_STORED_H
#define RF_ENGINE_STORED_H

#include "engine/session.h"

struct rf_stored;

/* Reads which texts the folder has for such sessions: options->store_*. Damaged files are removed
 * and told of. RF_ERR_IO: the folder cannot be read, or others may write to it. */
int rf_stored_open(struct rf_stored **stored, const struct rf_session *root,
                   const riffle_batch_options *options, struct rf_error *error);
/* NULL is allowed. */
void rf_stored_close(struct rf_stored *stored);

/* Loads the text that has most of the first tokens of the prompt, if these are more than `than`
 * tokens, into a fork of the root. NULL: there is none, or it was damaged. */
struct rf_session *rf_stored_take(struct rf_stored *stored, const struct rf_session *root,
                                  const int32_t *prompt, int32_t n, int32_t than);
/* Writes a text, unless it is short, or a stored one has nearly all of it. Those that it begins
 * with are removed. */
void rf_stored_add(struct rf_stored *stored, const struct rf_session *session);

#endif
