/* The decisions of the pace (pace.h): acceptance counted by confidence, the rate that a judge
 * reaches, and what a round with each drafter promises. All of it is arithmetic on tables;
 * pace_cost.c has the seconds of passes. */
#include "speculate/pace.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "speculate/pace_cost.h"
#include "speculate/tuning.h"

static int bucket_of(double confidence)
{
    int b = 0;
    while (b < RF_PACE_BUCKETS - 1 && confidence >= rf_tuning.pace.edges[b]) b++;
    return b;
}

void rf_pace_init(struct rf_pace *pace, const struct rf_level *levels, int32_t n_levels)
{
    assert(n_levels >= 1 && n_levels <= RF_MAX_LEVELS && levels[n_levels - 1].has_passes);
    memset(pace, 0, sizeof *pace);
    pace->n_levels = n_levels;
    for (int32_t l = 0; l < n_levels; l++) {
        assert(!levels[l].has_passes || levels[l].cost > 0.0);
        pace->has_passes[l] = levels[l].has_passes;
        pace->joins[l] = levels[l].ops && levels[l].ops->next;
        pace->acceptance[l] = levels[l].acceptance;
        pace->is_trained[l] = levels[l].is_trained;
        rf_pace_guess_cost(&pace->costs[l], &levels[l]);
    }
    pace->horizon = rf_tuning.pace.first_horizon;
}

void rf_pace_set_length(struct rf_pace *pace, int32_t length)
{
    pace->length = length;
}

void rf_pace_set_company(struct rf_pace *pace, const struct rf_pace_company *company)
{
    pace->company = *company;
}

/* Counts of the past lose weight before `more` are added. */
static void count_faded(struct rf_pace_count *count, double fade, const struct rf_pace_count *more)
{
    count->judged = count->judged * fade + more->judged;
    count->kept = count->kept * fade + more->kept;
    count->guessed = count->guessed * fade + more->guessed;
}

/* The factor on counts of which there are so many, when a request begins. */
static double request_fade(double counts, double kept)
{
    double fade = rf_tuning.pace.fade_request;
    return counts * fade > kept ? kept / counts : fade;
}

static void fade_counts(struct rf_pace_count *count)
{
    static const struct rf_pace_count none = {0};
    count_faded(count, request_fade(count->judged, rf_tuning.pace.kept_judged), &none);
}

void rf_pace_begin(struct rf_pace *pace, int32_t horizon)
{
    pace->horizon = horizon;
    pace->has_request = 1;
    pace->yielded = 0;
    pace->reading = 0.0;
    for (int32_t j = 0; j < pace->n_levels; j++) {
        pace->judges[j].saved_seconds = 0.0;
        for (int32_t d = 0; d < j; d++) {
            struct rf_pace_pair *pair = &pace->pairs[d][j];
            for (int b = 0; b < RF_PACE_BUCKETS; b++) {
                fade_counts(&pair->buckets[b]);
                fade_counts(&pair->runners_up[b]);
            }
            fade_counts(&pair->all);
            double fade = request_fade(pair->rounds, rf_tuning.pace.kept_rounds);
            pair->rounds *= fade;
            pair->drafted *= fade;
            pair->rows *= fade;
            pair->yielded *= fade;
        }
    }
}

/* ---- costs ---- */

/* Tokens that others get of a round at this judge. */
static double others_of(const struct rf_pace *pace, int32_t judge)
{
    return judge == pace->n_levels - 1 ? pace->company.tokens : 0;
}

/* Seconds of a round at this judge whose pass has so many rows of the text, with all drafting but
 * the text's own. */
static double round_cost(const struct rf_pace *pace, int32_t judge, int32_t rows)
{
    double drafting = judge == pace->n_levels - 1 ? pace->company.seconds : 0.0;
    return rf_pace_cost(pace, judge, rows) + drafting;
}

/* The same of a mean number of rows. */
static double round_cost_between(const struct rf_pace *pace, int32_t level, double rows)
{
    int32_t below = (int32_t)rows;
    double low = round_cost(pace, level, below), high = round_cost(pace, level, below + 1);
    return low + (rows - below) * (high - low);
}

