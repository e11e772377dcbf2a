/* tokenizer.model: a sentencepiece ModelProto. The library gets its bytes; this file reads pieces,
 * types and ids from it. */
#include <inttypes.h>

#include "model/hf.h"
#include "model/proto.h"

static void read_piece(struct rf_hf *hf, struct rf_cursor *cursor, int32_t id)
{
    struct rf_proto_field field;
    struct rf_str text = {"", 0};
    uint32_t score = 0;
    uint64_t type = RF_TOKEN_NORMAL;
    while (rf_proto_next(cursor, &field)) {
        if (rf_proto_is(&field, RF_SPM_PIECE_TEXT, RF_WIRE_BYTES))
            text = (struct rf_str){(const char *)field.bytes.data, field.bytes.bytes};
        if (rf_proto_is(&field, RF_SPM_PIECE_SCORE, RF_WIRE_32)) score = (uint32_t)field.integer;
        if (rf_proto_is(&field, RF_SPM_PIECE_TYPE, RF_WIRE_VARINT)) type = field.integer;
    }
    int known = type >= RF_TOKEN_NORMAL && type <= RF_TOKEN_BYTE;
    rf_vocab_set_token(&hf->reading, id, text, known ? (enum rf_token_type)type : RF_TOKEN_NORMAL);
    if (!known)
        rf_bad(&hf->reading, RF_ERR_FORMAT, "piece %" PRId32 " has the unknown type %" PRIu64, id,
               type);
    if (!hf->reading.code) memcpy(&hf->reading.source->vocab.scores[id], &score, sizeof score);
}

/* The defaults are the proto's. -1 means that the token does not exist. */
static void proto_trainer(struct rf_hf *hf, struct rf_cursor *cursor)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    struct rf_proto_field field;
    uint64_t kind = RF_SPM_UNIGRAM;
    while (rf_proto_next(cursor, &field)) {
        if (field.wire != RF_WIRE_VARINT) continue;
        int32_t id = field.integer > INT32_MAX ? -1 : (int32_t)field.integer;
        if (field.number == RF_SPM_MODEL_TYPE) kind = field.integer;
        if (field.number == RF_SPM_UNK_ID) vocab->unk = id;
        if (field.number == RF_SPM_BOS_ID) vocab->bos = id;
        if (field.number == RF_SPM_EOS_ID) vocab->eos = id;
        if (field.number == RF_SPM_PAD_ID) vocab->pad = id;
    }
    if (kind != RF_SPM_UNIGRAM && kind != RF_SPM_BPE)
        rf_bad(&hf->reading, RF_ERR_UNSUPPORTED,
               "model type %" PRIu64 " is neither unigram (1) nor BPE (2)", kind);
}

static void proto_normalizer(struct rf_hf *hf, struct rf_cursor *cursor)
{
    struct rf_vocab *vocab = &hf->reading.source->vocab;
    struct rf_proto_field field;
    while (rf_proto_next(cursor, &field)) {
        if (rf_proto_is(&field, RF_SPM_DUMMY_PREFIX, RF_WIRE_VARINT))
            vocab->add_space_prefix = field.integer != 0;
        if (rf_proto_is(&field, RF_SPM_REMOVE_WHITESPACE, RF_WIRE_VARINT))
            vocab->remove_extra_whitespaces = field.integer != 0;
    }
}

void rf_hf_read_sentencepiece(struct rf_hf *hf)
{
    struct rf_reading *reading = &hf->reading;
    struct rf_vocab *vocab = &reading->source->vocab;
    struct rf_str proto = hf->files->sentencepiece;
    vocab->scores = rf_keep(reading, (size_t)vocab->n_tokens, sizeof *vocab->scores, "vocabulary");
    vocab->spm_proto = proto;
    vocab->add_space_prefix = vocab->remove_extra_whitespaces = 1;
    vocab->unk = 0;
    vocab->bos = 1;
    vocab->eos = 2;
    reading->part = "tokenizer.model";
    rf_charge(reading, reading->part, proto.bytes, "pieces"); /* a sparse file has endless zeros */
    struct rf_cursor cursor = {(const unsigned char *)proto.data, proto.bytes, 0, reading};
    struct rf_proto_field field;
    int32_t n_pieces = 0;
    while (rf_proto_next(&cursor, &field)) {
        if (field.wire != RF_WIRE_BYTES) continue;
        if (field.number == RF_SPM_PIECES) read_piece(hf, &field.bytes, n_pieces++);
        if (field.number == RF_SPM_TRAINER) proto_trainer(hf, &field.bytes);
        if (field.number == RF_SPM_NORMALIZER) proto_normalizer(hf, &field.bytes);
    }
    if (n_pieces == 0) rf_bad(reading, RF_ERR_FORMAT, "has no pieces");
    reading->part = NULL;
}
