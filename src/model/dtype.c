/* The table of element types, made of RF_EACH_DTYPE. Everything that needs a type's name or the
 * size of its blocks asks it. */
#include "model/dtype.h"

#include <assert.h>

static const struct rf_dtype_info types[RF_DTYPE_LIMIT] = {
#define ROW(NAME, number, block_elems, block_bytes, file_type) \
    [RF_##NAME] = {#NAME, block_elems, block_bytes, file_type},
    RF_EACH_DTYPE(ROW)
#undef ROW
};

const struct rf_dtype_info *rf_dtype_info(int64_t dtype)
{
    if (dtype < 0 || dtype >= RF_DTYPE_LIMIT || !types[dtype].name) return NULL;
    return &types[dtype];
}

size_t rf_dtype_bytes(enum rf_dtype dtype, size_t n)
{
    const struct rf_dtype_info *info = &types[dtype];
    assert(n % info->block_elems == 0);
    return n / info->block_elems * info->block_bytes;
}
