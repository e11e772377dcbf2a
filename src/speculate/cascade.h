/* Multi-level speculation (ML-SpecQD, section III): every level may have its tokens drafted by the
 * levels below it, and judges them in one pass. What comes out is what the target alone would have
 * chosen, token by token.
 *
 * Drafts are trees. A branch is kept as far as it equals the judge's own choices. Such a choice is
 * a function of the text before it, for sampling too (docs/design/sampling.md). So it does not
 * matter who drafted, how much, or whether at all.
 *
 * A session has one cascade and runs its rounds; a batch runs the rounds of several cascades in one
 * pass (batch.h). */
#ifndef RF_SPECULATE_CASCADE_H
#define RF_SPECULATE_CASCADE_H

#include "grammar/grammar.h"
#include "infer/sequence.h"
#include "speculate/pace.h"

/* A cascade. Only the calls below change its state (cascade_state.h). */
struct rf_cascade;

/* ---- life and settings ---- */

/* levels[n_levels]: from cheap to dear; the target is the last. They are copied; what they point to
 * and the sequence must outlive the cascade. The cascade becomes the sequence's follower. */
int rf_cascade_new(struct rf_cascade **cascade, const struct rf_level *levels, int32_t n_levels,
                   struct rf_sequence *sequence, const struct rf_allocator *allocator,
                   struct rf_error *error);
void rf_cascade_free(struct rf_cascade *cascade);
/* Makes the cascade its sequence's follower again, where cascades take turns on one sequence. */
void rf_cascade_attach(struct rf_cascade *cascade);

/* gamma: tokens of a draft, at most RF_MAX_DRAFT; 0: the pace decides. With a gamma, drafts end
 * before a token of less than min_confidence. */
void rf_cascade_set_gamma(struct rf_cascade *cascade, int32_t gamma, float min_confidence);
/* Takes over another cascade's gamma and min_confidence. */
void rf_cascade_copy_settings(struct rf_cascade *to, const struct rf_cascade *from);
/* `now` returns seconds. The default is rf_clock_seconds. */
void rf_cascade_set_clock(struct rf_cascade *cascade, double (*now)(void));

/* From now on what is written after the committed tokens is a text of the matcher's grammar, from
 * its beginning. NULL: any text. The matcher must outlive its use. */
int rf_cascade_set_grammar(struct rf_cascade *cascade, struct rf_matcher *matcher,
                           struct rf_error *error);
/* Has the target's choices of each round leave their log-probabilities in log_probs
 * [RF_DRAFT_ROWS + 1], with `n_top` likeliest tokens each. NULL: no longer. */
void rf_cascade_want_log_probs(struct rf_cascade *cascade, struct rf_log_probs *log_probs,
                               int32_t n_top);

/* ---- what it learns (pace.h) ---- */

/* An answer begins that may have `horizon` tokens. */
void rf_cascade_begin_answer(struct rf_cascade *cascade, int32_t horizon);
/* The target read a text of so many rows in so many seconds. */
void rf_cascade_learn_reading(struct rf_cascade *cascade, int32_t rows, double seconds);
/* Takes over what another cascade of the same chain has learnt. */
void rf_cascade_copy_pace(struct rf_cascade *to, const struct rf_cascade *from);
/* rf_pace_load and rf_pace_save. */
void rf_cascade_load_pace(struct rf_cascade *cascade, const char (*names)[RF_PACE_NAME_BYTES],
                          const char *path);
int rf_cascade_save_pace(const struct rf_cascade *cascade, const char (*names)[RF_PACE_NAME_BYTES],
                         const char *path, struct rf_error *error);
/* Expected seconds of a pass of the target over so many rows of this text; 0: none was measured. */
double rf_cascade_pass_seconds(const struct rf_cascade *cascade, int32_t rows);
const struct rf_pace *rf_cascade_pace(const struct rf_cascade *cascade);

/* ---- rounds ---- */

