/* Weights in panels times 16-bit rows on AVX2, and the packing of these rows. */
#define RF_NAMED(kernel) avx2_##kernel
#include "microkernels/avx2/panels_a16.h"

#include "microkernels/avx2/tier.h"

static void avx2_pack_a16_block(struct rf_a16 *to, const float *x)
{
    __m256 sign = _mm256_set1_ps(-0.0f), values[4], most = _mm256_setzero_ps();
    int32_t sum[2];
    for (int v = 0; v < 4; v++) {
        values[v] = _mm256_loadu_ps(x + 8 * v);
        most = _mm256_max_ps(_mm256_andnot_ps(sign, values[v]), most);
    }
    __m256 inverse = _mm256_set1_ps(rf_a16_begin(&to->d, max8(most)));
    __m256i finite = _mm256_castps_si256(_mm256_cmp_ps(inverse, _mm256_setzero_ps(), _CMP_GT_OQ)),
            order = _mm256_broadcastsi128_si256(
                _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (int h = 0; h < 2; h++) {
        __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(values[2 * h], inverse)),
                high = _mm256_cvtps_epi32(_mm256_mul_ps(values[2 * h + 1], inverse));
        low = _mm256_and_si256(low, finite);
        high = _mm256_and_si256(high, finite);
        /* The packing instruction works within halves of a register; the permutation restores the
         * order. */
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(to->q + 16 * h), _mm256_shuffle_epi8(words, order));
        sum[h] = sum8(_mm256_add_epi32(low, high));
    }
    rf_a16_complete(to, sum[0], sum[1]);
}

static void avx2_pack_a16(const struct rf_pack_args *args)
{
    struct rf_a16 *to = rf_a16_blocks(args);
    for (size_t j = 0; j < args->n; j += RF_BLOCK) avx2_pack_a16_block(to++, args->x + j);
}

void rf_avx2_init_panels_a16(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A16] = avx2_pack_a16;
    init_panels_a16(kernels);
}
