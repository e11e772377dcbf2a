/* One Jinja tag: its tokens, and what is known about its condition. */
#ifndef RF_TEXT_TEMPLATE_TAG_H
#define RF_TEXT_TEMPLATE_TAG_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

enum rf_tag_token_kind { RF_TAG_NAME, RF_TAG_NUMBER, RF_TAG_STRING, RF_TAG_OPERATOR };

struct rf_tag_token {
    enum rf_tag_token_kind kind;
    struct rf_str text; /* the value of a string, escapes resolved, is in `strings` of the tag */
};

enum { RF_TAG_MAX_TOKENS = 256 };

struct rf_tag {
    struct rf_tag_token tokens[RF_TAG_MAX_TOKENS];
    size_t n_tokens;
    char *strings; /* room for the values of strings: the length of the template */
    size_t strings_used;
    size_t end; /* in the source, after the closing brace */
    char sign;  /* '-' or '+' before the closing brace, 0 for none */
};

/* Reads tokens from source[at] to `close` ("%}" or "}}"). NULL, or the reason for failing. */
const char *rf_tag_read(struct rf_tag *tag, const char *source, size_t n, size_t at,
                        const char *close);

/* 1 if token i is the operator or name `text`. */
int rf_tag_is(const struct rf_tag *tag, size_t i, const char *text);

/* The index of the operator or name `word` outside brackets in first .. end - 1, or end. */
size_t rf_tag_find(const struct rf_tag *tag, size_t first, size_t end, const char *word);

/* Writes tokens first .. end - 1 in their normal form; message['role'] becomes message.role. */
void rf_tag_write(const struct rf_tag *tag, size_t first, size_t end, struct rf_writer *out);

/* The name of variable i that templates may ask for and that we never set, or -1. */
int rf_tag_absent_variable(struct rf_str name);

enum rf_tag_state {
    RF_TAG_UNDEFINED = 0,
    RF_TAG_NONE,
    RF_TAG_SET
}; /* of a missing variable, after {% set %} */
enum { RF_TAG_N_ABSENT = 8 };
enum rf_truth { RF_FALSE = 0, RF_TRUE = 1, RF_UNKNOWN = 2 };

/* The truth of the condition in tokens first .. end - 1. */
enum rf_truth rf_tag_truth(const struct rf_tag *tag, size_t first, size_t end,
                           const enum rf_tag_state states[RF_TAG_N_ABSENT]);

#endif