static double one_more_row(const struct rf_pace *pace, int32_t level, int32_t rows)
{
    return rf_pace_cost(pace, level, rows + 1) - rf_pace_cost(pace, level, rows);
}

/* While the level has drafted little, this is near the cost of a pass, less the share of passes
 * that drafts spared other levels. A pass for several texts has a token of each. */
double rf_pace_drafting_cost(const struct rf_pace *pace, int32_t level)
{
    const struct rf_pace_judge *at = &pace->judges[level];
    int32_t texts = pace->joins[level] ? 1 + pace->company.drafting : 1;
    double alone = rf_pace_cost(pace, level, texts) / texts, spared = 1.0;
    for (int32_t l = 0; l + 1 < pace->n_levels; l++) {
        const struct rf_pace_judge *other = &pace->judges[l];
        if (l == level || other->tokens < rf_tuning.pace.known_tokens) continue;
        double share = other->seconds / (other->tokens * rf_pace_cost(pace, l, 1));
        if (share < spared) spared = share;
    }
    return (at->seconds + rf_tuning.pace.prior_tokens * spared * alone) /
           (at->tokens + rf_tuning.pace.prior_tokens);
}

/* ---- acceptance ---- */

/* The share of tokens that is kept, with a guess as the prior. */
static double share_kept(struct rf_pace_count count, double guess)
{
    return (count.kept + rf_tuning.pace.prior_judged * guess) /
           (count.judged + rf_tuning.pace.prior_judged);
}

/* The probability that a drafter's confidence stands for before anything is learnt. That of a model
 * which was trained for other ends is moved towards the usual acceptance of a drafter of its kind.
 */
static double guess_of(const struct rf_pace *pace, const struct rf_proposal *by, double confidence)
{
    int is_model = pace->has_passes[by->proposer] && !pace->is_trained[by->proposer];
    double own = is_model && !by->runner_up ? rf_tuning.pace.own_opinion : 1.0;
    return own * confidence + (1.0 - own) * pace->acceptance[by->proposer];
}

double rf_pace_acceptance(const struct rf_pace *pace, int32_t judge, const struct rf_proposal *by,
                          double confidence)
{
    const struct rf_pace_pair *pair = &pace->pairs[by->proposer][judge];
    const struct rf_pace_count *count =
        &(by->runner_up ? pair->runners_up : pair->buckets)[bucket_of(confidence)];
    double p = guess_of(pace, by, confidence) * (count->kept + rf_tuning.pace.prior_kept) /
               (count->guessed + rf_tuning.pace.prior_kept);
    return p < 1.0 ? p : 1.0;
}

void rf_pace_judged(struct rf_pace *pace, int32_t judge, const struct rf_proposal *by,
                    double confidence, int kept)
{
    assert(by->proposer >= 0 && by->proposer < judge && judge < pace->n_levels);
    struct rf_pace_pair *pair = &pace->pairs[by->proposer][judge];
    struct rf_pace_count *buckets = by->runner_up ? pair->runners_up : pair->buckets;
    const struct rf_pace_count one = {1.0, kept ? 1.0 : 0.0, guess_of(pace, by, confidence)};
    count_faded(&buckets[bucket_of(confidence)], rf_tuning.pace.fade_judged, &one);
    if (!by->runner_up) count_faded(&pair->all, rf_tuning.pace.fade_judged, &one);
}

struct rf_pace_count rf_pace_total(const struct rf_pace *pace, int32_t drafter)
{
    struct rf_pace_count total = {0};
    for (int32_t j = drafter + 1; j < pace->n_levels; j++)
        count_faded(&total, 1.0, &pace->pairs[drafter][j].all);
    return total;
}

/* The share of a drafter's tokens that this judge keeps. Other judges' decisions are the prior. */
static double mean_acceptance(const struct rf_pace *pace, int32_t drafter, int32_t judge)
{
    double anywhere = share_kept(rf_pace_total(pace, drafter), pace->acceptance[drafter]);
    return share_kept(pace->pairs[drafter][judge].all, anywhere);
}

/* ---- decisions ---- */

/* Expected yield and seconds of a round with a model drafter. */
struct prospect {
    double tokens, seconds;
};

