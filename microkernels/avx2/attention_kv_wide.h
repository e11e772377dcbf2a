/* Products with codes of 8 bits as integers of 16. Two take one multiplication (S. Winograd, 1968),
 *
 *     x0 c0 + x1 c1 = (x0 + c1) (x1 + c0) - x0 x1 - c0 c1:
 *
 * vpmaddwd has two ports, additions have four. The excess, x0 x1 and c0 c1, is summed once for a
 * vector of x and for a row of codes. Integers of four values of k are apart, even ones and odd
 * ones. */

/* codes: [16] excesses, then [k / 4][2][16][2]. */
INLINE void decode_wide(uint8_t *codes, const struct planes *planes, size_t block, size_t depth)
{
    const uint8_t *upper = planes->upper + block * depth * 8,
                  *lower = planes->lower + block * depth * 8;
    __m256i excess[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t k = 0; k < depth; k += 8) UNROLL
    for (size_t half = 0; half < 2; half++) {
        __m256i two[2];
        decode(two, upper + k * 8 + half * 32, lower + k * 8 + half * 32, 1);
        UNROLL
        for (size_t i = 0; i < 2; i++) {
            uint8_t *to = codes + 64 + k * 32 + i * 128 + half * 32;
            __m256i even = _mm256_and_si256(two[i], _mm256_set1_epi16(255)),
                    odd = _mm256_srli_epi16(two[i], 8);
            store(to, even);
            store(to + 64, odd);
            excess[half] = _mm256_add_epi32(excess[half], _mm256_madd_epi16(even, odd));
        }
    }
    store(codes, excess[0]);
    store(codes + 32, excess[1]);
}

INLINE __m256i minus_both(__m256i a, __m256i b)
{
    return _mm256_sub_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), a), b);
}

/* Adds the products of two vectors of x (or codes) with `rows` rows of codes (or x), of which a
 * pair of integers is for all lanes: eight sums. The odd ones of four values of k lie so many bytes
 * behind the even ones, the next four a step further. */
INLINE void add_wide(__m256i acc[2][4], const void *const vectors[2], size_t odd_vector,
                     size_t vector_step, const void *numbers, size_t row, size_t odd_number,
                     size_t number_step, size_t depth, int rows)
{
    const char *number = numbers;
    for (size_t k = 0; k < depth; k += 4, number += number_step) {
        size_t at = k * (vector_step / 4);
        __m256i even[2], odd[2];
        UNROLL
        for (int c = 0; c < 2; c++) {
            const char *vector = (const char *)vectors[c] + at;
            even[c] = load(vector);
            odd[c] = load(vector + odd_vector);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256i to_odd = broadcast(number + (size_t)r * row),
                    to_even = broadcast(number + (size_t)r * row + odd_number);
            UNROLL
            for (int c = 0; c < 2; c++)
                acc[c][r] = _mm256_add_epi32(acc[c][r],
                                             _mm256_madd_epi16(_mm256_add_epi16(even[c], to_even),
                                                               _mm256_add_epi16(odd[c], to_odd)));
        }
    }
}

/* Rows of bytes, widened. */
struct wide_rows {
    _Alignas(64) int16_t even[FEW][WIDTH / 2], odd[FEW][WIDTH / 2];
    int32_t excess[FEW];
};

INLINE void widen_rows(struct wide_rows *to, const struct byte_rows *x, size_t depth)
{
    for (size_t r = 0; r < x->n; r++) {
        __m256i excess = _mm256_setzero_si256();
        for (size_t k = 0; k < depth; k += 32) {
            __m256i bytes = load(x->at[r] + k), odd = _mm256_srai_epi16(bytes, 8),
                    even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
            store(to->even[r] + k / 2, even);
            store(to->odd[r] + k / 2, odd);
            excess = _mm256_add_epi32(excess, _mm256_madd_epi16(even, odd));
        }
        to->excess[r] = w_sum(excess);
    }
}

/* Products of a block with `rows` rows from `first` on. */
INLINE void wide_row_tile(const uint8_t *codes, const struct wide_rows *x, size_t first,
                          size_t depth, int32_t (*out)[WIDTH], size_t at, int rows)
{
    const void *halves[2] = {codes + 64, codes + 96};
    __m256i acc[2][4];
    UNROLL
    for (int c = 0; c < 2; c++) UNROLL
    for (int r = 0; r < rows; r++)
        acc[c][r] = minus_both(load(codes + c * 32), broadcast(&x->excess[first + (size_t)r]));
    add_wide(acc, halves, 64, 128, x->even[first], sizeof x->even[0], sizeof x->even, 4, depth,
             rows);
    UNROLL
    for (int c = 0; c < 2; c++) UNROLL
    for (int r = 0; r < rows; r++) store(out[first + (size_t)r] + at + c * 8, acc[c][r]);
}

/* kv_dots for WIDE_LEAST queries or more: decoding takes as long as the products of two. */
enum { WIDE_LEAST = 7 };

APART static void wide_dots(const struct planes *planes, size_t depth, size_t blocks,
                            const struct byte_rows *x, int32_t (*out)[WIDTH], struct ahead *ahead,
                            size_t lines)
{
    struct wide_rows wide;
    _Alignas(64) uint8_t codes[64 + 16 * RF_KV_MOST_DIM * 2];
    widen_rows(&wide, x, depth);
    for (size_t b = 0; b < blocks; b++) {
        size_t tiles = (x->n + 3) / 4;
        decode_wide(codes, planes, b, depth);
        prefetch(ahead, lines / blocks + 1);
        for (size_t r = 0, n; r < x->n; r += n, tiles--) {
            n = (x->n - r + tiles - 1) / tiles;
            if (n == 4)
                wide_row_tile(codes, &wide, r, depth, out, b * 16, 4);
            else
                wide_row_tile(codes, &wide, r, depth, out, b * 16, 3);
        }
    }
}
