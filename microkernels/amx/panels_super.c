/* Q4_K and Q6_K times 16-bit rows whose unit is that of a superblock, with AMX tiles.
 *
 * A code times the integer of its scale is rounded to 8 bits, and a row's integers are two bytes,
 * so tiles of bytes (tdpbsud, tdpbssd) sum a whole superblock of 256 values before anything is
 * scaled. All sums are exact. A tile of rows has the upper bytes of eight rows and then their lower
 * ones: one product gives both sums.
 *
 * One or two rows are multiplied as words (vpdpwssd), to the same sums. */
#include <immintrin.h>
#include <string.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/panels.h"

enum {
    SIDE = RF_AMX_SIDE,
    EIGHT = RF_AMX_EIGHT,
    ROW_BYTES = 64,
    BLOCKS = RF_SUPERBLOCK / RF_BLOCK,
    CHUNKS = RF_SUPERBLOCK / 64, /* chunks of a superblock: 64 values of k are a tile's depth */
    PAIR = 2,                    /* panels that share the tiles of more than 8 rows */
    FOUR = 4,                    /* panels that share the tiles of up to 8 rows */
    AHEAD = 4,                   /* superblocks that are prefetched */
    MOST_ROWS = 512,             /* rows whose sums wait for the next superblock */
    FEWEST = RF_AMX_LEAST_SUPER - 1
};

/* ---- decoding ---- */

/* Four vectors of pairs of words: k = 8j and 8j + 2 of each weight, 8j + 1 and 8j + 3, 8j + 4 and
 * 8j + 6, 8j + 5 and 8j + 7. They are codes of Q4_K, times 256 in to[1] and else times 16. `next`
 * has the odd bytes as even ones. */
INLINE void codes_q4k(const uint8_t *block, int j, __m512i to[4])
{
    const __m512i nibble = _mm512_set1_epi16(0xf0);
    __m512i v = _mm512_load_si512(block + 64 * j), next = _mm512_loadu_si512(block + 64 * j + 1);
    to[0] = _mm512_and_si512(_mm512_slli_epi16(v, 4), nibble);
    to[1] = _mm512_and_si512(v, _mm512_set1_epi16(0xf00));
    to[2] = _mm512_and_si512(v, nibble);
    to[3] = _mm512_and_si512(next, nibble);
}

/* The same of Q6_K, less the offset, times 256. */
INLINE void codes_q6k(const uint8_t *block, int j, __m512i to[4])
{
    __m512i v = _mm512_load_si512(block + 64 * j),
            upper = _mm512_load_si512(block + 256 + j / 2 * 64), bytes[2];
    bytes[0] = j % 2 ? upper : _mm512_slli_epi16(upper, 4);
    bytes[1] = j % 2 ? _mm512_srli_epi16(upper, 2) : _mm512_slli_epi16(upper, 2);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        bytes[h] = _mm512_and_si512(bytes[h], _mm512_set1_epi8(0x30));
        bytes[h] = _mm512_ternarylogic_epi64(bytes[h], h ? _mm512_srli_epi16(v, 4) : v,
                                             _mm512_set1_epi8(15), 0xf8); /* a | b & c */
        bytes[h] = _mm512_sub_epi8(bytes[h], _mm512_set1_epi8(32));
        to[2 * h] = _mm512_slli_epi16(bytes[h], 8);
        to[2 * h + 1] = _mm512_and_si512(bytes[h], _mm512_set1_epi16((int16_t)0xff00));
    }
}

/* A superblock of a panel. */
struct source {
    const uint8_t *codes, *unit, *codes_ahead, *unit_ahead;
};

/* Factors of a superblock's sums: d, and in Q4_K the minima. */
struct factors {
    __m512 d, b[BLOCKS];
};

/* `numbers`: Q4_K's, unpacked. */
INLINE void begin_superblock(enum rf_format format, const struct source *from, uint8_t numbers[256],
                             struct factors *factors)
{
    if (format != RF_FORMAT_Q4_K) {
        factors->d = _mm512_mul_ps(load_f16(from->unit + 256), _mm512_set1_ps(32.0f));
        return;
    }
    unpack_q4k(from->unit, numbers);
    factors->d = _mm512_mul_ps(load_f16(from->unit + 192), _mm512_set1_ps(4.0f));
    __m512 n = load_f16(from->unit + 224);
#pragma GCC unroll 8
    for (int g = 0; g < BLOCKS; g++)
        factors->b[g] = _mm512_mul_ps(n, load_u8(numbers + 128 + 16 * g));
}

