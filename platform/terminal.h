/* The terminal and interrupts, as the command line needs them. */
#ifndef RF_PLATFORM_TERMINAL_H
#define RF_PLATFORM_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum rf_stream { RF_STDIN = 0, RF_STDOUT = 1, RF_STDERR = 2 };

int rf_is_terminal(enum rf_stream stream);
/* Columns of the terminal; 80 if unknown. */
int rf_terminal_width(enum rf_stream stream);
/* Rows of the terminal; 24 if unknown. */
int rf_terminal_height(enum rf_stream stream);
/* Opens the standard streams that the parent closed, so that no other file gets their numbers.
 * Using them still fails. To be called before anything is opened. */
void rf_guard_streams(void);
/* 1 if the stream is a terminal that understands escape sequences: not TERM=dumb, and
 * not Emacs. */
int rf_terminal_escapes(enum rf_stream stream);
/* 1 if rf_terminal_write can also move the cursor up and right, go to the first row and column, and
 * erase what is below. Windows does it for consoles without escape sequences, too. */
int rf_terminal_edits(enum rf_stream stream);
/* 1 if it understands escape sequences and NO_COLOR (https://no-color.org) is not set. */
int rf_terminal_colour(enum rf_stream stream);
/* Writes n bytes at once with what rf_terminal_edits can, past C's buffers, which the caller has
 * flushed: a console shows parts of a character as unknown ones. What cannot be written is lost. */
void rf_terminal_write(enum rf_stream stream, const char *data, size_t n);
/* Makes C's character functions work on UTF-8 in any locale. Numbers keep their C form. */
void rf_terminal_use_utf8(void);
/* Columns of a character after rf_terminal_use_utf8: 2 for wide ones, 0 for those that combine with
 * the one before, else 1. */
int rf_terminal_columns(uint32_t code_point);

/* Stops the terminal of standard input from echoing what is typed, which stays unread for
 * rf_stdin_read; Ctrl-C and Ctrl-Z still work. The first call saves the modes, and later ones set
 * the quiet modes again after a line editor. Until rf_terminal_restore, exit() and signals that end
 * or stop the process restore the saved modes and write `undo` (a constant, such as an escape
 * sequence) to standard error. When the process continues, the terminal gets back the modes that it
 * had. */
void rf_terminal_quiet(const char *undo);
/* Sets the saved modes and writes `undo`, if the terminal is quiet. */
void rf_terminal_restore(void);

/* From the first call on, Ctrl-C (SIGINT) is counted instead of ending the process, and the signal
 * handler calls `wake` (may be NULL). Many unanswered interrupts still end the process, with status
 * 130. */
void rf_interrupts_catch(void (*wake)(void *user), void *user);
/* Counts SIGTERM and SIGHUP, too: for work that keeps what it has done. Ignored ones stay so, and
 * SIGHUP where rf_hangups_catch counts it. */
void rf_interrupts_catch_all(void);
/* From now on SIGHUP is counted by itself, unless it is ignored: for programs that then read their
 * files again. */
void rf_hangups_catch(void);
/* 1 if there was a SIGHUP since the last call. */
int rf_hangups_take(void);
/* Interrupts since the last clear. */
int rf_interrupts(void);
void rf_interrupts_clear(void);

enum {
    RF_READ_END = 0,
    RF_READ_FAILED = -1,
    RF_READ_INTERRUPTED = -2,
    RF_READ_RESIZED = -3,  /* the terminal has another size */
    RF_READ_CONTINUED = -4 /* the process was stopped, and the shell has used the terminal */
};
/* Waits for standard input and reads at most n bytes. Returns their number or one of the above. A
 * counted interrupt ends the wait. The last two are returned once for each such event, and only
 * between rf_terminal_quiet and rf_terminal_restore. */
int64_t rf_stdin_read(char *data, size_t n);

#endif
