/* JSON documents, all that RFC 8259 allows; of members with one name the last counts. Invalid UTF-8
 * and deep nesting are errors. Every function accepts NULL for a value, and NULL is of no kind. So
 * a path through a document needs no checks on the way. */
#ifndef RF_MODEL_JSON_H
#define RF_MODEL_JSON_H

#include "model/reader.h"

struct rf_json; /* a value; it lives as long as its document */

/* NULL after a failure; the sentence names `part` as rf_bad_part does. */
struct rf_json *rf_json_parse(struct rf_reading *reading, const char *part, struct rf_str text);
/* The same for a format that forbids two members with one name. */
struct rf_json *rf_json_parse_unique(struct rf_reading *reading, const char *part,
                                     struct rf_str text);
void rf_json_free(struct rf_json *document);

/* The member of an object. NULL when it is missing or null, or when `value` is not an object. */
const struct rf_json *rf_json_get(const struct rf_json *value, const char *key);
/* 1 also for a member that is null. */
int rf_json_has(const struct rf_json *value, const char *key);
/* The number of elements of an array or of members of an object; else 0. */
size_t rf_json_count(const struct rf_json *value);
const struct rf_json *rf_json_at(const struct rf_json *array, size_t index);
int rf_json_is_object(const struct rf_json *value);
int rf_json_is_array(const struct rf_json *value);
int rf_json_is_null(const struct rf_json *value);
/* Objects are the same in any order of their members, numbers if their values are: 1, 1.0, 10e-1.
 */
int rf_json_same(const struct rf_json *a, const struct rf_json *b);
/* Appends the value as compact JSON, numbers as they were read. */
void rf_json_write(const struct rf_json *value, struct rf_writer *out);
/* Writes a string of UTF-8 likewise. */
void rf_json_write_string(struct rf_str text, struct rf_writer *out);

/* 1 and the value, or 0 when it is of another kind. Integers and reals are numbers; one that no F64
 * holds, such as 1e400, is none. An integer of over 64 bits is a number alone. */
int rf_json_string(const struct rf_json *value, struct rf_str *string);
int rf_json_integer(const struct rf_json *value, int64_t *integer);
int rf_json_number(const struct rf_json *value, double *number);
int rf_json_bool(const struct rf_json *value, int *flag);
/* 1 and the text of any number, which may be in the buffer. */
enum { RF_JSON_NUMBER_BUFFER = 32 };
int rf_json_number_string(const struct rf_json *value, char buffer[RF_JSON_NUMBER_BUFFER],
                          struct rf_str *text);

/* The text of a string, "" for any other kind. */
struct rf_str rf_json_text(const struct rf_json *value);
/* 1 for true, 0 for false and for any other kind. */
int rf_json_is_true(const struct rf_json *value);

/* Walks the members of an object; a key is terminated, and has the bytes C0 80 for a zero byte:
 * `for (void *i = NULL; rf_json_next(object, &i, &key, &value);)`.
 */
int rf_json_next(const struct rf_json *object, void **iterator, struct rf_str *key,
                 const struct rf_json **value);

#endif
