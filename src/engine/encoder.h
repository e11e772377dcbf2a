/* Vectors and scores of texts by an encoder, several texts in a pass. A text is read whole, as its
 * rows attend to each other; texts in a pass do not see each other. */
#ifndef RF_ENGINE_ENCODER_H
#define RF_ENGINE_ENCODER_H

#include "engine/session.h"

enum { RF_ENCODER_TEXTS = 64 /* most texts of a pass */ };

struct rf_encoder;

struct rf_encoder_text {
    const int32_t *tokens; /* [n], n >= 1 */
    int32_t n;
    riffle_pooling pooling;
};

/* Computes on the session's queue with its precision; both must outlive the encoder. */
int rf_encoder_new(struct rf_encoder **encoder, const struct rf_session *session,
                   struct rf_error *error);
void rf_encoder_free(struct rf_encoder *encoder);

/* The first of n texts, as many as fit one pass; at least one does. */
int32_t rf_encoder_fits(const struct rf_encoder *encoder, const struct rf_encoder_text *texts,
                        int32_t n);
/* Reads texts that fit one pass. */
int rf_encoder_read(struct rf_encoder *encoder, const struct rf_encoder_text *texts, int32_t n,
                    struct rf_error *error);
/* The vector of length 1 of text i of the last pass, or of a reranker its score, until the next
 * call; *width values. NULL after a failure. */
const float *rf_encoder_vector(struct rf_encoder *encoder, int32_t i, int32_t *width,
                               struct rf_error *error);

/* The pooling that a file names, in the words of requests; the mean where it names none, and of a
 * reranker what its head reads. */
riffle_pooling rf_encoder_usual_pooling(const struct rf_source *source);

/* A sentence for callers who want an answer from an encoder. Returns 0 where the model is none. */
int rf_engine_refuse_encoder(const struct rf_engine *engine, struct rf_error *error);

#endif
