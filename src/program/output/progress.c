/* Draws the line of progress, at most ten times a second and only on a terminal with escapes.
 * Other output must hide the line first. */
#include "output/progress.h"

#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/terminal.h"

static const double show_after_seconds = 0.5, draw_every_seconds = 0.1;

void progress_hide(struct progress_line *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    progress->shown = 0;
}

void progress_clear(struct progress_line *progress)
{
    progress_hide(progress);
    *progress = (struct progress_line){0};
}

/* `at_once`: also before the work has taken half a second. */
static int progress_show(struct progress_line *progress, const char *stage, uint64_t done,
                         uint64_t total, const char *note, int at_once)
{
    double now = rf_clock_seconds();
    if (!progress->stage[0] || strncmp(stage, progress->stage, sizeof progress->stage - 1) != 0) {
        progress_clear(progress);
        snprintf(progress->stage, sizeof progress->stage, "%s", stage);
        progress->start_seconds = now;
        progress->start_done = done;
    }
    int is_due = at_once || now - progress->start_seconds >= show_after_seconds;
    if (rf_terminal_escapes(RF_STDERR) && is_due &&
        now - progress->drawn_seconds >= draw_every_seconds) {
        char line[256];
        double percent = total ? 100.0 * (double)done / (double)total : 0.0;
        snprintf(line, sizeof line, "%s %.0f %%%s%s", progress->stage, percent, note[0] ? ", " : "",
                 note);
        fprintf(stderr, "\r\033[K%.*s", rf_terminal_width(RF_STDERR) - 1, line);
        fflush(stderr);
        progress->shown = 1;
        progress->drawn_seconds = now;
    }
    return rf_interrupts() > 0;
}

int progress_update_note(struct progress_line *progress, const char *stage, uint64_t done,
                         uint64_t total, const char *note)
{
    return progress_show(progress, stage, done, total, note, 0);
}

/* "reading 4096 tokens, 25 %, 170 tokens/s". A large model takes seconds for the first part of a
 * text, so a text of some length is announced before it. */
static int show_reading(struct progress_line *progress, uint64_t done, uint64_t total)
{
    enum { LONG = 64 };
    char note[64] = "", stage[sizeof progress->stage];
    double elapsed = rf_clock_seconds() - progress->start_seconds;
    snprintf(stage, sizeof stage, "reading %llu tokens,", (unsigned long long)total);
    if (done > progress->start_done && strcmp(progress->stage, stage) == 0 && elapsed > 0)
        snprintf(note, sizeof note, "%.0f tokens/s",
                 (double)(done - progress->start_done) / elapsed);
    return progress_show(progress, stage, done, total, note, total >= LONG);
}

int progress_update(void *user, const char *stage, uint64_t done, uint64_t total)
{
    if (strcmp(stage, "prefill") == 0) return show_reading(user, done, total);
    return progress_show(user, stage, done, total, "", 0);
}
