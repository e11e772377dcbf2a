/* A level of the cascade, which chooses tokens or drafts them. There are levels for models
 * (model_level.h) and n-gram tables (ngram.h). Tests and benchmarks have others. */
#ifndef RF_SPECULATE_LEVEL_H
#define RF_SPECULATE_LEVEL_H

#include "base/error.h"
#include "speculate/draft.h"

/* What a pass has of other texts. */
struct rf_other_rows {
    int32_t rows;
    int64_t context; /* sum over these rows: tokens of the text before each */
};

/* What follows text[0 .. n), and what follows each token of a draft behind it? */
struct rf_question {
    const int32_t *text;
    int32_t n;
    const struct rf_draft *draft;
    /* [1 + draft->n]: the tokens that may be chosen after the text and after each of the draft, a
     * bit for each of the target's vocabulary, NULL: all. NULL for the array: all everywhere. */
    const uint64_t *const *masks;
    /* For the level to fill in: the rows of its last pass and the seconds of that pass with its
     * choices. What it had to read before (a text that is new to it) is not in them. `others`: of
     * these rows, those of other texts. */
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

/* A level follows one text. It gets text[0 .. n) in each call and is told when tokens are taken
 * back, so it never compares. `text` is the same array in every call. */
struct rf_level_ops {
    /* Of a judge: its own choices, in one pass. choices[0] follows the text. choices[1 + i] follows
     * draft token i; its token is -1 where the level could not read draft token i. */
    int (*choose)(void *level, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error);
    /* Of a judge: the draft tokens path[0 .. k) of the last question have become text[n - k .. n).
     * Each of them follows the one before. */
    int (*keep)(void *level, const int32_t *text, int32_t n, const int32_t *path, int32_t k,
                struct rf_error *error);
    /* Of a level with passes: tokens of text[0 .. n) that it must read before it can choose or
     * draft; INT32_MAX of a text that it cannot read. */
    int32_t (*unread)(void *level, const int32_t *text, int32_t n);
    /* Of any level, or NULL: all tokens after the first n are taken back. */
    void (*rewind)(void *level, int32_t n);
    /* Of any level, or NULL: text[0 .. n) is committed. */
    void (*follow)(void *level, const int32_t *text, int32_t n);
    /* Of a level without passes, or NULL: what the target found likely after text[0 .. n) and after
     * each token of a draft behind it, as in struct rf_question. */
    void (*observe)(void *level, const int32_t *text, int32_t n, const struct rf_draft *draft,
                    const struct rf_best *best);
    /* Of a level that judges nothing: a draft after text[0 .. n), of which no branch is longer than
     * `max` <= RF_MAX_DRAFT; empty if it has none. A line if the level has passes. Siblings should
     * be different tokens: only the first of equal ones can be kept. */
    int (*draft)(void *level, const int32_t *text, int32_t n, int32_t max, struct rf_draft *draft,
                 struct rf_error *error);
    /* Of a level without passes, or NULL: such a draft after ahead[0 .. k), k <= RF_MAX_DRAFT,
     * which would come after text[0 .. n). */
    void (*draft_behind)(void *level, const int32_t *text, int32_t n, const int32_t *ahead,
                         int32_t k, int32_t max, struct rf_draft *draft);
    /* Of a level that observes, or NULL: up to `max` tokens of which it would like to know what the
     * target finds likely after them. Returns how many. */
    int32_t (*probe)(void *level, int32_t max, int32_t *tokens);
};

struct rf_level {
    const struct rf_level_ops *ops; /* either choose and keep, or draft */
    void *self;
    double cost;      /* the first guess of a pass over one row, with the target's as 1 */
    int is_quantised; /* its weights: further rows cost more than those of 16-bit weights */
    /* The first guess of what each token of the text before adds to each row, in the same unit, and
     * how many tokens it reads at most; 0: all. */
    double attention;
    int32_t window;
    /* Of a pass over one row, the share that experts take, and the share of experts that it leaves.
     * More rows read more of them. */
    double experts, experts_left;
    double acceptance; /* the first guess of the share of its tokens that levels above keep */
    int has_passes;    /* its drafts take the time of passes; otherwise they are free */
};

#endif
