/* Measures the workers' speed, and tries how many of them a pass should get. It is arithmetic
 * without threads or clocks; team.c calls it where one worker acts for all. */
#include "platform/split.h"

#include <assert.h>
#include <math.h>

/* The tuned figures. All were chosen by hand. test_split bounds what they cost in simulations, and
 * docs/lab/2026-11-21-cores.md has results. Times are in seconds. */
static const struct {
    /* A worker's speed. Other users of the memory make single measurements vary by a few per cent,
     * which must not move the shares; a real change must move them at once. With `now` the speed
     * since the last correction, `seconds` ago:
     *     recent += (now - recent) * (1 - exp(-seconds / recent_memory))
     *     speed  += (now - speed)  * (1 - exp(-seconds / memory))
     * and speed = recent for `unsettled` seconds after |recent / speed - 1| > off. */
    double memory, recent_memory, off, unsettled;
    /* A worker that got no work is not measured. Until it is,
     *     speed = min(fastest, max(speed, least_speed * fastest) * exp(seconds / forgetting)) */
    double forgetting, least_speed;

    /* A trial gives passes to another number of workers. Each term is of a pass of the trial:
     *     missed = sum(seconds / usual seconds - better)
     * It ends when missed >= patience, or after trial_passes. Below 0, the number is adopted. */
    double better, patience;
    int trial_passes;
    double usual_gain; /* usual += usual_gain * (seconds - usual) */
    /* The next trial comes after_change seconds after a change, and otherwise after
     *     min(max(lost / loss, often * 2^floor(failures / 2)), seldom)
     * with `lost` the seconds that the trial lost, and `failures` the trials in a row that changed
     * nothing, counted up to most_failures. */
    double after_change, loss, often, seldom;
    int most_failures;
    /* Limit of the second term while not all workers take part: nothing else tells that a core has
     * become free again. */
    double seldom_with_fewer;
    /* `surprises` passes in a row that take longer than surprise * usual bring the trial forward,
     * and not again for alarm seconds: twice as many each time, from `often` up to longest_alarm,
     * until a trial changes something. */
    double surprise;
    int surprises;
    double longest_alarm;

    /* A worker is left out when
     *     part of the time in which all others wait for it > worth * its share + small_wait
     * The time is averaged over late_memory seconds. It is left out for first_outing seconds; twice
     * as long as before, up to longest_outing, when it comes back no better. */
    double worth, small_wait, late_memory, first_outing, longest_outing;
} tuning = {
    .memory = 0.060,
    .recent_memory = 0.004,
    .off = 0.15,
    .unsettled = 0.016,
    .forgetting = 0.050,
    .least_speed = 1e-3,
    .better = 0.985,
    .patience = 0.08,
    .trial_passes = 8,
    .usual_gain = 0.25,
    .after_change = 0.05,
    .loss = 0.01,
    .often = 0.25,
    .seldom = 30.0,
    .most_failures = 14,
    .seldom_with_fewer = 1.0,
    .surprise = 1.25,
    .surprises = 2,
    .longest_alarm = 8.0,
    .worth = 1.3,
    .small_wait = 0.06,
    .late_memory = 0.05,
    .first_outing = 0.5,
    .longest_outing = 16.0,
};

enum { ARRAYS = 6 }; /* arrays of each kind: speed, recent, unsettled, late, out, outing */

int rf_split_new(struct rf_split **split, int n_workers, int n_places, const struct rf_split *first,
                 const struct rf_allocator *allocator, struct rf_error *error)
{
    assert(n_places >= 1 && n_places <= n_workers);
    assert(!first || first->n_workers == n_workers);
    *split = NULL;
    struct rf_split *made = rf_calloc(allocator, 1, sizeof *made, "split", error);
    if (!made) return RF_ERR_MEMORY;
    size_t n = (size_t)n_workers;
    made->storage =
        rf_calloc(allocator, ARRAYS * RF_WORK_KINDS * n, sizeof(double), "split", error);
    if (!made->storage) {
        rf_free(allocator, made);
        return RF_ERR_MEMORY;
    }
    made->allocator = allocator;
    made->n_workers = n_workers;
    made->n_places = n_places;
    for (int k = 0; k < RF_WORK_KINDS; k++) {
        struct rf_split_kind *kind = &made->kinds[k];
        kind->speed = made->storage + ARRAYS * (size_t)k * n;
        kind->recent = kind->speed + n;
        kind->unsettled = kind->recent + n;
        kind->late = kind->unsettled + n;
        kind->out = kind->late + n;
        kind->outing = kind->out + n;
        kind->active =
            first && first->kinds[k].active < n_places ? first->kinds[k].active : n_places;
        for (size_t i = 0; i < n; i++) kind->speed[i] = first ? first->kinds[k].speed[i] : 1.0;
    }
    *split = made;
    return 0;
}

