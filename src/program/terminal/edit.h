/* The text that is being written, and the effect of keys on it. Nothing here knows the terminal. */
#ifndef TERMINAL_EDIT_H
#define TERMINAL_EDIT_H

#include "output/buffer.h"
#include "terminal/history.h"
#include "terminal/keys.h"

/* All zero but `history` at first. */
struct edit {
    const struct history *history; /* may change between two texts */
    struct buffer text;            /* UTF-8 without control characters but \n and \t */
    size_t cursor;                 /* a byte of the text, where a character begins, or its end */

    /* The rest is private. */
    struct keys keys;
    struct buffer killed;                /* text that Ctrl-Y brings back */
    size_t shown;                        /* index of the message of the history; its count: none */
    struct buffer typed;                 /* the text that was typed, while a message is shown */
    int is_search, is_missing, is_paste; /* Ctrl-R; a search that found nothing; a paste */
    struct buffer query, pasted;
};

enum edit_result {
    EDIT_PART,     /* the byte belongs to a key or a paste that is not complete */
    EDIT_CHANGED,  /* the text or the cursor may be others */
    EDIT_DONE,     /* Enter */
    EDIT_END,      /* Ctrl-D in an empty text */
    EDIT_COMPLETE, /* Tab */
    EDIT_CLEAR     /* Ctrl-L: the screen is to be empty */
};

/* Begins a new text. */
void edit_begin(struct edit *edit);
enum edit_result edit_push(struct edit *edit, char byte);
/* Inserts n bytes at the cursor, without control characters and what is not UTF-8. */
void edit_insert(struct edit *edit, const char *text, size_t n);
/* Writes the prompt: `mark` and a space, or what is searched for. */
void edit_prompt(const struct edit *edit, char mark, struct buffer *prompt);
void edit_free(struct edit *edit);

#endif
