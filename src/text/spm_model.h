/* A sentencepiece model as pieces, and the serialised ModelProto that libsentencepiece is given.
 *
 * Whatever the file holds, the proto that is made here has what libsentencepiece takes for granted
 * (it ends the process over some of it): one unknown piece, all 256 byte pieces or none, no piece
 * that is empty, too long, twice there, or scored with something that is not a number. */
#ifndef RF_TEXT_SPM_MODEL_H
#define RF_TEXT_SPM_MODEL_H

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

struct rf_spm_model {
    int32_t n_pieces;
    const struct rf_str *pieces; /* [n_pieces], the vocabulary's */
    const float *scores;         /* likewise */
    uint8_t *types;     /* enum rf_token_type; a place without a token is of control type */
    int32_t unk;        /* -1: none */
    int32_t bytes[256]; /* ids of the byte pieces; -1 in bytes[0] when there are none */
    int unigram;        /* 1: unigram, 0: BPE */
    int add_dummy_prefix;
    int remove_extra_whitespaces;
};

/* From tokens, scores and types; kind and habits from vocab->spm_proto if there is one. */
int rf_spm_model_read(struct rf_spm_model *model, const struct rf_vocab *vocab, const char *path,
                      const struct rf_allocator *allocator, struct rf_error *error);
void rf_spm_model_free(struct rf_spm_model *model, const struct rf_allocator *allocator);

/* Appends the ModelProto to `proto`. Control, unknown and user-defined pieces are in it by their
 * places only: the tokenizer takes the special ones out of a text before sentencepiece sees it. */
int rf_spm_model_write(const struct rf_spm_model *model, int add_dummy_prefix,
                       const struct rf_allocator *allocator, struct rf_bytes *proto,
                       struct rf_error *error);

#endif
