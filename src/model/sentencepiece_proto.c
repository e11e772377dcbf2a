/* tokenizer.model: a sentencepiece ModelProto (sentencepiece_model.proto of that project). The
 * library gets its bytes. This file reads pieces, types and ids from it, as protocol buffer fields
 * through the cursor. */
#include <inttypes.h>
#include <string.h>

#include "model/cursor.h"
#include "model/hf.h"

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
    uint32_t number;
    uint32_t wire;
    uint64_t integer; /* WIRE_VARINT; the bits for WIRE_32 and WIRE_64 */
    struct rf_str bytes;
};

static int take_varint(struct rf_cursor *cursor, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        int code = rf_cursor_u8(cursor, "a number", &byte);
        if (code) return code;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return 0;
    }
    return rf_fail(cursor->error, RF_ERR_FORMAT, "%s: a number before byte %zu is too long",
                   cursor->path, cursor->at);
}

static int take_field(struct rf_cursor *cursor, struct field *field)
{
    uint64_t tag, n = 0;
    const unsigned char *data = NULL;
    int code = take_varint(cursor, &tag);
    if (code) return code;
    *field = (struct field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
    switch (field->wire) {
    case WIRE_VARINT: return take_varint(cursor, &field->integer);
    case WIRE_64: n = 8; break;
    case WIRE_32: n = 4; break;
    case WIRE_BYTES: code = take_varint(cursor, &n); break;
    default:
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: the field before byte %zu is of the unknown kind %" PRIu32,
                       cursor->path, cursor->at, field->wire);
    }
    if (!code) code = rf_cursor_take(cursor, n, "a field", &data);
    if (code) return code;
    if (field->wire == WIRE_BYTES)
        field->bytes = (struct rf_str){(const char *)data, (size_t)n};
    else
        field->integer = rf_load_le(data, (size_t)n);
    return 0;
}

static struct rf_cursor inside(const struct rf_cursor *cursor, struct rf_str bytes)
{
    return (struct rf_cursor){(const unsigned char *)bytes.data, bytes.bytes, 0, cursor->path,
                              cursor->error};
}

static int read_piece(struct rf_hf *hf, struct rf_cursor *cursor, int32_t id)
{
    struct rf_vocab *vocab = &hf->source->vocab;
    struct rf_str text = {"", 0};
    uint32_t score = 0;
    uint64_t type = RF_TOKEN_NORMAL;
    while (rf_cursor_left(cursor)) {
        struct field field;
        int code = take_field(cursor, &field);
        if (code) return code;
        if (field.number == 1 && field.wire == WIRE_BYTES) text = field.bytes;
        if (field.number == 2 && field.wire == WIRE_32) score = (uint32_t)field.integer;
        if (field.number == 3 && field.wire == WIRE_VARINT) type = field.integer;
    }
    int code = rf_hf_set_token(hf, id, text,
                               type <= RF_TOKEN_BYTE ? (enum rf_token_type)type : RF_TOKEN_NORMAL);
    if (code) return code;
    if (type < RF_TOKEN_NORMAL || type > RF_TOKEN_BYTE)
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s: piece %" PRId32 " has the unknown type %" PRIu64, cursor->path, id,
                       type);
    memcpy(&vocab->scores[id], &score, sizeof score);
    return 0;
}

/* The defaults are the proto's. -1 means that the token does not exist. */
static int read_trainer(struct rf_hf *hf, struct rf_cursor *cursor)
{
    enum { UNIGRAM = 1, BPE = 2 };
    struct rf_vocab *vocab = &hf->source->vocab;
    uint64_t kind = UNIGRAM;
    while (rf_cursor_left(cursor)) {
        struct field field;
        int code = take_field(cursor, &field);
        if (code) return code;
        if (field.wire != WIRE_VARINT) continue;
        int32_t id =
            (int64_t)field.integer < 0 || field.integer > INT32_MAX ? -1 : (int32_t)field.integer;
        if (field.number == 3) kind = field.integer;
        if (field.number == 40) vocab->unk = id;
        if (field.number == 41) vocab->bos = id;
        if (field.number == 42) vocab->eos = id;
        if (field.number == 43) vocab->pad = id;
    }
    if (kind != UNIGRAM && kind != BPE)
        return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                       "%s: model type %" PRIu64 " is neither unigram (1) nor BPE (2)",
                       cursor->path, kind);
    return 0;
}

static int read_normalizer(struct rf_hf *hf, struct rf_cursor *cursor)
{
    while (rf_cursor_left(cursor)) {
        struct field field;
        int code = take_field(cursor, &field);
        if (code) return code;
        if (field.wire != WIRE_VARINT) continue;
        if (field.number == 3) hf->source->vocab.add_space_prefix = field.integer != 0;
        if (field.number == 4) hf->source->vocab.remove_extra_whitespaces = field.integer != 0;
    }
    return 0;
}

int rf_hf_read_sentencepiece(struct rf_hf *hf)
{
    struct rf_vocab *vocab = &hf->source->vocab;
    struct rf_str proto = hf->files->sentencepiece;
    size_t n = (size_t)vocab->n_tokens;
    const char *folder = hf->files->folder;
    size_t path_bytes = strlen(folder) + sizeof "/tokenizer.model";
    char *path = rf_arena_alloc(&hf->scratch, path_bytes, 1, "path", hf->error);
    vocab->scores = rf_source_alloc(hf->source, n, sizeof *vocab->scores, "vocabulary", hf->error);
    if (!path || !vocab->scores) return RF_ERR_MEMORY;
    memcpy(path, folder, strlen(folder));
    memcpy(path + strlen(folder), "/tokenizer.model", sizeof "/tokenizer.model");
    vocab->spm_proto = proto;
    vocab->add_space_prefix = vocab->remove_extra_whitespaces = 1;
    vocab->unk = 0;
    vocab->bos = 1;
    vocab->eos = 2;
    struct rf_cursor cursor = {(const unsigned char *)proto.data, proto.bytes, 0, path, hf->error};
    int32_t n_pieces = 0;
    while (rf_cursor_left(&cursor)) {
        struct field field;
        int code = take_field(&cursor, &field);
        if (code) return code;
        if (field.wire != WIRE_BYTES) continue;
        struct rf_cursor part = inside(&cursor, field.bytes);
        if (field.number == 1) code = read_piece(hf, &part, n_pieces++);
        if (field.number == 2) code = read_trainer(hf, &part);
        if (field.number == 3) code = read_normalizer(hf, &part);
        if (code) return code;
    }
    if (n_pieces == 0) return rf_fail(hf->error, RF_ERR_FORMAT, "%s: has no pieces", path);
    return 0;
}
