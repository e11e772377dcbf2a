#include "speculate/cascade.h"

#include <assert.h>
#include <string.h>

#include "platform/clock.h"

enum {
    FEW_AT_ONCE = 5, /* tokens that a translated draft writes before it is asked to go on */
    MOST_TIPS = 4    /* ends of a model's tree where others may go on */
};

static void rewound(struct rf_follower *follower, int32_t n)
{
    struct rf_cascade *cascade = (struct rf_cascade *)follower;
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->rewind)
            cascade->levels[l].ops->rewind(cascade->levels[l].self, n);
}

int rf_cascade_new(struct rf_cascade **cascade, const struct rf_level *levels, int32_t n_levels,
                   struct rf_sequence *sequence, const struct rf_allocator *allocator,
                   struct rf_error *error)
{
    *cascade = NULL;
    struct rf_cascade *made = rf_calloc(allocator, 1, sizeof *made, "cascade", error);
    if (!made) return RF_ERR_MEMORY;
    made->follower.rewound = rewound;
    made->allocator = allocator;
    made->sequence = sequence;
    made->n_levels = n_levels;
    made->now = rf_clock_seconds;
    memcpy(made->levels, levels, (size_t)n_levels * sizeof *levels);
    rf_pace_init(&made->pace, levels, n_levels);
    rf_sequence_set_follower(sequence, &made->follower);
    *cascade = made;
    return 0;
}

void rf_cascade_free(struct rf_cascade *cascade)
{
    if (!cascade) return;
    rf_sequence_set_follower(cascade->sequence, NULL);
    rf_free(cascade->allocator, cascade);
}

static int is_target(const struct rf_cascade *cascade, int32_t level)
{
    return level == cascade->n_levels - 1;
}

static int is_judge(const struct rf_cascade *cascade, int32_t level)
{
    return cascade->levels[level].ops->choose != NULL;
}

static int32_t length(const struct rf_cascade *cascade)
{
    return rf_sequence_length(cascade->sequence);
}

/* The mark of text[i]. */
static struct mark *mark_of(struct rf_cascade *cascade, int32_t i)
{
    assert(i >= cascade->base && i - cascade->base <= RF_MAX_DRAFT);
    return &cascade->marks[i - cascade->base];
}

/* ---- the grammar ---- */

/* The state after text[0 .. n). */
static int32_t state_at(struct rf_cascade *cascade, int32_t n)
{
    return n == cascade->base ? cascade->grammar_state : mark_of(cascade, n - 1)->state;
}

static int32_t state_after(struct rf_cascade *cascade, int32_t state, int32_t token,
                           struct rf_error *error)
{
    return cascade->matcher ? rf_matcher_advance(cascade->matcher, state, token, error) : 0;
}

/* 1 if the grammar's text can go on from that state, with a token of the vocabulary; or a code. */
static int can_go_on(struct rf_cascade *cascade, int32_t state, struct rf_error *error)
{
    struct rf_token_mask mask;
    if (!cascade->matcher) return 1;
    if (state == RF_STATE_REJECTED || state == RF_STATE_FINAL) return 0;
    int code = rf_matcher_mask(cascade->matcher, state, &mask, error);
    return code ? code : mask.count > 0;
}

/* Takes out of a draft after text[0 .. at) what the grammar rejects, and what follows that. Nor is
 * there anything to verify behind a complete text. */
static int limit_draft(struct rf_cascade *cascade, int32_t at, struct rf_draft *draft,
                       struct rf_error *error)
{
    int32_t states[RF_DRAFT_ROWS];
    int keep[RF_DRAFT_ROWS];
    for (int32_t i = 0; cascade->matcher && i < draft->n; i++) {
        int32_t parent = draft->parents[i];
        keep[i] = parent < 0 || keep[parent];
        if (!keep[i]) continue;
        int32_t before = parent < 0 ? state_at(cascade, at) : states[parent];
        keep[i] = before != RF_STATE_FINAL;
        if (!keep[i]) continue;
        states[i] = state_after(cascade, before, draft->tokens[i], error);
        int goes_on = states[i] < 0 ? states[i] : can_go_on(cascade, states[i], error);
        if (goes_on < 0) return goes_on;
        keep[i] = goes_on || states[i] == RF_STATE_FINAL;
    }
    if (cascade->matcher) rf_draft_filter(draft, keep);
    return 0;
}

