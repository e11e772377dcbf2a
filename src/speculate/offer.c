/* Making offers (offer.h): merging drafts, choosing the level that drafts with passes, and keeping
 * the rows that are worth verifying. The pace decides, or a fixed gamma; a grammar's own tokens
 * come before all drafts. */
#include "speculate/offer.h"

#include "speculate/ahead.h"
#include "speculate/cascade_state.h"
#include "speculate/tuning.h"

/* Drafts without a pass. */
static int draft_freely(struct rf_cascade *cascade, int32_t drafter, int32_t max,
                        struct rf_draft *draft, struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafter];
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    double start = cascade->now();
    draft->n = 0;
    int code = level->ops->draft(level->self, text, rf_ahead_end(cascade), max, draft, error);
    cascade->stats[drafter].passes++;
    cascade->stats[drafter].seconds += cascade->now() - start;
    if (code) return code;
    rf_draft_sign(draft, drafter, drafter);
    return rf_ahead_limit(cascade, rf_ahead_end(cascade), draft, error);
}

/* The same after ahead[0 .. k), which would come after text[0 .. at). */
static void draft_freely_behind(struct rf_cascade *cascade, int32_t drafter, int32_t at,
                                const int32_t *ahead, int32_t k, int32_t max,
                                struct rf_draft *draft)
{
    const struct rf_level *level = &cascade->levels[drafter];
    double start = cascade->now();
    draft->n = 0;
    level->ops->draft_behind(level->self, rf_sequence_tokens(cascade->sequence), at, ahead, k, max,
                             draft);
    cascade->stats[drafter].passes++;
    cascade->stats[drafter].seconds += cascade->now() - start;
    rf_draft_sign(draft, drafter, drafter);
}

/* Keeps, with a fixed gamma, the likeliest tokens that are sure enough, at most gamma. */
static void keep_gamma(const struct rf_cascade *cascade, struct rf_draft *draft)
{
    double p[RF_DRAFT_ROWS];
    int32_t order[RF_DRAFT_ROWS];
    int keep[RF_DRAFT_ROWS] = {0};
    for (int32_t i = 0; i < draft->n; i++) {
        keep[i] = draft->confidence[i] >= cascade->min_confidence;
        p[i] = (double)draft->confidence[i];
        if (draft->parents[i] >= 0) p[i] *= p[draft->parents[i]];
    }
    rf_draft_order(draft, p, order);
    for (int32_t i = cascade->gamma; i < draft->n; i++) keep[order[i]] = 0;
    rf_draft_filter(draft, keep);
}

/* Merges the drafts of all drafters without passes. */
static int merge_free_drafts(struct rf_cascade *cascade, int32_t judge, int32_t max,
                             struct rf_draft *merged, struct rf_error *error)
{
    struct rf_draft draft;
    merged->n = 0;
    if (cascade->gamma && max > cascade->gamma) max = cascade->gamma;
    for (int32_t d = 0; d < judge; d++) {
        if (cascade->levels[d].has_passes) continue;
        int code = draft_freely(cascade, d, max, &draft, error);
        if (code) return code;
        rf_draft_merge(merged, -1, &draft);
    }
    return 0;
}

/* Keeps the rows that are worth verifying. *value: as in rf_pace_offer. */
static void keep_worthy(const struct rf_cascade *cascade, int32_t judge, struct rf_draft *draft,
                        double *value)
{
    *value = 0.0;
    if (draft->n == 0) return;
    if (cascade->gamma) {
        keep_gamma(cascade, draft);
        *value = draft->n;
    } else {
        rf_pace_offer(&cascade->pace, judge, draft, value);
    }
}

/* The tokens from `first` on, which a level with passes has placed ahead, as a line. */
static void offer_ahead(struct rf_cascade *cascade, int32_t drafter, int32_t first,
                        struct rf_draft *draft)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    draft->n = 0;
    for (int32_t i = first; i < rf_ahead_end(cascade); i++) {
        const struct mark *mark = rf_ahead_mark(cascade, i);
        rf_draft_add(draft, i - first - 1, &(struct rf_choice){text[i], mark->confidence},
                     (struct rf_proposal){mark->origin, (int8_t)drafter, 0});
    }
}

