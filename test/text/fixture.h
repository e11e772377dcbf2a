/* Reads what scripts/make_text_fixtures.py writes; its head describes the formats. */
#ifndef RF_TEST_TEXT_FIXTURE_H
#define RF_TEST_TEXT_FIXTURE_H

#include <stddef.h>

#include "model/vocab.h"

/* A whole file with a terminating zero, from malloc; NULL and a message when it cannot be read. */
char *fixture_read(const char *path, size_t *bytes);

/* The line that begins at *at, without its newline; NULL at the end. Moves *at on. */
char *fixture_line(char **at);

/* Undoes %XX in place; returns the number of bytes. */
size_t fixture_unescape(char *text);

struct fixture_vocab {
    struct rf_vocab vocab;
    char *data;
};
/* 0, or -1 with a message. */
int fixture_vocab_open(struct fixture_vocab *fixture, const char *path);
void fixture_vocab_close(struct fixture_vocab *fixture);

/* The nasty strings. */
struct fixture_strings {
    struct rf_str *strings;
    size_t n;
};
int fixture_strings_open(struct fixture_strings *fixture, const char *path);
void fixture_strings_close(struct fixture_strings *fixture);

/* 1 if the ids are those of a line of an .ids file. */
int fixture_same_ids(const char *line, const int32_t *ids, size_t n);

#endif