/* The prospect of the draft length that is best if all tokens are equally likely to be kept. */
static struct prospect best_of_any(const struct rf_pace *pace, int32_t drafter, int32_t judge,
                                   int32_t *length)
{
    double acceptance = mean_acceptance(pace, drafter, judge),
           each = rf_pace_drafting_cost(pace, drafter), p = 1.0;
    struct prospect best = {0.0, 1.0}, now = {1.0 + others_of(pace, judge), 0.0};
    for (int32_t g = 1; g < RF_PACE_FEW; g++) {
        p *= acceptance;
        now.tokens += p;
        now.seconds = g * each + round_cost(pace, judge, g + 1);
        if (now.tokens * best.seconds <= best.tokens * now.seconds) continue;
        best = now;
        *length = g;
    }
    return best;
}

/* The mean of recent rounds, with the best length as the prior. The prior stands alone where
 * it is shorter and promises more: then recent rounds were longer than the costs of rows, as they
 * are known now, allow. */
static struct prospect expect_round(const struct rf_pace *pace, int32_t drafter, int32_t judge)
{
    const struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    int32_t length = 1;
    struct prospect best = best_of_any(pace, drafter, judge, &length);
    double prior = rf_tuning.pace.prior_rounds, rounds = prior + pair->rounds,
           rows = (length * prior + pair->rows) / rounds,
           drafted = (length * prior + pair->drafted) / rounds,
           yielded = pair->yielded + others_of(pace, judge) * pair->rounds;
    struct prospect usual = {(best.tokens * prior + yielded) / rounds,
                             drafted * rf_pace_drafting_cost(pace, drafter) +
                                 round_cost_between(pace, judge, 1.0 + rows)};
    int is_shorter = length * pair->rounds < pair->drafted;
    return is_shorter && usual.tokens * best.seconds < best.tokens * usual.seconds ? best : usual;
}

/* Tokens per second at this judge, by plain decoding or the best usable drafter except `but`. */
static double best_rate(const struct rf_pace *pace, int32_t judge, int32_t but)
{
    double best = (1.0 + others_of(pace, judge)) / round_cost(pace, judge, 1);
    for (int32_t d = 0; d < judge; d++) {
        if (!pace->usable[d] || d == but) continue;
        struct prospect prospect = expect_round(pace, d, judge);
        if (prospect.tokens / prospect.seconds > best) best = prospect.tokens / prospect.seconds;
    }
    return best;
}

/* Seconds that a round may take longer than plain decoding even if nothing of its draft is kept:
 * see rf_tuning.pace.stake_grows. Only the target's rounds for a text alone are limited. */
static double most_stake(const struct rf_pace *pace, int32_t judge)
{
    if (judge != pace->n_levels - 1 || !pace->has_request) return HUGE_VAL;
    double tokens = rf_tuning.pace.stake_horizon * ((double)pace->yielded + pace->horizon),
           won = pace->judges[judge].saved_seconds + pace->reading;
    if (tokens < rf_tuning.pace.stake_least) tokens = rf_tuning.pace.stake_least;
    if (tokens > rf_tuning.pace.stake_most) tokens = rf_tuning.pace.stake_most;
    tokens += rf_tuning.pace.stake_grows * pace->yielded;
    return tokens * round_cost(pace, judge, 1) / (1.0 + others_of(pace, judge)) +
           (won > 0.0 ? rf_tuning.pace.stake_won * won : won);
}

/* Seconds of verifying n rows beside the text's own. */
static double rows_stake(const struct rf_pace *pace, int32_t judge, int32_t n)
{
    return rf_pace_cost(pace, judge, n + 1) - rf_pace_cost(pace, judge, 1);
}

/* A pass over so many rows would be a trial, of what else stays a guess, that may lose so many
 * tokens. Not beside other texts: they would wait for it. */
static int may_try(const struct rf_pace *pace, int32_t judge, int32_t rows, double loss)
{
    const struct rf_pace_cost *cost = &pace->costs[judge];
    int32_t known = rf_pace_known_rows(cost);
    return !rf_pace_others_at(pace, judge).rows && rows > known &&
           rows <= rf_tuning.pace.try_most * known &&
           cost->since_trial >= rf_tuning.pace.try_after && loss <= rf_tuning.pace.try_loss &&
           loss <= rf_tuning.pace.try_rows * cost->since_trial;
}

