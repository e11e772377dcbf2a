/* How work is split over workers that differ: what each one's speed is, and how many of them pay.
 *
 * Everything here is measured. A worker's speed is what it did over the time that it took,
 * corrected all the while; the number of workers is tried against its neighbours, one pass now and
 * then, and changed when passes get shorter. What is split how never shows in results. All of this
 * is arithmetic without threads; team.c calls it where one worker acts for all. */
#ifndef RF_PLATFORM_SPLIT_H
#define RF_PLATFORM_SPLIT_H

#include "base/alloc.h"
#include "base/error.h"

/* Kinds of passes, by their rows of activations. */
enum rf_work {
    RF_WORK_ONE,  /* one row: bound by memory */
    RF_WORK_FEW,  /* up to RF_SPLIT_ROWS, as in verification */
    RF_WORK_MANY, /* more, as in prompts: bound by arithmetic */
    RF_WORK_KINDS
};
enum { RF_SPLIT_ROWS = 16 };

static inline enum rf_work rf_work_of(int n_rows)
{
    return n_rows == 1 ? RF_WORK_ONE : n_rows <= RF_SPLIT_ROWS ? RF_WORK_FEW : RF_WORK_MANY;
}

struct rf_split_kind {
    int active;     /* workers that take part, the first ones of the team */
    double *speed;  /* [n_workers] work per second, in any unit; only ratios count */
    double *recent; /* [n_workers] the same of the last milliseconds; 0: not known; below 0: nor is
                       `speed` */
    double
        *unsettled; /* [n_workers] seconds for which `recent` is believed, since it left `speed` */
    double *late;   /* [n_workers] part of the time in which all others waited for this one alone */
    double *out;    /* [n_workers] left out until this time, in seconds */
    double *outing; /* [n_workers] for how long it was left out last */

    int trial;        /* workers of the trial under way; 0: none */
    int trial_passes; /* that it has had */
    double trial_sum; /* of their times, each over what it would have taken with `active` workers */
    int tries_up;     /* direction of the next trial */
    double next_trial; /* not before this time, in seconds */
    int surprises;     /* passes in a row that took much longer than usual */
    double alarm;      /* such passes bring a trial forward, not before this time, */
    double alarm_wait; /* and not again for so long */
    int failures;      /* trials in a row that changed nothing */
};

/* Of one stream of passes over the same weights. */
struct rf_split {
    const struct rf_allocator *allocator;
    int n_workers, n_places;
    struct rf_split_kind kinds[RF_WORK_KINDS];
    double usual[RF_SPLIT_ROWS + 1]; /* seconds of a pass with so many rows; 0: not known yet */
    double *storage;                 /* of the kinds' arrays */
};

/* Of n_workers, of which n_places have a core of their own and begin. `first`: a split of as many
 * workers that begins this one (a measurement); NULL: all are equal. */
int rf_split_new(struct rf_split **split, int n_workers, int n_places, const struct rf_split *first,
                 const struct rf_allocator *allocator, struct rf_error *error);
void rf_split_free(struct rf_split *split);

/* The next number of workers to try from `active`, up or down: one more or less where there are
 * few, else a quarter. `active` itself where there is none. */
int rf_split_neighbour(const struct rf_split *split, int active, int up);

/* How many workers a pass of n_rows that begins at `now` is to have. */
int rf_split_workers(struct rf_split *split, int n_rows, double now);
/* Which ones: writes the first `workers` of those that do not hold up the others; returns how many,
 * which may be fewer. Worker 0 is always one of them, and the first. */
int rf_split_members(struct rf_split *split, int n_rows, int workers, double now, int *members);
/* That pass, of as many workers as rf_split_workers said, took so long. The last of a trial that
 * rf_split_members ended counts for nothing. */
void rf_split_took(struct rf_split *split, int n_rows, int workers, double now, double seconds);

/* During `seconds` (how long the last correction is ago) worker i did `work` in `busy` seconds; 0
 * and 0: it did nothing. */
void rf_split_learn(struct rf_split_kind *kind, int i, double work, double busy, double seconds);
/* In that time all others waited so long for worker i alone. */
void rf_split_waited(struct rf_split_kind *kind, int i, double waited, double seconds);

/* shares[i]: the part of all work that members[i] is to do. */
void rf_split_shares(const struct rf_split_kind *kind, const int *members, int count,
                     float *shares);

#endif