/* What may follow text[0 .. at) and each token of a draft that limit_draft has seen. */
static int find_masks(struct rf_cascade *cascade, int32_t at, const struct rf_draft *draft,
                      const uint64_t **masks, struct rf_error *error)
{
    int32_t states[RF_DRAFT_ROWS];
    for (int32_t i = -1; i < draft->n; i++) {
        struct rf_token_mask mask = {.bits = NULL};
        int32_t parent = i < 0 ? -1 : draft->parents[i];
        int32_t state = parent < 0 ? state_at(cascade, at) : states[parent];
        if (i >= 0) state = states[i] = state_after(cascade, state, draft->tokens[i], error);
        int code = state < 0 ? state
                   : state == RF_STATE_FINAL
                       ? 0
                       : rf_matcher_mask(cascade->matcher, state, &mask, error);
        if (code) return code;
        masks[i + 1] = mask.bits;
    }
    return 0;
}

/* Brings the state to the n committed tokens. */
static int follow_grammar(struct rf_cascade *cascade, int32_t n, struct rf_error *error)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    if (!cascade->matcher) return 0;
    int32_t state = cascade->grammar_state, at = cascade->grammar_to;
    if (n < at) { /* tokens were taken back */
        state = rf_matcher_start(cascade->matcher, error);
        at = cascade->grammar_from;
    }
    for (; at < n && state >= 0; at++)
        state = rf_matcher_advance(cascade->matcher, state, text[at], error);
    int code = state < 0 ? state : rf_matcher_trim(cascade->matcher, &state, error);
    if (code) return code;
    cascade->grammar_state = state;
    cascade->grammar_to = at;
    return state != RF_STATE_REJECTED && n >= cascade->grammar_from
               ? 0
               : rf_fail(error, RF_ERR_ARGUMENT,
                         "the session's text was changed to one that the grammar rejects");
}

int rf_cascade_set_grammar(struct rf_cascade *cascade, struct rf_matcher *matcher,
                           struct rf_error *error)
{
    int32_t start = matcher ? rf_matcher_start(matcher, error) : 0;
    cascade->matcher = NULL;
    if (start < 0) return start;
    cascade->matcher = matcher;
    cascade->grammar_state = start;
    cascade->grammar_from = cascade->grammar_to = rf_sequence_n_committed(cascade->sequence);
    return 0;
}

static void set_mark(struct mark *mark, float confidence, int32_t origin,
                     const struct rf_choice *runners_up)
{
    mark->confidence = confidence;
    mark->origin = (int8_t)origin;
    for (int32_t k = 0; k < RF_RUNNERS_UP; k++)
        mark->runners_up[k] = runners_up ? runners_up[k] : (struct rf_choice){-1, 0.0f};
}

/* Places a token ahead. runners_up: [RF_RUNNERS_UP], or NULL. */
static int place(struct rf_cascade *cascade, const struct rf_choice *choice, int32_t origin,
                 const struct rf_choice *runners_up, struct rf_error *error)
{
    int32_t n = length(cascade);
    int32_t state = state_after(cascade, state_at(cascade, n), choice->token, error);
    if (state < 0) return state;
    set_mark(mark_of(cascade, n), choice->confidence, origin, runners_up);
    mark_of(cascade, n)->state = state;
    rf_sequence_place(cascade->sequence, &choice->token, 1);
    return 0;
}