/* A line of n tokens, all kept with probability p, may go on until it is a trial. */
static int may_go_on(const struct rf_pace *pace, int32_t judge, int32_t n, double p,
                     double acceptance, double each)
{
    if (pace->costs[judge].since_trial < rf_tuning.pace.try_after) return 0;
    double lambda = best_rate(pace, judge, -1), now = rf_pace_cost(pace, judge, n + 1), yield = 0.0;
    if (p * acceptance <= lambda * each) return 0; /* rows are cheap here */
    for (int32_t more = 1; n + 1 + more <= RF_PACE_FEW; more++) {
        p *= acceptance;
        yield += p;
        double seconds = more * each + rf_pace_cost(pace, judge, n + 1 + more) - now;
        if (may_try(pace, judge, n + 1 + more, lambda * seconds - yield)) return 1;
    }
    return 0;
}

int rf_pace_worth_row(const struct rf_pace *pace, int32_t judge, int32_t n, double p)
{
    return n < RF_PACE_FEW && (p > best_rate(pace, judge, -1) * one_more_row(pace, judge, n) ||
                               may_go_on(pace, judge, n - 1, p, 1.0, 0.0));
}

int rf_pace_go_on(const struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t n, double p)
{
    double acceptance = mean_acceptance(pace, drafter, judge),
           each = rf_pace_drafting_cost(pace, drafter),
           seconds = each + one_more_row(pace, judge, n + 1);
    if (n > 0 && (n + 1) * each + rows_stake(pace, judge, n + 1) > most_stake(pace, judge))
        return 0;
    return n + 1 < RF_PACE_FEW && (p * acceptance > best_rate(pace, judge, -1) * seconds ||
                                   may_go_on(pace, judge, n, p, acceptance, each));
}

/* Tokens per second that are given up for a row: what the judge reaches otherwise, or has lately
 * reached with all that drafts for it. */
static double rate_of_rows(const struct rf_pace *pace, int32_t judge)
{
    const struct rf_pace_judge *at = &pace->judges[judge];
    double otherwise = best_rate(pace, judge, -1);
    if (at->tokens < rf_tuning.pace.known_tokens || at->tokens <= otherwise * at->seconds)
        return otherwise;
    return at->tokens / at->seconds;
}

/* p[i]: the judge keeps row i and all that it follows. */
static void estimate_rows(const struct rf_pace *pace, int32_t judge, const struct rf_draft *offer,
                          double *p)
{
    /* [0] after the text, [i + 1] after row i: the probability that the judge keeps none of the
     * rows seen so far there. */
    double left[RF_DRAFT_ROWS + 1];
    for (int32_t i = 0; i <= offer->n; i++) left[i] = 1.0;
    for (int32_t i = 0; i < offer->n; i++) {
        const struct rf_proposal *by = &offer->by[i];
        double *others = &left[offer->parents[i] + 1];
        double own = rf_pace_acceptance(pace, judge, by, (double)offer->confidence[i]);
        if (by->runner_up) own *= *others;
        *others = *others > own ? *others - own : 0.0;
        p[i] = offer->parents[i] < 0 ? own : own * p[offer->parents[i]];
    }
}

double rf_pace_expects(const struct rf_pace *pace, int32_t judge, const struct rf_draft *draft)
{
    double p[RF_DRAFT_ROWS], sum = 0.0;
    estimate_rows(pace, judge, draft, p);
    for (int32_t i = 0; i < draft->n; i++) sum += p[i];
    return sum;
}

int32_t rf_pace_offer(const struct rf_pace *pace, int32_t judge, struct rf_draft *offer,
                      double *value)
{
    double lambda = rate_of_rows(pace, judge), p[RF_DRAFT_ROWS];
    double yield = 1.0 + others_of(pace, judge);
    int32_t order[RF_DRAFT_ROWS], best = 0;
    int keep[RF_DRAFT_ROWS] = {0};
    estimate_rows(pace, judge, offer, p);
    rf_draft_order(offer, p, order);
    double stake = most_stake(pace, judge);
    *value = yield - lambda * round_cost(pace, judge, 1);
    int32_t most = RF_PACE_ROWS - 1 - rf_pace_others_at(pace, judge).rows, tried = 0;
    for (int32_t i = 0; i < offer->n && i < most; i++) {
        yield += p[order[i]];
        if (rows_stake(pace, judge, i + 1) > stake) break;
        double worth = yield - lambda * round_cost(pace, judge, i + 2);
        if (worth <= *value) {
            if (may_try(pace, judge, i + 2, *value - worth)) tried = i + 1;
            continue;
        }
        *value = worth;
        best = i + 1;
    }
    if (tried > best && (best > 0 || rf_pace_known_rows(&pace->costs[judge]) <= 1)) best = tried;
    for (int32_t i = 0; i < best; i++) keep[order[i]] = 1;
    rf_draft_filter(offer, keep);
    return best;
}

