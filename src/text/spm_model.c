#include "text/spm_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/strmap.h"

/* libsentencepiece recurses over pieces of type UNUSED, so a piece's length bounds the depth. */
enum { LONGEST_PIECE = 2048 };

/* Field numbers of sentencepiece_model.proto. */
enum {
    MODEL_PIECES = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_MODEL_TYPE = 3,
    TRAINER_BYTE_FALLBACK = 35,
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_DUMMY_PREFIX = 3,
    NORMALIZER_REMOVE_WHITESPACE = 4,
    NORMALIZER_ESCAPE_WHITESPACE = 5,
    UNIGRAM = 1,
    BPE = 2
};

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* ---- reading protocol buffers ---- */

struct cursor {
    const unsigned char *at, *end;
};

struct field {
    uint64_t number;
    unsigned wire;
    uint64_t value;      /* WIRE_VARINT, WIRE_32, WIRE_64 */
    struct cursor bytes; /* WIRE_BYTES */
};

static int read_varint(struct cursor *cursor, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (cursor->at == cursor->end) return -1;
        unsigned char byte = *cursor->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return 0;
    }
    return -1;
}

/* 1 and a field, 0 at the end, -1 where the bytes are not a protocol buffer. */
static int read_field(struct cursor *cursor, struct field *field)
{
    uint64_t key;
    if (cursor->at == cursor->end) return 0;
    if (read_varint(cursor, &key)) return -1;
    *field = (struct field){.number = key >> 3, .wire = (unsigned)(key & 7)};
    size_t left = (size_t)(cursor->end - cursor->at), fixed = 0;
    switch (field->wire) {
    case WIRE_VARINT: return read_varint(cursor, &field->value) ? -1 : 1;
    case WIRE_64: fixed = 8; break;
    case WIRE_32: fixed = 4; break;
    case WIRE_BYTES:
        if (read_varint(cursor, &field->value)) return -1;
        left = (size_t)(cursor->end - cursor->at);
        if (field->value > left) return -1;
        field->bytes = (struct cursor){cursor->at, cursor->at + field->value};
        cursor->at += field->value;
        return 1;
    default: return -1;
    }
    if (left < fixed) return -1;
    for (size_t i = 0; i < fixed; i++) field->value |= (uint64_t)cursor->at[i] << (8 * i);
    cursor->at += fixed;
    return 1;
}

