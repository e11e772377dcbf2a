/* Progress on standard error, if that is a terminal: one line for work that takes longer than half
 * a second, and at once for reading a long text. The line disappears when the work is done. */
#ifndef OUTPUT_PROGRESS_H
#define OUTPUT_PROGRESS_H

#include <stdint.h>

/* All zero: no work has begun. */
struct progress_line {
    int shown; /* a line is on the screen */
    char stage[32];
    uint64_t start_done;
    double start_seconds, drawn_seconds;
};

/* A riffle_progress_fn whose user is a struct progress_line. Stops the work after an interrupt. */
int progress_update(void *user, const char *stage, uint64_t done, uint64_t total);

/* Updates the line with a note after the percentage. */
int progress_update_note(struct progress_line *progress, const char *stage, uint64_t done,
                         uint64_t total, const char *note);

/* Removes the line until the next update, so that something else can be printed. */
void progress_hide(struct progress_line *progress);

/* Removes the line and prepares for other work. */
void progress_clear(struct progress_line *progress);

#endif
