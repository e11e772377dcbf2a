/* A dictionary of the tokens that a model found likely after a text's last token, and after its
 * last two: the candidates that passes compute beside the tokens that they are asked for. Rejected
 * drafts feed it too (the free part of SPECTRA's candidate pool, Le et al. 2025; Token Recycling,
 * Luo et al. 2024).
 *
 * Its size is fixed. Adding and finding take constant time and no allocation. A context that was
 * neither seen nor found lately gives up its place first. */
#ifndef RF_SPECULATE_SUCCESSORS_H
#define RF_SPECULATE_SUCCESSORS_H

#include "base/alloc.h"
#include "base/error.h"
#include "infer/backend.h"

enum { RF_CONTEXTS = 2 /* kinds of contexts: the last token, and the last two */ };

struct rf_successors;

/* The tokens that followed one context, in descending order of probability. */
struct rf_followers {
    int32_t n; /* 0: the context is not known */
    int32_t tokens[RF_MAX_BEST];
    float p[RF_MAX_BEST];
};

/* Makes a dictionary with places for at least `contexts` of each length, within limits. */
int rf_successors_new(struct rf_successors **successors, int32_t contexts,
                      const struct rf_allocator *allocator, struct rf_error *error);
void rf_successors_free(struct rf_successors *successors);
void rf_successors_clear(struct rf_successors *successors);

/* Adds `best`, the tokens that a model found likely after the n tokens before `end`. */
void rf_successors_add(struct rf_successors *successors, const int32_t *end, int32_t n,
                       const struct rf_best *best);
/* Finds the known followers of the n tokens before `end`: found[c] after the last c + 1 of them. */
void rf_successors_find(struct rf_successors *successors, const int32_t *end, int32_t n,
                        struct rf_followers found[RF_CONTEXTS]);

/* Writes up to `max` tokens that were found likely lately, and after which nothing is known, and
 * returns how many. They are not named again until they are found likely again. */
int32_t rf_successors_unknown(struct rf_successors *successors, int32_t max, int32_t *tokens);

/* Takes over what another dictionary of the same size knows, in place of its own knowledge. */
void rf_successors_copy(struct rf_successors *to, const struct rf_successors *from);

/* ---- as bytes ---- */

/* The size of a saved dictionary, at most RF_SUCCESSORS_MOST_BYTES. */
enum { RF_SUCCESSORS_MOST_BYTES = 4 << 20 };
size_t rf_successors_bytes(const struct rf_successors *successors);
void rf_successors_save(const struct rf_successors *successors, void *data);
/* 1 if the bytes, from anywhere, are what save may have written for such a vocabulary. */
int rf_successors_check(const void *data, size_t bytes, int32_t n_vocab);
/* Forgets all, and takes in bytes that were checked. If they hold a larger dictionary, the contexts
 * that were used last stay. */
void rf_successors_load(struct rf_successors *successors, const void *data, size_t bytes);

#endif