INLINE void amx_super_prefetch(enum rf_format format, const struct source *from, size_t t)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    for (size_t line = 0; line < layout->block_bytes; line += 64)
        _mm_prefetch((const char *)from->codes_ahead + t * layout->block_bytes + line, _MM_HINT_T1);
    for (size_t line = t * 64; line < layout->scale_bytes; line += 64 * BLOCKS)
        _mm_prefetch((const char *)from->unit_ahead + line, _MM_HINT_T1);
}

/* The integers of a group's scales, each in both words of a weight, times what makes the rounded
 * upper half of a product with a code, twice, a scaled code. Q4_K: [1] is for codes times 256. With
 * a scale of -128 code 0 of Q6_K would become 128, which no signed byte holds. */
struct scales_of_group {
    __m512i of[2];
};

INLINE struct scales_of_group group_of(enum rf_format format, const struct source *from,
                                       const uint8_t numbers[256], size_t t, size_t half)
{
    const uint8_t *at =
        format == RF_FORMAT_Q4_K ? numbers + 16 * t : from->unit + 32 * t + 16 * half;
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    struct scales_of_group group;
    if (format == RF_FORMAT_Q4_K) {
        __m512i a = _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 5);
        group.of[1] = _mm512_or_si512(a, _mm512_slli_epi32(a, 16));
        group.of[0] = _mm512_slli_epi16(group.of[1], 4);
    } else {
        __m512i a = _mm512_max_epi32(_mm512_slli_epi32(_mm512_cvtepi8_epi32(bytes), 2),
                                     _mm512_set1_epi32(-509));
        group.of[0] = group.of[1] =
            _mm512_ternarylogic_epi64(_mm512_set1_epi32(0xffff), a, _mm512_slli_epi32(a, 16), 0xca);
    }
    return group;
}

/* The scales of both halves of block t. */
INLINE void amx_super_groups_of(enum rf_format format, const struct source *from,
                                const uint8_t numbers[256], size_t t,
                                struct scales_of_group groups[2])
{
    groups[0] = groups[1] = group_of(format, from, numbers, t, 0);
    if (format == RF_FORMAT_Q6_K) groups[1] = group_of(format, from, numbers, t, 1);
}

/* The scaled codes of vectors 4j .. 4j + 3 of block t, as words. */
INLINE void decode_words(enum rf_format format, const struct source *from, size_t t, int j,
                         const struct scales_of_group *group, __m512i to[4])
{
    const uint8_t *block = from->codes + t * rf_panel_layout(format)->block_bytes;
    if (format == RF_FORMAT_Q4_K)
        codes_q4k(block, j, to);
    else
        codes_q6k(block, j, to);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) to[i] = _mm512_mulhrs_epi16(to[i], group->of[i == 1]);
}

typedef __m512i tile[SIDE]; /* operand B: [four values of k][16 weights][4] */

/* Block t as half of a tile. */
INLINE void amx_super_decode_block(enum rf_format format, const struct source *from,
                                   const uint8_t numbers[256], size_t t, tile to)
{
    amx_super_prefetch(format, from, t);
    struct scales_of_group groups[2];
    amx_super_groups_of(format, from, numbers, t, groups);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i words[4];
        decode_words(format, from, t, j, &groups[j / 2], words);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) /* 0x00ff ? even : odd */
            to[t % 2 * 8 + 2 * (size_t)j + (size_t)h] =
                _mm512_ternarylogic_epi64(_mm512_set1_epi16(0xff), words[2 * h],
                                          _mm512_slli_epi16(words[2 * h + 1], 8), 0xca);
    }
}

/* ---- where panels and rows are ---- */

