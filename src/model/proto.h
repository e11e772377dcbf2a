/* Protocol buffers, and the fields of a sentencepiece model (sentencepiece_model.proto of that
 * project). */
#ifndef RF_MODEL_PROTO_H
#define RF_MODEL_PROTO_H

#include "model/cursor.h"

enum { RF_WIRE_VARINT = 0, RF_WIRE_64 = 1, RF_WIRE_BYTES = 2, RF_WIRE_32 = 5 };

enum {
    RF_SPM_PIECES = 1,
    RF_SPM_TRAINER = 2,
    RF_SPM_NORMALIZER = 3,
    RF_SPM_PIECE_TEXT = 1,
    RF_SPM_PIECE_SCORE = 2,
    RF_SPM_PIECE_TYPE = 3,
    RF_SPM_MODEL_TYPE = 3,
    RF_SPM_BYTE_FALLBACK = 35,
    RF_SPM_UNK_ID = 40,
    RF_SPM_BOS_ID = 41,
    RF_SPM_EOS_ID = 42,
    RF_SPM_PAD_ID = 43,
    RF_SPM_CHARSMAP = 2,
    RF_SPM_DUMMY_PREFIX = 3,
    RF_SPM_REMOVE_WHITESPACE = 4,
    RF_SPM_ESCAPE_WHITESPACE = 5,
    RF_SPM_UNIGRAM = 1, /* model types */
    RF_SPM_BPE = 2
};

struct rf_proto_field {
    uint64_t number;
    unsigned wire;
    uint64_t integer;       /* RF_WIRE_VARINT; the bits for RF_WIRE_32 and RF_WIRE_64 */
    struct rf_cursor bytes; /* RF_WIRE_BYTES */
};

/* 1 and the next field; 0 at the end or after a failure. */
int rf_proto_next(struct rf_cursor *cursor, struct rf_proto_field *field);

/* 1 if it is that field and of that kind. */
static inline int rf_proto_is(const struct rf_proto_field *field, uint64_t number, unsigned wire)
{
    return field->number == number && field->wire == wire;
}

#endif
