/* How work is split over workers of different speed: each worker's speed, and how many workers a
 * pass gets.
 *
 * Everything here is measured. A worker's speed is its work divided by the time that it took, and
 * is corrected continuously. Now and then a pass is given to more or fewer workers, and the number
 * changes when passes get shorter. The split never changes results. This is arithmetic without
 * threads; team.c calls it where one worker acts for all. */
#ifndef RF_PLATFORM_SPLIT_H
#define RF_PLATFORM_SPLIT_H

#include "base/alloc.h"
#include "base/error.h"

/* Kinds of passes, by their number of rows. */
enum rf_work {
    RF_WORK_ONE,  /* one row: bound by memory */
    RF_WORK_FEW,  /* up to RF_FEW_ROWS, as in verification */
    RF_WORK_MANY, /* more, as in prompts: bound by arithmetic */
    RF_WORK_KINDS
};
/* Rows of a pass that costs little more than a pass over one: a verification. */
enum { RF_FEW_ROWS = 16 };

static inline enum rf_work rf_work_of(int n_rows)
{
    return n_rows == 1 ? RF_WORK_ONE : n_rows <= RF_FEW_ROWS ? RF_WORK_FEW : RF_WORK_MANY;
}

struct rf_split_kind {
    int active; /* workers that take part: the first ones of the team */
    /* [n_workers] each; times and durations are in seconds. */
    double *speed;     /* work per second, in any unit; only ratios count */
    double *recent;    /* the same over some milliseconds; 0: not known; below 0: nor is `speed` */
    double *unsettled; /* seconds for which `recent` is still believed instead of `speed` */
    double *late;      /* part of the time in which all others waited for this worker alone */
    double *out;       /* left out until this time */
    double *outing;    /* seconds for which it was left out last */

    int trial;        /* workers of the trial under way; 0: none */
    int trial_passes; /* passes of this trial so far */
    double trial_sum; /* sum of their times, each divided by the usual time with `active` workers */
    int tries_up;     /* the next trial is of more workers, not of fewer */
    double next_trial; /* not before this time */
    int surprises;     /* passes in a row that took much longer than usual */
    double alarm;      /* surprises bring a trial forward, not before this time */
    double alarm_wait; /* seconds from one alarm to the next */
    int failures;      /* trials in a row that changed nothing, up to a limit */
};

/* The split of the passes over one set of weights. */
struct rf_split {
    const struct rf_allocator *allocator;
    int n_workers, n_places;
    struct rf_split_kind kinds[RF_WORK_KINDS];
    double usual[RF_FEW_ROWS + 1]; /* seconds of a pass, by its rows; 0: not known yet */
    double *storage;               /* the kinds' arrays */
};

/* n_places workers of n_workers have a core of their own; passes begin with these. `first`: a
 * measured split of n_workers that gives the first speeds; NULL: all workers begin as equals. */
int rf_split_new(struct rf_split **split, int n_workers, int n_places, const struct rf_split *first,
                 const struct rf_allocator *allocator, struct rf_error *error);
void rf_split_free(struct rf_split *split);

/* The number of workers to try next: one or a quarter more than `active` (up), or fewer, within
 * 1 .. n_places; `active` itself where there is none. */
int rf_split_neighbour(const struct rf_split *split, int active, int up);

/* How many workers a pass of n_rows >= 1 that begins at `now` gets. */
int rf_split_workers(struct rf_split *split, int n_rows, double now);
/* The workers of a pass: writes the first `workers` workers that do not hold up the others. Returns
 * how many, which may be fewer. members[0] is always worker 0. */
int rf_split_members(struct rf_split *split, int n_rows, int workers, double now, int *members);
/* Notes that the pass took `seconds`. `workers`: what rf_split_workers returned for it. A pass of a
 * trial that rf_split_members ended is ignored. */
void rf_split_took(struct rf_split *split, int n_rows, int workers, double now, double seconds);

/* Notes that worker i did `work` in `busy` of the `seconds` since the last correction; both 0: it
 * did nothing. */
void rf_split_learn(struct rf_split_kind *kind, int i, double work, double busy, double seconds);
/* Notes that all others waited `waited` seconds for worker i alone in that time. */
void rf_split_waited(struct rf_split_kind *kind, int i, double waited, double seconds);

/* shares[i]: the part of the work that members[i] gets. Not all of their speeds may be 0. */
void rf_split_shares(const struct rf_split_kind *kind, const int *members, int count,
                     float *shares);

#endif