static size_t amx_super_panel_count(const struct rf_linear_args *args)
{
    return (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
}

static const struct rf_amx_super *eight_at(const struct rf_linear_args *args, size_t row)
{
    return (const struct rf_amx_super *)((const char *)args->x + rf_amx_eights_at(args->k)) +
           row / EIGHT * rf_a16_supers(args->k);
}

/* Superblock s of a panel. `together`: panels that are read side by side. A number behind the last
 * panel stands for the last one, and its results are not used. Prefetches may reach behind the
 * matrix. */
INLINE struct source amx_super_source_of(enum rf_format format, const struct rf_linear_args *args,
                                         size_t panel, size_t s, size_t together)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t superblocks = rf_a16_supers(args->k), codes_bytes = BLOCKS * layout->block_bytes,
           ahead = s + AHEAD, last = amx_super_panel_count(args) - 1;
    if (panel > last) panel = last;
    const uint8_t *w = (const uint8_t *)args->w + panel * args->ldw, *next = w;
    for (; ahead >= superblocks; ahead -= superblocks) next += together * args->ldw;
    return (struct source){
        w + s * codes_bytes, w + superblocks * codes_bytes + s * layout->scale_bytes,
        next + ahead * codes_bytes, next + superblocks * codes_bytes + ahead * layout->scale_bytes};
}

/* acc + the sums i of a superblock, scaled, + minima. */
INLINE __m512 amx_super_fold(enum rf_format format, __m512 acc, __m512i i,
                             const struct factors *factors, const struct rf_a16_super_numbers *x)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(i), _mm512_set1_ps(x->d)), factors->d,
                          acc);
    if (format == RF_FORMAT_Q4_K)
#pragma GCC unroll 8
        for (int g = 0; g < BLOCKS; g++)
            acc = _mm512_fmadd_ps(factors->b[g], _mm512_set1_ps(x->d_sum[g]), acc);
    return acc;
}

/* ---- one or two rows, without tiles ---- */

/* sum + the products of two words in each lane. In assembly, because gcc would copy every sum to
 * another register and back. */
INLINE __m512i amx_super_add_products(__m512i sum, __m512i words, const int16_t *x)
{
    int32_t two;
    memcpy(&two, x, sizeof two);
#ifdef __AVX512VNNI__
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(words), "v"(_mm512_set1_epi32(two)));
    return sum;
#else /* test/wide */
    return _mm512_dpwssd_epi32(sum, words, _mm512_set1_epi32(two));
#endif
}

/* The sums of superblock s of a panel with n rows. Each has four parts, which do not wait for one
 * another. */
INLINE void multiply_words(enum rf_format format, const struct source *from,
                           const uint8_t numbers[256],
                           const struct rf_a16_super *const rows[FEWEST], int n,
                           __m512i sums[FEWEST])
{
    __m512i parts[FEWEST][4];
    for (int r = 0; r < n; r++)
        for (int i = 0; i < 4; i++) parts[r][i] = _mm512_setzero_si512();
    for (size_t t = 0; t < BLOCKS; t++) {
        struct scales_of_group groups[2];
        amx_super_prefetch(format, from, t);
        amx_super_groups_of(format, from, numbers, t, groups);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            __m512i words[4];
            decode_words(format, from, t, j, &groups[j / 2], words);
            for (int r = 0; r < n; r++)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
                    parts[r][i] = amx_super_add_products(parts[r][i], words[i],
                                                         rows[r]->q + t * RF_BLOCK + 8 * j + 2 * i);
        }
    }
    for (int r = 0; r < n; r++)
        sums[r] = _mm512_add_epi32(_mm512_add_epi32(parts[r][0], parts[r][1]),
                                   _mm512_add_epi32(parts[r][2], parts[r][3]));
}

INLINE void amx_super_fewest_rows(const struct rf_linear_args *args, enum rf_format format, int n)
{
    size_t superblocks = rf_a16_supers(args->k);
    for (size_t panel = 0; panel < amx_super_panel_count(args); panel++) {
        _Alignas(64) uint8_t numbers[256];
        __m512 acc[FEWEST];
        for (int r = 0; r < n; r++) acc[r] = _mm512_setzero_ps();
        for (size_t s = 0; s < superblocks; s++) {
            const struct rf_a16_super *rows[FEWEST];
            struct source from = amx_super_source_of(format, args, panel, s, 1);
            struct factors factors;
            __m512i sums[FEWEST];
            for (int r = 0; r < n; r++)
                rows[r] = (const struct rf_a16_super *)args->x + (size_t)r * superblocks + s;
            begin_superblock(format, &from, numbers, &factors);
            multiply_words(format, &from, numbers, rows, n, sums);
            for (int r = 0; r < n; r++)
                acc[r] = amx_super_fold(format, acc[r], sums[r], &factors, &rows[r]->numbers);
        }
        for (int r = 0; r < n; r++) store_panel(args, panel, (size_t)r, acc[r]);
    }
}

/* ---- tiles ---- */

