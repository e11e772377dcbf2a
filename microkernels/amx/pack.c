/* Rows of 8 and 16 bits as tiles of BF16. Few rows have avx512's form alone. */
#include <immintrin.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/tier.h"
#include "microkernels/x86.h"

static size_t packed_bytes(enum rf_operand form, size_t n, size_t k)
{
    size_t block = form == RF_OPERAND_A8 ? sizeof(struct rf_amx_a8) : sizeof(struct rf_amx_a16);
    return rf_amx_sixteens_at(form, k) +
           (n + RF_AMX_SIDE - 1) / RF_AMX_SIDE * (k / RF_BLOCK) * block;
}

/* Where the blocks of a part's sixteen begin. */
static char *sixteen(enum rf_operand form, const struct rf_pack_args *args)
{
    size_t blocks = args->k / RF_BLOCK,
           at = args->row / RF_AMX_SIDE * blocks + args->first / RF_BLOCK;
    return (char *)args->packed + rf_amx_sixteens_at(form, args->k) +
           at * (form == RF_OPERAND_A8 ? sizeof(struct rf_amx_a8) : sizeof(struct rf_amx_a16));
}

/* 32 bytes, each four in the order 0, 2, 1, 3, times `unit`. */
INLINE void put_bytes(uint16_t to[RF_BLOCK], const int8_t q[RF_BLOCK], float unit)
{
    __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    __m256i bytes =
        _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)q), order);
    __m512 scale = _mm512_set1_ps(unit);
    __m512 first = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes))),
           second = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1)));
    _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(second, scale),
                                                        _mm512_mul_ps(first, scale)));
}

static size_t packed_bytes_a8(size_t n, size_t k)
{
    return packed_bytes(RF_OPERAND_A8, n, k);
}

static void pack_a8(const struct rf_pack_args *args)
{
    struct rf_amx_a8 *to = (struct rf_amx_a8 *)sixteen(RF_OPERAND_A8, args);
    size_t at = args->row % RF_AMX_SIDE;
    if (args->row < RF_AMX_LEAST_A8 - 1) rf_avx512_pack_a8(args);
    if (args->most && args->most < RF_AMX_LEAST_A8) return;
    for (size_t j = 0; j < args->n; j += RF_BLOCK, to++) {
        _Alignas(64) struct rf_a8 block;
        rf_avx512_pack_a8(&(struct rf_pack_args){&block, 0, RF_BLOCK, args->x + j, 0, RF_BLOCK, 1});
        put_bytes(to->q[at], block.q, 1.0f);
        to->numbers.d[at] = block.d;
        to->numbers.d_sum[at] = block.d_sum;
        for (int half = 0; half < 2; half++)
            to->numbers.d_half[half][at] = (float)block.m32[half] * block.d;
    }
}

static size_t packed_bytes_a16(size_t n, size_t k)
{
    return packed_bytes(RF_OPERAND_A16, n, k);
}

static void pack_a16(const struct rf_pack_args *args)
{
    struct rf_amx_a16 *to = (struct rf_amx_a16 *)sixteen(RF_OPERAND_A16, args);
    size_t at = args->row % RF_AMX_SIDE;
    if (args->row < RF_AMX_LEAST_A16 - 1) rf_avx512_pack_a16(args);
    if (args->most && args->most < RF_AMX_LEAST_A16) return;
    for (size_t j = 0; j < args->n; j += RF_BLOCK, to++) {
        _Alignas(64) struct rf_a16_split block;
        rf_avx512_pack_a16(
            &(struct rf_pack_args){&block, 0, RF_BLOCK, args->x + j, 0, RF_BLOCK, 1});
        put_bytes(to->q[at], block.high, 256.0f);
        put_bytes(to->low[at], block.low, 1.0f);
        to->numbers.d[at] = block.d;
        to->numbers.d_sum[at] = block.d_sum;
        for (int half = 0; half < 2; half++) to->numbers.d_half[half][at] = block.d_half[half];
    }
}

void rf_amx_init_pack(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A8] = packed_bytes_a8;
    kernels->pack[RF_OPERAND_A8] = pack_a8;
    kernels->packed_bytes[RF_OPERAND_A16] = packed_bytes_a16;
    kernels->pack[RF_OPERAND_A16] = pack_a16;
}
