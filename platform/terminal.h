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
/* Opens the standard streams that the parent closed, so that no other file gets their numbers. Using
 * them still fails. To be called before anything is opened. */
void rf_guard_streams(void);
/* 1 if the stream is a terminal with colour and NO_COLOR (https://no-color.org) is not set. */
int rf_terminal_colour(enum rf_stream stream);
/* Makes C's character functions work on UTF-8 in any locale. Numbers keep their C form. */
void rf_terminal_use_utf8(void);

/* From the first call on, Ctrl-C (SIGINT) is counted instead of ending the process, and the signal
 * handler calls `wake` (may be NULL). Many unanswered interrupts still end the process, with status
 * 130. */
void rf_interrupts_catch(void (*wake)(void *user), void *user);
/* Counts SIGTERM and SIGHUP, too: for work that keeps what it has done. Ignored ones stay so. */
void rf_interrupts_catch_all(void);
/* Interrupts since the last clear. */
int rf_interrupts(void);
void rf_interrupts_clear(void);

enum { RF_READ_END = 0, RF_READ_FAILED = -1, RF_READ_INTERRUPTED = -2 };
/* Waits for standard input and reads at most n bytes. Returns their number or one of the above. A
 * counted interrupt ends the wait. */
int64_t rf_stdin_read(char *data, size_t n);

#endif
