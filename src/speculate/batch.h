/* Rounds of several cascades whose targets answer in one pass, beside slices of texts that are only
 * read: weights are read once for all of them. What each text becomes does not depend on the others
 * (row independence). */
#ifndef RF_SPECULATE_BATCH_H
#define RF_SPECULATE_BATCH_H

#include "speculate/cascade.h"

/* The logits [n_vocab] that follow the first n tokens of a text. 0, or a code. */
typedef int (*rf_batch_on_logits)(void *user, int32_t n, const float *logits,
                                  struct rf_error *error);

/* One text's part in a pass: a round, or a slice. Each has a result of its own. */
struct rf_batch_part {
    struct rf_cascade *cascade;   /* round: runs on this cascade; NULL: a slice */
    struct rf_sequence *sequence; /* slice: its text */
    int32_t max;                  /* round: tokens that it may yield, at least 1 */
    int32_t n_text;               /* slice: reads the text up to this length */
    rf_batch_on_logits on_logits; /* slice: called for each of its tokens, in their order; NULL:
                                     their logits are not wanted */
    void *user;                   /* passed to on_logits */
    int32_t n;             /* result of a round: as rf_cascade_round; 0 of a slice; or a code */
    struct rf_error error; /* set where n < 0 */
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_ask ask;
    int32_t rows; /* rows of this part in the pass, as far as they are known */
    struct rf_round round;
    /* A round's, of joint.h: rows of the text itself, and those that its draft may have; 1 once it
     * is begun; passes that drafted for it, and the texts that they drafted for together. */
    int32_t own, room;
    int is_begun;
    int32_t steps, answered;
};

struct rf_batch_cost {
    int32_t rows; /* 0: no pass was needed */
    double seconds;
};

/* The cascades' targets are model levels of `view` (model_level.h). Each text has one part at most;
 * there are at most as many rounds and tokens of slices with on_logits as the view has answers, and
 * the unread tokens of all parts fit into a pass; drafts take what is left of it, and of most_rows.
 * The parts must not move. If the pass fails, each text is read alone, so that a failure is nobody
 * else's. */
void rf_batch_run(struct rf_view *view, struct rf_batch_part *const *parts, int32_t n_parts,
                  int32_t most_rows, struct rf_batch_cost *cost);

#endif
