/* Packs rows of 8 and 16 bits into tiles of BF16 or of bytes (tier.h). Fewer rows than tiles are
 * used for are packed in the form that the other kernels take. */
#include <immintrin.h>

#include "base/half.h"
#include "microkernels/amx/tier.h"
#include "microkernels/avx512/tier.h"
#include "microkernels/x86.h"

static size_t amx_packed_bytes(enum rf_operand form, size_t n, size_t k)
{
    size_t block = form == RF_OPERAND_A8 ? sizeof(struct rf_amx_a8) : sizeof(struct rf_amx_a16);
    return rf_amx_sixteens_at(form, k) +
           (n + RF_AMX_SIDE - 1) / RF_AMX_SIDE * (k / RF_BLOCK) * block;
}

/* The blocks of the sixteen that holds a part. */
static char *sixteen(enum rf_operand form, const struct rf_pack_args *args)
{
    size_t blocks = args->k / RF_BLOCK,
           at = args->row / RF_AMX_SIDE * blocks + args->first / RF_BLOCK;
    return (char *)args->packed + rf_amx_sixteens_at(form, args->k) +
           at * (form == RF_OPERAND_A8 ? sizeof(struct rf_amx_a8) : sizeof(struct rf_amx_a16));
}

/* 32 bytes, each four in the order 0, 2, 1, 3, times `unit`. */
INLINE void amx_put_bytes(uint16_t to[RF_BLOCK], const int8_t q[RF_BLOCK], float unit)
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

static size_t amx_packed_bytes_a8(size_t n, size_t k)
{
    return amx_packed_bytes(RF_OPERAND_A8, n, k);
}

static void amx_pack_a8(const struct rf_pack_args *args)
{
    struct rf_amx_a8 *to = (struct rf_amx_a8 *)sixteen(RF_OPERAND_A8, args);
    size_t at = args->row % RF_AMX_SIDE;
    if (args->row < RF_AMX_LEAST_A8 - 1) rf_avx512_pack_a8(args);
    if (args->most && args->most < RF_AMX_LEAST_A8) return;
    for (size_t j = 0; j < args->n; j += RF_BLOCK, to++) {
        _Alignas(64) struct rf_a8 block;
        rf_avx512_pack_a8(&(struct rf_pack_args){&block, 0, RF_BLOCK, args->x + j, 0, RF_BLOCK, 1});
        amx_put_bytes(to->q[at], block.q, 1.0f);
        to->numbers.d[at] = block.d;
        to->numbers.d_sum[at] = block.d_sum;
        for (int half = 0; half < 2; half++)
            to->numbers.d_half[half][at] = (float)block.m32[half] * block.d;
    }
}

static size_t amx_packed_bytes_a16(size_t n, size_t k)
{
    return amx_packed_bytes(RF_OPERAND_A16, n, k);
}

static void amx_pack_a16(const struct rf_pack_args *args)
{
    struct rf_amx_a16 *to = (struct rf_amx_a16 *)sixteen(RF_OPERAND_A16, args);
    size_t at = args->row % RF_AMX_SIDE;
    if (args->row < RF_AMX_LEAST_A16 - 1) rf_avx512_pack_a16(args);
    if (args->most && args->most < RF_AMX_LEAST_A16) return;
    for (size_t j = 0; j < args->n; j += RF_BLOCK, to++) {
        _Alignas(64) struct rf_a16_split block;
        rf_avx512_pack_a16(
            &(struct rf_pack_args){&block, 0, RF_BLOCK, args->x + j, 0, RF_BLOCK, 1});
        amx_put_bytes(to->q[at], block.high, 256.0f);
        amx_put_bytes(to->low[at], block.low, 1.0f);
        to->numbers.d[at] = block.d;
        to->numbers.d_sum[at] = block.d_sum;
        for (int half = 0; half < 2; half++) to->numbers.d_half[half][at] = block.d_half[half];
    }
}

/* ---- rows whose unit is that of a superblock ---- */

enum { VECTORS = RF_SUPERBLOCK / 16 };

static size_t amx_packed_bytes_super(size_t n, size_t k)
{
    return rf_amx_eights_at(k) +
           (n + RF_AMX_EIGHT - 1) / RF_AMX_EIGHT * rf_a16_supers(k) * sizeof(struct rf_amx_super);
}

