#include "speculate/pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How much slower passes over more rows are expected to be before they are measured: wide weights
 * are read at the memory's pace up to about 8 rows, narrow ones ask for more arithmetic a byte
 * (docs/kernels.md has the figures). */
static const double wide_shape[RF_PACE_ROWS] = {1.00, 1.01, 1.02, 1.03, 1.04, 1.06, 1.08, 1.10,
                                                1.20, 1.30, 1.40, 1.50, 1.58, 1.66, 1.74, 1.82};
static const double narrow_shape[RF_PACE_ROWS] = {1.00, 1.04, 1.09, 1.15, 1.22, 1.30, 1.38, 1.47,
                                                  1.63, 1.79, 1.95, 2.11, 2.26, 2.41, 2.56, 2.70};

static const double edges[RF_PACE_BUCKETS - 1] = {0.1, 0.2,  0.35, 0.5,   0.65,  0.8,
                                                  0.9, 0.95, 0.98, 0.995, 0.9995};

static const double FADE_ROUNDS = 0.94;  /* of the rates of rounds, at each round */
static const double FADE_JUDGED = 0.985; /* of counts, at each token judged */
static const double PRIOR_JUDGED = 3.0;  /* tokens that a first guess counts for, in a bucket */
static const double PRIOR_TOKENS = 2.0;  /* likewise of what a level drafts */
static const double MANY_TOKENS =
    10.0; /* from which on what a level drafted says something of others */
static const double PRIOR_ROUNDS = 2.0; /* rounds that a first guess counts for */
static const double EXPLORING = 0.006;  /* of all tokens, that looking again may cost */
static const double FEW_JUDGED = 6.0;   /* tokens, up to which a drafter is hardly known */
static const double LOOKING =
    0.02; /* of the time saved, that a look at one that is hardly known may cost */
static const double SPENDING =
    0.4; /* of the time saved, or to be saved, that reading a text may cost */
static const double READING = 0.015;     /* of the time that plain decoding would take, likewise */
static const double LARGEST_STEP = 0.25; /* of a cost's logarithm, at one measurement */
static const double LARGEST_SURPRISE = 0.7; /* likewise, at the first ones */

static int bucket_of(double confidence)
{
    int b = 0;
    while (b < RF_PACE_BUCKETS - 1 && confidence >= edges[b]) b++;
    return b;
}

void rf_pace_init(struct rf_pace *pace, const struct rf_level *levels, int32_t n_levels)
{
    memset(pace, 0, sizeof *pace);
    pace->n_levels = n_levels;
    for (int32_t l = 0; l < n_levels; l++) {
        pace->guess[l] = levels[l].cost;
        pace->acceptance[l] = levels[l].acceptance;
        const double *shape = levels[l].cost < 0.5 ? narrow_shape : wide_shape;
        for (int r = 0; r < RF_PACE_ROWS; r++)
            pace->costs[l].seconds[r] = levels[l].cost * shape[r];
    }
    pace->horizon = 256;
}

void rf_pace_begin(struct rf_pace *pace, int32_t horizon)
{
    pace->horizon = horizon;
    for (int32_t j = 0; j < pace->n_levels; j++) {
        pace->judges[j].saved_seconds = 0.0;
        for (int32_t d = 0; d < j; d++) {
            struct rf_pace_pair *pair = &pace->pairs[d][j];
            for (int b = 0; b < RF_PACE_BUCKETS; b++) {
                pair->judged[b] *= 0.5;
                pair->kept[b] *= 0.5;
            }
            pair->all_judged *= 0.5;
            pair->all_kept *= 0.5;
            pair->rounds *= 0.5;
            pair->drafted *= 0.5;
            pair->yielded *= 0.5;
        }
    }
}

/* ---- costs ---- */

static void scale(struct rf_pace_cost *cost, double factor)
{
    for (int r = 0; r < RF_PACE_ROWS; r++) cost->seconds[r] *= factor;
}