/* One of the tokens that a round yields. */
struct rf_yield {
    int32_t token;
    int32_t origin; /* index of the level that proposed it first */
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
/* The log-probabilities of token i of the last round. They must be wanted. */
const struct rf_log_probs *rf_cascade_log_probs(const struct rf_cascade *cascade, int32_t i);
/* Takes back all tokens that are ahead. */
void rf_cascade_drop(struct rf_cascade *cascade);

/* The draft that a round at a judge verifies, after the first `at` tokens of the text. */
struct rf_offer {
    int32_t drafter; /* level with passes that drafted; -1: none */
    int32_t at;
    int32_t made;      /* tokens of that drafter: its line, and those not handed over */
    double free_value; /* what the draft without it promises: rf_pace_offer */
    struct rf_draft draft;
};

/* The draft that a level with passes writes in a round (drafting.h). */
struct rf_drafting {
    int is_open; /* 1: it may go on */
    int32_t level, judge;
    int32_t want;         /* tokens at most */
    int32_t first, known; /* its tokens begin at `first`; those before `known` were weighed */
    int32_t made;         /* tokens with those that were taken back */
    int32_t unread;       /* rows of the level's last question */
    double p, expected;   /* of the weighed tokens: all are kept; how many are */
    double seconds;       /* that its tokens cost, each its share of a pass */
};

/* A round between its two halves: its question and the judge's choices. It must not move. */
struct rf_round {
    struct rf_offer offer;
    struct rf_draft tables; /* what drafters without passes propose */
    struct rf_drafting drafting;
    int32_t max; /* tokens that it yields at most */
    int is_posed;
    struct rf_question question;
    struct rf_choice choices[RF_DRAFT_ROWS + 1];
    struct rf_choice runners_up[RF_DRAFT_ROWS + 1]
                               [RF_RUNNERS_UP]; /* runners-up of each choice; drafters only */
    const uint64_t *masks[RF_DRAFT_ROWS + 1];
    struct rf_best best[RF_DRAFT_ROWS + 1];
    double reading; /* seconds spent on texts new to a level, before the round */
    int32_t placed; /* tokens that need no answer; < 0: the question needs one */
};

/* rf_cascade_round in parts, so that the targets of several cascades may answer in one pass, and
 * levels that draft for them, too. First rf_cascade_begin. Where round->placed < 0 then,
 * rf_cascade_pose completes the draft, and the caller has the target's question answered, as its
 * `choose` does. Last rf_cascade_end. A round that is not ended must be dropped: rf_cascade_drop.
 * After a failure it is. */
int rf_cascade_begin(struct rf_cascade *cascade, int32_t max, struct rf_round *round,
                     struct rf_error *error);
int rf_cascade_pose(struct rf_cascade *cascade, struct rf_round *round, struct rf_error *error);
int32_t rf_cascade_end(struct rf_cascade *cascade, struct rf_round *round, struct rf_yield *yield,
                       struct rf_error *error);

/* Drafting together, between rf_cascade_begin and rf_cascade_pose: a round joins if a level drafts
 * for it token by token. As long as it drafts on, its level is asked and the answer taken. The
 * company says how many other texts do the same; the price of a token follows from that, so a round
 * that drafts on in a large company may not do so in a small one. A code: the round has failed. */
struct rf_next_cost {
    double seconds;  /* of all passes */
    int32_t texts;   /* that were answered */
    int has_reading; /* 1: some text was read, so the seconds say nothing of costs */
};
int rf_cascade_joins(const struct rf_cascade *cascade, const struct rf_round *round);
int rf_cascade_drafts_on(struct rf_cascade *cascade, struct rf_round *round,
                         struct rf_error *error);
int rf_cascade_ask_next(struct rf_cascade *cascade, struct rf_round *round, struct rf_next *next,
                        struct rf_error *error);
/* Has the level answer questions of several rounds, this one's among them. Returns the seconds. */
double rf_cascade_answer_next(const struct rf_cascade *cascade, const struct rf_round *round,
                              struct rf_next *const *asked, int32_t n);
int rf_cascade_take_next(struct rf_cascade *cascade, struct rf_round *round,
                         const struct rf_next *next, const struct rf_next_cost *cost,
                         struct rf_error *error);
/* Rows of the round's draft, and tokens that it is expected to yield, as far as they are known. */
int32_t rf_cascade_draft_rows(const struct rf_cascade *cascade, const struct rf_round *round);
double rf_cascade_expects(const struct rf_cascade *cascade, const struct rf_round *round);

/* Says what the next round's pass has beside this text. All zero: nothing, as for a round alone. */
void rf_cascade_set_company(struct rf_cascade *cascade, const struct rf_pace_company *company);
/* Counts seconds of the target's pass as this text's. rf_cascade_round does so itself. */
void rf_cascade_spend(struct rf_cascade *cascade, double seconds);
struct rf_sequence *rf_cascade_sequence(const struct rf_cascade *cascade);
/* The `self` of the target's level. */
void *rf_cascade_target(const struct rf_cascade *cascade);

/* ---- statistics ---- */

struct rf_cascade_stats {
    uint64_t passes;   /* verifications of a judge; drafts of a drafter without passes */
    uint64_t drafted;  /* tokens handed to a judge */
    uint64_t accepted; /* tokens of these that it kept */
    double seconds;
    /* Drafts to the target, by place in a branch: tokens judged there, and kept. */
    uint64_t judged_at[RF_MAX_DRAFT], accepted_at[RF_MAX_DRAFT];
};

const struct rf_cascade_stats *rf_cascade_stats(const struct rf_cascade *cascade, int32_t level);
void rf_cascade_reset_stats(struct rf_cascade *cascade);
/* The draft that the target judged in the last round, and path[n_path]: the rows it kept, in their
 * order. */
const struct rf_draft *rf_cascade_judged(const struct rf_cascade *cascade, const int32_t **path,
                                         int32_t *n_path);

#endif
