/* The arithmetic: one table of function pointers for each tier. It is filled with the scalar
 * reference, which defines what each kernel computes, and then overwritten with the tier's own
 * kernels (docs/design/kernels.md).
 *
 * Row independence: for every kernel, the bits of a result row depend on that row's operands alone,
 * not on how many rows, queries or weights the call holds. Each sum of a tier runs in one fixed
 * order, whatever tile it is computed in. Between tiers results differ by rounding. */
#ifndef RF_MICROKERNELS_KERNELS_H
#define RF_MICROKERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "microkernels/kv.h"
#include "microkernels/panel.h"

enum {
    RF_KV_BLOCK = 16,        /* positions that lie interleaved in the K cache */
    RF_ATTENTION_CHUNK = 256 /* positions of one attention call; chunks start at its multiples */
};
_Static_assert(RF_ATTENTION_CHUNK % RF_KV_BLOCK == 0, "chunks are whole blocks");

/* y[i][r] = sum_j w[r][j] * x[i][j], + bias[r], + y[i][r] if accumulate; i < n, r < m, j < k. w,
 * BF16: row-major, rows ldw elements apart, 2-byte aligned; read in place from the model's file. w,
 * other formats: panels (panel.h), 64-byte aligned, ldw bytes apart; k is a multiple of the
 * format's unit. x: rows packed in the format's operand form (rf_operand_of), of which the first n
 * are used; 64-byte aligned. y: F32, rows ldy elements apart. */
struct rf_linear_args {
    float *y;
    size_t ldy;
    const void *w;
    size_t ldw;
    const void *x;
    size_t m, n, k;
    const float *bias; /* [m] or NULL */
    int accumulate;
};

typedef void rf_linear_fn(const struct rf_linear_args *args);

/* The forms of packed rows of activations. */
enum rf_operand {
    RF_OPERAND_BF16,      /* values rounded to BF16; each tier has its own order */
    RF_OPERAND_A8,        /* struct rf_a8 [n][rf_a8_stride(k)] */
    RF_OPERAND_A16,       /* struct rf_a16 [n][rf_a16_stride(k)] */
    RF_OPERAND_A16_SUPER, /* struct rf_a16_super [n][rf_a16_supers(k)] */
    RF_OPERAND_A8_ROW,    /* struct rf_a8_row, rf_a8_row_bytes(k) apart */
    RF_OPERAND_COUNT
};

static inline enum rf_operand rf_operand_of(enum rf_format format)
{
    return format == RF_FORMAT_BF16   ? RF_OPERAND_BF16
           : rf_is_row_format(format) ? RF_OPERAND_A8_ROW
                                      : RF_OPERAND_A8;
}

/* Packs the values [first, first + n) of a row of k values. In A8 and A16 any part of a row, in
 * multiples of 32; else a whole row. Parts are packed in any order, by any thread. */
struct rf_pack_args {
    void *packed;
    size_t row, k;
    const float *x; /* [n] */
    size_t first, n;
    size_t most; /* rows of the calls that will use it, at most; 0: any number */
};

typedef void rf_pack_fn(const struct rf_pack_args *args);

/* The blocks of a part. */
static inline struct rf_a8 *rf_a8_blocks(const struct rf_pack_args *args)
{
    return (struct rf_a8 *)args->packed + args->row * rf_a8_stride(args->k) +
           args->first / RF_BLOCK;
}

static inline struct rf_a16 *rf_a16_blocks(const struct rf_pack_args *args)
{
    return (struct rf_a16 *)args->packed + args->row * rf_a16_stride(args->k) +
           args->first / RF_BLOCK;
}

/* Attention of n_q queries over the positions of one chunk. For query i, with p ranging over the
 * positions first[i] .. visible[i] - 1 of the chunk's RF_ATTENTION_CHUNK:  s_p = scale * q[i].K_p,
 * or with a cap  s_p = cap * tanh(scale * q[i].K_p / cap);  out[i] = sum_p exp(s_p - max s) V_p,
 * followed by two floats, max s and sum_p exp(s_p - max s). A query that sees nothing (visible[i]
 * is 0) gets zeros, -inf and 0. In BF16 the elements of q and the weights exp(s_p - max s) are
 * rounded to BF16, and products are exact. K: [position/16][head_dim][16], V:
 * [position][rf_padded(head_dim)], both F16 or both BF16; the padding holds zeros, and all
 * positions up to the next multiple of 16 are readable. out rows: rf_padded(head_dim) + 2 floats,
 * ldo apart. */
struct rf_attention_args {
    const float *const *q; /* [n_q] -> [head_dim] */
    const int32_t *first;  /* NULL: 0 for all; else below visible[i], unless that is 0 */
    const int32_t *visible;
    size_t n_q;
    const uint16_t *k, *v;
    size_t head_dim;
    float scale;
    float cap; /* 0: none */
    float *out;
    size_t ldo;
};