static int read_specs(struct rf_spm_model *model, const struct field *spec, const char *path,
                      struct rf_error *error)
{
    struct cursor cursor = spec->bytes;
    struct field field;
    int more;
    while ((more = read_field(&cursor, &field)) > 0) {
        if (spec->number == MODEL_TRAINER && field.number == TRAINER_MODEL_TYPE &&
            field.wire == WIRE_VARINT) {
            if (field.value != UNIGRAM && field.value != BPE)
                return rf_fail(
                    error, RF_ERR_UNSUPPORTED,
                    "%s: sentencepiece model type %llu is not supported, only unigram and BPE are",
                    path, (unsigned long long)field.value);
            model->unigram = field.value == UNIGRAM;
        } else if (spec->number == MODEL_NORMALIZER && field.number == NORMALIZER_CHARSMAP &&
                   field.wire == WIRE_BYTES && field.value > 0) {
            return rf_fail(error, RF_ERR_UNSUPPORTED,
                           "%s: the sentencepiece model has normalisation rules of its own, which "
                           "are not supported",
                           path);
        } else if (spec->number == MODEL_NORMALIZER && field.number == NORMALIZER_DUMMY_PREFIX &&
                   field.wire == WIRE_VARINT) {
            model->add_dummy_prefix = field.value != 0;
        } else if (spec->number == MODEL_NORMALIZER &&
                   field.number == NORMALIZER_REMOVE_WHITESPACE && field.wire == WIRE_VARINT) {
            model->remove_extra_whitespaces = field.value != 0;
        }
    }
    if (more < 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: the sentencepiece model is damaged", path);
    return 0;
}

/* Reads everything of the proto but its pieces, which the vocabulary has. */
static int read_proto(struct rf_spm_model *model, struct rf_str proto, const char *path,
                      struct rf_error *error)
{
    const unsigned char *data = (const unsigned char *)proto.data;
    struct cursor cursor = {data, data + proto.bytes};
    struct field field;
    int more;
    model->unigram = model->remove_extra_whitespaces = 1; /* the proto's defaults */
    while ((more = read_field(&cursor, &field)) > 0) {
        if (field.wire != WIRE_BYTES ||
            (field.number != MODEL_TRAINER && field.number != MODEL_NORMALIZER))
            continue;
        int code = read_specs(model, &field, path, error);
        if (code) return code;
    }
    if (more < 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: the sentencepiece model is damaged", path);
    return 0;
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
                           path, (int)id,
                           (int)(model->pieces[id].bytes < 100 ? model->pieces[id].bytes : 100),
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

static int check_pieces(struct rf_spm_model *model, const char *path,
                        const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_strmap seen;
    int words = 0;
    int code = rf_strmap_init(&seen, model->pieces, model->n_pieces, allocator, error);
    if (code) return code;
    for (int32_t id = 0; id < model->n_pieces && !code; id++) {
        struct rf_str piece = model->pieces[id];
        if (model->types[id] < RF_TOKEN_NORMAL || model->types[id] > RF_TOKEN_BYTE) {
            code = rf_fail(error, RF_ERR_FORMAT, "%s: token %d has a type that does not exist (%d)",
                           path, (int)id, (int)model->types[id]);
        } else if (!isfinite(model->scores[id])) {
            code = rf_fail(error, RF_ERR_FORMAT, "%s: the score of token %d is not a finite number",
                           path, (int)id);
        } else if (piece.bytes == 0) {
            model->types[id] = RF_TOKEN_CONTROL; /* an id without a token */
        } else if (piece.bytes > LONGEST_PIECE) {
            code = rf_fail(error, RF_ERR_UNSUPPORTED,
                           "%s: token %d is %zu bytes long; at most %d are supported", path,
                           (int)id, piece.bytes, LONGEST_PIECE);
        } else if (memchr(piece.data, 0, piece.bytes)) {
            code = rf_fail(error, RF_ERR_FORMAT, "%s: token %d holds a zero byte", path, (int)id);
        } else {
            int32_t other = rf_strmap_put(&seen, id, 0);
            if (other != id)
                code = rf_fail(error, RF_ERR_FORMAT, "%s: tokens %d and %d are both \"%.*s\"", path,
                               (int)other, (int)id, (int)(piece.bytes < 100 ? piece.bytes : 100),
                               piece.data);
            words |= model->types[id] == RF_TOKEN_NORMAL || model->types[id] == RF_TOKEN_BYTE;
        }
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

/* ---- writing protocol buffers ---- */

/* A small message on the stack: a piece of the greatest length, or a spec. */
struct message {
    unsigned char data[LONGEST_PIECE + 64];
    size_t n;
};

static void put_varint(struct message *message, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) message->data[message->n++] = (unsigned char)(value | 0x80);
    message->data[message->n++] = (unsigned char)value;
}

static void put_number(struct message *message, unsigned field, uint64_t value)
{
    put_varint(message, field << 3 | WIRE_VARINT);
    put_varint(message, value);
}

static void put_bytes(struct message *message, unsigned field, const void *data, size_t n)
{
    put_varint(message, field << 3 | WIRE_BYTES);
    put_varint(message, n);
    memcpy(message->data + message->n, data, n);
    message->n += n;
}

static int append_message(const struct rf_allocator *allocator, struct rf_bytes *proto,
                          unsigned field, const struct message *message, struct rf_error *error)
{
    struct message head;
    head.n = 0;
    put_varint(&head, field << 3 | WIRE_BYTES);
    put_varint(&head, message->n);
    int code = rf_bytes_append(allocator, proto, head.data, head.n, error);
    return code ? code : rf_bytes_append(allocator, proto, message->data, message->n, error);
}

static int append_piece(const struct rf_allocator *allocator, struct rf_bytes *proto,
                        struct rf_str text, float score, int type, struct rf_error *error)
{
    struct message piece;
    piece.n = 0;
    put_bytes(&piece, PIECE_TEXT, text.data, text.bytes);
    put_varint(&piece, PIECE_SCORE << 3 | WIRE_32);
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    for (int i = 0; i < 4; i++) piece.data[piece.n++] = (unsigned char)(bits >> (8 * i));
    put_number(&piece, PIECE_TYPE, (uint64_t)type);
    return append_message(allocator, proto, MODEL_PIECES, &piece, error);
}

int rf_spm_model_write(const struct rf_spm_model *model, int add_dummy_prefix,
                       const struct rf_allocator *allocator, struct rf_bytes *proto,
                       struct rf_error *error)
{
    int code = 0;
    for (int32_t id = 0; id <= model->n_pieces && !code; id++) {
        /* With byte tokens nothing is unknown, but libsentencepiece requires an unknown piece. */
        if (id == model->n_pieces && model->unk >= 0) break;
        int is_unknown = id == model->n_pieces || id == model->unk;
        int type = is_unknown ? RF_TOKEN_UNKNOWN : model->types[id];
        if (type == RF_TOKEN_NORMAL || type == RF_TOKEN_UNUSED || type == RF_TOKEN_BYTE) {
            code =
                append_piece(allocator, proto, model->pieces[id], model->scores[id], type, error);
            continue;
        }
        /* A control piece of one letter would be found in words. So it gets a name that no text
         * contains. */
        char name[16];
        struct rf_str text = {name, (size_t)snprintf(name, sizeof name, "\xff%d", (int)id)};
        code = append_piece(allocator, proto, text, 0,
                            is_unknown ? RF_TOKEN_UNKNOWN : RF_TOKEN_CONTROL, error);
    }
    struct message trainer, normalizer;
    trainer.n = normalizer.n = 0;
    put_number(&trainer, TRAINER_MODEL_TYPE, model->unigram ? UNIGRAM : BPE);
    put_number(&trainer, TRAINER_BYTE_FALLBACK, model->bytes[0] >= 0);
    put_number(&normalizer, NORMALIZER_DUMMY_PREFIX, (uint64_t)add_dummy_prefix);
    put_number(&normalizer, NORMALIZER_REMOVE_WHITESPACE,
               (uint64_t)model->remove_extra_whitespaces);
    put_number(&normalizer, NORMALIZER_ESCAPE_WHITESPACE, 1);
    if (!code) code = append_message(allocator, proto, MODEL_TRAINER, &trainer, error);
    if (!code) code = append_message(allocator, proto, MODEL_NORMALIZER, &normalizer, error);
    return code;
}
