/* A fingerprint of a model's weights that does not depend on the types of its matrices: it is of
 * the norms' gains, which every form of a file keeps exactly. head_check.c compares a draft head's
 * target by it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/head.h"

enum { GAINS_PIECE = 256 };

static const uint64_t fnv_offset = 0xcbf29ce484222325, fnv_prime = 0x100000001b3;

/* FNV-1a of floats, the low byte of each first. */
static uint64_t hash_floats(uint64_t hash, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (bits >> shift & 0xff)) * fnv_prime;
    }
    return hash;
}

static uint64_t hash_gains(uint64_t hash, const struct rf_source *source, const char *name)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    float values[GAINS_PIECE];
    if (!tensor || tensor->scattered) return hash;
    const unsigned char *data = tensor->data;
    size_t n = (size_t)tensor->ne[0];
    for (size_t at = 0, some; at < n; at += some) {
        some = n - at < GAINS_PIECE ? n - at : GAINS_PIECE;
        rf_dequantize_f32(tensor->dtype, data + rf_dtype_bytes(tensor->dtype, at), values, some);
        hash = hash_floats(hash, values, some);
    }
    return hash;
}

uint64_t rf_source_fingerprint(const struct rf_source *source)
{
    uint64_t hash = hash_gains(fnv_offset, source, "output_norm.weight");
    for (int32_t layer = 0; layer < source->params.n_layer; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRId32 ".attn_norm.weight", layer);
        hash = hash_gains(hash, source, name);
        snprintf(name, sizeof name, "blk.%" PRId32 ".ffn_norm.weight", layer);
        hash = hash_gains(hash, source, name);
    }
    return hash;
}
