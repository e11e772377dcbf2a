/* Drafts: trees of tokens that may follow a text, which drafters hand to judges. A row always comes
 * after the row that it follows. */
#ifndef RF_SPECULATE_DRAFT_H
#define RF_SPECULATE_DRAFT_H

#include "infer/backend.h"
#include "infer/sampler.h"

enum {
    RF_MAX_DRAFT = 15,               /* tokens of a draft's longest branch */
    RF_MAX_LEVELS = 8,               /* levels of a chain with the target */
    RF_DRAFT_ROWS = RF_TREE_ROWS - 1 /* rows of a draft; its pass also has a row of the text */
};

/* The levels behind a row. The cascade sets them. */
struct rf_proposal {
    int8_t origin;    /* the level that proposed the token first */
    int8_t proposer;  /* the level that hands it to the judge; -1: the grammar, or a probe,
                         which only asks what follows it */
    int8_t runner_up; /* 1: it comes after the proposer's own choice; its confidence is that it is
                         right if the rows before it that follow the same row are not */
};

/* Token i follows token parents[i] < i, or the text where that is -1. Its confidence is an estimate
 * of the probability that it is right if those that it follows are. */
struct rf_draft {
    int32_t n;
    int32_t tokens[RF_DRAFT_ROWS], parents[RF_DRAFT_ROWS];
    float confidence[RF_DRAFT_ROWS];
    struct rf_proposal by[RF_DRAFT_ROWS];
};

/* Makes the draft a line: each token follows the one before. n <= RF_MAX_DRAFT. */
void rf_draft_line(struct rf_draft *draft, const struct rf_choice *choices, int32_t n);

/* 1 if it is a line. */
int rf_draft_is_line(const struct rf_draft *draft);

/* Adds a row behind the last one; returns its number, or -1 where there is no space. */
int32_t rf_draft_add(struct rf_draft *draft, int32_t parent, const struct rf_choice *choice,
                     struct rf_proposal by);

/* Takes out the rows that are not to be kept, and all that follow them. */
void rf_draft_filter(struct rf_draft *draft, const int *keep);

/* Adds the branches of `from` behind row `at`, -1: the text. Rows of `draft` come first: a row that
 * is there already, after the same rows, stays as it is, and a new one beside rows of `draft`
 * shares the probability that they leave. Rows that find no space are left out. */
void rf_draft_merge(struct rf_draft *draft, int32_t at, const struct rf_draft *from);

/* Writes the rows' numbers in descending order of p, which is no greater for a row than for the one
 * that it follows: so that comes first. */
void rf_draft_order(const struct rf_draft *draft, const double *p, int32_t *order);

/* Writes the rows that lead to `row`, and it, in their order; returns how many. -1: none. */
int32_t rf_draft_path(const struct rf_draft *draft, int32_t row, int32_t *path);

/* Says of all rows whose they are. */
void rf_draft_sign(struct rf_draft *draft, int32_t origin, int32_t proposer);

#endif
