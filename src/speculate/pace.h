/* The pace: which level drafts in a round, how many tokens, and whether at all.
 *
 * A round at a judge drafts g tokens, verifies them in one pass, and yields the accepted ones and
 * one more. All tokens of the text have to be passed by some round or other, so what counts is
 * tokens per second here: lambda is the best rate that the judge reaches by plain decoding or with
 * one of the drafting models, and a further token is worth drafting as long as
 *
 *     P(it and all before it are kept) > lambda (seconds to draft it + seconds of one more row in
 * the verification).
 *
 * An n-gram table's offer is taken when it promises more than lambda, plain decoding when nothing
 * does. The probabilities are estimated from the drafter's confidence, corrected by what became of
 * earlier tokens of the same confidence. Seconds of a round are the sum of what its passes usually
 * take: single measurements, which anything on the machine may disturb, only move that table a
 * little. ML-SpecQD's speed-up formula (section III, (alpha N + 1) / (1 + N / S)) is the case of
 * constant acceptance and costs.
 *
 * All of it is plain arithmetic: no clock is read here. */
#ifndef RF_SPECULATE_PACE_H
#define RF_SPECULATE_PACE_H

#include "base/alloc.h"
#include "base/error.h"
#include "speculate/level.h"

enum {
    RF_PACE_LEVELS = RF_MAX_LEVELS,
    RF_PACE_ROWS = RF_MAX_DRAFT + 1,
    RF_PACE_BUCKETS = 12 /* of confidence */
};

/* Seconds of passes over 1 .. RF_PACE_ROWS rows. */
struct rf_pace_cost {
    double seconds[RF_PACE_ROWS];
    uint32_t
        seen[RF_PACE_ROWS]; /* passes that the seconds are from, up to some limit; 0: a guess */
    uint32_t measured; /* passes over any number of rows since rf_pace_init, up to some limit */
};

/* What became of a drafter's tokens at one judge. Weights fade, so that counts are of the recent
 * past. */
struct rf_pace_pair {
    double judged[RF_PACE_BUCKETS], kept[RF_PACE_BUCKETS]; /* by confidence */
    double all_judged, all_kept;
    double rounds, drafted, yielded; /* rounds, and the tokens in them */
    double idle_tokens;              /* that the judge yielded since the last of these rounds */
};

struct rf_pace_judge {
    double tokens, seconds; /* that recent rounds yielded and took, whatever drafted for them */
    double saved_seconds;   /* in this request, against plain decoding */
};

struct rf_pace {
    int32_t n_levels; /* the target is the last */
    struct rf_pace_cost costs[RF_PACE_LEVELS];
    double guess[RF_PACE_LEVELS];      /* cost of one row, the target's being 1 */
    double acceptance[RF_PACE_LEVELS]; /* first guesses */
    struct rf_pace_judge judges[RF_PACE_LEVELS];
    struct rf_pace_pair pairs[RF_PACE_LEVELS][RF_PACE_LEVELS]; /* [drafter][judge] */
    int has_unit;               /* costs are in seconds: something was measured */
    int usable[RF_PACE_LEVELS]; /* drafters that the last decision could consider */
    int32_t horizon;            /* tokens that are still to come in this request, about */
};

void rf_pace_init(struct rf_pace *pace, const struct rf_level *levels, int32_t n_levels);

/* A request begins: what was learnt of acceptance counts less from here on. `horizon`: tokens that
 * it may yield. */
void rf_pace_begin(struct rf_pace *pace, int32_t horizon);

/* A pass of `level` over `rows` rows took that long. */
void rf_pace_pass(struct rf_pace *pace, int32_t level, int32_t rows, double seconds);
/* Seconds to expect. rows: 1 .. RF_PACE_ROWS. */
double rf_pace_cost(const struct rf_pace *pace, int32_t level, int32_t rows);

/* The probability that `judge` keeps a token of that confidence, those before it being kept. */
double rf_pace_acceptance(const struct rf_pace *pace, int32_t drafter, int32_t judge,
                          double confidence);
void rf_pace_judged(struct rf_pace *pace, int32_t drafter, int32_t judge, double confidence,
                    int kept);

/* How many of `n` tokens that a free drafter offers are worth a place in the judge's pass; *value:
 * what the round is then worth in tokens, beyond its time (see above). */
int32_t rf_pace_offer(const struct rf_pace *pace, int32_t drafter, int32_t judge,
                      const struct rf_choice *offer, int32_t n, double *value);

/* The model drafter (below `judge`, not free) to draft with now, or -1: none of them. *value
 * likewise, of plain decoding where it returns -1. unread[d]: tokens that drafter d would have to
 * read first. */
int32_t rf_pace_drafter(struct rf_pace *pace, int32_t judge, const int32_t *unread, int32_t max,
                        double *value);

/* 1 if a drafter that has drafted n tokens, of which all are kept with probability p, should draft
 * another one. */
int rf_pace_go_on(const struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t n, double p);
/* 1 if a token that would be kept with probability p (all before it, too) is worth row n of the
 * judge's pass. */
int rf_pace_worth_row(const struct rf_pace *pace, int32_t judge, int32_t n, double p);

/* A round at `judge` is over: this drafter (-1: none) drafted so many tokens, and it yielded so
 * many. `reading`: seconds that went into a text that a drafter did not know. */
void rf_pace_round(struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t made,
                   int32_t drafted, int32_t yielded, double reading);

#endif