/* Places up to `max` tokens that have no alternative. Returns how many, or a code. */
static int32_t place_forced(struct rf_cascade *cascade, int32_t max, struct rf_error *error)
{
    int32_t placed = 0;
    for (; cascade->matcher && placed < max; placed++) {
        struct rf_token_mask mask;
        int32_t state = state_at(cascade, length(cascade));
        if (state == RF_STATE_FINAL) break;
        int code = rf_matcher_mask(cascade->matcher, state, &mask, error);
        if (code) return code;
        if (mask.count == 0 && placed == 0)
            return rf_fail(error, RF_ERR_UNSUPPORTED,
                           "no token of the model's vocabulary continues the text as the grammar "
                           "demands");
        if (mask.only < 0 || cascade->log_probs) break;
        code = place(cascade, &(struct rf_choice){mask.only, 1.0f}, cascade->n_levels - 1, NULL,
                     error);
        if (code) return code;
    }
    return placed;
}

static int32_t produce(struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t want,
                       int32_t *made, struct rf_error *error);

static void sign(struct rf_draft *draft, int32_t origin, int32_t proposer)
{
    for (int32_t i = 0; i < draft->n; i++)
        draft->by[i] = (struct rf_proposal){(int8_t)origin, (int8_t)proposer, 0};
}

/* Drafts without a pass. */
static int free_draft(struct rf_cascade *cascade, int32_t drafter, int32_t max,
                      struct rf_draft *draft, struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafter];
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    double start = cascade->now();
    draft->n = 0;
    int code = level->ops->draft(level->self, text, length(cascade), max, draft, error);
    cascade->stats[drafter].passes++;
    cascade->stats[drafter].seconds += cascade->now() - start;
    if (code) return code;
    sign(draft, drafter, drafter);
    return limit_draft(cascade, length(cascade), draft, error);
}

/* The same after ahead[0 .. k), which would come after text[0 .. at). */
static void free_draft_behind(struct rf_cascade *cascade, int32_t drafter, int32_t at,
                              const int32_t *ahead, int32_t k, int32_t max, struct rf_draft *draft)
{
    const struct rf_level *level = &cascade->levels[drafter];
    double start = cascade->now();
    draft->n = 0;
    level->ops->draft_behind(level->self, rf_sequence_tokens(cascade->sequence), at, ahead, k, max,
                             draft);
    cascade->stats[drafter].passes++;
    cascade->stats[drafter].seconds += cascade->now() - start;
    sign(draft, drafter, drafter);
}

