/* Weights in panels on AVX2, with 16-bit sums of byte products; and the packing of rows. */
#define RF_NAMED(kernel) avx2_##kernel
#include "microkernels/avx2/panels.h"

#include "microkernels/avx2/tier.h"

static void avx2_pack_a8(const struct rf_pack_args *args)
{
    struct rf_a8 *to = rf_a8_blocks(args);
    const float *x = args->x;
    __m256 sign = _mm256_set1_ps(-0.0f);
    for (size_t g = 0; g < args->n / RF_BLOCK; g++, to++, x += RF_BLOCK) {
        __m256 values[4], most = _mm256_setzero_ps();
        __m256i q[4];
        for (int v = 0; v < 4; v++) {
            values[v] = _mm256_loadu_ps(x + 8 * v);
            most = _mm256_max_ps(_mm256_andnot_ps(sign, values[v]), most);
        }
        float max = max8(most), inverse = rf_a8_inverse(max);
        for (int v = 0; v < 4; v++)
            q[v] = _mm256_cvtps_epi32(_mm256_mul_ps(values[v], _mm256_set1_ps(inverse)));
        int sum0 = sum8(_mm256_add_epi32(q[0], q[1])), sum1 = sum8(_mm256_add_epi32(q[2], q[3]));
        /* The packing instructions work within halves of a register; the permutation restores the
         * order. */
        __m256i bytes =
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_store_si256((__m256i *)(void *)to->q, bytes);
        rf_a8_complete(to, max, sum0, sum1);
    }
}

void rf_avx2_init_panels(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A8] = avx2_pack_a8;
    init_panels(kernels);
}
