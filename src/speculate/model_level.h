/* Models as levels of the cascade: the target, other views of the target that share its sequence,
 * and models with a sequence of their own, whose vocabulary may be another one. */
#ifndef RF_SPECULATE_MODEL_LEVEL_H
#define RF_SPECULATE_MODEL_LEVEL_H

#include "infer/sampler.h"
#include "infer/sequence.h"
#include "speculate/level.h"
#include "speculate/translate.h"

struct rf_model_level {
    struct rf_view *view;
    struct rf_sequence *sequence;
    struct rf_sampler
        *sampler; /* has the target's settings, so that all levels draw the same way */
    /* A sequence of the level's own holds the text from token `start` on. In a long text that is
     * only the end, so that a draft model need not read everything. */
    int is_own;
    int32_t start;
    int32_t n_vocab; /* ids from here on exist only for the target */
    int32_t n_known; /* tokens of the text that have been looked at: all are below n_vocab */
};

/* `sequence` is the target's. */
void rf_model_level_of_target(struct rf_model_level *level, struct rf_view *view,
                              struct rf_sequence *sequence, struct rf_sampler *sampler);
/* `sequence` is the level's own. n_vocab: the number of ids, from 0 on, that mean the same in both
 * vocabularies. The sampler chooses among these. */
void rf_model_level_of_draft(struct rf_model_level *level, struct rf_view *view,
                             struct rf_sequence *sequence, struct rf_sampler *sampler,
                             int32_t n_vocab);

/* The target's choices in two halves, for passes over several sequences. rf_model_level_ask says
 * what has to be read; of the draft at most `most` rows are. After rf_read of that ask with
 * rf_model_level_n_best candidates, rf_model_level_answer chooses: best[i] are those of the ask's
 * answer i. */
void rf_model_level_ask(struct rf_model_level *level, const struct rf_question *question,
                        int32_t most, struct rf_ask *ask);
int32_t rf_model_level_n_best(const struct rf_model_level *level,
                              const struct rf_question *question);
int rf_model_level_answer(struct rf_model_level *level, struct rf_question *question,
                          const struct rf_ask *ask, const struct rf_best *best,
                          struct rf_choice *choices, struct rf_error *error);

extern const struct rf_level_ops rf_model_level_ops;

/* A draft model with another vocabulary: it drafts through text, greedily, and judges nothing. */
struct rf_translated_level {
    struct rf_view *view;
    struct rf_sequence *sequence; /* the draft's own tokens */
    struct rf_translator *translator;
    int32_t start, n_before; /* the draft was given text[start .. n_before) */
};

extern const struct rf_level_ops rf_translated_level_ops;

#endif