/* With a fixed gamma: the likeliest tokens, so many, of those that are sure enough. */
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
static int free_drafts(struct rf_cascade *cascade, int32_t judge, int32_t max,
                       struct rf_draft *merged, struct rf_error *error)
{
    struct rf_draft draft;
    merged->n = 0;
    if (cascade->gamma && max > cascade->gamma) max = cascade->gamma;
    for (int32_t d = 0; d < judge; d++) {
        if (cascade->levels[d].has_passes) continue;
        int code = free_draft(cascade, d, max, &draft, error);
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
    for (int32_t i = first; i < length(cascade); i++) {
        const struct mark *mark = mark_of(cascade, i);
        rf_draft_add(draft, i - first - 1, &(struct rf_choice){text[i], mark->confidence},
                     (struct rf_proposal){mark->origin, (int8_t)drafter, 0});
    }
}

/* Adds to that line the runners-up of its tokens, then what drafters without passes propose. */
static void branch_out(struct rf_cascade *cascade, int32_t drafter, int32_t first,
                       const struct rf_draft *tables, struct rf_draft *draft)
{
    for (int32_t i = 0, n = draft->n; i < n; i++) {
        const struct rf_choice *runners_up = mark_of(cascade, first + i)->runners_up;
        for (int32_t k = 0; k < RF_RUNNERS_UP && runners_up[k].token >= 0; k++)
            rf_draft_add(draft, i - 1, &runners_up[k],
                         (struct rf_proposal){(int8_t)drafter, (int8_t)drafter, 1});
    }
    rf_draft_merge(draft, -1, tables);
}

/* Has drafters without passes go on where a drafter's tree ends: at its line's last token, and at
 * the first runners-up. Branches have up to `max` tokens with what they follow. */
static int extend(struct rf_cascade *cascade, int32_t judge, int32_t max, struct rf_offer *offer,
                  struct rf_error *error)
{
    struct rf_draft *draft = &offer->draft, more;
    int has_child[RF_DRAFT_ROWS] = {0}, tips = 0;
    int32_t ahead[RF_MAX_DRAFT], n = draft->n;
    for (int32_t i = 0; i < n; i++)
        if (draft->parents[i] >= 0) has_child[draft->parents[i]] = 1;
    for (int32_t i = 0; i < n && tips < MOST_TIPS; i++) {
        if (has_child[i] || draft->by[i].proposer != offer->drafter) continue;
        int32_t depth = rf_draft_path(draft, i, ahead);
        for (int32_t k = 0; k < depth; k++) ahead[k] = draft->tokens[ahead[k]];
        for (int32_t d = 0; d < judge && depth < max; d++) {
            if (!cascade->levels[d].ops->draft_behind) continue;
            free_draft_behind(cascade, d, offer->at, ahead, depth, max - depth, &more);
            rf_draft_merge(draft, i, &more);
        }
        tips++;
    }
    return limit_draft(cascade, offer->at, draft, error);
}

/* Asks the drafters with passes what they would have to read. */
static void ask_unread(const struct rf_cascade *cascade, int32_t judge, int32_t *unread)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    for (int32_t d = 0; d < judge; d++) {
        const struct rf_level *level = &cascade->levels[d];
        if (level->has_passes)
            unread[d] = cascade->is_damaged[d]
                            ? INT32_MAX
                            : level->ops->unread(level->self, text, length(cascade));
    }
}

/* Drafts what the grammar prescribes for the target. No drafter knows it better, and with a chain
 * of one level there is none. */
