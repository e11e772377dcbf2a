/* A prompt and a text of several lines on a terminal that understands escape sequences. The line
 * editor draws with it; nothing here reads or writes the terminal itself. */
#ifndef TERMINAL_EDIT_SCREEN_H
#define TERMINAL_EDIT_SCREEN_H

#include "output/buffer.h"

/* All zero but width and height at first, when the cursor is in column 0. */
struct edit_screen {
    int width, height; /* size of the terminal, at least 4 and 2 */

    /* The rest is private. */
    struct buffer shown; /* the part of prompt and text that the terminal shows */
    size_t cursor;       /* a byte of it */
    int row, column;     /* place of the cursor, counted from the beginning of the shown part */
    int top;             /* the row of prompt and text that is shown first */
};

struct edit_view {
    const char *prompt, *text; /* UTF-8; no control characters but \n and \t in the text */
    size_t cursor;             /* a byte of the text */
    int is_bold;               /* the prompt, but for its last character */
};

/* Appends to `out` what makes the terminal show the view and its cursor. Only what has changed is
 * written. A text with more rows than the terminal is shown in part. */
void edit_screen_draw(struct edit_screen *screen, const struct edit_view *view, struct buffer *out);
/* Shows all of it and puts the cursor at the beginning of the next line. */
void edit_screen_finish(struct edit_screen *screen, const struct edit_view *view,
                        struct buffer *out);
/* The terminal has another size, and has moved cursor and text with it: appends what removes them.
 * The next drawing begins there. */
void edit_screen_resize(struct edit_screen *screen, int width, int height, struct buffer *out);
/* The terminal shows nothing of it any more, and the cursor is in column 0. */
void edit_screen_forget(struct edit_screen *screen);
void edit_screen_free(struct edit_screen *screen);

#endif