void rf_split_free(struct rf_split *split)
{
    if (!split) return;
    rf_free(split->allocator, split->storage);
    rf_free(split->allocator, split);
}

int rf_split_neighbour(const struct rf_split *split, int active, int up)
{
    assert(active >= 1 && active <= split->n_workers);
    int step = active / 4 > 1 ? active / 4 : 1;
    int next = up ? active + step : active - step;
    if (next > split->n_places) next = active < split->n_places ? split->n_places : active;
    return next < 1 ? 1 : next;
}

/* Workers that join have at least half of the others' mean speed, until they are measured. */
static void welcome(struct rf_split_kind *kind, int active, int joined)
{
    double sum = 0.0;
    for (int i = 0; i < active; i++) sum += kind->speed[i];
    for (int i = active; i < joined; i++)
        if (kind->speed[i] < sum / active / 2) kind->speed[i] = sum / active / 2;
}

int rf_split_workers(struct rf_split *split, int n_rows, double now)
{
    assert(n_rows >= 1);
    struct rf_split_kind *kind = &split->kinds[rf_work_of(n_rows)];
    /* No trials with many rows: such passes are long, few, and use all workers. */
    if (n_rows > RF_FEW_ROWS || split->usual[n_rows] <= 0.0) return kind->active;
    if (!kind->trial && now >= kind->next_trial) {
        int next = rf_split_neighbour(split, kind->active, kind->tries_up);
        if (next == kind->active) {
            kind->tries_up = !kind->tries_up;
            next = rf_split_neighbour(split, kind->active, kind->tries_up);
        }
        if (next == kind->active) return next;
        kind->trial = next;
        kind->trial_passes = 0;
        kind->trial_sum = 0.0;
        welcome(kind, kind->active, next);
    }
    return kind->trial ? kind->trial : kind->active;
}

static void forget_usual(struct rf_split *split, const struct rf_split_kind *kind)
{
    for (int rows = 1; rows <= RF_FEW_ROWS; rows++)
        if (&split->kinds[rf_work_of(rows)] == kind) split->usual[rows] = 0.0;
}

/* 1 if worker i costs more than it gives: it is left out from now on. */
static int holds_up(struct rf_split_kind *kind, int i, int workers, double now)
{
    double sum = 0.0;
    for (int other = 0; other < workers; other++)
        if (kind->out[other] <= now) sum += kind->speed[other];
    if (kind->late[i] <= tuning.worth * kind->speed[i] / sum + tuning.small_wait) return 0;
    int is_no_better = now < kind->out[i] + kind->outing[i];
    double outing = is_no_better ? 2.0 * kind->outing[i] : tuning.first_outing;
    kind->outing[i] = fmin(outing, tuning.longest_outing);
    kind->out[i] = now + kind->outing[i];
    kind->late[i] = 0.0;
    kind->recent[i] = -1.0;
    return 1;
}

int rf_split_members(struct rf_split *split, int n_rows, int workers, double now, int *members)
{
    struct rf_split_kind *kind = &split->kinds[rf_work_of(n_rows)];
    int count = 0, left_out = 0,
        most = workers > split->n_places ? split->n_workers : split->n_places;
    assert(workers >= 1 && workers <= split->n_workers);
    for (int i = 0; i < most && count < workers; i++) {
        if (i > 0 && kind->out[i] <= now && holds_up(kind, i, workers, now)) left_out = 1;
        if (i == 0 || kind->out[i] <= now) members[count++] = i;
    }
    if (left_out) {
        forget_usual(split, kind);
        /* The usual times, with which a trial compares, are gone. */
        kind->trial = 0;
        kind->next_trial = fmax(kind->next_trial, now + tuning.after_change);
    }
    return count;
}