static int offer_forced(struct rf_cascade *cascade, int32_t judge, int32_t max,
                        struct rf_offer *offer, struct rf_error *error)
{
    enum { WORTH_A_DRAFT = 2 };
    struct rf_draft *draft = &offer->draft;
    if (!cascade->matcher || !is_target(cascade, judge)) return 0;
    if (max > RF_MAX_DRAFT) max = RF_MAX_DRAFT;
    int32_t n = rf_matcher_forced(cascade->matcher, state_at(cascade, offer->at), draft->tokens,
                                  max, error);
    if (n < 0) return n;
    draft->n = n < WORTH_A_DRAFT ? 0 : n;
    for (int32_t i = 0; i < draft->n; i++) {
        draft->parents[i] = i - 1;
        draft->confidence[i] = 1.0f;
    }
    sign(draft, judge, -1);
    return limit_draft(cascade, offer->at, draft, error);
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

/* Makes a draft for `judge` by the drafter that is worth most now, with branches of up to `max`
 * tokens. */
static int draft_for(struct rf_cascade *cascade, int32_t judge, int32_t max, struct rf_offer *offer,
                     struct rf_error *error)
{
    struct rf_draft tables; /* what drafters without passes propose */
    double free_value, value;
    int32_t unread[RF_MAX_LEVELS] = {0}, drafter;
    offer->drafter = -1;
    offer->at = length(cascade);
    offer->made = offer->draft.n = 0;
    if (max <= 0) return 0;
    int code = offer_forced(cascade, judge, max, offer, error);
    if (code || offer->draft.n) return code;
    code = free_drafts(cascade, judge, max, &tables, error);
    if (code) return code;
    offer->draft = tables;
    keep_worthy(cascade, judge, &offer->draft, &free_value);
    ask_unread(cascade, judge, unread);
    if (cascade->gamma) {
        /* The level next below. A free level below it may draft for it. */
        drafter = judge - 1 >= 0 && cascade->levels[judge - 1].has_passes ? judge - 1 : -1;
        if (drafter >= 0 && unread[drafter] == INT32_MAX) drafter = -1;
        value = drafter >= 0 ? free_value + 1.0 : 0.0;
    } else {
        drafter = rf_pace_drafter(&cascade->pace, judge, unread, max, &value);
    }
    int is_free = drafter < 0 || (offer->draft.n && free_value >= value);
    if (is_free && is_target(cascade, judge) && !cascade->gamma && !cascade->matcher)
        add_probes(cascade, judge, &offer->draft);
    if (!cascade->gamma && (!is_free || offer->draft.n) &&
        rf_pace_look_at_single(&cascade->pace, judge, is_free ? free_value : value)) {
        offer->draft.n = 0;
        return 0;
    }
    if (is_free) return 0;
    int32_t n = produce(cascade, drafter, judge, max, &offer->made, error);
    if (n == RF_ERR_FORMAT) { /* nothing that the answer depends on */
        cascade->is_damaged[drafter] = 1;
        rf_sequence_rewind(cascade->sequence, offer->at);
        offer->made = 0;
        return 0;
    }
    if (n < 0) return n;
    offer->drafter = drafter;
    offer_ahead(cascade, drafter, offer->at, &offer->draft);
    if (!cascade->gamma) branch_out(cascade, drafter, offer->at, &tables, &offer->draft);
    code = limit_draft(cascade, offer->at, &offer->draft, error);
    if (code || cascade->gamma) return code;
    keep_worthy(cascade, judge, &offer->draft, &value);
    code = extend(cascade, judge, max, offer, error);
    if (!code) keep_worthy(cascade, judge, &offer->draft, &value);
    return code;
}

/* Counts what the judge makes of the rows that follow row `at`, at that place of a branch. `kept`:
 * the one that it keeps, or -1. Runners-up behind that one were not put to the test. */
static void count_judged(struct rf_cascade *cascade, int32_t judge, const struct rf_draft *draft,
                         int32_t at, int32_t place, int32_t kept)
{
    int32_t credited = kept >= 0 ? draft->by[kept].proposer : -1;
    int is_guess = credited >= 0;
    for (int32_t i = at + 1; i < draft->n; i++) {
        const struct rf_proposal *by = &draft->by[i];
        if (draft->parents[i] != at || by->proposer < 0) continue;
        if (!by->runner_up || kept < 0 || i <= kept)
            rf_pace_judged(&cascade->pace, judge, by, (double)draft->confidence[i], i == kept);
        if (credited < 0) credited = by->proposer;
    }
    if (credited < 0 || !is_target(cascade, judge)) return;
    cascade->stats[credited].judged_at[place]++;
    cascade->stats[credited].accepted_at[place] += is_guess ? 1 : 0;
}

/* Follows the judge's choices through the draft, as far as the judge has read it; returns how many
 * tokens of it they keep. */
static int32_t walk(struct rf_cascade *cascade, int32_t judge, const struct rf_offer *offer,
                    const struct rf_choice *choices, int32_t *path)
{
    const struct rf_draft *draft = &offer->draft;
    int32_t kept = 0;
    for (int32_t at = -1, next; kept < RF_MAX_DRAFT; at = next) {
        next = -1;
        for (int32_t i = at + 1; i < draft->n && next < 0; i++)
            if (draft->parents[i] == at && draft->tokens[i] == choices[at + 1].token &&
                choices[i + 1].token >= 0)
                next = i;
        count_judged(cascade, judge, draft, at, kept, next);
        if (next < 0) break;
        path[kept++] = next;
    }
    for (int32_t i = 0, k = 0; i < draft->n; i++) {
        int32_t drafter = draft->by[i].proposer;
        if (drafter < 0) continue;
        cascade->stats[drafter].drafted++;
        while (k < kept && path[k] < i) k++;
        cascade->stats[drafter].accepted += k < kept && path[k] == i;
    }
    return kept;
}

/* Continues the text after offer->at with the kept tokens. Tokens ahead that are already these are
 * not taken back. */
static int lay(struct rf_cascade *cascade, const struct rf_round *round, const int32_t *path,
               int32_t kept, struct rf_error *error)
{
    int code = 0;
    const struct rf_offer *offer = &round->offer;
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    int32_t same = 0, most = length(cascade) - offer->at;
    while (same < kept && same < most && text[offer->at + same] == offer->draft.tokens[path[same]])
        same++;
    rf_sequence_rewind(cascade->sequence, offer->at + same);
    for (int32_t i = 0; i < kept && !code; i++) {
        int32_t before = i ? path[i - 1] + 1 : 0, origin = offer->draft.by[path[i]].origin;
        const struct rf_choice *choice = &round->choices[before];
        if (i < same)
            set_mark(mark_of(cascade, offer->at + i), choice->confidence, origin,
                     round->runners_up[before]);
        else
            code = place(cascade, choice, origin, round->runners_up[before], error);
    }
    return code;
}

static int has_observers(const struct rf_cascade *cascade)
{
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->observe) return 1;
    return 0;
}