/* Adds to that line the runners-up of its tokens, then what drafters without passes propose. */
static void branch_out(struct rf_cascade *cascade, int32_t drafter, int32_t first,
                       const struct rf_draft *tables, struct rf_draft *draft)
{
    for (int32_t i = 0, n = draft->n; i < n; i++) {
        const struct rf_choice *runners_up = rf_ahead_mark(cascade, first + i)->runners_up;
        for (int32_t k = 0; k < RF_RUNNERS_UP && runners_up[k].token >= 0; k++)
            rf_draft_add(draft, i - 1, &runners_up[k],
                         (struct rf_proposal){(int8_t)drafter, (int8_t)drafter, 1});
    }
    rf_draft_merge(draft, -1, tables);
}

/* Has drafters without passes go on where a drafter's tree ends: at its line's last token, and at
 * the first runners-up. Branches have up to `max` tokens with what they follow. */
static int extend_tips(struct rf_cascade *cascade, int32_t judge, int32_t max,
                       struct rf_offer *offer, struct rf_error *error)
{
    struct rf_draft *draft = &offer->draft, more;
    int has_child[RF_DRAFT_ROWS] = {0}, tips = 0;
    int32_t ahead[RF_MAX_DRAFT], n = draft->n;
    for (int32_t i = 0; i < n; i++)
        if (draft->parents[i] >= 0) has_child[draft->parents[i]] = 1;
    for (int32_t i = 0; i < n && tips < rf_tuning.rounds.most_tips; i++) {
        if (has_child[i] || draft->by[i].proposer != offer->drafter) continue;
        int32_t depth = rf_draft_path(draft, i, ahead);
        for (int32_t k = 0; k < depth; k++) ahead[k] = draft->tokens[ahead[k]];
        for (int32_t d = 0; d < judge && depth < max; d++) {
            if (!cascade->levels[d].ops->draft_behind) continue;
            draft_freely_behind(cascade, d, offer->at, ahead, depth, max - depth, &more);
            rf_draft_merge(draft, i, &more);
        }
        tips++;
    }
    return rf_ahead_limit(cascade, offer->at, draft, error);
}

/* Asks the drafters with passes how many tokens they would have to read. */
static void ask_unread(const struct rf_cascade *cascade, int32_t judge, int32_t *unread)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    for (int32_t d = 0; d < judge; d++) {
        const struct rf_level *level = &cascade->levels[d];
        if (level->has_passes)
            unread[d] = cascade->is_damaged[d]
                            ? INT32_MAX
                            : level->ops->unread(level->self, text, rf_ahead_end(cascade));
    }
}

/* Drafts what the grammar prescribes for the target. No drafter knows it better, and with a chain
 * of one level there is none. */
static int offer_forced(struct rf_cascade *cascade, int32_t judge, int32_t max,
                        struct rf_offer *offer, struct rf_error *error)
{
    struct rf_draft *draft = &offer->draft;
    if (!cascade->matcher || !rf_cascade_is_target(cascade, judge)) return 0;
    if (max > RF_MAX_DRAFT) max = RF_MAX_DRAFT;
    int32_t n = rf_matcher_forced(cascade->matcher, rf_ahead_state(cascade, offer->at),
                                  draft->tokens, max, error);
    if (n < 0) return n;
    draft->n = n < rf_tuning.rounds.least_forced ? 0 : n;
    for (int32_t i = 0; i < draft->n; i++) {
        draft->parents[i] = i - 1;
        draft->confidence[i] = 1.0f;
    }
    rf_draft_sign(draft, judge, -1);
    return rf_ahead_limit(cascade, offer->at, draft, error);
}

