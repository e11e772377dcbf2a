/* Case of characters as Unicode maps them, also to several characters: str.upper(), lower(),
 * title() of Python for one character, apart from the final sigma. */
#ifndef RF_TEMPLATE_CASE_H
#define RF_TEMPLATE_CASE_H

#include <stddef.h>
#include <stdint.h>

enum rf_case { RF_CASE_UPPER, RF_CASE_LOWER, RF_CASE_TITLE, RF_CASE_FOLD };
enum { RF_CASE_BYTES = 12 };

/* Writes at most RF_CASE_BYTES bytes of UTF-8 and returns how many. */
size_t rf_case_map(uint32_t code_point, enum rf_case to, char *out);

#endif
