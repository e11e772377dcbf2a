/* One line on standard error about work that takes longer than half a second, if that is a
 * terminal; it disappears when the work is done. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

struct progress {
    int shown; /* a line is on the screen */
    char stage[32];
    uint64_t start_done;
    double start_seconds, drawn_seconds;
};

/* A riffle_progress_fn whose user is a struct progress: also stops the work after an interrupt. */
int progress_update(void *user, const char *stage, uint64_t done, uint64_t total);

/* The same with words of the caller's own behind the percentage. */
int progress_update_note(struct progress *progress, const char *stage, uint64_t done,
                         uint64_t total, const char *note);

/* Takes the line away until the next update, so that something else can be printed. */
void progress_hide(struct progress *progress);

/* Takes the line away; what comes next is new work. */
void progress_clear(struct progress *progress);

#endif