/* Attention over up to RF_KV_SPAN quantised groups (kv.h) of RF_KV_GROUP positions, of which the
 * first is visible from first[i] on. Caps are as above. Results as those of struct
 * rf_attention_args, with these roundings. Vectors are rounded to 8 bits,  r(x) = round(x * 127 /
 * max |x|), weights with a dither by position, r'(x_p) = round(x_p * 127 / max |x| +
 * rf_kv_dither[p]).  For each group:
 *
 *     s_p = scale * (unit * sum_j r(q_j K.scale_j) (c_pj - 128) + sum_j q_j K.mid_j)
 *     e_p = 2^(s_p log2 e - m),  m = round(max s log2 e)
 *     out_j = unit' * sum_p r'(e_p V.scale_p) (c_pj - 128) + sum_p e_p V.mid_p
 *
 * Sums of integers are exact. A code c has both nibbles, or without the lower planes the upper one
 * and 8. The groups' results are merged in their order: of the running m and a group's m the
 * greater one stays, and sums are multiplied by powers of 2. The float that follows the values is
 * m ln 2 instead of max s. */
struct rf_attention_kv_args {
    const float *const *q; /* [n_q] -> [head_dim] */
    const int32_t *first;  /* NULL: 0 for all; else below RF_KV_GROUP */
    size_t n_q;
    const struct rf_kv_group *groups; /* [n_groups], all with lower planes or none */
    size_t n_groups;
    const struct rf_kv_group *next; /* group to prefetch, as it is probably read next; or NULL */
    size_t head_dim;                /* padded: RF_KV_MOST_DIM at most */
    float scale, cap;
    float *out;
    size_t ldo;
};

/* Casts of weights (cast.h): the blocks' type and the rule. */
enum rf_cast {
    RF_CAST_MXFP4_FLOOR, /* exponent by OCP's and ML-SpecQD's rule: floor(log2 max) - 2 */
    RF_CAST_MXFP4,       /* the floor exponent or the next, by the squared error */
    RF_CAST_Q4_0,        /* this and the next three: least squares over several tries */
    RF_CAST_Q4_1,
    RF_CAST_Q4_K,
    RF_CAST_Q6_K,
    RF_CAST_Q8_0, /* ggml's own rule */
    /* W4A8_G128 in two steps, between which the caller chooses a row's number: an F32 for each 128
     * values, the scale of their own that leaves the least squared error; and the codes of blocks
     * that have their scales already. */
    RF_CAST_W4A8_SCALES,
    RF_CAST_W4A8_CODES,
    RF_CAST_COUNT
};

/* An order of reading memory. The reference reads in one stream, whatever is asked. */
struct rf_read_args {
    const void *data;
    size_t n;       /* bytes, a multiple of 64 */
    size_t streams; /* 1, 2, 4, 8 or 16 equal parts, read side by side; the rest comes last */
    size_t step;    /* bytes of a stream before the next one's turn: 64 or 256 */
    size_t ahead;   /* prefetch distance in bytes; 0: only the processor's own prefetching */
    size_t times;
};

/* A row's step of the gated delta rule (Yang, Kautz and Hatamizadeh 2024), or of Mamba-2 (Dao and
 * Gu 2024), in some columns of one head's matrix, from S' before the row to S after it. The same
 * bits on every tier, a column's whatever columns are beside it:
 *
 * - h = sum over r of S'[r] k[r], in sums h_i = fma(S'[r], k[r], h_i) from 0 on, i = r mod 4, in
 *   the order of r; then h = (h_0 + h_1) + (h_2 + h_3). With is_mamba h = 0
 * - u = b fma(-g, h, v)
 * - S[r] = fma(k[r], u, g S'[r])
 * - out = sum over r of S[r] q[r], in sums as above */
struct rf_delta_args {
    const float *from; /* S' [rows][width] */
    float *to;         /* S, may be `from`; NULL: not wanted */
    size_t rows;
    size_t width;       /* columns, from 1 to RF_DELTA_COLUMNS */
    const float *q, *k; /* [rows] */
    const float *v;     /* [width] */
    float b, g;
    float *out; /* [width]; NULL: not wanted */
    int is_mamba;
};

enum { RF_DELTA_COLUMNS = 16, RF_DELTA_SUMS = 4 };

typedef void rf_gate_fn(float *out, const float *gate, const float *up, size_t n);

struct rf_kernels {
    /* The size in bytes of n packed rows of k values, and the function that packs values of one.
     * In A8 and A16 k is a multiple of 32, in A16_SUPER of 256. */
    size_t (*packed_bytes[RF_OPERAND_COUNT])(size_t n, size_t k);
    rf_pack_fn *pack[RF_OPERAND_COUNT];