static void tell_observers(const struct rf_cascade *cascade, const struct rf_question *question)
{
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->observe)
            cascade->levels[l].ops->observe(cascade->levels[l].self, question->text, question->n,
                                            question->draft, question->best);
}

/* Makes the question of whether the round's draft is right, and asks for what else somebody wants
 * to know. */
static void make_question(const struct rf_cascade *cascade, int32_t judge, struct rf_round *round)
{
    round->question = (struct rf_question){.text = rf_sequence_tokens(cascade->sequence),
                                           .n = round->offer.at,
                                           .draft = &round->offer.draft};
    for (int32_t i = 0; i <= round->offer.draft.n; i++) {
        round->best[i].n = 0;
        for (int32_t k = 0; k < RF_RUNNERS_UP; k++) round->runners_up[i][k].token = -1;
    }
    if (!is_target(cascade, judge)) {
        round->question.runners_up = round->runners_up;
        return;
    }
    if (has_observers(cascade)) round->question.best = round->best;
    round->question.log_probs = cascade->log_probs;
    round->question.n_top = cascade->n_top;
}

/* The first half of a round at a judge that yields at most `max` tokens: drafts, and makes the
 * question. */
static int pose(struct rf_cascade *cascade, int32_t judge, int32_t max, struct rf_round *round,
                struct rf_error *error)
{
    round->placed = -1;
    round->reading = cascade->reading;
    int code = draft_for(cascade, judge, max - 1, &round->offer, error);
    if (code) return code;
    make_question(cascade, judge, round);
    if (cascade->matcher) {
        code = find_masks(cascade, round->offer.at, &round->offer.draft, round->masks, error);
        round->question.masks = round->masks;
    }
    return code;
}

/* Has the judge answer, in one pass. */
static int ask(struct rf_cascade *cascade, int32_t judge, struct rf_round *round,
               struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[judge];
    double start = cascade->now();
    int code = level->ops->choose(level->self, &round->question, round->choices, error);
    double seconds = cascade->now() - start, own = round->question.seconds;
    cascade->stats[judge].seconds += seconds;
    if (!code && seconds > own) cascade->reading += seconds - own;
    return code;
}

/* The second half. Afterwards the text ends with the accepted tokens and the judge's own next one.
 * Returns how many tokens these are, or a code. */