void rf_split_took(struct rf_split *split, int n_rows, int workers, double now, double seconds)
{
    struct rf_split_kind *kind = &split->kinds[rf_work_of(n_rows)];
    if (n_rows > RF_FEW_ROWS || (!kind->trial && workers != kind->active)) return;
    double *usual = &split->usual[n_rows];
    if (!kind->trial || workers != kind->trial) {
        kind->surprises =
            *usual > 0.0 && seconds > tuning.surprise * *usual ? kind->surprises + 1 : 0;
        if (kind->surprises >= tuning.surprises && now > kind->alarm) {
            kind->alarm_wait =
                fmin(fmax(tuning.often, 2.0 * kind->alarm_wait), tuning.longest_alarm);
            kind->alarm = now + kind->alarm_wait;
            kind->next_trial = now;
        }
        *usual += (seconds - *usual) * (*usual > 0.0 ? tuning.usual_gain : 1.0);
        return;
    }
    assert(*usual > 0.0); /* rf_split_workers begins no trial before */
    kind->trial_sum += seconds / *usual;
    double missed = kind->trial_sum - tuning.better * ++kind->trial_passes;
    if (missed < tuning.patience && kind->trial_passes < tuning.trial_passes) return;
    kind->trial = 0;
    if (missed < 0.0) {
        kind->active = workers;
        kind->next_trial = now + tuning.after_change;
        kind->failures = 0;
        kind->alarm_wait = 0.0;
        forget_usual(split, kind);
        return;
    }
    double lost = (kind->trial_sum - kind->trial_passes) * *usual,
           calm = ldexp(tuning.often, kind->failures / 2);
    if (kind->failures < tuning.most_failures) kind->failures++;
    if (kind->active < split->n_places) calm = fmin(calm, tuning.seldom_with_fewer);
    kind->next_trial = now + fmin(fmax(lost / tuning.loss, calm), tuning.seldom);
    kind->tries_up = !kind->tries_up;
}

/* The weight of the last `seconds` in an average over `memory` seconds. */
static double towards(double seconds, double memory)
{
    return 1.0 - exp(-seconds / memory);
}

void rf_split_learn(struct rf_split_kind *kind, int i, double work, double busy, double seconds)
{
    double *speed = &kind->speed[i], *recent = &kind->recent[i], *unsettled = &kind->unsettled[i];
    assert(seconds > 0.0 && work >= 0.0 && busy >= 0.0);
    if (busy > 0.0) {
        double now = work / busy;
        if (*recent == 0.0) *recent = *speed;
        if (*recent < 0.0) *recent = now;
        *recent += (now - *recent) * towards(seconds, tuning.recent_memory);
        *unsettled =
            fabs(*recent / *speed - 1.0) > tuning.off ? tuning.unsettled : *unsettled - seconds;
        if (*unsettled > 0.0)
            *speed = *recent;
        else
            *speed += (now - *speed) * towards(seconds, tuning.memory);
        return;
    }
    double best = *speed;
    for (int other = 0; other < kind->active; other++)
        if (kind->speed[other] > best) best = kind->speed[other];
    *speed = fmin(best, fmax(*speed, tuning.least_speed * best) * exp(seconds / tuning.forgetting));
    *recent = -1.0;
}

void rf_split_waited(struct rf_split_kind *kind, int i, double waited, double seconds)
{
    kind->late[i] += (waited / seconds - kind->late[i]) * towards(seconds, tuning.late_memory);
}

void rf_split_shares(const struct rf_split_kind *kind, const int *members, int count, float *shares)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++) sum += kind->speed[members[i]];
    assert(sum > 0.0);
    for (int i = 0; i < count; i++) shares[i] = (float)(kind->speed[members[i]] / sum);
}
