#include "speculate/cascade.h"

#include <assert.h>
#include <string.h>

#include "platform/clock.h"

enum { FEW_AT_ONCE = 5 }; /* tokens that a translated draft writes before it is asked to go on */

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

static void place(struct rf_cascade *cascade, int32_t token, float confidence, int32_t origin)
{
    *mark_of(cascade, length(cascade)) = (struct mark){confidence, (int8_t)origin};
    rf_sequence_place(cascade->sequence, &token, 1);
}

/* What a round at a judge verifies, after the first `at` tokens of the text. */
struct offer {
    int32_t drafter; /* -1: nothing */
    int32_t at;
    int32_t made; /* of a drafter with passes: the draft's tokens, and what was not handed over */
    struct rf_draft draft;
};

static int32_t produce(struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t want,
                       int32_t *made, struct rf_error *error);

/* Drafts without a pass. Takes as many tokens as are worth verifying. *value: as in
 * rf_pace_offer. */
static int free_draft(struct rf_cascade *cascade, int32_t drafter, int32_t judge, int32_t max,
                      struct rf_draft *draft, double *value, struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafter];
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    double start = cascade->now();
    if (cascade->gamma && max > cascade->gamma) max = cascade->gamma;
    draft->n = 0;
    int code = level->ops->draft(level->self, text, length(cascade), max, draft, error);
    cascade->stats[drafter].passes++;
    cascade->stats[drafter].seconds += cascade->now() - start;
    if (code || draft->n == 0) return code;
    memset(draft->origin, drafter, (size_t)draft->n);
    if (!cascade->gamma) {
        draft->n = rf_pace_offer(&cascade->pace, drafter, judge, draft, value);
        return 0;
    }
    int32_t kept = 0;
    while (kept < draft->n && draft->confidence[kept] >= cascade->min_confidence) kept++;
    *value = draft->n = kept;
    return 0;
}

/* The tokens from `first` on, which a level with passes has placed ahead, as a draft. */
static void offer_ahead(struct rf_cascade *cascade, int32_t first, struct rf_draft *draft)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    draft->n = length(cascade) - first;
    for (int32_t i = 0; i < draft->n; i++) {
        const struct mark *mark = mark_of(cascade, first + i);
        draft->tokens[i] = text[first + i];
        draft->parents[i] = i - 1;
        draft->confidence[i] = mark->confidence;
        draft->origin[i] = mark->origin;
    }
}

/* Asks all drafters without passes for a draft, and those with passes what they would have to read.
 * Returns the value of the best free draft, 0 if there is none, or a negative code. */
static int ask_drafters(struct rf_cascade *cascade, int32_t judge, int32_t max, struct offer *offer,
                        double *best_value, int32_t *unread, struct rf_error *error)
{
    struct rf_draft draft;
    double value;
    for (int32_t d = 0; d < judge; d++) {
        const struct rf_level *level = &cascade->levels[d];
        if (level->has_passes) {
            const int32_t *text = rf_sequence_tokens(cascade->sequence);
            unread[d] = cascade->is_damaged[d]
                            ? INT32_MAX
                            : level->ops->unread(level->self, text, length(cascade));
            continue;
        }
        int code = free_draft(cascade, d, judge, max, &draft, &value, error);
        if (code) return code;
        if (draft.n == 0 || (offer->draft.n && value <= *best_value)) continue;
        offer->draft = draft;
        offer->drafter = d;
        *best_value = value;
    }
    return 0;
}

/* Makes a draft for `judge` by the drafter that is worth most now, with branches of up to `max`
 * tokens. */
static int draft_for(struct rf_cascade *cascade, int32_t judge, int32_t max, struct offer *offer,
                     struct rf_error *error)
{
    double best_value = 0.0, value;
    int32_t unread[RF_MAX_LEVELS] = {0}, drafter;
    offer->drafter = -1;
    offer->at = length(cascade);
    offer->made = offer->draft.n = 0;
    if (max <= 0) return 0;
    int code = ask_drafters(cascade, judge, max, offer, &best_value, unread, error);
    if (code) return code;
    if (cascade->gamma) {
        /* The level next below. A free level below it may draft for it. */
        drafter = judge - 1 >= 0 && cascade->levels[judge - 1].has_passes ? judge - 1 : -1;
        if (drafter >= 0 && unread[drafter] == INT32_MAX) drafter = -1;
        value = drafter >= 0 ? best_value + 1.0 : 0.0;
    } else {
        drafter = rf_pace_drafter(&cascade->pace, judge, unread, max, &value);
    }
    if (drafter < 0 || (offer->draft.n && best_value >= value)) return 0;
    offer->drafter = drafter;
    offer->draft.n = 0;
    int32_t n = produce(cascade, drafter, judge, max, &offer->made, error);
    if (n == RF_ERR_FORMAT) { /* nothing that the answer depends on */
        cascade->is_damaged[drafter] = 1;
        rf_sequence_rewind(cascade->sequence, offer->at);
        offer->drafter = -1;
        offer->made = 0;
        return 0;
    }
    if (n < 0) return n;
    offer_ahead(cascade, offer->at, &offer->draft);
    return 0;
}

/* Follows the judge's choices through the draft, as far as the judge has read it; returns how many
 * tokens of it they keep. */
