#include "text/spm_model.h"

#include <math.h>
#include <stdio.h>

#include "model/proto.h"
#include "text/strmap.h"

/* libsentencepiece recurses over pieces of type UNUSED, so a piece's length bounds the depth. */
enum { LONGEST_PIECE = 2048, SHOWN = 100 /* bytes of a piece in a sentence */ };

/* ---- reading ---- */

static int read_trainer(struct rf_spm_model *model, struct rf_cursor *cursor, const char *path,
                        struct rf_error *error)
{
    struct rf_proto_field field;
    while (rf_proto_next(cursor, &field)) {
        if (!rf_proto_is(&field, RF_SPM_MODEL_TYPE, RF_WIRE_VARINT)) continue;
        if (field.integer != RF_SPM_UNIGRAM && field.integer != RF_SPM_BPE)
            return rf_fail(
                error, RF_ERR_UNSUPPORTED,
                "%s: sentencepiece model type %llu is not supported, only unigram and BPE are",
                path, (unsigned long long)field.integer);
        model->unigram = field.integer == RF_SPM_UNIGRAM;
    }
    return 0;
}

static int read_normalizer(struct rf_spm_model *model, struct rf_cursor *cursor, const char *path,
                           struct rf_error *error)
{
    struct rf_proto_field field;
    while (rf_proto_next(cursor, &field)) {
        if (rf_proto_is(&field, RF_SPM_CHARSMAP, RF_WIRE_BYTES) && field.bytes.bytes)
            return rf_fail(error, RF_ERR_UNSUPPORTED,
                           "%s: the sentencepiece model has normalisation rules of its own, which "
                           "are not supported",
                           path);
        if (rf_proto_is(&field, RF_SPM_DUMMY_PREFIX, RF_WIRE_VARINT))
            model->add_dummy_prefix = field.integer != 0;
        if (rf_proto_is(&field, RF_SPM_REMOVE_WHITESPACE, RF_WIRE_VARINT))
            model->remove_extra_whitespaces = field.integer != 0;
    }
    return 0;
}

/* Reads everything of the proto but its pieces, which the vocabulary has. */
static int read_proto(struct rf_spm_model *model, struct rf_str proto, const char *path,
                      struct rf_error *error)
{
    struct rf_reading reading = {.path = path}; /* without an error: only its code counts */
    struct rf_cursor cursor = {(const unsigned char *)proto.data, proto.bytes, 0, &reading};
    struct rf_proto_field field;
    int code = 0;
    model->unigram = model->remove_extra_whitespaces = 1; /* the proto's defaults */
    while (!code && rf_proto_next(&cursor, &field)) {
        if (rf_proto_is(&field, RF_SPM_TRAINER, RF_WIRE_BYTES))
            code = read_trainer(model, &field.bytes, path, error);
        if (rf_proto_is(&field, RF_SPM_NORMALIZER, RF_WIRE_BYTES))
            code = read_normalizer(model, &field.bytes, path, error);
    }
    if (!code && reading.code)
        code = rf_fail(error, RF_ERR_FORMAT, "%s: the sentencepiece model is damaged", path);
    return code;
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

static int check_bytes(struct rf_spm_model *model, const char *path, struct rf_error *error)
{
    int found = 0;
    for (int byte = 0; byte < 256; byte++) model->bytes[byte] = -1;
    for (int32_t id = 0; id < model->n_pieces; id++) {
        if (model->types[id] != RF_TOKEN_BYTE) continue;
        int value = byte_value(model->pieces[id]);
        if (value < 0)
            return rf_fail(error, RF_ERR_FORMAT,
                           "%s: token %d is a byte token, but its text \"%.*s\" is none of "
                           "<0x00> to <0xFF>",
                           path, (int)id, rf_shown_up_to(model->pieces[id], SHOWN),
                           model->pieces[id].data);
        model->bytes[value] = id; /* duplicates have been refused */
        found++;
    }
    for (int byte = 0; found && byte < 256; byte++)
        if (model->bytes[byte] < 0)
            return rf_fail(
                error, RF_ERR_FORMAT,
                "%s: the vocabulary has byte tokens for %d of 256 bytes; <0x%02X> is missing", path,
                found, (unsigned)byte);
    return 0;
}

static int check_piece(struct rf_spm_model *model, struct rf_strmap *seen, int32_t id,
                       const char *path, struct rf_error *error)
{
    struct rf_str piece = model->pieces[id];
    if (model->types[id] < RF_TOKEN_NORMAL || model->types[id] > RF_TOKEN_BYTE)
        return rf_fail(error, RF_ERR_FORMAT, "%s: token %d has a type that does not exist (%d)",
                       path, (int)id, (int)model->types[id]);
    if (!isfinite(model->scores[id]))
        return rf_fail(error, RF_ERR_FORMAT, "%s: the score of token %d is not a finite number",
                       path, (int)id);
    if (piece.bytes == 0) {
        model->types[id] = RF_TOKEN_CONTROL; /* an id without a token */
        return 0;
    }
    if (piece.bytes > LONGEST_PIECE)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: token %d is %zu bytes long; at most %d are supported", path, (int)id,
                       piece.bytes, LONGEST_PIECE);
    if (memchr(piece.data, 0, piece.bytes))
        return rf_fail(error, RF_ERR_FORMAT, "%s: token %d holds a zero byte", path, (int)id);
    int32_t other = rf_strmap_put(seen, id, 0);
    if (other == id) return 0;
    return rf_fail(error, RF_ERR_FORMAT, "%s: tokens %d and %d are both \"%.*s\"", path, (int)other,
                   (int)id, rf_shown_up_to(piece, SHOWN), piece.data);
}

