/* Multi-level speculation (ML-SpecQD, section III): every level may have its tokens drafted by the
 * levels below it, and judges them in one pass. What comes out is what the target alone would have
 * chosen, token by token.
 *
 * Drafts are trees. A branch is kept as far as it equals the judge's own choices. Such a choice is
 * a function of the text before it (for sampling too: docs/sampling.md), so it does not matter who
 * drafted, how much, or whether at all. */
#ifndef RF_SPECULATE_CASCADE_H
#define RF_SPECULATE_CASCADE_H

#include "grammar/grammar.h"
#include "infer/sequence.h"
#include "speculate/pace.h"

/* What a round at a judge verifies, after the first `at` tokens of the text. */
struct rf_offer {
    int32_t drafter; /* with passes, that took part; -1: none */
    int32_t at;
    int32_t made; /* of that drafter: its line, and what was not handed over */
    struct rf_draft draft;
};

struct rf_cascade_stats {
    uint64_t passes;            /* of a judge: verifications; of a drafter without passes: drafts */
    uint64_t drafted, accepted; /* tokens handed to a judge, and kept by it */
    double seconds;
    /* Of drafts to the target, by place in a branch: tokens judged there, and kept. */
    uint64_t judged_at[RF_MAX_DRAFT], accepted_at[RF_MAX_DRAFT];
};

struct rf_cascade {
    struct rf_follower follower; /* of the sequence; must come first */
    const struct rf_allocator *allocator;
    struct rf_sequence *sequence;          /* the target's text; drafts are placed ahead in it */
    struct rf_level levels[RF_MAX_LEVELS]; /* from cheap to dear; the target is the last */
    int32_t n_levels;
    int is_damaged[RF_MAX_LEVELS]; /* 1: the drafter's logits were not numbers, so it is not asked
                                      again */
    struct rf_pace pace;
    int32_t gamma;        /* of a draft's longest branch, in tokens; 0: the pace decides */
    float min_confidence; /* with gamma: drafts end before a token of less */
    double (*now)(void);  /* seconds */
    double reading;       /* seconds in texts that a level did not know, so far */

    /* What limits the text from token `grammar_from` on; NULL: nothing. */
    struct rf_matcher *matcher;
    int32_t grammar_from, grammar_to, grammar_state; /* the state after token `grammar_to` - 1 */

    int32_t base; /* committed tokens at the beginning of the round */
    struct mark {
        float confidence;
        int32_t state;                              /* of the grammar, after the token */
        int8_t origin;                              /* the level that proposed the token first */
        struct rf_choice runners_up[RF_RUNNERS_UP]; /* token -1: none */
    } marks[RF_MAX_DRAFT + 1];                      /* of the tokens ahead */
    struct rf_cascade_stats stats[RF_MAX_LEVELS];

    /* [RF_DRAFT_ROWS + 1], the caller's: where the target's choices of a round leave their
     * log-probabilities, with `n_top` likeliest tokens each. NULL: nobody wants to know. */
    struct rf_log_probs *log_probs;
    int32_t n_top;

    /* What the target judged in the last round, and which rows it kept, in their order. */
    struct rf_draft judged;
    int32_t path[RF_MAX_DRAFT], n_path;
};

static inline int rf_cascade_is_target(const struct rf_cascade *cascade, int32_t level)
{
    return level == cascade->n_levels - 1;
}

/* The levels are copied. What they point to and the sequence must outlive the cascade. The cascade
 * becomes the sequence's follower. */
int rf_cascade_new(struct rf_cascade **cascade, const struct rf_level *levels, int32_t n_levels,
                   struct rf_sequence *sequence, const struct rf_allocator *allocator,
                   struct rf_error *error);
void rf_cascade_free(struct rf_cascade *cascade);

/* From now on what is written after the committed tokens is a text of the matcher's grammar, from
 * its beginning. NULL: any text. The matcher must outlive its use. */
int rf_cascade_set_grammar(struct rf_cascade *cascade, struct rf_matcher *matcher,
                           struct rf_error *error);

/* One of the tokens that a round yields. */
struct rf_yield {
    int32_t token;
    int32_t origin; /* index of the level that proposed it first */
};

/* A round between its two halves: its question and the judge's choices. It must not move. */
struct rf_round {
    struct rf_offer offer;
    struct rf_question question;
    struct rf_choice choices[RF_DRAFT_ROWS + 1];
    struct rf_choice runners_up[RF_DRAFT_ROWS + 1][RF_RUNNERS_UP]; /* of these; of drafters only */
    const uint64_t *masks[RF_DRAFT_ROWS + 1];
    struct rf_best best[RF_DRAFT_ROWS + 1];
    double reading; /* rf_cascade.reading before it */
    int32_t placed; /* tokens that need no answer; < 0: the question needs one */
};

/* One round of the target: places between 1 and `max` tokens ahead in the sequence and returns how
 * many. Committing them is the caller's. On failure (a negative code) nothing is ahead.
 *
 * With a grammar, tokens without an alternative are a round of their own, which takes no pass: the
 * next one reads them; but not if log-probabilities are wanted. 0: the text is complete and nothing
 * can follow. RF_ERR_UNSUPPORTED: no token of the vocabulary continues the text as the grammar
 * demands. */
int32_t rf_cascade_round(struct rf_cascade *cascade, int32_t max, struct rf_yield *yield,
                         struct rf_error *error);

/* The same in two halves, so that the targets of several cascades may answer in one pass. Where
 * round->placed < 0, whoever calls has the target's question answered, as its `choose` does, before
 * the second half. A round that is not ended must be dropped: rf_cascade_drop. */
int rf_cascade_begin(struct rf_cascade *cascade, int32_t max, struct rf_round *round,
                     struct rf_error *error);
int32_t rf_cascade_end(struct rf_cascade *cascade, struct rf_round *round, struct rf_yield *yield,
                       struct rf_error *error);
/* Of token i of the last round with log_probs: where its choice left them. */
const struct rf_log_probs *rf_cascade_log_probs(const struct rf_cascade *cascade, int32_t i);
/* Takes back what is ahead. */
void rf_cascade_drop(struct rf_cascade *cascade);

#endif
