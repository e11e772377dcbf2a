/* The beginning of a corpus file, for the two files that read and write it. */
#ifndef RF_SPECULATE_CORPUS_FILE_H
#define RF_SPECULATE_CORPUS_FILE_H

#include <stdint.h>

enum { RF_CORPUS_VERSION = 1 };

static const char rf_corpus_magic[8] = {'R', 'F', 'C', 'O', 'R', 'P', 'U', 'S'};

struct rf_corpus_header {
    char magic[8];
    uint32_t version;
    int32_t n_vocab;
    uint64_t vocabulary; /* fingerprint */
    uint64_t n_places, n_tokens;
    uint64_t reserved[3]; /* 0 */
};
_Static_assert(sizeof(struct rf_corpus_header) == 64, "as the file has it");

#endif
