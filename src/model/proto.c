/* Reads protobuf's wire format field by field, as far as sentencepiece's ModelProto needs it. A
 * field that leaves its message is refused. */
#include "model/proto.h"

static uint64_t take_varint(struct rf_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const unsigned char *byte = rf_cursor_take(cursor, 1, "a number");
        if (!byte) return 0;
        value |= (uint64_t)(*byte & 0x7f) << shift;
        if (!(*byte & 0x80)) return value;
    }
    rf_bad(cursor->reading, RF_ERR_FORMAT, "a number before byte %zu is too long", cursor->at);
    return 0;
}

int rf_proto_next(struct rf_cursor *cursor, struct rf_proto_field *field)
{
    if (rf_cursor_left(cursor) == 0 || cursor->reading->code) return 0;
    uint64_t tag = take_varint(cursor), n = 0;
    *field = (struct rf_proto_field){.number = tag >> 3, .wire = (unsigned)(tag & 7)};
    switch (field->wire) {
    case RF_WIRE_VARINT: field->integer = take_varint(cursor); return !cursor->reading->code;
    case RF_WIRE_64: n = 8; break;
    case RF_WIRE_32: n = 4; break;
    case RF_WIRE_BYTES: n = take_varint(cursor); break;
    default:
        rf_bad(cursor->reading, RF_ERR_FORMAT,
               "the field before byte %zu is of the unknown kind %u", cursor->at, field->wire);
        return 0;
    }
    const unsigned char *data = rf_cursor_take(cursor, n, "a field");
    if (!data) return 0;
    if (field->wire == RF_WIRE_BYTES)
        field->bytes = (struct rf_cursor){data, (size_t)n, 0, cursor->reading};
    else
        field->integer = rf_load_le(data, (size_t)n);
    return 1;
}