INLINE void amx_super_configure(void)
{
    struct rf_tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.rows[t] = SIDE;
        config.row_bytes[t] = ROW_BYTES;
    }
    _tile_loadconfig(&config);
}

/* Tiles are loaded from what was stored before. */
#define STORED __asm__ volatile("" ::: "memory")

INLINE void zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Tiles 0 to 3 += rows times weights. Codes of Q4_K are never negative. */
#define MULTIPLY(name, dot)                                                                    \
    /* Four panels times eight rows. */                                                        \
    INLINE void four_panels_##name(const void *rows, tile weights[FOUR])                       \
    {                                                                                          \
        _tile_loadd(4, rows, ROW_BYTES);                                                       \
        _tile_loadd(6, weights[0], ROW_BYTES);                                                 \
        _tile_loadd(7, weights[1], ROW_BYTES);                                                 \
        dot(0, 4, 6);                                                                          \
        _tile_loadd(6, weights[2], ROW_BYTES);                                                 \
        dot(1, 4, 7);                                                                          \
        _tile_loadd(7, weights[3], ROW_BYTES);                                                 \
        dot(2, 4, 6);                                                                          \
        dot(3, 4, 7);                                                                          \
    }                                                                                          \
    /* A pair of panels times sixteen rows. */                                                 \
    INLINE void sixteen_rows_##name(const void *first, const void *second, tile weights[PAIR]) \
    {                                                                                          \
        _tile_loadd(4, first, ROW_BYTES);                                                      \
        _tile_loadd(6, weights[0], ROW_BYTES);                                                 \
        _tile_loadd(7, weights[1], ROW_BYTES);                                                 \
        _tile_loadd(5, second, ROW_BYTES);                                                     \
        dot(0, 4, 6);                                                                          \
        dot(1, 4, 7);                                                                          \
        dot(2, 5, 6);                                                                          \
        dot(3, 5, 7);                                                                          \
    }
MULTIPLY(unsigned, _tile_dpbsud)
MULTIPLY(signed, _tile_dpbssd)

INLINE void four_panels(enum rf_format format, const void *rows, tile weights[FOUR])
{
    if (format == RF_FORMAT_Q4_K)
        four_panels_unsigned(rows, weights);
    else
        four_panels_signed(rows, weights);
}

INLINE void sixteen_rows(enum rf_format format, const void *first, const void *second,
                         tile weights[PAIR])
{
    if (format == RF_FORMAT_Q4_K)
        sixteen_rows_unsigned(first, second, weights);
    else
        sixteen_rows_signed(first, second, weights);
}

typedef int32_t sums[SIDE][SIDE]; /* eight rows' upper bytes, then their lower ones */

INLINE void amx_super_store_sums(sums to[4])
{
    _tile_stored(0, to[0], ROW_BYTES);
    _tile_stored(1, to[1], ROW_BYTES);
    _tile_stored(2, to[2], ROW_BYTES);
    _tile_stored(3, to[3], ROW_BYTES);
}

/* acc[row] += the sums of a superblock, scaled, for up to eight rows. */
INLINE void amx_super_scale(enum rf_format format, const struct factors *factors, sums of,
                            const struct rf_a16_super_numbers numbers[EIGHT], float (*acc)[SIDE],
                            size_t rows, int begins)
{
    struct factors held = *factors;
    for (size_t r = 0; r < rows; r++) {
        __m512i upper = _mm512_load_si512(of[r]), lower = _mm512_load_si512(of[EIGHT + r]);
        __m512 sum = begins ? _mm512_setzero_ps() : _mm512_load_ps(acc[r]);
        sum = amx_super_fold(format, sum, _mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower),
                             &held, &numbers[r]);
        _mm512_store_ps(acc[r], sum);
    }
}

/* ---- up to eight rows ---- */

/* All chunks of all panels, four side by side, are one sequence: the chunk before is multiplied
 * before one is decoded, since tiles are better not loaded from what was just stored; and the sums
 * of a superblock are scaled when the next one's multiplying has begun. */
struct few {
    _Alignas(64) sums sums[FOUR];
    _Alignas(64) float acc[FOUR][EIGHT][SIDE];
    _Alignas(64) uint8_t numbers[FOUR][256];
    tile chunks[2][FOUR];            /* even and odd ones */
    struct factors factors[2][FOUR]; /* even and odd superblocks' */
};