/* A superblock as integers; returns their unit. */
INLINE float integers_of(const float *x, __m512i q[VECTORS])
{
    float d;
    __m512 values[VECTORS];
    __m512i greatest = _mm512_setzero_si512();
    for (size_t v = 0; v < VECTORS; v++) {
        values[v] = _mm512_loadu_ps(x + 16 * v);
        greatest = _mm512_max_epi32(greatest, _mm512_and_si512(_mm512_castps_si512(values[v]),
                                                               _mm512_set1_epi32(INT32_MAX)));
    }
    /* Bits are in the order of magnitudes, and those of a NaN above all others. */
    int32_t lanes[16], most = 0;
    _mm512_storeu_si512(lanes, greatest);
    for (int i = 0; i < 16; i++) most = most < lanes[i] ? lanes[i] : most;
    float inverse = rf_a16_begin(&d, rf_bits_float((uint32_t)most));
    for (size_t v = 0; v < VECTORS; v++)
        q[v] = _mm512_maskz_cvtps_epi32(inverse > 0.0f ? 0xffff : 0,
                                        _mm512_mul_ps(values[v], _mm512_set1_ps(inverse)));
    return d;
}

/* Each four in the order 0, 2, 1, 3. */
INLINE void amx_put_words(int16_t to[RF_SUPERBLOCK], const __m512i q[VECTORS])
{
    for (size_t v = 0; v < VECTORS; v++) {
        __m512i ordered = _mm512_castps_si512(_mm512_permute_ps(_mm512_castsi512_ps(q[v]), 0xd8));
        _mm256_storeu_si256((__m256i *)(void *)(to + 16 * v), _mm512_cvtepi32_epi16(ordered));
    }
}

INLINE void amx_put_split(struct rf_amx_super *to, size_t row, const __m512i q[VECTORS])
{
    for (size_t v = 0; v < VECTORS; v++) {
        __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(q[v], _mm512_set1_epi32(128)), 8);
        int8_t(*rows)[64] = to->q[v / 4];
        _mm_storeu_si128((__m128i *)(void *)(rows[row] + 16 * (v % 4)),
                         _mm512_cvtepi32_epi8(upper));
        _mm_storeu_si128((__m128i *)(void *)(rows[RF_AMX_EIGHT + row] + 16 * (v % 4)),
                         _mm512_cvtepi32_epi8(q[v]));
    }
}

static void amx_pack_super(const struct rf_pack_args *args)
{
    size_t supers = rf_a16_supers(args->k), row = args->row % RF_AMX_EIGHT;
    struct rf_a16_super *words = (struct rf_a16_super *)args->packed + args->row * supers;
    struct rf_amx_super *eights =
        (struct rf_amx_super *)((char *)args->packed + rf_amx_eights_at(args->k)) +
        args->row / RF_AMX_EIGHT * supers;
    int has_words = args->row < RF_AMX_LEAST_SUPER - 1,
        has_tiles = !args->most || args->most >= RF_AMX_LEAST_SUPER;
    for (size_t s = 0; s < supers; s++) {
        __m512i q[VECTORS];
        struct rf_a16_super_numbers numbers = {.d = integers_of(args->x + s * RF_SUPERBLOCK, q)};
        for (size_t g = 0; g < RF_SUPERBLOCK / RF_BLOCK; g++)
            numbers.d_sum[g] = numbers.d * (float)_mm512_reduce_add_epi32(
                                               _mm512_add_epi32(q[2 * g], q[2 * g + 1]));
        if (has_words) {
            amx_put_words(words[s].q, q);
            words[s].numbers = numbers;
        }
        if (has_tiles) {
            amx_put_split(&eights[s], row, q);
            eights[s].numbers[row] = numbers;
        }
    }
}

void rf_amx_init_pack(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A8] = amx_packed_bytes_a8;
    kernels->pack[RF_OPERAND_A8] = amx_pack_a8;
    kernels->packed_bytes[RF_OPERAND_A16] = amx_packed_bytes_a16;
    kernels->pack[RF_OPERAND_A16] = amx_pack_a16;
    kernels->packed_bytes[RF_OPERAND_A16_SUPER] = amx_packed_bytes_super;
    kernels->pack[RF_OPERAND_A16_SUPER] = amx_pack_super;
}