static int32_t settle(struct rf_cascade *cascade, int32_t judge, struct rf_round *round,
                      struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[judge];
    const struct rf_offer *offer = &round->offer;
    const struct rf_question *question = &round->question;
    int32_t path[RF_MAX_DRAFT];
    if (question->rows) {
        cascade->stats[judge].passes++;
        rf_pace_shared_pass(&cascade->pace, judge, question->rows, &question->others,
                            question->seconds);
    }
    if (question->best) tell_observers(cascade, question);
    int32_t kept = walk(cascade, judge, offer, round->choices, path);
    if (is_target(cascade, judge)) {
        cascade->judged = offer->draft;
        cascade->n_path = kept;
        memcpy(cascade->path, path, (size_t)kept * sizeof *path);
    }
    int code = lay(cascade, round, path, kept, error);
    if (!code)
        code = level->ops->keep(level->self, question->text, offer->at + kept, path, kept, error);
    int32_t last = kept ? path[kept - 1] + 1 : 0;
    if (!code) code = place(cascade, &round->choices[last], judge, round->runners_up[last], error);
    if (code) return code;
    rf_pace_round(&cascade->pace, offer->drafter, judge, offer->made, offer->draft.n, kept + 1,
                  cascade->reading - round->reading);
    return kept + 1;
}

/* One round at a judge. Adds at most `max` tokens to the text. */
static int32_t round_at(struct rf_cascade *cascade, int32_t judge, int32_t max,
                        struct rf_error *error)
{
    struct rf_round round;
    int code = pose(cascade, judge, max, &round, error);
    if (!code) code = ask(cascade, judge, &round, error);
    return code ? code : settle(cascade, judge, &round, error);
}

/* Whether `level` should draft another token for `judge`. Its tokens from `first` on are not judged
 * yet. With a fixed gamma takes back tokens at the end that are not sure enough; otherwise the last
 * one may not be worth a row, but its runners-up are. */
static int go_on(struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t first,
                 int32_t *known, double *p)
{
    const struct rf_proposal by = {.proposer = (int8_t)level};
    for (; *known < length(cascade); ++*known) {
        double confidence = (double)mark_of(cascade, *known)->confidence;
        int32_t place = *known - first;
        double next = *p * rf_pace_acceptance(&cascade->pace, judge, &by, confidence);
        int worth = cascade->gamma ? confidence >= (double)cascade->min_confidence
                                   : rf_pace_worth_row(&cascade->pace, judge, place + 1, next);
        if (!worth) {
            if (cascade->gamma) rf_sequence_rewind(cascade->sequence, *known);
            return 0;
        }
        *p = next;
    }
    return cascade->gamma ||
           rf_pace_go_on(&cascade->pace, level, judge, length(cascade) - first, *p);
}

/* Places a few tokens ahead from a level that has passes but judges nothing. */
static int32_t paid_draft(struct rf_cascade *cascade, int32_t drafter, int32_t max,
                          struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafter];
    struct rf_cascade_stats *stats = &cascade->stats[drafter];
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    struct rf_draft draft = {.n = 0};
    int32_t few = cascade->gamma || max < FEW_AT_ONCE ? max : FEW_AT_ONCE;
    int32_t unread = level->ops->unread(level->self, text, length(cascade));
    double start = cascade->now();
    int code = level->ops->draft(level->self, text, length(cascade), few, &draft, error);
    double seconds = cascade->now() - start;
    if (code) return code;
    assert(rf_draft_is_line(&draft));
    stats->passes++;
    stats->seconds += seconds;
    if (unread >= RF_PACE_FEW)
        cascade->reading += seconds;
    else if (draft.n > 0)
        rf_pace_pass(&cascade->pace, drafter, 1, seconds / draft.n);
    sign(&draft, drafter, drafter);
    code = limit_draft(cascade, length(cascade), &draft, error);
    for (int32_t i = 0; i < draft.n && !code; i++)
        code = place(cascade, &(struct rf_choice){draft.tokens[i], draft.confidence[i]}, drafter,
                     NULL, error);
    return code ? code : draft.n;
}