/* A superblock of the sequence. */
struct place {
    size_t panel, s; /* superblock s of four panels */
    size_t number;   /* number among all superblocks */
};

INLINE void next_superblock(struct place *place, size_t superblocks)
{
    place->number++;
    if (++place->s < superblocks) return;
    place->s = 0;
    place->panel += FOUR;
}

/* Chunk c of a superblock; after the last one sums leave their tiles. */
INLINE void amx_super_multiply_chunk(enum rf_format format, struct few *few,
                                     const struct rf_amx_super *rows, size_t c)
{
    if (c == 0) zero_sums();
    four_panels(format, rows->q[c], few->chunks[c % 2]);
    if (c == CHUNKS - 1) amx_super_store_sums(few->sums);
}

/* Scales the sums of a superblock, and writes the results after the panels' last. */
INLINE void amx_super_finish(const struct rf_linear_args *args, enum rf_format format,
                             struct few *few, const struct rf_amx_super *rows,
                             const struct place *place)
{
    for (size_t p = 0; p < FOUR && place->panel + p < amx_super_panel_count(args); p++) {
        amx_super_scale(format, &few->factors[place->number % 2][p], few->sums[p], rows->numbers,
                        few->acc[p], args->n, place->s == 0);
        if (place->s + 1 < rf_a16_supers(args->k)) continue;
        for (size_t r = 0; r < args->n; r++)
            store_panel(args, place->panel + p, r, _mm512_load_ps(few->acc[p][r]));
    }
}

/* Chunk c of four panels. */
INLINE void decode_four(const struct rf_linear_args *args, enum rf_format format, struct few *few,
                        const struct place *place, size_t c, struct source sources[FOUR])
{
#pragma GCC unroll 4
    for (size_t p = 0; p < FOUR; p++) {
        if (c == 0) {
            sources[p] = amx_super_source_of(format, args, place->panel + p, place->s, FOUR);
            begin_superblock(format, &sources[p], few->numbers[p],
                             &few->factors[place->number % 2][p]);
        }
        for (size_t t = 2 * c; t < 2 * c + 2; t++)
            amx_super_decode_block(format, &sources[p], few->numbers[p], t, few->chunks[c % 2][p]);
    }
}

INLINE void amx_super_few_rows(const struct rf_linear_args *args, enum rf_format format)
{
    enum { FINISH_AT = 1 /* the chunk of the next superblock before which sums are scaled */ };
    struct few few;
    struct source sources[FOUR] = {{NULL, NULL, NULL, NULL}};
    struct place now = {0}, before = {0}; /* the superblock being decoded; the one before it */
    size_t superblocks = rf_a16_supers(args->k),
           all = (amx_super_panel_count(args) + FOUR - 1) / FOUR * superblocks;
    const struct rf_amx_super *rows = eight_at(args, 0);
    amx_super_configure();
    for (; now.number < all; before = now, next_superblock(&now, superblocks))
        for (size_t c = 0; c < CHUNKS; c++) {
            STORED;
            if (c > 0)
                amx_super_multiply_chunk(format, &few, &rows[now.s], c - 1);
            else if (now.number > 0)
                amx_super_multiply_chunk(format, &few, &rows[before.s], CHUNKS - 1);
            if (c == FINISH_AT && now.number > 0)
                amx_super_finish(args, format, &few, &rows[before.s], &before);
            decode_four(args, format, &few, &now, c, sources);
        }
    STORED;
    amx_super_multiply_chunk(format, &few, &rows[before.s], CHUNKS - 1);
    amx_super_finish(args, format, &few, &rows[before.s], &before);
}

/* ---- more rows ---- */

/* A pair's superblock, for all rows; and the sums of sixteen. */
struct many {
    _Alignas(64) float acc[PAIR][MOST_ROWS][SIDE];
    _Alignas(64) sums sums[2 * PAIR]; /* [eight rows][panel] */
    _Alignas(64) uint8_t numbers[256];
    tile chunks[CHUNKS][PAIR];
    struct factors factors[PAIR];
};

/* Rows a .. of those from `first` on: sixteen, or those that are left. If these are eight at most,
 * they are multiplied twice: their second results are not used. */
