/* Unicode normalisation form C. */
#ifndef RF_TEXT_NFC_H
#define RF_TEXT_NFC_H

#include "base/alloc.h"
#include "base/error.h"

/* 1 if no byte can start a character from U+0300 up; the text is then in form C. */
int rf_nfc_is_trivial(const char *text, size_t n);
/* Appends the text in form C to `out`. Bytes that are not UTF-8 stay unchanged. The time is linear,
 * even for long runs of combining marks. */
int rf_nfc(const char *text, size_t n, const struct rf_allocator *allocator, struct rf_bytes *out,
           struct rf_error *error);

#endif
