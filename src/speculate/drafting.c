/* Writing a draft with a level that has passes (drafting.h). What a token is worth is the pace's to
 * say, or a fixed gamma's; what it costs is told to the pace. Tokens stay ahead in the text. */
#include "speculate/drafting.h"

#include <assert.h>

#include "speculate/ahead.h"
#include "speculate/cascade_state.h"
#include "speculate/tuning.h"

void rf_drafting_begin(const struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t want,
                       struct rf_drafting *drafting)
{
    int32_t first = rf_ahead_end(cascade);
    if (cascade->gamma && want > cascade->gamma) want = cascade->gamma;
    *drafting = (struct rf_drafting){.is_open = 1,
                                     .level = level,
                                     .judge = judge,
                                     .want = want,
                                     .first = first,
                                     .known = first,
                                     .p = 1.0};
}

int32_t rf_drafting_left(const struct rf_cascade *cascade, const struct rf_drafting *drafting)
{
    return drafting->want - (rf_ahead_end(cascade) - drafting->first);
}

/* Whether the tokens so far are worth their rows, and another one its draft. With a fixed gamma
 * takes back tokens at the end that are not sure enough; otherwise the last one may not be worth a
 * row, but its runners-up are. */
static int is_worth_more(struct rf_cascade *cascade, struct rf_drafting *d)
{
    const struct rf_proposal by = {.proposer = (int8_t)d->level};
    for (; d->known < rf_ahead_end(cascade); d->known++) {
        double confidence = (double)rf_ahead_mark(cascade, d->known)->confidence;
        int32_t place = d->known - d->first;
        double next = d->p * rf_pace_acceptance(&cascade->pace, d->judge, &by, confidence);
        int worth = cascade->gamma ? confidence >= (double)cascade->min_confidence
                                   : rf_pace_worth_row(&cascade->pace, d->judge, place + 1, next);
        if (!worth) {
            if (cascade->gamma) rf_sequence_rewind(cascade->sequence, d->known);
            return 0;
        }
        d->p = next;
        d->expected += next;
    }
    return cascade->gamma || rf_pace_go_on(&cascade->pace, d->level, d->judge,
                                           rf_ahead_end(cascade) - d->first, d->p);
}

int rf_drafting_goes_on(struct rf_cascade *cascade, struct rf_drafting *drafting,
                        struct rf_error *error)
{
    if (drafting->made &&
        (rf_drafting_left(cascade, drafting) <= 0 || !is_worth_more(cascade, drafting)))
        return 0;
    return rf_ahead_can_go_on(cascade, rf_ahead_state(cascade, rf_ahead_end(cascade)), error);
}

void rf_drafting_end(struct rf_cascade *cascade, struct rf_drafting *drafting)
{
    if (drafting->known < rf_ahead_end(cascade)) is_worth_more(cascade, drafting);
}

/* Counts a pass after which the level had drafted n tokens for each of so many texts. */
static void count_passes(struct rf_cascade *cascade, int32_t drafter, int32_t unread,
                         const struct rf_next_cost *cost, int32_t n)
{
    struct rf_cascade_stats *stats = &cascade->stats[drafter];
    stats->passes++;
    stats->seconds += cost->seconds / cost->texts;
    if (unread >= RF_PACE_FEW)
        cascade->reading += cost->seconds;
    else if (n > 0 && !cost->has_reading)
        rf_pace_pass(&cascade->pace, drafter, cost->texts, cost->seconds / n);
}

int rf_drafting_ask(struct rf_cascade *cascade, struct rf_drafting *drafting, struct rf_next *next,
                    struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafting->level];
    const struct rf_draft nothing = {.n = 0};
    int32_t n = rf_ahead_end(cascade);
    *next = (struct rf_next){
        .self = level->self, .text = rf_sequence_tokens(cascade->sequence), .n = n, .error = error};
    drafting->unread = level->ops->unread(level->self, next->text, n);
    return cascade->matcher ? rf_ahead_masks(cascade, n, &nothing, &next->mask, error) : 0;
}

int32_t rf_drafting_take(struct rf_cascade *cascade, struct rf_drafting *drafting,
                         const struct rf_next *next, const struct rf_next_cost *cost,
                         struct rf_error *error)
{
    int32_t n = next->choice.token >= 0;
    if (next->code) return next->code;
    count_passes(cascade, drafting->level, drafting->unread, cost, n);
    if (!n) return 0;
    drafting->seconds += rf_pace_drafting_cost(&cascade->pace, drafting->level);
    int code = rf_ahead_place(cascade, &next->choice, drafting->level, next->runners_up, error);
    return code ? code : n;
}

int32_t rf_drafting_next(struct rf_cascade *cascade, struct rf_drafting *drafting,
                         struct rf_error *error)
{
    struct rf_next next, *asked = &next;
    struct rf_next_cost cost = {.texts = 1};
    int code = rf_drafting_ask(cascade, drafting, &next, error);
    if (code) return code;
    double start = cascade->now();
    cascade->levels[drafting->level].ops->next(&asked, 1);
    cost.seconds = cascade->now() - start;
    return rf_drafting_take(cascade, drafting, &next, &cost, error);
}

int32_t rf_drafting_some(struct rf_cascade *cascade, struct rf_drafting *drafting, int32_t max,
                         struct rf_error *error)
{
    int32_t drafter = drafting->level, end = rf_ahead_end(cascade), most = max;
    const struct rf_level *level = &cascade->levels[drafter];
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    struct rf_draft draft = {.n = 0};
    struct rf_next_cost cost = {.texts = 1};
    if (!cascade->gamma && most > rf_tuning.rounds.few_at_once) most = rf_tuning.rounds.few_at_once;
    int32_t unread = level->ops->unread(level->self, text, end);
    double start = cascade->now();
    int code = level->ops->draft(level->self, text, end, most, &draft, error);
    cost.seconds = cascade->now() - start;
    if (code) return code;
    assert(rf_draft_is_line(&draft));
    count_passes(cascade, drafter, unread, &cost, draft.n);
    rf_draft_sign(&draft, drafter, drafter);
    code = rf_ahead_limit(cascade, end, &draft, error);
    for (int32_t i = 0; i < draft.n && !code; i++)
        code = rf_ahead_place(cascade, &(struct rf_choice){draft.tokens[i], draft.confidence[i]},
                              drafter, NULL, error);
    return code ? code : draft.n;
}

int rf_drafting_drop_damaged(struct rf_cascade *cascade, struct rf_round *round, int code)
{
    if (code != RF_ERR_FORMAT) return code;
    cascade->is_damaged[round->offer.drafter] = 1;
    rf_sequence_rewind(cascade->sequence, round->offer.at);
    round->offer.drafter = -1;
    round->offer.made = 0;
    return 0;
}