/* Seconds that a row is worth which only asks what follows a token. */
static double worth_of_probe(const struct rf_pace *pace, int32_t judge)
{
    double single = rf_pace_cost(pace, judge, 1), share = 1.0;
    if (pace->judges[judge].tokens >= rf_tuning.pace.known_tokens)
        share = (rate_of_rows(pace, judge) * single - 1.0) / rf_tuning.pace.probe_gain;
    return rf_tuning.pace.probe_saves * single * (share < 1.0 ? share : 1.0);
}

int32_t rf_pace_probes(const struct rf_pace *pace, int32_t judge, int32_t rows)
{
    double before = rf_pace_cost(pace, judge, rows + 1), worth = worth_of_probe(pace, judge);
    int32_t n = 0;
    if (rf_pace_others_at(pace, judge).rows)
        return 0; /* other texts would wait for probes that they do not need */
    while (n < RF_PACE_PROBES && rows + n + 2 <= RF_PACE_ROWS &&
           rf_pace_cost(pace, judge, rows + n + 2) - before < (n + 1) * worth)
        n++;
    return n;
}

/* 1 if the drafter may spend the time to read `unread` tokens: see rf_tuning.pace.spend_saved. */
static int can_afford(const struct rf_pace *pace, int32_t drafter, int32_t unread)
{
    if (unread < RF_PACE_FEW) return 1;
    int32_t target = pace->n_levels - 1;
    double reading = unread * rf_pace_cost(pace, drafter, RF_PACE_FEW) / RF_PACE_FEW;
    double plain = rf_pace_cost(pace, target, 1),
           horizon = pace->horizon < rf_tuning.pace.least_horizon ? rf_tuning.pace.least_horizon
                                                                  : pace->horizon;
    double budget = rf_tuning.pace.spend_saved * pace->judges[target].saved_seconds +
                    rf_tuning.pace.spend_plain * horizon * plain;
    if (pace->pairs[drafter][target].all.judged >= rf_tuning.pace.known_tokens) {
        struct prospect with = expect_round(pace, drafter, target);
        double gain =
            horizon * (1.0 / best_rate(pace, target, drafter) - with.seconds / with.tokens);
        if (gain > 0.0) budget += rf_tuning.pace.spend_saved * gain;
    }
    return reading < budget;
}

/* Seconds that a drafter takes to read tokens that it does not know. */
static double catch_up(const struct rf_pace *pace, int32_t drafter, int32_t unread)
{
    if (unread <= 1) return 0.0;
    if (unread < RF_PACE_FEW)
        return rf_pace_cost(pace, drafter, unread) - rf_pace_cost(pace, drafter, 1);
    return unread * rf_pace_cost(pace, drafter, RF_PACE_FEW) / RF_PACE_FEW;
}

/* Seconds that a draft of one token stakes. Reading a prompt is can_afford's. */
static double least_stake(const struct rf_pace *pace, int32_t drafter, int32_t judge,
                          int32_t unread)
{
    double stake = rf_pace_drafting_cost(pace, drafter) + rows_stake(pace, judge, 1);
    if (pace->yielded >= RF_PACE_FEW)
        stake += rf_tuning.pace.stake_reading * catch_up(pace, drafter, unread);
    else if (unread < RF_PACE_FEW)
        stake += catch_up(pace, drafter, unread);
    return stake;
}

