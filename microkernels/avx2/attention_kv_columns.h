/* Products of codes with columns, 256 bits (microkernels/attention_kv_columns.h). */

/* codes[k / 4][16][4] of a block; quads are likewise. */
INLINE void decode_bytes(uint8_t *codes, const struct planes *planes, size_t block, size_t depth,
                         int has_lower)
{
    const uint8_t *upper = planes->upper + block * depth * 8,
                  *lower = has_lower ? planes->lower + block * depth * 8 : NULL;
    for (size_t k = 0; k < depth; k += 8) UNROLL
    for (size_t half = 0; half < 64; half += 32) {
        __m256i two[2];
        decode(two, upper + k * 8 + half, has_lower ? lower + k * 8 + half : NULL, has_lower);
        store(codes + k * 16 + half, two[0]);
        store(codes + k * 16 + 64 + half, two[1]);
    }
}

INLINE __m256i pack_quad(const whole x[4])
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
    return _mm256_shuffle_epi8(bytes, order);
}

#ifdef RF_DPBUSD
INLINE void kv_decode(uint8_t *codes, const struct planes *planes, size_t block, size_t depth,
                      int has_lower)
{
    decode_bytes(codes, planes, block, depth, has_lower);
}

INLINE whole kv_store(int8_t *quad, const whole x[4], int has_lower)
{
    (void)has_lower;
    store(quad, pack_quad(x));
    return w_set(0);
}

/* Eight rows. */
INLINE void column_tile(const uint8_t *codes, const int8_t *quads, size_t depth, int32_t *sums)
{
    __m256i acc[8];
    UNROLL
    for (int r = 0; r < 8; r++) acc[r] = _mm256_setzero_si256();
    for (size_t k = 0; k < depth; k += 4, codes += 64, quads += QUAD) {
        __m256i x = load(quads);
        UNROLL
        for (int r = 0; r < 8; r++) acc[r] = RF_DPBUSD(acc[r], broadcast(codes + r * 4), x);
    }
    UNROLL
    for (int r = 0; r < 8; r++) store(sums + r * LANES, acc[r]);
}

APART static void column_products(const uint8_t *codes, const int8_t *quads, size_t depth,
                                  int32_t *sums)
{
    for (size_t r = 0; r < 16; r += 8) column_tile(codes + r * 4, quads, depth, sums + r * LANES);
}

INLINE void kv_products(const uint8_t *codes, const struct column *columns, size_t n, size_t depth,
                        int has_lower, int32_t *sums)
{
    (void)has_lower;
    for (size_t c = 0; c < n; c++)
        column_products(codes, columns[c].rounded, depth, sums + c * 16 * LANES);
}
#else
INLINE void kv_decode(uint8_t *codes, const struct planes *planes, size_t block, size_t depth,
                      int has_lower)
{
    if (has_lower)
        decode_wide(codes, planes, block, depth);
    else
        decode_bytes(codes, planes, block, depth, 0);
}

INLINE whole kv_store(int8_t *quad, const whole x[4], int has_lower)
{
    enum { UPPER_HALVES = 0xaa };
    if (!has_lower) {
        store(quad, pack_quad(x));
        return w_set(0);
    }
    __m256i even = _mm256_blend_epi16(x[0], _mm256_slli_epi32(x[2], 16), UPPER_HALVES),
            odd = _mm256_blend_epi16(x[1], _mm256_slli_epi32(x[3], 16), UPPER_HALVES);
    store(quad, even);
    store(quad + 32, odd);
    return _mm256_madd_epi16(even, odd);
}

/* Four rows with two columns. */
INLINE void pair_tile(const uint8_t *codes, size_t row, const struct column *columns, size_t depth,
                      int32_t *sums)
{
    const void *quads[2] = {columns[0].rounded, columns[1].rounded};
    __m256i acc[2][4];
    UNROLL
    for (int c = 0; c < 2; c++) UNROLL
    for (int r = 0; r < 4; r++)
        acc[c][r] = minus_both(columns[c].excess, broadcast(codes + (row + (size_t)r) * 4));
    add_wide(acc, quads, 32, QUAD, codes + 64 + row * 4, 4, 64, 128, depth, 4);
    UNROLL
    for (int c = 0; c < 2; c++) UNROLL
    for (int r = 0; r < 4; r++) store(sums + (c * 16 + r) * LANES, acc[c][r]);
}

