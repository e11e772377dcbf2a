/* The state of a cascade, for the files that make up its rounds: cascade.c (rounds and judging),
 * offer.c (what a round verifies) and ahead.c (the tokens ahead). Everybody else uses cascade.h.
 *
 * Invariants. (1) marks[i] belongs to text[base + i], for the tokens that are ahead; base is the
 * number of committed tokens when the round began. (2) grammar_state is the state after text[0 ..
 * grammar_to), and a mark's state the state after its token. (3) Between rounds nothing is ahead
 * but the tokens that the last round yielded. */
#ifndef RF_SPECULATE_CASCADE_STATE_H
#define RF_SPECULATE_CASCADE_STATE_H

#include "speculate/cascade.h"

struct rf_cascade {
    struct rf_follower follower; /* follows the sequence; must come first */
    const struct rf_allocator *allocator;
    struct rf_sequence *sequence;          /* the target's text; drafts are placed ahead in it */
    struct rf_level levels[RF_MAX_LEVELS]; /* cheap ones first; the target is the last */
    int32_t n_levels;
    int is_damaged[RF_MAX_LEVELS]; /* 1: the drafter's logits were not numbers; it is not asked
                                      again */
    struct rf_pace pace;
    int32_t gamma; /* tokens of a draft's longest branch; 0: the pace decides */
    float min_confidence;
    double (*now)(void); /* seconds */
    double reading;      /* seconds in texts that a level did not know, so far */

    struct rf_matcher *matcher; /* limits the text from token `grammar_from` on; NULL: nothing */
    int32_t grammar_from, grammar_to, grammar_state;

    int32_t base;
    struct mark {
        float confidence;
        int32_t state;                              /* state of the grammar after the token */
        int8_t origin;                              /* the level that proposed the token first */
        struct rf_choice runners_up[RF_RUNNERS_UP]; /* token -1: none */
    } marks[RF_MAX_DRAFT + 1];
    struct rf_cascade_stats stats[RF_MAX_LEVELS];

    struct rf_log_probs *log_probs; /* the caller's, or NULL */
    int32_t n_top;

    struct rf_draft judged; /* draft that the target judged in the last round */
    int32_t path[RF_MAX_DRAFT], n_path;
};

static inline int rf_cascade_is_target(const struct rf_cascade *cascade, int32_t level)
{
    return level == cascade->n_levels - 1;
}

#endif
