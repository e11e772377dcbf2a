/* Reads a vocabulary as a sentencepiece model, checks it, and writes the proto that
 * libsentencepiece loads. Nothing that would make that library fail, or recurse deeply, passes
 * the checks. tokenizer.c calls it before spm.cc. */
#include "text/spm_model.h"

#include <math.h>
#include <stdio.h>

#include "model/proto.h"
#include "text/strmap.h"

/* libsentencepiece recurses over pieces of type UNUSED, so a piece's length bounds the depth. */
enum { LONGEST_PIECE = 2048, SHOWN = 100 /* bytes of a piece in a sentence */ };

/* ---- reading ---- */

static void read_trainer_spec(struct rf_spm_model *model, struct rf_cursor *cursor,
                              struct rf_reading *reading)
{
    struct rf_proto_field field;
    while (rf_proto_next(cursor, &field)) {
        if (!rf_proto_is(&field, RF_SPM_MODEL_TYPE, RF_WIRE_VARINT)) continue;
        if (field.integer != RF_SPM_UNIGRAM && field.integer != RF_SPM_BPE)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "sentencepiece model type %llu is not supported, only unigram and BPE are",
                   (unsigned long long)field.integer);
        model->unigram = field.integer == RF_SPM_UNIGRAM;
    }
}

static void read_normalizer_spec(struct rf_spm_model *model, struct rf_cursor *cursor)
{
    struct rf_proto_field field;
    while (rf_proto_next(cursor, &field)) {
        if (rf_proto_is(&field, RF_SPM_CHARSMAP, RF_WIRE_BYTES))
            model->charsmap = (struct rf_str){(const char *)field.bytes.data, field.bytes.bytes};
        if (rf_proto_is(&field, RF_SPM_DUMMY_PREFIX, RF_WIRE_VARINT))
            model->add_dummy_prefix = field.integer != 0;
        if (rf_proto_is(&field, RF_SPM_REMOVE_WHITESPACE, RF_WIRE_VARINT))
            model->remove_extra_whitespaces = field.integer != 0;
    }
}

/* Reads everything of the proto but its pieces, which the vocabulary has. */
static void read_proto(struct rf_spm_model *model, struct rf_str proto, struct rf_reading *reading)
{
    struct rf_reading fields = {.error = NULL}; /* only the code of its failure counts */
    struct rf_cursor cursor = {(const unsigned char *)proto.data, proto.bytes, 0, &fields};
    struct rf_proto_field field;
    model->unigram = model->remove_extra_whitespaces = 1; /* the proto's defaults */
    while (rf_proto_next(&cursor, &field)) {
        if (rf_proto_is(&field, RF_SPM_TRAINER, RF_WIRE_BYTES))
            read_trainer_spec(model, &field.bytes, reading);
        if (rf_proto_is(&field, RF_SPM_NORMALIZER, RF_WIRE_BYTES))
            read_normalizer_spec(model, &field.bytes);
    }
    if (fields.code) rf_bad(reading, RF_ERR_FORMAT, "the sentencepiece model is damaged");
}

/* ---- checks ---- */

