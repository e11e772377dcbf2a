/* The pieces of a sentencepiece model, and the serialised ModelProto for libsentencepiece.
 *
 * libsentencepiece ends the process over some invalid models. Whatever the file holds, the proto
 * made here satisfies its assumptions: one unknown piece, all 256 byte pieces or none, and no piece
 * that is empty, too long, a duplicate, or scored with NaN or infinity. */
#ifndef RF_TEXT_SPM_MODEL_H
#define RF_TEXT_SPM_MODEL_H

#include "model/reader.h"

struct rf_spm_model {
    int32_t n_pieces;
    const struct rf_str *pieces; /* [n_pieces], owned by the vocabulary */
    const float *scores;         /* [n_pieces] as well */
    uint8_t *types;              /* enum rf_token_type; an id without a token is of control type */
    int32_t unk;                 /* -1: none */
    int32_t bytes[256];          /* ids of the byte pieces; -1 in bytes[0] when there are none */
    int unigram;                 /* 1: unigram, 0: BPE */
    int add_dummy_prefix;
    int remove_extra_whitespaces;
    struct rf_str charsmap; /* bytes is 0: none; libsentencepiece does not get it */
};

/* Makes the model from tokens, scores and types. Kind and settings come from vocab->spm_proto if
 * there is one. The types are in the reading's arena. */
void rf_spm_model_read(struct rf_spm_model *model, const struct rf_vocab *vocab,
                       struct rf_reading *reading);

/* Writes the ModelProto. Control, unknown and user-defined pieces only keep their ids: the
 * tokenizer removes special tokens from a text before sentencepiece sees it. */
void rf_spm_model_write(const struct rf_spm_model *model, int add_dummy_prefix,
                        struct rf_writer *out);

#endif