static double clamp(double x, double limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

/* A measurement moves its own number of rows most, its neighbours less, and all of them a little:
 * the machine as a whole may have become slower. A single one may be a disturbance, so it moves
 * nothing far once there are several. */
void rf_pace_pass(struct rf_pace *pace, int32_t level, int32_t rows, double seconds)
{
    if (rows < 1 || rows > RF_PACE_ROWS || !(seconds > 0.0)) return;
    struct rf_pace_cost *cost = &pace->costs[level];
    double error = log(seconds / cost->seconds[rows - 1]);
    uint32_t seen = cost->measured;
    if (seen == 0) {
        /* What was not measured yet follows the first measurement, and the target's once more:
         * guesses are shares of its cost. */
        int leads = !pace->has_unit || level == pace->n_levels - 1, is_guess = 1;
        for (int r = 0; r < RF_PACE_ROWS; r++) is_guess &= cost->seen[r] == 0;
        double factor = exp(leads && is_guess ? error : clamp(error, LARGEST_SURPRISE));
        for (int32_t l = 0; l < pace->n_levels; l++)
            if (l == level || (leads && !pace->costs[l].measured)) scale(&pace->costs[l], factor);
        pace->has_unit = 1;
    } else {
        double gain = cost->seen[rows - 1] < 2 ? 0.6 : cost->seen[rows - 1] < 8 ? 0.3 : 0.12;
        error = clamp(error, seen < 3 ? LARGEST_SURPRISE : LARGEST_STEP);
        for (int r = 0; r < RF_PACE_ROWS; r++) {
            double share = pow(0.7, abs(r + 1 - rows)), least = cost->seen[r] ? 0.15 : 0.5;
            cost->seconds[r] *= exp(gain * (share > least ? share : least) * error);
        }
    }
    if (cost->seen[rows - 1] < 1000) cost->seen[rows - 1]++;
    if (cost->measured < 1000) cost->measured++;
}

double rf_pace_cost(const struct rf_pace *pace, int32_t level, int32_t rows)
{
    if (rows < 1) rows = 1;
    if (rows > RF_PACE_ROWS) rows = RF_PACE_ROWS;
    /* More rows never cost less: what says so is noise. */
    double most = 0.0;
    for (int r = 0; r < rows; r++)
        if (pace->costs[level].seconds[r] > most) most = pace->costs[level].seconds[r];
    return most;
}

/* Of a number of rows that is a mean. */
static double cost_between(const struct rf_pace *pace, int32_t level, double rows)
{
    int32_t below = (int32_t)rows;
    double low = rf_pace_cost(pace, level, below), high = rf_pace_cost(pace, level, below + 1);
    return low + (rows - below) * (high - low);
}

static double one_more_row(const struct rf_pace *pace, int32_t level, int32_t rows)
{
    return rf_pace_cost(pace, level, rows + 1) - rf_pace_cost(pace, level, rows);
}

/* Seconds for a token that this level drafts. As long as it drafted little: what a pass takes, less
 * what free drafts spare the other levels. */
static double drafting_cost(const struct rf_pace *pace, int32_t level)
{
    const struct rf_pace_judge *at = &pace->judges[level];
    double alone = rf_pace_cost(pace, level, 1), spared = 1.0;
    for (int32_t l = 0; l + 1 < pace->n_levels; l++) {
        const struct rf_pace_judge *other = &pace->judges[l];
        if (l == level || other->tokens < MANY_TOKENS) continue;
        double share = other->seconds / (other->tokens * rf_pace_cost(pace, l, 1));
        if (share < spared) spared = share;
    }
    return (at->seconds + PRIOR_TOKENS * spared * alone) / (at->tokens + PRIOR_TOKENS);
}

/* ---- acceptance ---- */

double rf_pace_acceptance(const struct rf_pace *pace, int32_t drafter, int32_t judge,
                          double confidence)
{
    const struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    int b = bucket_of(confidence);
    /* The first guess is the drafter's own, half-way to what is usual for a drafter of its kind. */
    double guess = pace->guess[drafter] > 0.0 ? 0.5 * confidence + 0.5 * pace->acceptance[drafter]
                                              : confidence;
    return (pair->kept[b] + PRIOR_JUDGED * guess) / (pair->judged[b] + PRIOR_JUDGED);
}

void rf_pace_judged(struct rf_pace *pace, int32_t drafter, int32_t judge, double confidence,
                    int kept)
{
    struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    int b = bucket_of(confidence);
    pair->judged[b] = pair->judged[b] * FADE_JUDGED + 1.0;
    pair->kept[b] = pair->kept[b] * FADE_JUDGED + (kept ? 1.0 : 0.0);
    pair->all_judged = pair->all_judged * FADE_JUDGED + 1.0;
    pair->all_kept = pair->all_kept * FADE_JUDGED + (kept ? 1.0 : 0.0);
}

/* What other judges make of a drafter says something of this one, too. */
static double mean_acceptance(const struct rf_pace *pace, int32_t drafter, int32_t judge)
{
    const struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    double judged = 0.0, kept = 0.0;
    for (int32_t j = drafter + 1; j < pace->n_levels; j++) {
        judged += pace->pairs[drafter][j].all_judged;
        kept += pace->pairs[drafter][j].all_kept;
    }
    double anywhere = (kept + PRIOR_JUDGED * pace->acceptance[drafter]) / (judged + PRIOR_JUDGED);
    return (pair->all_kept + PRIOR_JUDGED * anywhere) / (pair->all_judged + PRIOR_JUDGED);
}

/* ---- decisions ---- */

/* Of a round with this model drafter: what such rounds gave, and as long as there were few, what
 * constant acceptance and the costs say of the best length. */
struct prospect {
    double tokens, seconds;
};

static struct prospect expect(const struct rf_pace *pace, int32_t drafter, int32_t judge)
{
    const struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    double acceptance = mean_acceptance(pace, drafter, judge), each = drafting_cost(pace, drafter);
    double p = 1.0, yield = 1.0, best = 0.0, drafted = 1.0, tokens = 1.0;
    for (int32_t g = 1; g < RF_PACE_ROWS; g++) {
        p *= acceptance;
        yield += p;
        double tokens_per_second = yield / (g * each + rf_pace_cost(pace, judge, g + 1));
        if (tokens_per_second <= best) continue;
        best = tokens_per_second;
        drafted = g;
        tokens = yield;
    }
    drafted = (drafted * PRIOR_ROUNDS + pair->drafted) / (PRIOR_ROUNDS + pair->rounds);
    tokens = (tokens * PRIOR_ROUNDS + pair->yielded) / (PRIOR_ROUNDS + pair->rounds);
    return (struct prospect){tokens, drafted * each + cost_between(pace, judge, 1.0 + drafted)};
}

/* Tokens a second at this judge without free drafts, and without `but`. */
static double rate(const struct rf_pace *pace, int32_t judge, int32_t but)
{
    double best = 1.0 / rf_pace_cost(pace, judge, 1);
    for (int32_t d = 0; d < judge; d++) {
        if (!pace->usable[d] || d == but) continue;
        struct prospect prospect = expect(pace, d, judge);
        if (prospect.tokens / prospect.seconds > best) best = prospect.tokens / prospect.seconds;
    }
    return best;
}

int rf_pace_worth_row(const struct rf_pace *pace, int32_t judge, int32_t n, double p)
{
    return n < RF_PACE_ROWS && p > rate(pace, judge, -1) * one_more_row(pace, judge, n);
}

int rf_pace_go_on(const struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t n, double p)
{
    double next = p * mean_acceptance(pace, drafter, judge);
    return n + 1 < RF_PACE_ROWS &&
           next > rate(pace, judge, -1) *
                      (drafting_cost(pace, drafter) + one_more_row(pace, judge, n + 1));
}

int32_t rf_pace_offer(const struct rf_pace *pace, int32_t drafter, int32_t judge,
                      const struct rf_choice *offer, int32_t n, double *value)
{
    double lambda = rate(pace, judge, -1), p = 1.0, yield = 1.0;
    int32_t best = 0;
    *value = 1.0 - lambda * rf_pace_cost(pace, judge, 1);
    for (int32_t i = 0; i < n && i + 1 < RF_PACE_ROWS; i++) {
        p *= rf_pace_acceptance(pace, drafter, judge, (double)offer[i].confidence);
        yield += p;
        double worth = yield - lambda * rf_pace_cost(pace, judge, i + 2);
        if (worth <= *value) continue;
        *value = worth;
        best = i + 1;
    }
    return best;
}

/* Whether a text that a drafter does not know yet is worth reading for it: paid from what drafts
 * have saved in this request, and from a small share of what is still to come; from a larger one if
 * it is known to help. */
static int can_afford(const struct rf_pace *pace, int32_t drafter, int32_t unread)
{
    if (unread < RF_PACE_ROWS) return 1;
    int32_t target = pace->n_levels - 1;
    double reading = unread * rf_pace_cost(pace, drafter, RF_PACE_ROWS) / RF_PACE_ROWS;
    double plain = rf_pace_cost(pace, target, 1),
           horizon = pace->horizon < 128 ? 128 : pace->horizon;
    double budget = SPENDING * pace->judges[target].saved_seconds + READING * horizon * plain;
    if (pace->pairs[drafter][target].all_judged >= MANY_TOKENS) {
        struct prospect with = expect(pace, drafter, target);
        double gain = horizon * (1.0 / rate(pace, target, drafter) - with.seconds / with.tokens);
        if (gain > 0.0) budget += SPENDING * gain;
    }
    return reading < budget;
}

int32_t rf_pace_drafter(struct rf_pace *pace, int32_t judge, const int32_t *unread, int32_t max,
                        double *value)
{
    int32_t best = -1;
    for (int32_t d = 0; d < judge; d++)
        pace->usable[d] = pace->guess[d] > 0.0 && can_afford(pace, d, unread[d]);
    double lambda = rate(pace, judge, -1);
    *value = 1.0 - lambda * rf_pace_cost(pace, judge, 1);
    for (int32_t d = 0; d < judge && max > 0; d++) {
        if (!pace->usable[d]) continue;
        struct prospect prospect = expect(pace, d, judge);
        double worth = prospect.tokens - lambda * prospect.seconds;
        /* One that is not worth it is tried again when that costs next to nothing of what came
         * since. */
        double loss = *value - worth;
        const struct rf_pace_pair *pair = &pace->pairs[d][judge];
        double allowed = EXPLORING * pair->idle_tokens;
        if (pair->all_judged < FEW_JUDGED)
            allowed += LOOKING * lambda * pace->judges[judge].saved_seconds;
        if (loss > 0.0 && loss > allowed) continue;
        best = d;
        if (worth > *value) *value = worth;
    }
    return best;
}

void rf_pace_round(struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t made,
                   int32_t drafted, int32_t yielded, double reading)
{
    struct rf_pace_judge *at = &pace->judges[judge];
    double seconds = rf_pace_cost(pace, judge, drafted + 1);
    if (drafter >= 0 && pace->guess[drafter] > 0.0) seconds += made * drafting_cost(pace, drafter);
    at->tokens = at->tokens * FADE_ROUNDS + yielded;
    at->seconds = at->seconds * FADE_ROUNDS + seconds;
    at->saved_seconds += yielded * rf_pace_cost(pace, judge, 1) - seconds - reading;
    for (int32_t d = 0; d < judge; d++) pace->pairs[d][judge].idle_tokens += yielded;
    if (judge == pace->n_levels - 1 && pace->horizon > yielded) pace->horizon -= yielded;
    if (drafter < 0) return;
    struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    pair->rounds = pair->rounds * FADE_ROUNDS + 1.0;
    pair->drafted = pair->drafted * FADE_ROUNDS + made;
    pair->yielded = pair->yielded * FADE_ROUNDS + yielded;
    pair->idle_tokens = 0.0;
}
