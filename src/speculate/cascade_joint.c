/* The calls of cascade.h by which rounds draft together: each says whether its draft goes on, asks
 * its level's question and takes the answer. joint.c makes them for the texts of a batch. */
#include "speculate/ahead.h"
#include "speculate/cascade_state.h"
#include "speculate/drafting.h"
#include "speculate/offer.h"

/* A round that fails leaves nothing ahead. */
static int end_failed(struct rf_cascade *cascade, int code)
{
    if (code < 0) rf_cascade_drop(cascade);
    return code;
}

int rf_cascade_joins(const struct rf_cascade *cascade, const struct rf_round *round)
{
    return round->placed < 0 && round->drafting.is_open &&
           cascade->levels[round->drafting.level].ops->next != NULL;
}

int rf_cascade_drafts_on(struct rf_cascade *cascade, struct rf_round *round, struct rf_error *error)
{
    struct rf_drafting *drafting = &round->drafting;
    int32_t target = cascade->n_levels - 1;
    int goes_on = !cascade->pace.company.is_full;
    if (goes_on && !drafting->made)
        goes_on = rf_offer_keeps_drafter(cascade, target, round->max - 1, &round->offer);
    if (goes_on) goes_on = rf_drafting_goes_on(cascade, drafting, error);
    if (goes_on > 0) return 1;
    drafting->is_open = 0;
    if (!drafting->made) round->offer.drafter = -1;
    return end_failed(cascade, goes_on);
}

int rf_cascade_ask_next(struct rf_cascade *cascade, struct rf_round *round, struct rf_next *next,
                        struct rf_error *error)
{
    return end_failed(cascade, rf_drafting_ask(cascade, &round->drafting, next, error));
}

double rf_cascade_answer_next(const struct rf_cascade *cascade, const struct rf_round *round,
                              struct rf_next *const *asked, int32_t n)
{
    double start = cascade->now();
    cascade->levels[round->drafting.level].ops->next(asked, n);
    return cascade->now() - start;
}

int rf_cascade_take_next(struct rf_cascade *cascade, struct rf_round *round,
                         const struct rf_next *next, const struct rf_next_cost *cost,
                         struct rf_error *error)
{
    struct rf_drafting *drafting = &round->drafting;
    int32_t n = rf_drafting_take(cascade, drafting, next, cost, error);
    if (n > 0) drafting->made += n;
    if (n <= 0) drafting->is_open = 0;
    return end_failed(cascade, rf_drafting_drop_damaged(cascade, round, n < 0 ? n : 0));
}

/* The offer is not made yet, and a level has drafted for it. */
static int is_being_drafted(const struct rf_round *round)
{
    return !round->is_posed && (round->drafting.is_open || round->drafting.made);
}

int32_t rf_cascade_draft_rows(const struct rf_cascade *cascade, const struct rf_round *round)
{
    if (round->placed >= 0) return 0;
    return is_being_drafted(round) ? rf_ahead_end(cascade) - round->drafting.first
                                   : round->offer.draft.n;
}

double rf_cascade_expects(const struct rf_cascade *cascade, const struct rf_round *round)
{
    const struct rf_drafting *drafting = &round->drafting;
    if (round->placed >= 0) return 0.0;
    return 1.0 + (is_being_drafted(round) ? drafting->expected
                                          : rf_pace_expects(&cascade->pace, cascade->n_levels - 1,
                                                            &round->offer.draft));
}
