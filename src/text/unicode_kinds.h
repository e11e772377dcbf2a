/* Kinds of characters by their general category, as pre-tokenizers tell them apart. The values are
 * part of the patterns in pretokenize.c. */
#ifndef RF_TEXT_UNICODE_KINDS_H
#define RF_TEXT_UNICODE_KINDS_H

#include <stdint.h>

enum rf_unicode_kind {
    RF_KIND_OTHER,
    RF_KIND_SPACE, /* \s: separators, U+0009 to U+000D, U+0085 */
    RF_KIND_PUNCTUATION,
    RF_KIND_SYMBOL,
    RF_KIND_NUMBER,
    RF_KIND_MARK,
    RF_KIND_LETTER_MODIFIER,
    RF_KIND_LETTER_OTHER,
    RF_KIND_LETTER_SMALL,
    RF_KIND_LETTER_LONG_S, /* U+017F, a small letter that is an s where case is ignored */
    RF_KIND_LETTER_CAPITAL,
    RF_KIND_LETTER_TITLE
};

/* Any number; those behind U+10FFFF are OTHER. */
enum rf_unicode_kind rf_unicode_kind(uint32_t code_point);

#endif