/* The value of a byte piece's name, <0x00> to <0xFF>, or -1. */
static int byte_value(struct rf_str piece)
{
    static const char digits[] = "0123456789ABCDEF";
    if (piece.bytes != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
    const char *high = memchr(digits, piece.data[3], 16), *low = memchr(digits, piece.data[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

static void check_bytes(struct rf_spm_model *model, struct rf_reading *reading)
{
    int found = 0;
    for (int byte = 0; byte < 256; byte++) model->bytes[byte] = -1;
    for (int32_t id = 0; id < model->n_pieces; id++) {
        if (model->types[id] != RF_TOKEN_BYTE) continue;
        struct rf_str piece = model->pieces[id];
        int value = byte_value(piece);
        if (value < 0)
            rf_bad(reading, RF_ERR_FORMAT,
                   "token %d is a byte token, but its text \"%.*s\" is none of <0x00> to <0xFF>",
                   (int)id, rf_shown_up_to(piece, SHOWN), piece.data);
        else
            model->bytes[value] = id; /* duplicates have been refused */
        found++;
    }
    for (int byte = 0; found && byte < 256; byte++)
        if (model->bytes[byte] < 0)
            rf_bad(reading, RF_ERR_FORMAT,
                   "the vocabulary has byte tokens for %d of 256 bytes; <0x%02X> is missing", found,
                   (unsigned)byte);
}

static void check_piece(struct rf_spm_model *model, struct rf_strmap *seen, int32_t id,
                        struct rf_reading *reading)
{
    struct rf_str piece = model->pieces[id];
    int type = model->types[id];
    if (type < RF_TOKEN_NORMAL || type > RF_TOKEN_BYTE)
        rf_bad(reading, RF_ERR_FORMAT, "token %d has a type that does not exist (%d)", (int)id,
               type);
    if (!isfinite(model->scores[id]))
        rf_bad(reading, RF_ERR_FORMAT, "the score of token %d is not a finite number", (int)id);
    if (piece.bytes == 0) {
        model->types[id] = RF_TOKEN_CONTROL; /* an id without a token */
        return;
    }
    if (piece.bytes > LONGEST_PIECE)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "token %d is %zu bytes long; at most %d are supported",
               (int)id, piece.bytes, LONGEST_PIECE);
    if (memchr(piece.data, 0, piece.bytes))
        rf_bad(reading, RF_ERR_FORMAT, "token %d holds a zero byte", (int)id);
    int32_t other = rf_strmap_put(seen, id, 0);
    if (other != id)
        rf_bad(reading, RF_ERR_FORMAT, "tokens %d and %d are both \"%.*s\"", (int)other, (int)id,
               rf_shown_up_to(piece, SHOWN), piece.data);
}

static void check_pieces(struct rf_spm_model *model, struct rf_reading *reading)
{
    struct rf_strmap seen;
    int words = 0;
    if (reading->code) return;
    reading->code = rf_strmap_init(&seen, model->pieces, model->n_pieces, reading->arena.allocator,
                                   reading->error);
    for (int32_t id = 0; !reading->code && id < model->n_pieces; id++) {
        check_piece(model, &seen, id, reading);
        words |= model->types[id] == RF_TOKEN_NORMAL || model->types[id] == RF_TOKEN_BYTE;
    }
    rf_strmap_free(&seen, reading->arena.allocator);
    if (!words) rf_bad(reading, RF_ERR_FORMAT, "the vocabulary has no word pieces");
    check_bytes(model, reading);
    if (model->unk < 0 && model->bytes[0] < 0)
        rf_bad(reading, RF_ERR_FORMAT,
               "the vocabulary has neither an unknown token nor byte tokens, so not every text can "
               "be encoded");
}

/* The unknown token that the vocabulary names, else the first of that type, or -1. */
static int32_t find_unknown(const struct rf_spm_model *model, const struct rf_vocab *vocab)
{
    if (vocab->unk >= 0 && vocab->unk < model->n_pieces &&
        model->types[vocab->unk] != RF_TOKEN_BYTE)
        return vocab->unk;
    for (int32_t id = 0; id < model->n_pieces; id++)
        if (model->types[id] == RF_TOKEN_UNKNOWN) return id;
    return -1;
}

void rf_spm_model_read(struct rf_spm_model *model, const struct rf_vocab *vocab,
                       struct rf_reading *reading)
{
    *model = (struct rf_spm_model){.n_pieces = vocab->n_tokens,
                                   .pieces = vocab->tokens,
                                   .scores = vocab->scores,
                                   .unigram = vocab->unigram,
                                   .charsmap = vocab->charsmap,
                                   .add_dummy_prefix = 1};
    if (vocab->spm_proto.bytes) read_proto(model, vocab->spm_proto, reading);
    if (vocab->n_tokens <= 0) rf_bad(reading, RF_ERR_FORMAT, "the vocabulary is empty");
    if (!vocab->scores)
        rf_bad(reading, RF_ERR_FORMAT, "the sentencepiece vocabulary has no scores");
    model->types = rf_take(reading, (size_t)model->n_pieces, sizeof *model->types, "vocabulary");
    if (!model->types) return;
    for (int32_t id = 0; id < model->n_pieces; id++)
        model->types[id] = vocab->types ? vocab->types[id] : RF_TOKEN_NORMAL;
    if (vocab->add_space_prefix >= 0) model->add_dummy_prefix = vocab->add_space_prefix;
    if (vocab->remove_extra_whitespaces >= 0)
        model->remove_extra_whitespaces = vocab->remove_extra_whitespaces;
    model->unk = find_unknown(model, vocab);
    check_pieces(model, reading);
}

/* ---- writing ---- */

static void put_varint(struct rf_writer *out, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value >= 0x80 ? 0x80 : 0));
        rf_write(out, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_field_number(struct rf_writer *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3 | RF_WIRE_VARINT);
    put_varint(out, value);
}

static void put_field_bytes(struct rf_writer *out, unsigned field, const void *data, size_t n)
{
    put_varint(out, field << 3 | RF_WIRE_BYTES);
    put_varint(out, n);
    rf_write(out, data, n);
}

/* Puts the bytes of `message` into a field and empties the message. */
static void put_message(struct rf_writer *out, unsigned field, struct rf_writer *message)
{
    if (!out->code) out->code = message->code;
    put_field_bytes(out, field, message->bytes->data, message->bytes->count);
    message->bytes->count = 0;
}

static void put_piece(struct rf_writer *out, struct rf_writer *piece, struct rf_str text,
                      float score, int type)
{
    put_field_bytes(piece, RF_SPM_PIECE_TEXT, text.data, text.bytes);
    put_varint(piece, RF_SPM_PIECE_SCORE << 3 | RF_WIRE_32);
    rf_write(piece, &score, sizeof score); /* little-endian, as model/dequant.c requires */
    put_field_number(piece, RF_SPM_PIECE_TYPE, (uint64_t)type);
    put_message(out, RF_SPM_PIECES, piece);
}

void rf_spm_model_write(const struct rf_spm_model *model, int add_dummy_prefix,
                        struct rf_writer *out)
{
    struct rf_bytes bytes = {0};
    struct rf_writer part = {out->allocator, &bytes, out->error, 0};
    /* Nothing is unknown if byte tokens exist, but libsentencepiece requires an unknown piece. */
    int32_t n = model->n_pieces + (model->unk < 0);
    for (int32_t id = 0; id < n && !out->code; id++) {
        int is_unknown = id == model->n_pieces || id == model->unk;
        int type = is_unknown ? RF_TOKEN_UNKNOWN : model->types[id];
        if (type == RF_TOKEN_NORMAL || type == RF_TOKEN_UNUSED || type == RF_TOKEN_BYTE) {
            put_piece(out, &part, model->pieces[id], model->scores[id], type);
            continue;
        }
        /* A control piece of one letter would be found in words. So it gets a name that no text
         * contains. */
        char name[16];
        snprintf(name, sizeof name, "\xff%d", (int)id);
        put_piece(out, &part, rf_str_of(name), 0, is_unknown ? RF_TOKEN_UNKNOWN : RF_TOKEN_CONTROL);
    }
    put_field_number(&part, RF_SPM_MODEL_TYPE, model->unigram ? RF_SPM_UNIGRAM : RF_SPM_BPE);
    put_field_number(&part, RF_SPM_BYTE_FALLBACK, model->bytes[0] >= 0);
    put_message(out, RF_SPM_TRAINER, &part);
    put_field_number(&part, RF_SPM_DUMMY_PREFIX, (uint64_t)add_dummy_prefix);
    put_field_number(&part, RF_SPM_REMOVE_WHITESPACE, (uint64_t)model->remove_extra_whitespaces);
    put_field_number(&part, RF_SPM_ESCAPE_WHITESPACE, 1);
    put_message(out, RF_SPM_NORMALIZER, &part);
    rf_bytes_free(out->allocator, &bytes);
}