/* Places up to `want` tokens ahead, which `level` drafts for `judge`. Returns how many. */
static int32_t produce(struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t want,
                       int32_t *made, struct rf_error *error)
{
    int32_t first = length(cascade), known = first;
    double p = 1.0;
    *made = 0;
    if (cascade->gamma && want > cascade->gamma) want = cascade->gamma;
    do {
        int open = can_go_on(cascade, state_at(cascade, length(cascade)), error);
        if (open < 0) return open;
        if (!open) break;
        int32_t left = want - (length(cascade) - first);
        int32_t n = is_judge(cascade, level) ? round_at(cascade, level, left, error)
                                             : paid_draft(cascade, level, left, error);
        if (n < 0) return n;
        if (n == 0) break;
        *made += n;
    } while (length(cascade) - first < want && go_on(cascade, level, judge, first, &known, &p));
    if (known < length(cascade)) go_on(cascade, level, judge, first, &known, &p);
    return length(cascade) - first;
}

/* What a round yields: the tokens ahead, up to one that completes the grammar's text. */
static int32_t collect(struct rf_cascade *cascade, int32_t made, struct rf_yield *yield)
{
    const int32_t *ahead = rf_sequence_tokens(cascade->sequence) + cascade->base;
    for (int32_t i = 0; i < made; i++) {
        yield[i] = (struct rf_yield){ahead[i], cascade->marks[i].origin};
        if (cascade->matcher && cascade->marks[i].state == RF_STATE_FINAL) return i + 1;
    }
    return made;
}

const struct rf_log_probs *rf_cascade_log_probs(const struct rf_cascade *cascade, int32_t i)
{
    return &cascade->log_probs[i ? cascade->path[i - 1] + 1 : 0];
}

void rf_cascade_drop(struct rf_cascade *cascade)
{
    rf_sequence_rewind(cascade->sequence, rf_sequence_n_committed(cascade->sequence));
}

int rf_cascade_begin(struct rf_cascade *cascade, int32_t max, struct rf_round *round,
                     struct rf_error *error)
{
    struct rf_sequence *sequence = cascade->sequence;
    const int32_t *text = rf_sequence_tokens(sequence);
    int32_t target = cascade->n_levels - 1, n = rf_sequence_n_committed(sequence);
    int32_t room = rf_sequence_n_ctx(sequence) - n + 1;
    const struct rf_level *level = &cascade->levels[target];
    if (n < 1 || max < 1)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "a session without tokens has nothing to go on from");
    rf_sequence_rewind(sequence, n);
    cascade->base = n;
    cascade->pace.length = n;
    cascade->judged.n = cascade->n_path = 0;
    int code = follow_grammar(cascade, n, error);
    if (code) return code;
    round->placed = 0;
    if (cascade->matcher && cascade->grammar_state == RF_STATE_FINAL) return 0;
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->follow)
            cascade->levels[l].ops->follow(cascade->levels[l].self, text, n);
    if (max > RF_MAX_DRAFT + 1) max = RF_MAX_DRAFT + 1;
    if (max > room) max = room;
    round->placed = place_forced(cascade, max, error);
    /* A choice that costs no pass needs no draft. */
    if (level->ops->unread(level->self, text, n) == 0) max = 1;
    code = round->placed < 0 ? round->placed : 0;
    if (!round->placed) code = pose(cascade, target, max, round, error);
    if (code) rf_cascade_drop(cascade);
    return code;
}

int32_t rf_cascade_end(struct rf_cascade *cascade, struct rf_round *round, struct rf_yield *yield,
                       struct rf_error *error)
{
    int32_t made =
        round->placed >= 0 ? round->placed : settle(cascade, cascade->n_levels - 1, round, error);
    if (made < 0) rf_cascade_drop(cascade);
    return collect(cascade, made, yield);
}

int32_t rf_cascade_round(struct rf_cascade *cascade, int32_t max, struct rf_yield *yield,
                         struct rf_error *error)
{
    struct rf_round round;
    int code = rf_cascade_begin(cascade, max, &round, error);
    if (code) return code;
    if (round.placed < 0) code = ask(cascade, cascade->n_levels - 1, &round, error);
    if (code) rf_cascade_drop(cascade);
    return code ? code : rf_cascade_end(cascade, &round, yield, error);
}
