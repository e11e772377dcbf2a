/* JSON by RFC 8259 as jansson's values, without loss. jansson's own reader refuses zero bytes,
 * integers over 64 bits and numbers over 10^308, and its writer changes the digits of floats.
 *
 * A number that jansson cannot hold digit by digit is an object with one member, whose name is no
 * UTF-8, so that no document has it; the member is the number's text. Code that takes a number
 * from a document must take it with the functions below, and write it with rf_json_put. A zero byte
 * in the name of a member is held as the two bytes C0 80. */
#ifndef RF_BASE_JSON_H
#define RF_BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "base/alloc.h"

enum { RF_JSON_DEPTH = 2048 /* arrays and objects in each other */ };

struct rf_json_problem {
    size_t line, column; /* 1 ...; the column counts bytes */
    const char *text;    /* the fault, in a few words */
    int is_memory;       /* there was no memory */
};

/* Reads the value at the beginning of the text. `end`: gets its bytes, with blanks before it; NULL:
 * nothing but blanks may follow. Of members with one name the last counts. For json_decref(); NULL
 * with *problem (which may be NULL). */
json_t *rf_json_load(const char *text, size_t bytes, size_t *end, struct rf_json_problem *problem);
/* For formats that forbid two members with one name. */
json_t *rf_json_load_unique(const char *text, size_t bytes, struct rf_json_problem *problem);

/* True for objects of a document, not for such numbers. */
int rf_json_is_map(const json_t *value);
/* The text of a number that only its text holds, or NULL. */
const char *rf_json_number_text(const json_t *value);
/* A number in any of the three forms; false for other values. */
int rf_json_is_any_number(const json_t *value);
/* Its nearest F64, infinite if it is too large; 0 for other values. */
double rf_json_to_double(const json_t *value);
/* 1 and the value if it is an integer of 64 bits, also one such as 1e3 or 2.0. */
int rf_json_to_int64(const json_t *value, int64_t *integer);
/* The text, NULL if the value is no text or has a zero byte. */
const char *rf_json_c_string(const json_t *value);

/* Appends the value: numbers with the digits they were read with, other floats with the fewest that
 * read back. `spaced`: ", " and ": " instead of "," and ":". */
void rf_json_put(const json_t *value, int spaced, struct rf_writer *out);
/* Appends a string of UTF-8, quoted. */
void rf_json_put_string(const char *text, size_t bytes, struct rf_writer *out);
/* The value as a text for free(), of *bytes (may be NULL); NULL: no memory. */
char *rf_json_dump(const json_t *value, int spaced, size_t *bytes);

#endif
