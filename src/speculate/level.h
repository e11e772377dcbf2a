/* A level of the cascade, which chooses tokens or drafts them: a table of functions and its state.
 * Models are levels (model_level.h), and so are drafters without a model (drafters.h). Tests and
 * benchmarks have others. */
#ifndef RF_SPECULATE_LEVEL_H
#define RF_SPECULATE_LEVEL_H

#include "base/error.h"
#include "speculate/draft.h"

/* Rows of other texts in a pass. */
struct rf_other_rows {
    int32_t rows;
    int64_t context; /* sum over these rows: tokens of the text before each */
};

/* The question of a round: what follows text[0 .. n), and each token of a draft behind it? */
struct rf_question {
    const int32_t *text;
    int32_t n;
    const struct rf_draft *draft;
    /* [1 + draft->n]: the tokens that may be chosen after the text and after each of the draft, a
     * bit for each of the target's vocabulary, NULL: all. NULL for the array: all everywhere. */
    const uint64_t *const *masks;
    /* Filled in by the level: rows and seconds of its last pass, with its choices. Passes before
     * that one (over a text that is new to it) are left out. `others`: rows of other texts among
     * `rows`.
     */
    int32_t rows;
    struct rf_other_rows others;
    double seconds;
    /* [1 + draft->n]: likely tokens after the text and each of the draft, for the level to fill in
     * as far as it finds them with its choices; else .n stays 0. NULL: nobody wants to know. */
    struct rf_best *best;
    /* [1 + draft->n]: log-probabilities of each choice, `n_top` likeliest tokens with them, for the
     * level to fill in. NULL: nobody wants to know. */
    struct rf_log_probs *log_probs;
    int32_t n_top;
    /* [1 + draft->n]: the runners-up of each choice, for the level to fill in; a token is -1 where
     * there is none, as all are before. NULL: nobody wants to know. */
    struct rf_choice (*runners_up)[RF_RUNNERS_UP];
};

/* A question to a level that drafts token by token: what follows text[0 .. n)? */
struct rf_next {
    void *self; /* the level */
    const int32_t *text;
    int32_t n;
    const uint64_t *mask; /* the tokens that may follow, as above; NULL: all */
    /* Filled in: the token that the level expects, and its runners-up; -1 where there is none. */
    struct rf_choice choice, runners_up[RF_RUNNERS_UP];
    int code; /* 0, or a failure of this question alone, and its sentence */
    struct rf_error *error;
};

/* A level follows one text. It gets text[0 .. n) in each call and is told when tokens are taken
 * back, so it never compares. `text` is the same array in every call. */
struct rf_level_ops {
    /* Asks a judge for its own choice after the text and after each draft token, in one pass.
     * choices[0] follows the text. choices[1 + i] follows
     * draft token i; its token is -1 where the level could not read draft token i. */
    int (*choose)(void *level, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error);
    /* Tells a judge that the draft tokens path[0 .. k) of the last question have become text[n - k
     * .. n). Each of them follows the one before. */
    int (*keep)(void *level, const int32_t *text, int32_t n, const int32_t *path, int32_t k,
                struct rf_error *error);
    /* Counts tokens of text[0 .. n) that a level with passes must read before it can choose or
     * draft; INT32_MAX for a text that it cannot read. */
    int32_t (*unread)(void *level, const int32_t *text, int32_t n);
    /* Tells any level that all tokens after the first n are taken back. May be NULL. */
    void (*rewind)(void *level, int32_t n);
    /* Tells any level that text[0 .. n) is committed. May be NULL. */
    void (*follow)(void *level, const int32_t *text, int32_t n);
    /* Tells a level without passes what the target found likely after text[0 .. n) and after each
     * token of a draft behind it, as in struct rf_question. May be NULL. */
    void (*observe)(void *level, const int32_t *text, int32_t n, const struct rf_draft *draft,
                    const struct rf_best *best);
    /* Asks a level that judges nothing for a draft after text[0 .. n) with no branch longer than
     * `max`
     * <= RF_MAX_DRAFT; empty if it has none. A line if the level has passes. Siblings should
     * be different tokens: only the first of equal ones can be kept. */
    int (*draft)(void *level, const int32_t *text, int32_t n, int32_t max, struct rf_draft *draft,
                 struct rf_error *error);
    /* Asks levels with passes that judge nothing, each of a text of its own, for their next tokens:
     * in one pass if they have drafted the tokens before. A level is asked once; all are levels of
     * one batch. What each answers does not depend on the others. */
    void (*next)(struct rf_next *const *asked, int32_t n);
    /* Asks a level without passes for such a draft after ahead[0 .. k), k <= RF_MAX_DRAFT, which
     * would come after text[0 .. n). May be NULL. */
    void (*draft_behind)(void *level, const int32_t *text, int32_t n, const int32_t *ahead,
                         int32_t k, int32_t max, struct rf_draft *draft);
    /* Asks a level that observes for up to `max` tokens after which it does not know what the
     * target finds likely. Returns how many. May be NULL. */
    int32_t (*probe)(void *level, int32_t max, int32_t *tokens);
};

struct rf_level {
    const struct rf_level_ops *ops; /* choose and keep, or draft, or next */
    void *self;
    double cost;      /* the first guess of a pass over one row, with the target's as 1 */
    int is_quantised; /* 1: further rows cost more than with weights of 16 bits */
    /* The first guess of what each token of the text before adds to each row, in the same unit, and
     * how many tokens it reads at most; 0: all. */
    double attention;
    int32_t window;
    /* Share of a pass over one row that experts take, and share of the experts that it leaves. More
     * rows read more of them. */
    double experts, experts_left;
    double acceptance; /* the first guess of the share of its tokens that levels above keep */
    int has_passes;    /* 1: drafts take the time of passes; 0: they are free */
    int is_trained;    /* 1: for the target, so that its confidence is the probability of a token */
};

#endif