static int32_t walk(struct rf_cascade *cascade, int32_t judge, const struct offer *offer,
                    const struct rf_choice *choices, int32_t *path)
{
    const struct rf_draft *draft = &offer->draft;
    struct rf_cascade_stats *stats = &cascade->stats[offer->drafter >= 0 ? offer->drafter : judge];
    int32_t kept = 0;
    for (int32_t at = -1, next; kept < RF_MAX_DRAFT; at = next) {
        int was_judged = 0;
        next = -1;
        for (int32_t i = at + 1; i < draft->n; i++) {
            if (draft->parents[i] != at) continue;
            int same = choices[at + 1].token == draft->tokens[i];
            rf_pace_judged(&cascade->pace, offer->drafter, judge, (double)draft->confidence[i],
                           same);
            was_judged = 1;
            if (same && next < 0 && choices[i + 1].token >= 0) next = i;
        }
        if (was_judged && is_target(cascade, judge)) {
            stats->judged_at[kept]++;
            stats->accepted_at[kept] += next >= 0;
        }
        if (next < 0) break;
        path[kept++] = next;
    }
    if (offer->drafter >= 0) {
        stats->drafted += (uint64_t)draft->n;
        stats->accepted += (uint64_t)kept;
    }
    return kept;
}

/* Continues the text after offer->at with the kept tokens. Tokens ahead that are already these are
 * not taken back. */
static void lay(struct rf_cascade *cascade, const struct offer *offer,
                const struct rf_choice *choices, const int32_t *path, int32_t kept)
{
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    int32_t same = 0, most = length(cascade) - offer->at;
    while (same < kept && same < most && text[offer->at + same] == offer->draft.tokens[path[same]])
        same++;
    rf_sequence_rewind(cascade->sequence, offer->at + same);
    for (int32_t i = 0; i < kept; i++) {
        float confidence = choices[i ? path[i - 1] + 1 : 0].confidence;
        int8_t origin = offer->draft.origin[path[i]];
        if (i < same)
            *mark_of(cascade, offer->at + i) = (struct mark){confidence, origin};
        else
            place(cascade, offer->draft.tokens[path[i]], confidence, origin);
    }
}

/* Verifies `offer` at `judge` in one pass. Afterwards the text ends with the accepted tokens and
 * the judge's own next one. Returns how many tokens these are, or a code. */
static int32_t verify(struct rf_cascade *cascade, int32_t judge, const struct offer *offer,
                      struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[judge];
    struct rf_cascade_stats *stats = &cascade->stats[judge];
    struct rf_choice choices[RF_DRAFT_ROWS + 1];
    const int32_t *text = rf_sequence_tokens(cascade->sequence);
    int32_t path[RF_MAX_DRAFT];
    struct rf_question question = {.text = text, .n = offer->at, .draft = &offer->draft};
    double start = cascade->now();
    int code = level->ops->choose(level->self, &question, choices, error);
    double seconds = cascade->now() - start;
    stats->seconds += seconds;
    if (code) return code;
    if (seconds > question.seconds) cascade->reading += seconds - question.seconds;
    if (question.rows) {
        stats->passes++;
        rf_pace_pass(&cascade->pace, judge, question.rows, question.seconds);
    }
    int32_t kept = walk(cascade, judge, offer, choices, path);
    lay(cascade, offer, choices, path, kept);
    code = level->ops->keep(level->self, text, offer->at + kept, path, kept, error);
    if (code) return code;
    const struct rf_choice *own = &choices[kept ? path[kept - 1] + 1 : 0];
    place(cascade, own->token, own->confidence, judge);
    return kept + 1;
}

/* One round at a judge. Adds at most `max` tokens to the text. */
static int32_t round_at(struct rf_cascade *cascade, int32_t judge, int32_t max,
                        struct rf_error *error)
{
    struct offer offer;
    double reading = cascade->reading;
    int code = draft_for(cascade, judge, max - 1, &offer, error);
    if (code) return code;
    int32_t n = verify(cascade, judge, &offer, error);
    if (n < 0) return n;
    reading = cascade->reading - reading;
    rf_pace_round(&cascade->pace, offer.drafter, judge, offer.made, offer.draft.n, n, reading);
    return n;
}

/* Whether `level` should draft another token for `judge`. Its tokens from `first` on are not judged
 * yet. Takes back tokens at the end that are not worth verifying. */
static int go_on(struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t first,
                 int32_t *known, double *p)
{
    for (; *known < length(cascade); ++*known) {
        double confidence = (double)mark_of(cascade, *known)->confidence;
        int32_t place = *known - first;
        double next = *p * rf_pace_acceptance(&cascade->pace, level, judge, confidence);
        int worth = cascade->gamma ? confidence >= (double)cascade->min_confidence
                                   : rf_pace_worth_row(&cascade->pace, judge, place + 1, next);
        if (!worth) {
            rf_sequence_rewind(cascade->sequence, *known);
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
    if (unread >= RF_PACE_ROWS)
        cascade->reading += seconds;
    else if (draft.n > 0)
        rf_pace_pass(&cascade->pace, drafter, 1, seconds / draft.n);
    for (int32_t i = 0; i < draft.n; i++)
        place(cascade, draft.tokens[i], draft.confidence[i], drafter);
    return draft.n;
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

int32_t rf_cascade_round(struct rf_cascade *cascade, int32_t max, struct rf_yield *yield,
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
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->follow)
            cascade->levels[l].ops->follow(cascade->levels[l].self, text, n);
    if (max > RF_MAX_DRAFT + 1) max = RF_MAX_DRAFT + 1;
    if (max > room) max = room;
    /* A choice that costs no pass needs no draft. */
    if (level->ops->unread(level->self, text, n) == 0) max = 1;
    int32_t made = round_at(cascade, target, max, error);
    if (made < 0) rf_sequence_rewind(sequence, n);
    for (int32_t i = 0; i < made; i++)
        yield[i] = (struct rf_yield){text[n + i], cascade->marks[i].origin};
    return made;
}