/* Eight rows with one column, whose loads would bind that. */
INLINE void wide_tile(const uint8_t *codes, const int8_t *quads, size_t depth, int32_t *sums)
{
    __m256i acc[8];
    UNROLL
    for (int r = 0; r < 8; r++) acc[r] = _mm256_setzero_si256();
    for (size_t k = 0; k < depth; k += 2, codes += 64, quads += QUAD / 2) {
        __m256i x = load(quads);
        UNROLL
        for (int r = 0; r < 8; r++)
            acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(broadcast(codes + r * 4), x));
    }
    UNROLL
    for (int r = 0; r < 8; r++) store(sums + r * LANES, acc[r]);
}

/* Adds the products of `quads` quads, as many as 16 bits hold, with eight rows. */
INLINE void add_quads(int32_t *out, const uint8_t *codes, const int8_t *quad, int quads,
                      int is_first)
{
    __m256i sums[8];
    UNROLL
    for (int k = 0; k < quads; k++) {
        __m256i x = load(quad + k * QUAD);
        UNROLL
        for (int r = 0; r < 8; r++) {
            __m256i product = _mm256_maddubs_epi16(broadcast(codes + k * 64 + r * 4), x);
            sums[r] = k > 0 ? _mm256_add_epi16(sums[r], product) : product;
            IN_ORDER(sums[r]);
        }
    }
    UNROLL
    for (int r = 0; r < 8; r++) {
        int32_t *to = out + r * LANES;
        __m256i sum = _mm256_madd_epi16(sums[r], _mm256_set1_epi16(1));
        store(to, is_first ? sum : _mm256_add_epi32(sum, load(to)));
    }
}

INLINE void narrow_tile(const uint8_t *codes, const int8_t *quads, size_t depth, int32_t *sums)
{
    enum { QUADS = 8, DEPTH = 4 * QUADS };
    size_t k = 0;
    for (; k + DEPTH <= depth; k += DEPTH)
        add_quads(sums, codes + k * 16, quads + k / 4 * QUAD, QUADS, k == 0);
    /* gcc would find the addresses of the rest before the loop, and spill them. */
    __asm__ volatile("" : "+r"(k));
    if (k < depth) /* half of that: depths are multiples of 16 */
        add_quads(sums, codes + k * 16, quads + k / 4 * QUAD, QUADS / 2, k == 0);
}

APART static void narrow_products(const uint8_t *codes, const int8_t *quads, size_t depth,
                                  int32_t *sums)
{
    for (size_t r = 0; r < 16; r += 8) narrow_tile(codes + r * 4, quads, depth, sums + r * LANES);
}

APART static void wide_products(const uint8_t *codes, const int8_t *quads, size_t depth,
                                int32_t *sums)
{
    for (size_t r = 0; r < 16; r += 8)
        wide_tile(codes + 64 + r * 4, quads, depth, sums + r * LANES);
}

APART static void pair_products(const uint8_t *codes, const struct column *columns, size_t depth,
                                int32_t *sums)
{
    for (size_t r = 0; r < 16; r += 4) pair_tile(codes, r, columns, depth, sums + r * LANES);
}

INLINE void kv_products(const uint8_t *codes, const struct column *columns, size_t n, size_t depth,
                        int has_lower, int32_t *sums)
{
    for (size_t c = 0; !has_lower && c < n; c++)
        narrow_products(codes, columns[c].rounded, depth, sums + c * 16 * LANES);
    if (has_lower && n == 2) pair_products(codes, columns, depth, sums);
    if (has_lower && n == 1) wide_products(codes, columns[0].rounded, depth, sums);
}
#endif
