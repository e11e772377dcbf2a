/* Values of arguments that are not written as JSON: plain texts, whose type the function's schema
 * knows, and literals of Python. The reader of calls makes JSON of them. */
#ifndef ANSWERS_TOOL_VALUES_H
#define ANSWERS_TOOL_VALUES_H

#include <jansson.h>

enum tool_type {
    TOOL_STRING = 1,
    TOOL_NUMBER = 2,
    TOOL_BOOLEAN = 4,
    TOOL_NULL = 8,
    TOOL_ARRAY = 16,
    TOOL_OBJECT = 32,
    TOOL_ANY = 63
};

/* Types that a schema may allow, as bits; `root` has the definitions that it refers to. */
int rf_tool_types(const json_t *schema, const json_t *root);

/* The value of n bytes between tags, of one of the types: what they are as JSON or as a literal, if
 * that is of such a type, else the text. For json_decref(); NULL: no UTF-8, or no memory. */
json_t *rf_tool_value(const char *text, size_t n, int types);

/* The literal that a text begins with, and its bytes in *used. Strings are between quotation marks
 * of one kind, or between two `quote`s (NULL: no such). NULL: it is none. */
json_t *rf_tool_literal(const char *text, size_t n, const char *quote, size_t *used);

#endif
