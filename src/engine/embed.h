/* Vectors of texts: the rows of a text's tokens after the last layer and the norm of the output
 * head, pooled and scaled to length 1. A batch reads one text at a time, in slices. */
#ifndef RF_ENGINE_EMBED_H
#define RF_ENGINE_EMBED_H

#include "engine/session.h"

struct rf_embedder;

/* Computes on the session's queue with its precision; both must outlive the embedder. */
int rf_embedder_new(struct rf_embedder **embedder, const struct rf_session *session,
                    struct rf_error *error);
void rf_embedder_free(struct rf_embedder *embedder);

/* Begins a text of at least one token and drops the one before. */
int rf_embedder_begin(struct rf_embedder *embedder, const int32_t *tokens, int32_t n,
                      riffle_pooling pooling, struct rf_error *error);
/* Reads up to `rows` more tokens, at most as many as a pass has. Returns how many are left, or a
 * code. The vector's bits do not depend on the slices. */
int32_t rf_embedder_read(struct rf_embedder *embedder, int32_t rows, struct rf_error *error);
/* The vector [n_embd] of a text that was read, until the next text. */
const float *rf_embedder_vector(struct rf_embedder *embedder);
int32_t rf_embedder_width(const struct rf_embedder *embedder);

#endif
