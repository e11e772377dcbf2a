#include "speculate/cascade.h"

#include <string.h>

#include "platform/clock.h"

int rf_cascade_new(struct rf_cascade **cascade, const struct rf_level *levels, int32_t n_levels,
                   int32_t capacity, const struct rf_allocator *allocator, struct rf_error *error)
{
    *cascade = NULL;
    struct rf_cascade *made = rf_calloc(allocator, 1, sizeof *made, "cascade", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->capacity = capacity;
    made->n_levels = n_levels;
    made->now = rf_clock_seconds;
    memcpy(made->levels, levels, (size_t)n_levels * sizeof *levels);
    rf_pace_init(&made->pace, levels, n_levels);
    made->text = rf_malloc(allocator, (size_t)capacity + RF_MAX_DRAFT + 1, sizeof *made->text,
                           "cascade", error);
    if (!made->text) {
        rf_cascade_free(made);
        return RF_ERR_MEMORY;
    }
    *cascade = made;
    return 0;
}

void rf_cascade_free(struct rf_cascade *cascade)
{
    if (!cascade) return;
    rf_free(cascade->allocator, cascade->text);
    rf_free(cascade->allocator, cascade);
}

enum {
    FEW_AT_ONCE = 5
}; /* tokens that a translated draft writes before it is asked whether to go on */

static int is_target(const struct rf_cascade *cascade, int32_t level)
{
    return level == cascade->n_levels - 1;
}

static int is_judge(const struct rf_cascade *cascade, int32_t level)
{
    return cascade->levels[level].ops->choose != NULL;
}

/* The mark of text[i]; `base` is the number of committed tokens. */
static struct mark *mark_of(struct rf_cascade *cascade, int32_t base, int32_t i)
{
    return &cascade->marks[i - base];
}

/* What a round at a judge has been given to verify, behind the text. */
struct offer {
    int32_t drafter; /* -1: nothing */
    int32_t n;
    int32_t made; /* of a model drafter: n, and what it drafted but did not hand over */
};

static int32_t produce(struct rf_cascade *cascade, int32_t base, int32_t level, int32_t judge,
                       int32_t want, int32_t *made, struct rf_error *error);

/* Drafts without a pass: taken as far as they pay. *value as rf_pace_offer's. */
static int32_t free_draft(struct rf_cascade *cascade, int32_t drafter, int32_t judge, int32_t max,
                          struct rf_choice *draft, double *value, struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafter];
    double start = cascade->now();
    if (cascade->gamma && max > cascade->gamma) max = cascade->gamma;
    int32_t n = level->ops->draft(level->self, cascade->text, cascade->n_text, max, draft, error);
    cascade->stats[drafter].passes++;
    cascade->stats[drafter].seconds += cascade->now() - start;
    if (n <= 0) return n;
    if (!cascade->gamma) return rf_pace_offer(&cascade->pace, drafter, judge, draft, n, value);
    int32_t kept = 0;
    while (kept < n && draft[kept].confidence >= cascade->min_confidence) kept++;
    *value = kept;
    return kept;
}

static void take(struct rf_cascade *cascade, int32_t base, int32_t origin,
                 const struct rf_choice *draft, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        cascade->text[cascade->n_text] = draft[i].token;
        *mark_of(cascade, base, cascade->n_text) =
            (struct mark){draft[i].confidence, (int8_t)origin};
        cascade->n_text++;
    }
}

/* Has up to `max` tokens drafted for `judge`, by whoever is worth most now, behind the text.
 * Negative: a code. */
