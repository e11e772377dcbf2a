/* The pace: which level drafts in a round, how many tokens, and whether any level drafts at all.
 *
 * A round at a judge drafts g tokens and verifies them in one pass. It yields the accepted tokens
 * and one more. Let lambda be the best rate, in tokens per second, that the judge reaches by plain
 * decoding or with one of the drafting models, or has lately reached. A further token is worth
 * drafting as long as
 *
 *     P(it and all before it are kept) >
 *         lambda (seconds to draft it + seconds of one more row in the verification).
 *
 * A tree, of a model's line with its runners-up and of what n-gram tables propose, gets its
 * likeliest rows, as long as a row is worth its own seconds. When nothing promises more, the judge
 * decodes plainly. The probabilities are the drafter's confidence, corrected by what became of
 * earlier tokens of the same confidence. The seconds of a round are sums over the table of usual
 * pass times, which grow with the text. All of it follows the machine's speed within a few passes;
 * the ratios between passes, which alone decide, move slowly, and by passes near each other in
 * time. ML-SpecQD's speed-up formula (section III, (alpha N + 1) / (1 + N / S)) is the case of
 * constant acceptance and costs.
 *
 * The pace computes only; it reads no clock. */
#ifndef RF_SPECULATE_PACE_H
#define RF_SPECULATE_PACE_H

#include "base/alloc.h"
#include "base/error.h"
#include "platform/split.h"
#include "speculate/level.h"

enum {
    RF_PACE_ROWS = RF_TREE_ROWS,    /* most rows of a pass whose costs are known */
    RF_PACE_FEW = RF_MAX_DRAFT + 1, /* a text of so many unread tokens takes a pass of its own */
    RF_PACE_BUCKETS = 12,           /* ranges of confidence */
    RF_PACE_PROBES = 4              /* rows of a pass that only ask what follows a token */
};
_Static_assert((int)RF_PACE_FEW == (int)RF_FEW_ROWS, "more rows are computed in another way");

/* Seconds of passes over 1 .. RF_PACE_ROWS rows: seconds[rows - 1] for rows without a text before
 * them, and `attention` for each row and each token of the text. */
struct rf_pace_cost {
    double seconds[RF_PACE_ROWS];
    double attention, attention_most; /* as a share of a single row's cost, it is at most so much */
    int32_t window;                   /* tokens of the text that count at most; 0: all */
    uint32_t seen[RF_PACE_ROWS]; /* passes measured with these rows, up to a limit; 0: a guess */
    uint32_t measured;           /* passes measured since rf_pace_init, up to a limit */
    double recent[RF_PACE_ROWS]; /* share of the latest passes, of all levels, with these rows */
    int has_single; /* a pass over 1 row of this text was measured since rf_pace_init */
    double moved;   /* how log(seconds) has followed the machine since the last of these */
    /* Tokens that looking at such a pass may lose, for each since the last one: more while few
     * passes have confirmed what further rows cost against it. */
    double doubt;
    /* Tokens yielded by rounds since a pass over 1 row of this text, and since one over rows that
     * were hardly measured. */
    double since_single, since_trial;
};

struct rf_pace_count {
    double judged, kept; /* tokens */
    double guessed;      /* tokens expected to be kept, by the drafter's confidence alone */
};

/* Fate of a drafter's tokens at one judge. Older tokens and rounds count less and less. */
struct rf_pace_pair {
    struct rf_pace_count buckets[RF_PACE_BUCKETS], all; /* counts by confidence, and in all */
    struct rf_pace_count runners_up[RF_PACE_BUCKETS];   /* not part of `all` */
    double rounds, drafted, rows,
        yielded;        /* rounds; tokens and rows of the judge's passes in them */
    double idle_tokens; /* yielded by the judge since the last of these rounds */
};

struct rf_pace_judge {
    double tokens, seconds; /* yield and duration of recent rounds, with any drafter */
    double saved_seconds;   /* seconds saved in this request against plain decoding */
};

/* The company of this text in the target's next pass. A round then yields everybody's tokens, and a
 * draft delays everybody. */
struct rf_pace_company {
    struct rf_other_rows others; /* rows of other texts, with their drafts as far as known */
    double tokens;               /* tokens that those texts are expected to yield */
    double seconds;              /* that drafting takes for them */
    int32_t drafting;            /* other texts whose drafts a level writes in the same passes */
    int has_slices; /* 1: the pass also reads prompts, so its time will say nothing of costs */
    int is_full;    /* 1: it has no rows for a draft of this text */
};

struct rf_pace {
    int32_t n_levels; /* the target is the last */
    int32_t length;   /* tokens of the text */
    struct rf_pace_cost costs[RF_MAX_LEVELS];
    int has_passes[RF_MAX_LEVELS]; /* rf_level.has_passes */
    int joins[RF_MAX_LEVELS]; /* 1: its passes draft for several texts, a token of each; they count
                                 as passes over so many rows */
    double acceptance[RF_MAX_LEVELS]; /* first guesses */
    int is_trained[RF_MAX_LEVELS];
    struct rf_pace_judge judges[RF_MAX_LEVELS];
    struct rf_pace_pair pairs[RF_MAX_LEVELS][RF_MAX_LEVELS]; /* [drafter][judge] */
    int has_unit;              /* a pass was measured, now or earlier: costs are in seconds */
    int usable[RF_MAX_LEVELS]; /* drafters that the last decision could consider */
    double row_seconds;        /* seconds of each row of a text that the target read; 0: unknown */
    int has_request;           /* 1: rf_pace_begin was called */
    int32_t yielded;           /* tokens of this request */
    double reading;            /* seconds in which drafters read its prompt */
    int has_speed;             /* a pass was measured since rf_pace_init */
    double last_error;         /* log(measured / expected) of the last pass, as costs are now */
    int32_t horizon;           /* about how many tokens this request will still yield */
    struct rf_pace_company company;
};