int32_t rf_pace_drafter(struct rf_pace *pace, int32_t judge, const int32_t *unread, int32_t max,
                        double *value)
{
    int32_t best = -1;
    assert(judge >= 0 && judge < pace->n_levels);
    for (int32_t d = 0; d < judge; d++)
        pace->usable[d] = pace->has_passes[d] && can_afford(pace, d, unread[d]);
    double lambda = rate_of_rows(pace, judge), stake = most_stake(pace, judge);
    *value = 1.0 + others_of(pace, judge) - lambda * round_cost(pace, judge, 1);
    for (int32_t d = 0; d < judge && max > 0; d++) {
        if (!pace->usable[d]) continue;
        if (least_stake(pace, d, judge, unread[d]) > stake) continue;
        struct prospect prospect = expect_round(pace, d, judge);
        double worth = prospect.tokens - lambda * prospect.seconds;
        double loss = *value - worth;
        if (loss > 0.0) loss += lambda * catch_up(pace, d, unread[d]);
        const struct rf_pace_pair *pair = &pace->pairs[d][judge];
        double allowed = rf_tuning.pace.look_again * pair->idle_tokens;
        if (pair->all.judged < rf_tuning.pace.hardly_known)
            allowed += rf_tuning.pace.look_first * lambda * pace->judges[judge].saved_seconds;
        if (loss > 0.0 && loss > allowed) continue;
        best = d;
        if (worth > *value) *value = worth;
    }
    return best;
}

int rf_pace_look_at_single(const struct rf_pace *pace, int32_t judge, double value)
{
    const struct rf_pace_cost *cost = &pace->costs[judge];
    double others = others_of(pace, judge),
           plain = 1.0 + others - rate_of_rows(pace, judge) * round_cost(pace, judge, 1);
    double loss = value - plain;
    if (pace->company.has_slices && judge == pace->n_levels - 1)
        return 0; /* nothing will be measured */
    double share = cost->doubt;
    if (fabs(cost->moved) > rf_tuning.pace.moved && share < rf_tuning.pace.look_moved)
        share = rf_tuning.pace.look_moved;
    if (loss >= rf_tuning.pace.look_loss * (1.0 + others)) share = rf_tuning.pace.look_at_single;
    /* If there is no loss, plain decoding is the rule and drafts are a wanted exception. */
    return !cost->has_single ||
           !rf_pace_has_measured(cost, 1 + rf_pace_others_at(pace, judge).rows) ||
           (loss > 0.0 && loss <= share * cost->since_single);
}

void rf_pace_round(struct rf_pace *pace, int32_t drafter, int32_t judge, int32_t made, int32_t rows,
                   int32_t yielded, double reading)
{
    assert(judge >= 0 && judge < pace->n_levels && drafter < judge);
    assert(rows >= 0 && rows <= RF_DRAFT_ROWS && yielded >= 1);
    struct rf_pace_judge *at = &pace->judges[judge];
    double seconds = round_cost(pace, judge, rows + 1);
    if (drafter >= 0 && pace->has_passes[drafter])
        seconds += made * rf_pace_drafting_cost(pace, drafter);
    double others = others_of(pace, judge), all = others + yielded;
    at->tokens = at->tokens * rf_tuning.pace.fade_rounds + all;
    at->seconds = at->seconds * rf_tuning.pace.fade_rounds + seconds;
    at->saved_seconds += all * round_cost(pace, judge, 1) / (1.0 + others) - seconds - reading;
    for (int32_t d = 0; d < judge; d++) pace->pairs[d][judge].idle_tokens += yielded;
    pace->costs[judge].since_single += yielded;
    pace->costs[judge].since_trial += yielded;
    if (judge == pace->n_levels - 1) {
        if (pace->yielded < RF_PACE_FEW) pace->reading += reading;
        pace->yielded += yielded;
    }
    if (judge == pace->n_levels - 1 && pace->horizon > yielded) pace->horizon -= yielded;
    if (drafter < 0) return;
    struct rf_pace_pair *pair = &pace->pairs[drafter][judge];
    pair->rounds = pair->rounds * rf_tuning.pace.fade_rounds + 1.0;
    pair->drafted = pair->drafted * rf_tuning.pace.fade_rounds + made;
    pair->rows = pair->rows * rf_tuning.pace.fade_rounds + rows;
    pair->yielded = pair->yielded * rf_tuning.pace.fade_rounds + yielded;
    pair->idle_tokens = 0.0;
}
