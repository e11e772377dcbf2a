/* A grammar that limits a model's text, and the walk through it.
 *
 * A grammar is immutable; threads may share it. A matcher walks: it belongs to one thread at a
 * time. Its states are small numbers, so drafts may branch and be taken back at no cost. All that
 * it finds out about states it keeps, up to a limit of memory. */
#ifndef RF_GRAMMAR_GRAMMAR_H
#define RF_GRAMMAR_GRAMMAR_H

#include "grammar/trie.h"

struct rf_grammar;
struct rf_matcher;
struct rf_watch;

enum rf_grammar_kind { RF_GRAMMAR_GBNF, RF_GRAMMAR_JSON_SCHEMA, RF_GRAMMAR_CHOICE };

/* Reads and compiles the text. What the vocabulary points to must outlive the grammar.
 * RF_ERR_FORMAT: the text is malformed, or no text meets it; RF_ERR_UNSUPPORTED: a part of it is
 * not supported. The sentence names the place. `watch` (ir.h) may be NULL. */
int rf_grammar_new(struct rf_grammar **grammar, enum rf_grammar_kind kind, struct rf_str text,
                   const struct rf_grammar_vocab *vocab, struct rf_watch *watch,
                   const struct rf_allocator *allocator, struct rf_error *error);
void rf_grammar_free(struct rf_grammar *grammar);

int rf_matcher_new(struct rf_matcher **matcher, const struct rf_grammar *grammar,
                   struct rf_error *error);
void rf_matcher_free(struct rf_matcher *matcher);

enum {
    RF_STATE_REJECTED = 0, /* no text of the grammar begins like that */
    RF_STATE_FINAL = 1     /* the text is complete, and nothing can follow */
};

/* The state before any text, or a negative code. */
int32_t rf_matcher_start(struct rf_matcher *matcher, struct rf_error *error);
/* The state after a token: one of the two above, another one, or a negative code. A token that ends
 * a text leads from where the text is complete to FINAL. Nothing leads away from the two. */
int32_t rf_matcher_advance(struct rf_matcher *matcher, int32_t state, int32_t token,
                           struct rf_error *error);

/* The tokens that may follow. `bits`: [n_vocab / 64, rounded up]. */
struct rf_token_mask {
    const uint64_t *bits;
    int32_t count;
    int32_t only; /* the token where count is 1, else -1 */
};
/* *mask is valid until rf_matcher_trim. A state from which the text cannot go on with any token of
 * the vocabulary gives an empty one. */
int rf_matcher_mask(struct rf_matcher *matcher, int32_t state, struct rf_token_mask *mask,
                    struct rf_error *error);
/* 1 if the text is complete there. */
int rf_matcher_accepts(const struct rf_matcher *matcher, int32_t state);

/* Tokens for the bytes that have no alternative from `state` on, such as a name in JSON: always the
 * longest token, at most `max`. A guess: other tokens may spell the same bytes. Returns how many,
 * or a negative code. */
int32_t rf_matcher_forced(struct rf_matcher *matcher, int32_t state, int32_t *tokens, int32_t max,
                          struct rf_error *error);

/* Frees the matcher's knowledge about states where it takes much memory. Only *state is a state
 * afterwards, under another number. */
int rf_matcher_trim(struct rf_matcher *matcher, int32_t *state, struct rf_error *error);

#endif
