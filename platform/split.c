#include "platform/split.h"

#include <math.h>

/* Neighbours in memory make measured speeds wander by a few per cent, which must not show in the
 * shares, while a worker that really changes is to be followed at once. Seconds of a long and a
 * short average; how far the short one must be off to be believed, and for how long it then is. */
static const double MEMORY = 0.060, RECENT = 0.004, OFF = 0.15, UNSETTLED = 0.016;
/* A worker that got nothing is believed to be e times as fast after so many seconds, from that part
 * of the fastest one's speed up to all of it, until it is measured. So one that is really slow gets
 * too much for a moment now and then. */
static const double FORGETTING = 0.050, LEAST = 1e-3;
/* Of the usual time: what another number of workers must reach to be taken; by how much the passes
 * of a trial together may miss that, so that what is close is looked at for long; from where on
 * passes bring a trial forward, if there are SURPRISES in a row. */
static const double BETTER = 0.985, PATIENCE = 0.08, SURPRISE = 1.25;
/* Seconds between trials: at least, at most, and after a change, which may have been for a moment's
 * sake. */
static const double OFTEN = 0.25, SELDOM = 30.0, SOON = 0.05;
/* The longest time for which a false alarm keeps the next away. */
static const double ALARM = 8.0;
/* Of all time, that trials may cost. */
static const double LOSS = 0.01;
/* The most, but for that, where not all workers take part, since nothing tells that a core is free
 * again. */
static const double AGAIN = 1.0;
/* A worker for which all others wait longer than this multiple of its share, and a little, is worth
 * less than nothing; it is left out for so many seconds, twice as many each time that it comes back
 * no better. The time is averaged over LATE seconds. */
static const double WORTH = 1.3, LITTLE = 0.06, LATE = 0.05, OUT = 0.5, LONGEST_OUT = 16.0;
enum { TRIAL_PASSES = 8, SURPRISES = 2, FAILURES = 7, ARRAYS = 6 };

int rf_split_new(struct rf_split **split, int n_workers, int n_places, const struct rf_split *first,
                 const struct rf_allocator *allocator, struct rf_error *error)
{
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
    int step = active / 4 > 1 ? active / 4 : 1;
    int next = up ? active + step : active - step;
    if (next > split->n_places) next = active < split->n_places ? split->n_places : active;
    return next < 1 ? 1 : next;
}

/* Those who join are believed to be like the rest, until they are measured. */
static void welcome(struct rf_split_kind *kind, int active, int joined)
{
    double sum = 0.0;
    for (int i = 0; i < active; i++) sum += kind->speed[i];
    for (int i = active; i < joined; i++)
        if (kind->speed[i] < sum / active / 2) kind->speed[i] = sum / active / 2;
}

int rf_split_workers(struct rf_split *split, int n_rows, double now)
{
    struct rf_split_kind *kind = &split->kinds[rf_work_of(n_rows)];
    /* Of many rows a pass takes long, and all workers are wanted. */
    if (n_rows > RF_SPLIT_ROWS || split->usual[n_rows] <= 0.0) return kind->active;
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
    for (int rows = 1; rows <= RF_SPLIT_ROWS; rows++)
        if (&split->kinds[rf_work_of(rows)] == kind) split->usual[rows] = 0.0;
}

/* Leaves a worker out that costs more than it gives. */
static int holds_up(struct rf_split_kind *kind, int i, int workers, double now)
{
    double sum = 0.0;
    for (int other = 0; other < workers; other++)
        if (kind->out[other] <= now) sum += kind->speed[other];
    if (kind->late[i] <= WORTH * kind->speed[i] / sum + LITTLE) return 0;
    /* Back no better? */
    kind->outing[i] = now < kind->out[i] + kind->outing[i] ? 2.0 * kind->outing[i] : OUT;
    if (kind->outing[i] > LONGEST_OUT) kind->outing[i] = LONGEST_OUT;
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
    for (int i = 0; i < most && count < workers; i++) {
        if (i > 0 && kind->out[i] <= now && holds_up(kind, i, workers, now)) left_out = 1;
        if (i == 0 || kind->out[i] <= now) members[count++] = i;
    }
    if (left_out) {
        forget_usual(split, kind);
        /* A trial has nothing left to be compared with. */
        kind->trial = 0;
        kind->next_trial = fmax(kind->next_trial, now + SOON);
    }
    return count;
}

