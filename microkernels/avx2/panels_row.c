/* Formats with a scale for a row times 8-bit rows on AVX2, and the packing of these rows. */
#define RF_NAMED(kernel) avx2_##kernel
#include "microkernels/avx2/panels_row.h"

#include <string.h>

#include "microkernels/avx2/tier.h"

static float row_max(const float *x, size_t k)
{
    __m256 sign = _mm256_set1_ps(-0.0f), most = _mm256_setzero_ps();
    for (size_t j = 0; j < k; j += 8)
        most = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + j)), most);
    return max8(most);
}

static void avx2_pack_a8_row(const struct rf_pack_args *args)
{
    struct rf_a8_row *to =
        (struct rf_a8_row *)(void *)((char *)args->packed + args->row * rf_a8_row_bytes(args->k));
    int32_t *sums = rf_a8_row_sums(to);
    int8_t *to_q = rf_a8_row_codes(to, args->k);
    float max = row_max(args->x, args->k), inverse = rf_a8_inverse(max);
    memset(to, 0, sizeof *to + rf_a8_row_sums_bytes(args->k));
    for (size_t j = 0; j < args->k; j += RF_BLOCK) {
        __m256i q[4];
        for (size_t v = 0; v < 4; v++) {
            __m256 value =
                _mm256_mul_ps(_mm256_loadu_ps(args->x + j + 8 * v), _mm256_set1_ps(inverse));
            __m256 is_number = _mm256_cmp_ps(value, value, _CMP_ORD_Q);
            q[v] = _mm256_cvtps_epi32(_mm256_and_ps(value, is_number));
        }
        int32_t sum =
            -8 * sum8(_mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3])));
        sums[j / RF_ROW_GROUP] += sum;
        to->m8 += sum;
        /* The packing instructions work within halves of a register; the permutation restores the
         * order. */
        __m256i bytes =
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_store_si256((__m256i *)(void *)(to_q + j), bytes);
    }
    to->d = max > 0x1p-100f ? max / 127.0f : 0.0f;
}

void rf_avx2_init_panels_row(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A8_ROW] = avx2_pack_a8_row;
    init_panels_row(kernels);
}
