/* A precompiled character map, as sentencepiece's models and tokenizer.json have it: strings of
 * characters and what replaces them before a text is cut into pieces. */
#ifndef RF_TEXT_CHARSMAP_H
#define RF_TEXT_CHARSMAP_H

#include "model/reader.h"
#include "text/clusters.h"

struct rf_charsmap {
    const unsigned char *units; /* [4 * n_units]: a double-array trie, little-endian */
    size_t n_units;             /* 0: there is no map */
    const char *replacements;   /* each ends with a zero */
    size_t bytes;
};

/* Reads the map. It points into the blob. No trie, however wrong, is read outside its bounds. */
void rf_charsmap_read(struct rf_charsmap *map, struct rf_str blob, struct rf_reading *reading);
/* Appends the text, the longest string of the map replaced at each place, from the left, as
 * sentencepiece does. */
void rf_charsmap_apply(const struct rf_charsmap *map, const char *text, size_t n,
                       struct rf_writer *out);
/* The same as the package tokenizers does: a cluster of less than six bytes is replaced as a whole
 * by what the shortest string of the map becomes that it begins with; where there is none, and of
 * longer clusters, each character is replaced. */
void rf_charsmap_apply_clusters(const struct rf_charsmap *map, const struct rf_clusters *clusters,
                                const char *text, size_t n, struct rf_writer *out);

#endif