static int draft_for(struct rf_cascade *cascade, int32_t base, int32_t judge, int32_t max,
                     struct offer *offer, struct rf_error *error)
{
    struct rf_choice best[RF_MAX_DRAFT], draft[RF_MAX_DRAFT];
    double best_value = 0.0, value;
    int32_t unread[RF_CASCADE_LEVELS] = {0}, n_best = 0;
    *offer = (struct offer){.drafter = -1};
    if (max <= 0) return 0;
    int32_t before = cascade->n_text;
    for (int32_t d = 0; d < judge; d++) {
        const struct rf_level *level = &cascade->levels[d];
        if (level->has_passes) {
            unread[d] = cascade->is_damaged[d]
                            ? INT32_MAX
                            : level->ops->unread(level->self, cascade->text, cascade->n_text);
            continue;
        }
        int32_t n = free_draft(cascade, d, judge, max, draft, &value, error);
        if (n < 0) return n;
        if (n == 0 || (n_best && value <= best_value)) continue;
        memcpy(best, draft, (size_t)n * sizeof *best);
        n_best = n;
        best_value = value;
        offer->drafter = d;
    }
    int32_t drafter;
    if (cascade->gamma) {
        /* The level next below; the free one below that drafts for it in turn. */
        drafter = judge - 1 >= 0 && cascade->levels[judge - 1].has_passes ? judge - 1 : -1;
        if (drafter >= 0 && unread[drafter] == INT32_MAX) drafter = -1;
        value = drafter >= 0 ? best_value + 1.0 : 0.0;
    } else {
        drafter = rf_pace_drafter(&cascade->pace, judge, unread, max, &value);
    }
    if (drafter < 0 || (n_best && best_value >= value)) {
        if (n_best) take(cascade, base, offer->drafter, best, n_best);
        offer->n = n_best;
        return 0;
    }
    offer->drafter = drafter;
    int32_t n = produce(cascade, base, drafter, judge, max, &offer->made, error);
    if (n == RF_ERR_FORMAT) { /* nothing that the answer depends on */
        cascade->is_damaged[drafter] = 1;
        cascade->n_text = before;
        *offer = (struct offer){.drafter = -1};
        return 0;
    }
    offer->n = n;
    return n < 0 ? n : 0;
}

/* One verification at `judge` of what `offer` holds: the text ends with the accepted tokens and the
 * judge's own next one afterwards. Returns how many tokens the text has grown by since before the
 * offer, or a code. */
static int32_t verify(struct rf_cascade *cascade, int32_t base, int32_t judge,
                      const struct offer *offer, struct rf_error *error)
{
    static const int32_t path[RF_MAX_DRAFT] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    const struct rf_level *level = &cascade->levels[judge];
    struct rf_cascade_stats *stats = &cascade->stats[judge];
    struct rf_choice choices[RF_MAX_DRAFT + 1];
    int32_t before = cascade->n_text - offer->n, kept = 0;
    struct rf_question question = {.text = cascade->text, .n = before, .n_draft = offer->n};
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
    for (; kept < offer->n; kept++) {
        struct mark *mark = mark_of(cascade, base, before + kept);
        int same = choices[kept].token == cascade->text[before + kept];
        rf_pace_judged(&cascade->pace, offer->drafter, judge, (double)mark->confidence, same);
        if (is_target(cascade, judge)) {
            cascade->stats[offer->drafter].judged_at[kept]++;
            cascade->stats[offer->drafter].accepted_at[kept] += (uint64_t)same;
        }
        if (!same) break;
        mark->confidence = choices[kept].confidence;
    }
    if (offer->drafter >= 0) {
        cascade->stats[offer->drafter].drafted += (uint64_t)offer->n;
        cascade->stats[offer->drafter].accepted += (uint64_t)kept;
    }
    level->ops->keep(level->self, path, kept);
    cascade->text[before + kept] = choices[kept].token;
    *mark_of(cascade, base, before + kept) = (struct mark){choices[kept].confidence, (int8_t)judge};
    cascade->n_text = before + kept + 1;
    return kept + 1;
}

/* One round at a judge: at most `max` tokens behind the text. */
static int32_t round_at(struct rf_cascade *cascade, int32_t base, int32_t judge, int32_t max,
                        struct rf_error *error)
{
    struct offer offer;
    double reading = cascade->reading;
    int code = draft_for(cascade, base, judge, max - 1, &offer, error);
    if (code) return code;
    int32_t n = verify(cascade, base, judge, &offer, error);
    if (n < 0) return n;
    reading = cascade->reading - reading;
    rf_pace_round(&cascade->pace, offer.drafter, judge, offer.made, offer.n, n, reading);
    return n;
}

/* Whether `level`, whose tokens from `first` on are not judged yet, should draft another one for
 * `judge`; tokens at the end that are not worth their place are taken back. */
