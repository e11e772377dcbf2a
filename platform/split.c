#include "platform/split.h"

#include <math.h>

static const double MEMORY = 0.004; /* seconds over which speeds are averaged */
static const double FORGETTING =
    0.050;                         /* seconds after which a worker that got nothing is believed to be like the others */
static const double BETTER = 0.96; /* of the usual time: what another number of workers must reach to be taken */
static const double OFTEN = 0.25, SELDOM = 30.0; /* seconds between trials */
static const double SOON = 0.05;                 /* after a change, which may have been for a moment's sake */
static const double LOSS = 0.01;                 /* of all time, that trials may cost */
static const double SURPRISE = 1.25;             /* of the usual time; so many passes in a row bring a trial forward */
enum { TRIAL_PASSES = 3, SURPRISES = 2 };

int rf_split_new(struct rf_split **split, int n_workers, int n_places, const struct rf_split *first,
                 const struct rf_allocator *allocator, struct rf_error *error)
{
    *split = NULL;
    struct rf_split *made = rf_calloc(allocator, 1, sizeof *made, "split", error);
    if (!made) return RF_ERR_MEMORY;
    size_t n = (size_t)n_workers;
    made->speeds = rf_malloc(allocator, RF_WORK_KINDS * n, sizeof(double), "split", error);
    if (!made->speeds) {
        rf_free(allocator, made);
        return RF_ERR_MEMORY;
    }
    made->allocator = allocator;
    made->n_workers = n_workers;
    made->n_places = n_places;
    for (int k = 0; k < RF_WORK_KINDS; k++) {
        struct rf_split_kind *kind = &made->kinds[k];
        kind->speed = made->speeds + (size_t)k * n;
        kind->active = first ? first->kinds[k].active : n_places;
        for (size_t i = 0; i < n; i++) kind->speed[i] = first ? first->kinds[k].speed[i] : 1.0;
    }
    *split = made;
    return 0;
}

void rf_split_free(struct rf_split *split)
{
    if (!split) return;
    rf_free(split->allocator, split->speeds);
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

void rf_split_took(struct rf_split *split, int n_rows, int workers, double now, double seconds)
{
    struct rf_split_kind *kind = &split->kinds[rf_work_of(n_rows)];
    if (n_rows > RF_SPLIT_ROWS) return;
    double *usual = &split->usual[n_rows];
    if (!kind->trial || workers != kind->trial) {
        kind->surprises = *usual > 0.0 && seconds > SURPRISE * *usual ? kind->surprises + 1 : 0;
        if (kind->surprises >= SURPRISES && now > kind->surprised + OFTEN) kind->surprised = kind->next_trial = now;
        *usual += (seconds - *usual) * (*usual > 0.0 ? 0.25 : 1.0);
        return;
    }
    kind->trial_sum += seconds / *usual;
    int better = kind->trial_sum < BETTER * ++kind->trial_passes;
    if (better && kind->trial_passes < TRIAL_PASSES) return;
    kind->trial = 0;
    if (better) {
        kind->active = workers;
        kind->next_trial = now + SOON;
        forget_usual(split, kind);
        return;
    }
    double wait = (seconds - *usual) / LOSS;
    kind->next_trial = now + (wait < OFTEN ? OFTEN : wait > SELDOM ? SELDOM : wait);
    kind->tries_up = !kind->tries_up;
}

void rf_split_learn(struct rf_split_kind *kind, int i, double work, double busy, double seconds)
{
    double *speed = &kind->speed[i];
    if (busy > 0.0) {
        *speed += (work / busy - *speed) * (1.0 - exp(-seconds / MEMORY));
        return;
    }
    double best = *speed;
    for (int other = 0; other < kind->active; other++)
        if (kind->speed[other] > best) best = kind->speed[other];
    *speed += (best - *speed) * (1.0 - exp(-seconds / FORGETTING));
}

void rf_split_ends(const struct rf_split_kind *kind, int count, float *ends)
{
    double sum = 0.0, end = 0.0;
    for (int i = 0; i < count; i++) sum += kind->speed[i];
    for (int i = 0; i < count; i++) {
        end += kind->speed[i];
        ends[i] = (float)(end / sum);
    }
    ends[count - 1] = 1.0f;
}
