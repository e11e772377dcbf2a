/* Texts and errors between Riffle's UTF-8 and Windows's UTF-16. */
#ifndef RF_PLATFORM_WINDOWS_WIDE_H
#define RF_PLATFORM_WINDOWS_WIDE_H

#define WIN32_LEAN_AND_MEAN
#ifndef _WIN32_WINNT
#    define _WIN32_WINNT 0x0A00
#endif
#include <windows.h>

#include "base/error.h"

/* Copies for free(). NULL, with Windows's last error set: no memory, or `text` is not UTF-8.
 * Unpaired surrogates become U+FFFD. */
wchar_t *rf_wide(const char *text);
char *rf_narrow(const wchar_t *text);
/* rf_wide for a path: one that is too long for old calls gets the prefix that lifts their limit. */
wchar_t *rf_wide_path(const char *path);

/* CreateFileW for a path in UTF-8. Other processes may read, write, rename and delete the file
 * unless `share` says otherwise. */
HANDLE rf_open(const char *path, DWORD access, DWORD share, DWORD disposition, DWORD attributes);
enum { RF_SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };
/* The same, of a regular file that exists; RF_ERR_IO with a sentence where it is none. */
int rf_open_regular(HANDLE *file, const char *path, struct rf_error *error);

/* The errno that Windows's error is nearest to; 0 if there is none. */
int rf_errno_of(DWORD number);
/* The words for Windows's error, in English whatever the system's language. Returns `text`. */
enum { RF_REASON = 64 };
const char *rf_reason(DWORD number, char text[RF_REASON]);
/* RF_ERR_IO: "PATH: cannot WHAT: REASON". */
int rf_fail_path(struct rf_error *error, const char *path, const char *what, DWORD number);

#endif