    /* BF16: exact products, F32 sums in the tier's own order. Other formats give the same bits on
     * every tier. For each result and group of k in order, with the exact integer i = sum (c -
     * offset) q:
     *
     *     acc = fma(i * d, s, acc), then, where there is a minimum, acc = fma(b, d_sum, acc);
     *     in Q8_K  acc = fma(b / -32, m32[half] * d, acc).
     *
     * Formats with a scale for a row: acc = (i * d_x) * d, with the exact integer i = sum a (c - 8)
     * q over all of k (a = 1 in W4A8_ROW), converted once. k is RF_ROW_MOST_K at most. */
    rf_linear_fn *linear[RF_FORMAT_COUNT];
    /* Panels times 16-bit rows (the verifying half of QSpec) of the form operand_a16[format]. NULL
     * for BF16. Formats with a scale for a row take 8-bit rows here, too: they are made for them.
     *
     * A16: the same bits on every tier. For each result and group of k in order, with i as above:
     *
     *     acc = fma(i * d, s, acc), then, where there is a minimum, acc = fma(b, d_sum, acc);
     *     in Q8_K  acc = fma(b, d_half[half], acc).
     *
     * A16_SUPER (amx, Q4_K and Q6_K): codes times the integers of their scales are rounded to 8
     * bits, so that a superblock has one sum. With the numbers of panel.h, for each superblock of k
     * in order, with the exact integer i = sum w q:
     *
     *     Q4_K  w = (a c + 2) >> 2,  acc = fma(i * d_x, 4 d, acc), then for each group in order
     *           acc = fma(b, d_sum[group], acc);
     *     Q6_K  w = (max(4 a, -509) (c - 32) + 64) >> 7,  acc = fma(i * d_x, 32 d, acc). */
    rf_linear_fn *linear_a16[RF_FORMAT_COUNT];

    void (*attention_f16)(const struct rf_attention_args *args);
    void (*attention_bf16)(const struct rf_attention_args *args);
    void (*attention_kv)(const struct rf_attention_kv_args *args);

    /* out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i] */
    void (*rms_norm)(float *out, const float *x, const float *weight, float eps, size_t n);
    /* out[i] = silu(gate[i]) * up[i],  silu(v) = v / (1 + exp(-v)) */
    rf_gate_fn *silu_gate;
    /* out[i] = gelu(gate[i]) * up[i],  gelu(v) = v / 2 (1 + tanh u) = v / (1 + exp(-2 u)) with
     * u = sqrt(2 / pi) (v + 0.044715 v^3)  (Hendrycks and Gimpel 2016, section 2) */
    rf_gate_fn *gelu_gate;
    /* out[i] = gelu(x[i]),  gelu(v) = v / 2 (1 + erf(v / sqrt(2))), as gelu.h approximates it; the
     * same bits on every tier. */
    void (*gelu)(float *out, const float *x, size_t n);

    void (*delta_step)(const struct rf_delta_args *args);

    void (*f32_to_f16)(uint16_t *out, const float *x, size_t n);
    void (*f32_to_bf16)(uint16_t *out, const float *x, size_t n);
    void (*bf16_to_f32)(float *out, const uint16_t *x, size_t n);

    /* The index of the first x[i] > threshold, or n. A NaN does not count. */
    size_t (*first_above)(const float *x, size_t n, float threshold);

    /* Casts n values, a multiple of the type's block, to blocks as in a GGUF file; the same bits on
     * every tier. No alignment. Infinities count as the greatest finite number, NaN as 0. */
    void (*cast[RF_CAST_COUNT])(void *blocks, const float *x, size_t n);

    /* Reads every byte `times` times; returns the exclusive or of all 64-bit words read. */
    uint64_t (*read_streams)(const struct rf_read_args *args);

    /* Numbers; all members above are pointers. */
    size_t linear_rows; /* weight rows in a unit of work: a multiple of 16 and of every tile's
                           height */
    enum rf_operand operand_a16[RF_FORMAT_COUNT];
};

static inline size_t rf_padded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* The table of a tier (an enum rf_tier), or NULL if this build has no kernels for it. Whether the
 * machine can run it: rf_cpu_has_tier. */
const struct rf_kernels *rf_kernels(int tier);
/* The best tier that the machine can run and that this build has. */
int rf_kernels_best_tier(void);

/* Each overwrites a table's entries with its tier's kernels. */
void rf_kernels_init_ref(struct rf_kernels *kernels);
void rf_kernels_init_avx2(struct rf_kernels *kernels);
void rf_kernels_init_avxvnni(struct rf_kernels *kernels);
void rf_kernels_init_avxvnni_evex(struct rf_kernels *kernels);
void rf_kernels_init_avx512(struct rf_kernels *kernels);
void rf_kernels_init_amx(struct rf_kernels *kernels);

#endif