void rf_split_took(struct rf_split *split, int n_rows, int workers, double now, double seconds)
{
    struct rf_split_kind *kind = &split->kinds[rf_work_of(n_rows)];
    if (n_rows > RF_SPLIT_ROWS || (!kind->trial && workers != kind->active)) return;
    double *usual = &split->usual[n_rows];
    if (!kind->trial || workers != kind->trial) {
        kind->surprises = *usual > 0.0 && seconds > SURPRISE * *usual ? kind->surprises + 1 : 0;
        if (kind->surprises >= SURPRISES && now > kind->alarm) {
            /* A false alarm doubles the time to the next. */
            kind->alarm_wait = fmin(fmax(OFTEN, 2.0 * kind->alarm_wait), ALARM);
            kind->alarm = now + kind->alarm_wait;
            kind->next_trial = now;
        }
        *usual += (seconds - *usual) * (*usual > 0.0 ? 0.25 : 1.0);
        return;
    }
    kind->trial_sum += seconds / *usual;
    double missed = kind->trial_sum - BETTER * ++kind->trial_passes;
    if (missed < PATIENCE && kind->trial_passes < TRIAL_PASSES) return;
    kind->trial = 0;
    if (missed < 0.0) {
        kind->active = workers;
        kind->next_trial = now + SOON;
        kind->failures = 0;
        kind->alarm_wait = 0.0;
        forget_usual(split, kind);
        return;
    }
    /* The longer nothing has changed, the longer it will last. */
    double lost = (kind->trial_sum - kind->trial_passes) * *usual,
           calm = ldexp(OFTEN, kind->failures / 2);
    if (kind->failures < 2 * FAILURES) kind->failures++;
    if (kind->active < split->n_places) calm = fmin(calm, AGAIN);
    kind->next_trial = now + fmin(fmax(lost / LOSS, calm), SELDOM);
    kind->tries_up = !kind->tries_up;
}

/* How far an average over so many seconds goes towards what the last of them showed. */
static double towards(double seconds, double memory)
{
    return 1.0 - exp(-seconds / memory);
}

void rf_split_learn(struct rf_split_kind *kind, int i, double work, double busy, double seconds)
{
    double *speed = &kind->speed[i], *recent = &kind->recent[i], *unsettled = &kind->unsettled[i];
    if (busy > 0.0) {
        double now = work / busy;
        if (*recent == 0.0) *recent = *speed;
        if (*recent < 0.0) *recent = now;
        *recent += (now - *recent) * towards(seconds, RECENT);
        *unsettled = fabs(*recent / *speed - 1.0) > OFF ? UNSETTLED : *unsettled - seconds;
        if (*unsettled > 0.0)
            *speed = *recent;
        else
            *speed += (now - *speed) * towards(seconds, MEMORY);
        return;
    }
    double best = *speed;
    for (int other = 0; other < kind->active; other++)
        if (kind->speed[other] > best) best = kind->speed[other];
    *speed = fmin(best, fmax(*speed, LEAST * best) * exp(seconds / FORGETTING));
    *recent = -1.0;
}

void rf_split_waited(struct rf_split_kind *kind, int i, double waited, double seconds)
{
    kind->late[i] += (waited / seconds - kind->late[i]) * towards(seconds, LATE);
}

void rf_split_shares(const struct rf_split_kind *kind, const int *members, int count, float *shares)
{
    double sum = 0.0;
    for (int i = 0; i < count; i++) sum += kind->speed[members[i]];
    for (int i = 0; i < count; i++) shares[i] = (float)(kind->speed[members[i]] / sum);
}
