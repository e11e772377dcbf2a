/* The rounds of a cascade. A round at a judge has a draft made for it (offer.c), asks the judge for
 * its own choices after the text and after each draft token in one pass, keeps the branch that
 * equals them, and adds the judge's next token. A drafter that is a judge itself writes its draft
 * by rounds of its own, so the levels nest; the target's round is the outermost.
 *
 * Invariants. (1) The tokens that a round leaves ahead are the judge's own choices, token by token:
 * drafts only decide how many there are. (2) A round that fails leaves nothing ahead, and what was
 * committed is never touched. (3) What the pace has learnt decides which drafts are made, never
 * which token is kept. */
#include "speculate/cascade.h"

#include <assert.h>
#include <string.h>

#include "platform/clock.h"
#include "speculate/ahead.h"
#include "speculate/cascade_state.h"
#include "speculate/drafting.h"
#include "speculate/offer.h"
#include "speculate/tuning.h"

static void cascade_rewound(struct rf_follower *follower, int32_t n)
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
    made->follower.rewound = cascade_rewound;
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

void rf_cascade_attach(struct rf_cascade *cascade)
{
    rf_sequence_set_follower(cascade->sequence, &cascade->follower);
}

void rf_cascade_set_gamma(struct rf_cascade *cascade, int32_t gamma, float min_confidence)
{
    assert(gamma >= 0 && gamma <= RF_MAX_DRAFT);
    cascade->gamma = gamma;
    cascade->min_confidence = min_confidence;
}

void rf_cascade_copy_settings(struct rf_cascade *to, const struct rf_cascade *from)
{
    rf_cascade_set_gamma(to, from->gamma, from->min_confidence);
}

void rf_cascade_set_clock(struct rf_cascade *cascade, double (*now)(void))
{
    cascade->now = now;
}

void rf_cascade_want_log_probs(struct rf_cascade *cascade, struct rf_log_probs *log_probs,
                               int32_t n_top)
{
    cascade->log_probs = log_probs;
    cascade->n_top = n_top;
}

void rf_cascade_begin_answer(struct rf_cascade *cascade, int32_t horizon)
{
    rf_pace_begin(&cascade->pace, horizon);
}

void rf_cascade_learn_reading(struct rf_cascade *cascade, int32_t rows, double seconds)
{
    rf_pace_read(&cascade->pace, rows, seconds);
}

void rf_cascade_copy_pace(struct rf_cascade *to, const struct rf_cascade *from)
{
    assert(to->n_levels == from->n_levels);
    to->pace = from->pace;
}

void rf_cascade_load_pace(struct rf_cascade *cascade, const char (*names)[RF_PACE_NAME_BYTES],
                          const char *path)
{
    rf_pace_load(&cascade->pace, names, path);
}

int rf_cascade_save_pace(const struct rf_cascade *cascade, const char (*names)[RF_PACE_NAME_BYTES],
                         const char *path, struct rf_error *error)
{
    return rf_pace_save(&cascade->pace, names, path, error);
}

double rf_cascade_pass_seconds(const struct rf_cascade *cascade, int32_t rows)
{
    const struct rf_pace *pace = &cascade->pace;
    return pace->has_unit ? rf_pace_cost(pace, cascade->n_levels - 1, rows) : 0.0;
}

const struct rf_pace *rf_cascade_pace(const struct rf_cascade *cascade)
{
    return &cascade->pace;
}

void rf_cascade_set_company(struct rf_cascade *cascade, const struct rf_pace_company *company)
{
    rf_pace_set_company(&cascade->pace, company);
}

void rf_cascade_spend(struct rf_cascade *cascade, double seconds)
{
    cascade->stats[cascade->n_levels - 1].seconds += seconds;
}

struct rf_sequence *rf_cascade_sequence(const struct rf_cascade *cascade)
{
    return cascade->sequence;
}

void *rf_cascade_target(const struct rf_cascade *cascade)
{
    return cascade->levels[cascade->n_levels - 1].self;
}

const struct rf_cascade_stats *rf_cascade_stats(const struct rf_cascade *cascade, int32_t level)
{
    assert(level >= 0 && level < cascade->n_levels);
    return &cascade->stats[level];
}

void rf_cascade_reset_stats(struct rf_cascade *cascade)
{
    memset(cascade->stats, 0, sizeof cascade->stats);
}

const struct rf_draft *rf_cascade_judged(const struct rf_cascade *cascade, const int32_t **path,
                                         int32_t *n_path)
{
    *path = cascade->path;
    *n_path = cascade->n_path;
    return &cascade->judged;
}