/* 1 .. RF_MAX_LEVELS levels; the last is the target. A level with passes has a cost above 0. */
void rf_pace_init(struct rf_pace *pace, const struct rf_level *levels, int32_t n_levels);

/* The text has `length` tokens from now on. */
void rf_pace_set_length(struct rf_pace *pace, int32_t length);
/* The company of the target's next passes, until it is set again. */
void rf_pace_set_company(struct rf_pace *pace, const struct rf_pace_company *company);

/* A request begins that may yield `horizon` tokens. Acceptance learnt so far counts for less. */
void rf_pace_begin(struct rf_pace *pace, int32_t horizon);

/* A pass of `level` over `rows` rows took `seconds`. More than RF_PACE_ROWS rows are ignored. */
void rf_pace_pass(struct rf_pace *pace, int32_t level, int32_t rows, double seconds);
/* The same of a pass over `rows` rows, of which these were other texts'. */
void rf_pace_shared_pass(struct rf_pace *pace, int32_t level, int32_t rows,
                         const struct rf_other_rows *others, double seconds);
/* The target read a text of so many rows. Few rows take no less each, and while passes over them
 * are not measured, that bounds their cost. */
void rf_pace_read(struct rf_pace *pace, int32_t rows, double seconds);
/* Expected seconds of a pass over so many rows after a text of pace->length tokens, the target's
 * with the others' rows. 1 .. RF_PACE_ROWS together. */
double rf_pace_cost(const struct rf_pace *pace, int32_t level, int32_t rows);

/* Expected seconds of a token that this level drafts: of a pass, or of its share of one. */
double rf_pace_drafting_cost(const struct rf_pace *pace, int32_t level);

/* The probability that `judge` keeps a token of this confidence, given that it keeps those before;
 * of a runner-up, given also that it does not keep the choice. */
double rf_pace_acceptance(const struct rf_pace *pace, int32_t judge, const struct rf_proposal *by,
                          double confidence);
/* The drafter's tokens at all judges. */
struct rf_pace_count rf_pace_total(const struct rf_pace *pace, int32_t drafter);
/* `judge` has kept such a token, or not. */
void rf_pace_judged(struct rf_pace *pace, int32_t judge, const struct rf_proposal *by,
                    double confidence, int kept);

/* Keeps the rows of a draft that are worth a row in the judge's pass: fewer than RF_PACE_ROWS
 * with the others', likeliest first. The probability of a row is the product over those that it
 * follows, each by its proposer's acceptance. Returns how many. *value: tokens of the round minus
 * lambda times its seconds. The target's round never stakes more than the request may lose. */
int32_t rf_pace_offer(const struct rf_pace *pace, int32_t judge, struct rf_draft *offer,
                      double *value);

/* Tokens of a draft that the judge is expected to keep. */
double rf_pace_expects(const struct rf_pace *pace, int32_t judge, const struct rf_draft *draft);

/* The level below `judge`, one with passes, that should draft now; -1: none. *value as above, that
 * of plain decoding where none should. unread[d]: tokens that drafter d would have to read first.
 */
int32_t rf_pace_drafter(struct rf_pace *pace, int32_t judge, const int32_t *unread, int32_t max,
                        double *value);

/* 1 if this round should decode plainly although drafts promise `value`, as above: the seconds of a
 * single row (beside the others') were not measured for long, or are in doubt, and all decisions
 * compare with these. */
int rf_pace_look_at_single(const struct rf_pace *pace, int32_t judge, double value);

/* 1 if a drafter should draft another token after n tokens that are all kept with probability p. */
int rf_pace_go_on(const struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t n, double p);
/* 1 if a token is worth row n of the judge's pass. p: it and all before it are kept. */
int rf_pace_worth_row(const struct rf_pace *pace, int32_t judge, int32_t n, double p);

/* How many rows that only ask what follows a token are worth their cost, beside a draft of so many
 * rows: <= RF_PACE_PROBES. */
int32_t rf_pace_probes(const struct rf_pace *pace, int32_t judge, int32_t rows);

/* A round at `judge` is over. `drafter` (-1: none) made `made` tokens, `rows` rows of drafts were
 * verified, and the round yielded `yielded`. `reading`: seconds spent on text new to a drafter. */
void rf_pace_round(struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t made, int32_t rows,
                   int32_t yielded, double reading);

/* ---- the file (pace_file.c) ---- */

/* Costs of passes and acceptance of drafts are kept from one run to the next, in a small text file
 * for each model, form of its weights, tier and number of threads. */
enum { RF_PACE_NAME_BYTES = 64 };

/* Takes costs and acceptance of the levels that the file has by name as first guesses. names[l] is
 * of level l. A file that is missing or has another format changes nothing. */
void rf_pace_load(struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES], const char *path);

/* Writes costs and acceptance of the measured levels, and keeps what the file has of others.
 * RF_ERR_IO names the file. */
int rf_pace_save(const struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES],
                 const char *path, struct rf_error *error);

#endif
