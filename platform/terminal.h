/* The terminal and interrupts, as the command line needs them. */
#ifndef RF_PLATFORM_TERMINAL_H
#define RF_PLATFORM_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum rf_stream { RF_STDIN = 0, RF_STDOUT = 1, RF_STDERR = 2 };

int rf_is_terminal(enum rf_stream stream);
/* Columns; 80 where the terminal does not say. */
int rf_terminal_width(enum rf_stream stream);
/* 1 if the stream is a terminal that shows colour and NO_COLOR (https://no-color.org) does not
 * forbid it. */
int rf_terminal_colour(enum rf_stream stream);
/* Makes the character functions of C work on UTF-8, whatever the locale; numbers keep their C form.
 */
void rf_terminal_use_utf8(void);

/* From the first call on Ctrl-C (SIGINT) is counted instead of ending the process, and `wake` (may
 * be NULL) is called from the signal handler. Many interrupts that nobody answers end the process
 * with status 130 after all. */
void rf_interrupts_catch(void (*wake)(void *user), void *user);
/* Interrupts since the last clear. */
int rf_interrupts(void);
void rf_interrupts_clear(void);

enum { RF_READ_END = 0, RF_READ_FAILED = -1, RF_READ_INTERRUPTED = -2 };
/* Reads what standard input has, at most n bytes, and waits if it has nothing. The number of bytes,
 * or one of the above; an interrupt that is counted ends the wait. */
int64_t rf_stdin_read(char *data, size_t n);

/* A number that differs from run to run. */
uint32_t rf_entropy(void);

#endif