/* ---- judging ---- */

static int is_judge(const struct rf_cascade *cascade, int32_t level)
{
    return cascade->levels[level].ops->choose != NULL;
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
    if (credited < 0 || !rf_cascade_is_target(cascade, judge)) return;
    cascade->stats[credited].judged_at[place]++;
    cascade->stats[credited].accepted_at[place] += is_guess ? 1 : 0;
}

/* Follows the judge's choices through the draft, as far as the judge has read it; returns how many
 * tokens of it they keep. */
static int32_t follow_choices(struct rf_cascade *cascade, int32_t judge,
                              const struct rf_offer *offer, const struct rf_choice *choices,
                              int32_t *path)
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
static int place_kept(struct rf_cascade *cascade, const struct rf_round *round, const int32_t *path,
                      int32_t kept, struct rf_error *error)
{
    int code = 0;
    const struct rf_offer *offer = &round->offer;
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    int32_t same = 0, most = rf_ahead_end(cascade) - offer->at;
    while (same < kept && same < most && text[offer->at + same] == offer->draft.tokens[path[same]])
        same++;
    rf_sequence_rewind(cascade->sequence, offer->at + same);
    for (int32_t i = 0; i < kept && !code; i++) {
        int32_t before = i ? path[i - 1] + 1 : 0, origin = offer->draft.by[path[i]].origin;
        const struct rf_choice *choice = &round->choices[before];
        if (i < same)
            rf_ahead_set_mark(rf_ahead_mark(cascade, offer->at + i), choice->confidence, origin,
                              round->runners_up[before]);
        else
            code = rf_ahead_place(cascade, choice, origin, round->runners_up[before], error);
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
    if (!rf_cascade_is_target(cascade, judge)) {
        round->question.runners_up = round->runners_up;
        return;
    }
    if (has_observers(cascade)) round->question.best = round->best;
    round->question.log_probs = cascade->log_probs;
    round->question.n_top = cascade->n_top;
}

/* Has the judge answer, in one pass. */
static int ask_judge(struct rf_cascade *cascade, int32_t judge, struct rf_round *round,
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
static int32_t settle_round(struct rf_cascade *cascade, int32_t judge, struct rf_round *round,
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
    int32_t kept = follow_choices(cascade, judge, offer, round->choices, path);
    if (rf_cascade_is_target(cascade, judge)) {
        cascade->judged = offer->draft;
        cascade->n_path = kept;
        memcpy(cascade->path, path, (size_t)kept * sizeof *path);
    }
    int code = place_kept(cascade, round, path, kept, error);
    if (!code)
        code = level->ops->keep(level->self, question->text, offer->at + kept, path, kept, error);
    int32_t last = kept ? path[kept - 1] + 1 : 0;
    if (!code)
        code =
            rf_ahead_place(cascade, &round->choices[last], judge, round->runners_up[last], error);
    if (code) return code;
    rf_pace_round(&cascade->pace, offer->drafter, judge, offer->made, offer->draft.n, kept + 1,
                  cascade->reading - round->reading);
    return kept + 1;
}

/* ---- drafting ---- */

static int32_t run_round(struct rf_cascade *cascade, int32_t judge, int32_t max,
                         struct rf_error *error);

/* Has a round's drafter write what is left of its draft, by rounds of its own where it judges. */
static int draft_alone(struct rf_cascade *cascade, struct rf_drafting *drafting,
                       struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafting->level];
    int goes_on;
    while ((goes_on = rf_drafting_goes_on(cascade, drafting, error)) > 0) {
        int32_t left = rf_drafting_left(cascade, drafting);
        int32_t n = is_judge(cascade, drafting->level)
                        ? run_round(cascade, drafting->level, left, error)
                    : level->ops->next ? rf_drafting_next(cascade, drafting, error)
                                       : rf_drafting_some(cascade, drafting, left, error);
        if (n < 0) return n;
        if (n == 0) break;
        drafting->made += n;
    }
    return goes_on < 0 ? goes_on : 0;
}

static void clear_round(struct rf_round *round)
{
    round->is_posed = 0;
    round->drafting = (struct rf_drafting){.is_open = 0};
}

/* The beginning of a round at a judge that yields at most `max` tokens: drafts without passes, and
 * who drafts with passes. */
static int begin_offer(struct rf_cascade *cascade, int32_t judge, int32_t max,
                       struct rf_round *round, struct rf_error *error)
{
    round->placed = -1;
    round->max = max;
    round->reading = cascade->reading;
    int code = rf_offer_begin(cascade, judge, max - 1, &round->offer, &round->tables, error);
    if (!code && round->offer.drafter >= 0)
        rf_drafting_begin(cascade, round->offer.drafter, judge, max - 1, &round->drafting);
    return code;
}

/* The rest of the first half: the draft as far as it is missing, and the question. */
static int pose_question(struct rf_cascade *cascade, int32_t judge, struct rf_round *round,
                         struct rf_error *error)
{
    struct rf_offer *offer = &round->offer;
    int code = 0;
    if (round->drafting.is_open)
        code =
            rf_drafting_drop_damaged(cascade, round, draft_alone(cascade, &round->drafting, error));
    round->drafting.is_open = 0;
    if (!code && offer->drafter >= 0) {
        rf_drafting_end(cascade, &round->drafting);
        offer->made = round->drafting.made;
        code = rf_offer_complete(cascade, judge, round->max - 1, offer, &round->tables, error);
    }
    if (code) return code;
    round->is_posed = 1;
    make_question(cascade, judge, round);
    if (cascade->matcher) {
        code = rf_ahead_masks(cascade, offer->at, &offer->draft, round->masks, error);
        round->question.masks = round->masks;
    }
    return code;
}

/* One round at a judge. Adds at most `max` tokens to the text. */
static int32_t run_round(struct rf_cascade *cascade, int32_t judge, int32_t max,
                         struct rf_error *error)
{
    struct rf_round round;
    clear_round(&round);
    int code = begin_offer(cascade, judge, max, &round, error);
    if (!code) code = pose_question(cascade, judge, &round, error);
    if (!code) code = ask_judge(cascade, judge, &round, error);
    return code ? code : settle_round(cascade, judge, &round, error);
}

/* ---- the target's rounds ---- */

/* Collects what a round yields: the tokens ahead, up to one that completes the grammar's text. */
static int32_t collect_yield(struct rf_cascade *cascade, int32_t made, struct rf_yield *yield)
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
    int32_t room = rf_sequence_room(sequence, n) + 1;
    const struct rf_level *level = &cascade->levels[target];
    clear_round(round);
    if (n < 1 || max < 1)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "a session without tokens has nothing to go on from");
    rf_sequence_rewind(sequence, n);
    cascade->base = n;
    rf_pace_set_length(&cascade->pace, n);
    cascade->judged.n = cascade->n_path = 0;
    int code = rf_ahead_follow(cascade, n, error);
    if (code) return code;
    round->placed = 0;
    if (cascade->matcher && cascade->grammar_state == RF_STATE_FINAL) return 0;
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->follow)
            cascade->levels[l].ops->follow(cascade->levels[l].self, text, n);
    if (max > RF_MAX_DRAFT + 1) max = RF_MAX_DRAFT + 1;
    if (max > room) max = room;
    round->placed = rf_ahead_place_forced(cascade, max, error);
    /* A choice that costs no pass needs no draft. */
    if (level->ops->unread(level->self, text, n) == 0) max = 1;
    code = round->placed < 0 ? round->placed : 0;
    if (cascade->pace.company.is_full) max = 1; /* no row is left for a draft */
    if (!code && !round->placed) code = begin_offer(cascade, target, max, round, error);
    if (code) rf_cascade_drop(cascade);
    return code;
}

int rf_cascade_pose(struct rf_cascade *cascade, struct rf_round *round, struct rf_error *error)
{
    int code = pose_question(cascade, cascade->n_levels - 1, round, error);
    if (code) rf_cascade_drop(cascade);
    return code;
}

/* ---- the second half ---- */

int32_t rf_cascade_end(struct rf_cascade *cascade, struct rf_round *round, struct rf_yield *yield,
                       struct rf_error *error)
{
    int32_t made = round->placed >= 0 ? round->placed
                                      : settle_round(cascade, cascade->n_levels - 1, round, error);
    if (made < 0) rf_cascade_drop(cascade);
    return collect_yield(cascade, made, yield);
}

int32_t rf_cascade_round(struct rf_cascade *cascade, int32_t max, struct rf_yield *yield,
                         struct rf_error *error)
{
    struct rf_round round;
    int code = rf_cascade_begin(cascade, max, &round, error);
    if (code) return code;
    if (round.placed < 0) code = rf_cascade_pose(cascade, &round, error);
    if (!code && round.placed < 0) code = ask_judge(cascade, cascade->n_levels - 1, &round, error);
    if (code) rf_cascade_drop(cascade);
    return code ? code : rf_cascade_end(cascade, &round, yield, error);
}
