/* A corpus: texts in tokens, and where each short run of tokens stands in them, in a file that is
 * mapped read-only (SPECTRA-RETRIEVAL, Le et al. 2025; REST, He et al. 2024).
 *
 * The file, little-endian:
 *
 *     header                          64 bytes: struct rf_corpus_header
 *     uint32 starts[n_vocab + 1]      places that begin with token t: order[starts[t] ..]
 *     uint32 order[n_places]          places in ascending order of the first RF_CORPUS_DEPTH tokens
 *     uint32 tokens[n_tokens]         the texts, each followed by RF_CORPUS_END
 *
 * Opening checks the header, the sizes and `starts`. The rest is checked at each read, so a damaged
 * file gives worse drafts and nothing else. */
#ifndef RF_SPECULATE_CORPUS_H
#define RF_SPECULATE_CORPUS_H

#include "base/alloc.h"
#include "base/error.h"
#include "speculate/draft.h"

#define RF_CORPUS_END UINT32_MAX

enum {
    RF_CORPUS_DEPTH = 16, /* tokens by which places are ordered */
    RF_CORPUS_LONGEST = 8 /* tokens of a text's end that are looked up */
};

struct rf_corpus;

/* RF_ERR_FORMAT: the file is damaged. RF_ERR_ARGUMENT: its tokens are of another vocabulary than
 * that of n_vocab tokens with this fingerprint. map_flags: RF_MAP_* of platform/file.h. */
int rf_corpus_open(struct rf_corpus **corpus, const char *path, int32_t n_vocab,
                   uint64_t vocabulary, unsigned map_flags, const struct rf_allocator *allocator,
                   struct rf_error *error);
void rf_corpus_close(struct rf_corpus *corpus); /* NULL is allowed */

/* Drafts a tree of what follows the end of tokens[0 .. n) in the corpus: after its longest run that
 * occurs there, and after the longest one that is common. No branch is longer than `max`. */
void rf_corpus_draft(const struct rf_corpus *corpus, const int32_t *tokens, int32_t n, int32_t max,
                     struct rf_draft *draft);

/* Writes a corpus. tokens[n_tokens]: texts, each followed by RF_CORPUS_END; their order in the file
 * is this one. RF_ERR_CANCELLED when `progress` says so. */
int rf_corpus_write(const char *path, const uint32_t *tokens, size_t n_tokens, int32_t n_vocab,
                    uint64_t vocabulary, int (*progress)(void *user, uint64_t done, uint64_t total),
                    void *user, const struct rf_allocator *allocator, struct rf_error *error);

#endif