static int go_on(struct rf_cascade *cascade, int32_t base, int32_t level, int32_t judge,
                 int32_t first, int32_t *known, double *p)
{
    for (; *known < cascade->n_text; ++*known) {
        double confidence = (double)mark_of(cascade, base, *known)->confidence;
        int32_t place = *known - first;
        double next = *p * rf_pace_acceptance(&cascade->pace, level, judge, confidence);
        int worth = cascade->gamma ? confidence >= (double)cascade->min_confidence
                                   : rf_pace_worth_row(&cascade->pace, judge, place + 1, next);
        if (!worth) {
            cascade->n_text = *known;
            return 0;
        }
        *p = next;
    }
    return cascade->gamma ||
           rf_pace_go_on(&cascade->pace, level, judge, cascade->n_text - first, *p);
}

/* A few tokens of a level that judges nothing, but takes its time: appended to the text. */
static int32_t paid_draft(struct rf_cascade *cascade, int32_t base, int32_t drafter, int32_t max,
                          struct rf_error *error)
{
    const struct rf_level *level = &cascade->levels[drafter];
    struct rf_cascade_stats *stats = &cascade->stats[drafter];
    struct rf_choice draft[RF_MAX_DRAFT];
    int32_t few = cascade->gamma || max < FEW_AT_ONCE ? max : FEW_AT_ONCE;
    int32_t unread = level->ops->unread(level->self, cascade->text, cascade->n_text);
    double start = cascade->now();
    int32_t n = level->ops->draft(level->self, cascade->text, cascade->n_text, few, draft, error);
    double seconds = cascade->now() - start;
    if (n < 0) return n;
    stats->passes++;
    stats->seconds += seconds;
    if (unread >= RF_PACE_ROWS)
        cascade->reading += seconds;
    else if (n > 0)
        rf_pace_pass(&cascade->pace, drafter, 1, seconds / n);
    take(cascade, base, drafter, draft, n);
    return n;
}

/* Appends up to `want` tokens that `level` says follow the text, drafts for `judge`. Returns how
 * many. */
static int32_t produce(struct rf_cascade *cascade, int32_t base, int32_t level, int32_t judge,
                       int32_t want, int32_t *made, struct rf_error *error)
{
    int32_t first = cascade->n_text, known = first;
    double p = 1.0;
    *made = 0;
    if (cascade->gamma && want > cascade->gamma) want = cascade->gamma;
    do {
        int32_t left = want - (cascade->n_text - first);
        int32_t n = is_judge(cascade, level) ? round_at(cascade, base, level, left, error)
                                             : paid_draft(cascade, base, level, left, error);
        if (n < 0) return n;
        if (n == 0) break;
        *made += n;
    } while (cascade->n_text - first < want &&
             go_on(cascade, base, level, judge, first, &known, &p));
    if (known < cascade->n_text) go_on(cascade, base, level, judge, first, &known, &p);
    return cascade->n_text - first;
}

int32_t rf_cascade_round(struct rf_cascade *cascade, const int32_t *text, int32_t n, int32_t max,
                         struct rf_yield *yield, struct rf_error *error)
{
    int32_t target = cascade->n_levels - 1;
    const struct rf_level *level = &cascade->levels[target];
    if (n < 1 || n > cascade->capacity || max < 1)
        return rf_fail(error, RF_ERR_ARGUMENT, "a round after %d tokens, for %d", n, max);
    int32_t kept = 0, known = n < cascade->n_followed ? n : cascade->n_followed;
    while (kept < known && cascade->text[kept] == text[kept]) kept++;
    memcpy(cascade->text + kept, text + kept, (size_t)(n - kept) * sizeof *text);
    cascade->n_text = cascade->n_followed = n;
    for (int32_t l = 0; l < cascade->n_levels; l++)
        if (cascade->levels[l].ops->follow)
            cascade->levels[l].ops->follow(cascade->levels[l].self, cascade->text, n, kept);
    if (max > RF_MAX_DRAFT + 1) max = RF_MAX_DRAFT + 1;
    if (max > cascade->capacity - n + 1) max = cascade->capacity - n + 1;
    /* A choice that costs no pass needs no draft. */
    if (level->ops->unread(level->self, text, n) == 0) max = 1;
    int32_t made = round_at(cascade, n, target, max, error);
    for (int32_t i = 0; i < made; i++)
        yield[i] = (struct rf_yield){cascade->text[n + i], cascade->marks[i].origin};
    return made;
}