INLINE void amx_super_multiply_rows(const struct rf_linear_args *args, enum rf_format format,
                                    struct many *many, size_t first, size_t a, size_t n, size_t s)
{
    size_t left = n - a;
    const struct rf_amx_super *x = eight_at(args, first + a) + s,
                              *y = left > EIGHT ? eight_at(args, first + a + EIGHT) + s : x;
    zero_sums();
    for (size_t c = 0; c < CHUNKS; c++) sixteen_rows(format, x->q[c], y->q[c], many->chunks[c]);
    amx_super_store_sums(many->sums);
    for (size_t p = 0; p < PAIR; p++) {
        amx_super_scale(format, &many->factors[p], many->sums[p], x->numbers, many->acc[p] + a,
                        left < EIGHT ? left : EIGHT, s == 0);
        if (left > EIGHT)
            amx_super_scale(format, &many->factors[p], many->sums[PAIR + p], y->numbers,
                            many->acc[p] + a + EIGHT, left - EIGHT < EIGHT ? left - EIGHT : EIGHT,
                            s == 0);
    }
}

/* A pair of panels times n rows from `first` on. */
INLINE void amx_super_multiply_pair(const struct rf_linear_args *args, enum rf_format format,
                                    struct many *many, size_t panel, size_t first, size_t n)
{
    for (size_t s = 0; s < rf_a16_supers(args->k); s++) {
        for (size_t p = 0; p < PAIR; p++) {
            struct source source = amx_super_source_of(format, args, panel + p, s, PAIR);
            begin_superblock(format, &source, many->numbers, &many->factors[p]);
            for (size_t t = 0; t < BLOCKS; t++)
                amx_super_decode_block(format, &source, many->numbers, t, many->chunks[t / 2][p]);
        }
        STORED;
        for (size_t a = 0; a < n; a += SIDE)
            amx_super_multiply_rows(args, format, many, first, a, n, s);
    }
    for (size_t p = 0; p < PAIR && panel + p < amx_super_panel_count(args); p++)
        for (size_t r = 0; r < n; r++)
            store_panel(args, panel + p, first + r, _mm512_load_ps(many->acc[p][r]));
}

INLINE void amx_super_many_rows(const struct rf_linear_args *args, enum rf_format format)
{
    struct many many;
    amx_super_configure();
    for (size_t first = 0; first < args->n; first += MOST_ROWS)
        for (size_t panel = 0; panel < amx_super_panel_count(args); panel += PAIR)
            amx_super_multiply_pair(args, format, &many, panel, first,
                                    args->n - first < MOST_ROWS ? args->n - first : MOST_ROWS);
}

#define LINEAR(name, FORMAT)                                                   \
    static APART void amx_super_one_##name(const struct rf_linear_args *args)  \
    {                                                                          \
        amx_super_fewest_rows(args, RF_FORMAT_##FORMAT, 1);                    \
    }                                                                          \
    static APART void amx_super_two_##name(const struct rf_linear_args *args)  \
    {                                                                          \
        amx_super_fewest_rows(args, RF_FORMAT_##FORMAT, 2);                    \
    }                                                                          \
    static APART void amx_super_few_##name(const struct rf_linear_args *args)  \
    {                                                                          \
        amx_super_few_rows(args, RF_FORMAT_##FORMAT);                          \
        _tile_release();                                                       \
    }                                                                          \
    static APART void amx_super_many_##name(const struct rf_linear_args *args) \
    {                                                                          \
        amx_super_many_rows(args, RF_FORMAT_##FORMAT);                         \
        _tile_release();                                                       \
    }                                                                          \
    static void amx_linear_##name##_a16(const struct rf_linear_args *args)     \
    {                                                                          \
        if (args->n == 1)                                                      \
            amx_super_one_##name(args);                                        \
        else if (args->n <= FEWEST)                                            \
            amx_super_two_##name(args);                                        \
        else if (args->n <= EIGHT)                                             \
            amx_super_few_##name(args);                                        \
        else                                                                   \
            amx_super_many_##name(args);                                       \
    }
LINEAR(q4_k, Q4_K)
LINEAR(q6_k, Q6_K)

void rf_amx_init_panels_super(struct rf_kernels *kernels)
{
    kernels->linear_a16[RF_FORMAT_Q4_K] = amx_linear_q4_k_a16;
    kernels->linear_a16[RF_FORMAT_Q6_K] = amx_linear_q6_k_a16;
    kernels->operand_a16[RF_FORMAT_Q4_K] = RF_OPERAND_A16_SUPER;
    kernels->operand_a16[RF_FORMAT_Q6_K] = RF_OPERAND_A16_SUPER;
}