static int check_pieces(struct rf_spm_model *model, const char *path,
                        const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_strmap seen;
    int words = 0;
    int code = rf_strmap_init(&seen, model->pieces, model->n_pieces, allocator, error);
    if (code) return code;
    for (int32_t id = 0; id < model->n_pieces && !code; id++) {
        code = check_piece(model, &seen, id, path, error);
        words |= model->types[id] == RF_TOKEN_NORMAL || model->types[id] == RF_TOKEN_BYTE;
    }
    rf_strmap_free(&seen, allocator);
    if (!code && !words)
        code = rf_fail(error, RF_ERR_FORMAT, "%s: the vocabulary has no word pieces", path);
    if (!code) code = check_bytes(model, path, error);
    if (!code && model->unk < 0 && model->bytes[0] < 0)
        code = rf_fail(error, RF_ERR_FORMAT,
                       "%s: the vocabulary has neither an unknown token nor byte tokens, so not "
                       "every text can be encoded",
                       path);
    return code;
}

int rf_spm_model_read(struct rf_spm_model *model, const struct rf_vocab *vocab, const char *path,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    *model = (struct rf_spm_model){
        .unk = -1, .unigram = 0, .add_dummy_prefix = 1, .remove_extra_whitespaces = 0};
    int code = vocab->spm_proto.bytes ? read_proto(model, vocab->spm_proto, path, error) : 0;
    if (code) return code;
    if (vocab->n_tokens <= 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: the vocabulary is empty", path);
    if (!vocab->scores)
        return rf_fail(error, RF_ERR_FORMAT, "%s: the sentencepiece vocabulary has no scores",
                       path);

    size_t n = (size_t)vocab->n_tokens;
    model->n_pieces = vocab->n_tokens;
    model->pieces = vocab->tokens;
    model->scores = vocab->scores;
    model->types = rf_malloc(allocator, n, sizeof *model->types, "vocabulary", error);
    if (!model->types) return RF_ERR_MEMORY;
    for (int32_t id = 0; id < model->n_pieces; id++)
        model->types[id] = vocab->types ? vocab->types[id] : RF_TOKEN_NORMAL;
    if (vocab->add_space_prefix >= 0) model->add_dummy_prefix = vocab->add_space_prefix;
    if (vocab->remove_extra_whitespaces >= 0)
        model->remove_extra_whitespaces = vocab->remove_extra_whitespaces;

    for (int32_t id = 0; id < model->n_pieces && model->unk < 0; id++)
        if (model->types[id] == RF_TOKEN_UNKNOWN) model->unk = id;
    if (vocab->unk >= 0 && vocab->unk < model->n_pieces &&
        model->types[vocab->unk] != RF_TOKEN_BYTE)
        model->unk = vocab->unk;
    code = check_pieces(model, path, allocator, error);
    if (code) rf_spm_model_free(model, allocator);
    return code;
}

void rf_spm_model_free(struct rf_spm_model *model, const struct rf_allocator *allocator)
{
    rf_free(allocator, model->types);
    model->types = NULL;
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

static void put_number(struct rf_writer *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3 | RF_WIRE_VARINT);
    put_varint(out, value);
}

static void put_bytes(struct rf_writer *out, unsigned field, const void *data, size_t n)
{
    put_varint(out, field << 3 | RF_WIRE_BYTES);
    put_varint(out, n);
    rf_write(out, data, n);
}

/* Puts the bytes of `message` into a field and empties the message. */
static void put_message(struct rf_writer *out, unsigned field, struct rf_writer *message)
{
    if (!out->code) out->code = message->code;
    put_bytes(out, field, message->bytes->data, message->bytes->count);
    message->bytes->count = 0;
}

static void put_piece(struct rf_writer *out, struct rf_writer *piece, struct rf_str text,
                      float score, int type)
{
    put_bytes(piece, RF_SPM_PIECE_TEXT, text.data, text.bytes);
    put_varint(piece, RF_SPM_PIECE_SCORE << 3 | RF_WIRE_32);
    rf_write(piece, &score, sizeof score); /* little-endian, as model/dequant.c requires */
    put_number(piece, RF_SPM_PIECE_TYPE, (uint64_t)type);
    put_message(out, RF_SPM_PIECES, piece);
}

int rf_spm_model_write(const struct rf_spm_model *model, int add_dummy_prefix,
                       const struct rf_allocator *allocator, struct rf_bytes *proto,
                       struct rf_error *error)
{
    struct rf_bytes bytes = {0};
    struct rf_writer out = {allocator, proto, error, 0}, part = {allocator, &bytes, error, 0};
    /* With byte tokens nothing is unknown, but libsentencepiece requires an unknown piece. */
    int32_t n = model->n_pieces + (model->unk < 0);
    for (int32_t id = 0; id < n && !out.code; id++) {
        int is_unknown = id == model->n_pieces || id == model->unk;
        int type = is_unknown ? RF_TOKEN_UNKNOWN : model->types[id];
        if (type == RF_TOKEN_NORMAL || type == RF_TOKEN_UNUSED || type == RF_TOKEN_BYTE) {
            put_piece(&out, &part, model->pieces[id], model->scores[id], type);
            continue;
        }
        /* A control piece of one letter would be found in words. So it gets a name that no text
         * contains. */
        char name[16];
        snprintf(name, sizeof name, "\xff%d", (int)id);
        put_piece(&out, &part, rf_str_of(name), 0,
                  is_unknown ? RF_TOKEN_UNKNOWN : RF_TOKEN_CONTROL);
    }
    put_number(&part, RF_SPM_MODEL_TYPE, model->unigram ? RF_SPM_UNIGRAM : RF_SPM_BPE);
    put_number(&part, RF_SPM_BYTE_FALLBACK, model->bytes[0] >= 0);
    put_message(&out, RF_SPM_TRAINER, &part);
    put_number(&part, RF_SPM_DUMMY_PREFIX, (uint64_t)add_dummy_prefix);
    put_number(&part, RF_SPM_REMOVE_WHITESPACE, (uint64_t)model->remove_extra_whitespaces);
    put_number(&part, RF_SPM_ESCAPE_WHITESPACE, 1);
    put_message(&out, RF_SPM_NORMALIZER, &part);
    rf_bytes_free(allocator, &bytes);
    return out.code;
}
