/* What the cascade knows of a level: it chooses tokens, or it drafts them. Models are levels
 * (model_level.h), n-gram tables are (ngram_level.h); tests and benchmarks have others. */
#ifndef RF_SPECULATE_LEVEL_H
#define RF_SPECULATE_LEVEL_H

#include "base/error.h"
#include "speculate/draft.h"

/* A text, and drafts of what may follow it: text[0 .. n) and then text[n .. n + n_draft). */
struct rf_question {
    const int32_t *text;
    int32_t n, n_draft;
    /* parents[i] < i is the draft token that draft token i follows, -1 the text; NULL: each follows
     * the one before. */
    const int32_t *parents;
    /* For the level to fill in: the rows of its last pass and the seconds of that pass with its
     * choices. What it had to read before (a text that is new to it) is not in them. */
    int32_t rows;
    double seconds;
};

struct rf_level_ops {
    /* Of a judge: the tokens that follow, by its own judgement: choices[0] after the text,
     * choices[1 + i] after draft token i and those that it follows. One pass. Any text may come;
     * what it shares with the last is not read again. */
    int (*choose)(void *level, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error);
    /* Of a judge: the draft tokens path[0 .. n) of the last question, each following the one
     * before, are part of the text from now on; the others are not. */
    void (*keep)(void *level, const int32_t *path, int32_t n);
    /* Of a level that takes time: tokens of text[0 .. n) that it must read before it can choose or
     * draft; INT32_MAX of a text that it cannot read. */
    int32_t (*unread)(void *level, const int32_t *text, int32_t n);
    /* Of any level, or NULL: the target goes on from text[0 .. n), whose first `kept` tokens are
     * those of the last call. */
    void (*follow)(void *level, const int32_t *text, int32_t n, int32_t kept);
    /* Of a level that judges nothing: drafts up to `max` tokens after text[0 .. n); returns how
     * many, or a negative code. */
    int32_t (*draft)(void *level, const int32_t *text, int32_t n, int32_t max,
                     struct rf_choice *draft, struct rf_error *error);
};

struct rf_level {
    const struct rf_level_ops *ops; /* either choose and keep, or draft */
    void *self;
    double cost;       /* the first guess of a pass over one row, with the target's as 1 */
    double acceptance; /* the first guess of the share of its tokens that levels above keep */
    int has_passes;    /* 0: drafts cost no pass, as an n-gram table's; `cost` is then not used */
};

#endif