/* Adds rows that ask what the target finds likely after single tokens, for later drafts. */
static void add_probes(struct rf_cascade *cascade, int32_t judge, struct rf_draft *draft)
{
    int32_t most = rf_pace_probes(&cascade->pace, judge, draft->n), tokens[RF_PACE_PROBES];
    for (int32_t l = 0; l < judge && most > 0; l++) {
        struct rf_draft probes = {.n = 0};
        if (!cascade->levels[l].ops->probe) continue;
        int32_t n = cascade->levels[l].ops->probe(cascade->levels[l].self, most, tokens);
        for (int32_t i = 0; i < n; i++)
            rf_draft_add(&probes, -1, &(struct rf_choice){tokens[i], 0.0f},
                         (struct rf_proposal){(int8_t)l, -1, 0});
        rf_draft_merge(draft, -1, &probes);
        most -= n;
    }
}

/* The drafter with a fixed gamma: the level next below, where it has passes and can. A free level
 * below that may draft for it. */
static int32_t drafter_of_gamma(const struct rf_cascade *cascade, int32_t judge,
                                const int32_t *unread)
{
    int32_t below = judge - 1;
    return below >= 0 && cascade->levels[below].has_passes && unread[below] != INT32_MAX ? below
                                                                                         : -1;
}

/* The level with passes that should draft, and what the round promises then; -1: the free draft is
 * as good. */
static int32_t choose_drafter(struct rf_cascade *cascade, int32_t judge, int32_t max,
                              const struct rf_offer *offer, double *value)
{
    int32_t unread[RF_MAX_LEVELS] = {0}, drafter;
    ask_unread(cascade, judge, unread);
    if (cascade->gamma) {
        drafter = drafter_of_gamma(cascade, judge, unread);
        *value = drafter >= 0 ? offer->free_value + 1.0 : 0.0;
    } else {
        drafter = rf_pace_drafter(&cascade->pace, judge, unread, max, value);
    }
    return offer->draft.n && offer->free_value >= *value ? -1 : drafter;
}

int rf_offer_keeps_drafter(struct rf_cascade *cascade, int32_t judge, int32_t max,
                           const struct rf_offer *offer)
{
    double ignored;
    return choose_drafter(cascade, judge, max, offer, &ignored) == offer->drafter;
}

int rf_offer_begin(struct rf_cascade *cascade, int32_t judge, int32_t max, struct rf_offer *offer,
                   struct rf_draft *tables, struct rf_error *error)
{
    double value;
    offer->drafter = -1;
    offer->at = rf_ahead_end(cascade);
    offer->made = offer->draft.n = 0;
    if (max <= 0) return 0;
    int code = offer_forced(cascade, judge, max, offer, error);
    if (code || offer->draft.n) return code;
    code = merge_free_drafts(cascade, judge, max, tables, error);
    if (code) return code;
    offer->draft = *tables;
    keep_worthy(cascade, judge, &offer->draft, &offer->free_value);
    int32_t drafter = choose_drafter(cascade, judge, max, offer, &value);
    int is_free = drafter < 0;
    if (is_free && rf_cascade_is_target(cascade, judge) && !cascade->gamma && !cascade->matcher)
        add_probes(cascade, judge, &offer->draft);
    if (!cascade->gamma && (!is_free || offer->draft.n) &&
        rf_pace_look_at_single(&cascade->pace, judge, is_free ? offer->free_value : value)) {
        offer->draft.n = 0;
        return 0;
    }
    if (!is_free) offer->drafter = drafter;
    return 0;
}

int rf_offer_complete(struct rf_cascade *cascade, int32_t judge, int32_t max,
                      struct rf_offer *offer, const struct rf_draft *tables, struct rf_error *error)
{
    double ignored;
    offer_ahead(cascade, offer->drafter, offer->at, &offer->draft);
    if (!cascade->gamma) branch_out(cascade, offer->drafter, offer->at, tables, &offer->draft);
    int code = rf_ahead_limit(cascade, offer->at, &offer->draft, error);
    if (code || cascade->gamma) return code;
    keep_worthy(cascade, judge, &offer->draft, &ignored);
    code = extend_tips(cascade, judge, max, offer, error);
    if (!code) keep_worthy(cascade, judge, &offer->draft, &ignored);
    return code;
}
