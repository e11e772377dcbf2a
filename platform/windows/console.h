/* Consoles that do not follow escape sequences: old ones, and wine's. */
#ifndef RF_PLATFORM_WINDOWS_CONSOLE_H
#define RF_PLATFORM_WINDOWS_CONSOLE_H

#include <stddef.h>

#include "platform/windows/wide.h"

/* Writes a text in UTF-8 and does what the sequences of the line editor say: up, right, erase
 * below, the first column, the first row. Others do nothing. */
void rf_console_write(HANDLE console, const char *text, size_t n);
/* The sequence that a terminal sends for a key without a character; "" if it sends none. */
const char *rf_console_key(WORD key, DWORD state);

#endif
