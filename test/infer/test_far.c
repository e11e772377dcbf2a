/* Positions far out: the last of 32,768, with scaled frequencies, beside the reference. One layer,
 * and scores that differ widely, so that wrong positions show. */
#include <math.h>
#include <stdlib.h>

#include "platform/cpu.h"
#include "reference/forward.h"
#include "support/check.h"
#include "support/engine.h"
#include "support/synthetic.h"

/* Sanitized, a sixteenth of the work: the positions themselves are for the other builds. */
enum { N = IS_SANITIZED ? 8192 : 32768, BLOCK = 256, CHECKED = 8, N_VOCAB = 61 };

/* F32 sums of up to N products, in another order than the reference's. */
static const double tolerance = 2e-3;

static enum rf_tier best_tier(void)
{
    int tier = RF_TIER_COUNT - 1;
    while (!rf_cpu_has_tier((enum rf_tier)tier)) tier--;
    return (enum rf_tier)tier;
}

/* The answers of the last pass, to the rows from position `first` on. */
static void compare(struct engine *engine, int32_t first, const float *wanted)
{
    for (int32_t i = 0; i < CHECKED; i++) {
        const float *got = engine_logits(engine, i),
                    *right = wanted + (size_t)(first + i) * N_VOCAB;
        double off = 0, size = 0;
        for (int v = 0; v < N_VOCAB; v++) {
            off += pow((double)got[v] - (double)right[v], 2);
            size += pow((double)right[v], 2);
        }
        CHECK_MSG(off <= tolerance * tolerance * size, "position %d is off by %.1e", first + i,
                  sqrt(off / size));
    }
}

/* The last positions again, in blocks of other sizes. */
static void read_again(struct engine *engine, const int32_t *tokens)
{
    static float logits[CHECKED][N_VOCAB];
    static const int32_t blocks[] = {1, 3, CHECKED};
    for (int32_t i = 0; i < CHECKED; i++)
        memcpy(logits[i], engine_logits(engine, i), sizeof logits[i]);
    for (int b = 0; b < 3; b++)
        for (int32_t at = 0, n; at < CHECKED; at += n) {
            n = blocks[b] < CHECKED - at ? blocks[b] : CHECKED - at;
            int32_t first = N - CHECKED + at;
            const struct rf_rows rows = {.tokens = tokens + first, .n = n, .first_pos = first};
            CHECK_INT(engine_read(engine, rows, 0, n), 0);
            for (int32_t i = 0; i < n; i++)
                CHECK_MSG(memcmp(logits[at + i], engine_logits(engine, i), sizeof *logits) == 0,
                          "in blocks of %d position %d has other bits", blocks[b], first + i);
        }
}

int main(void)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static const float factors[] = {1, 1.6f, 4, 4};
    static int32_t tokens[N];
    const struct rf_params params = {.arch = RF_ARCH_QWEN2,
                                     .arch_name = "qwen2",
                                     .n_layer = 1,
                                     .n_embd = 32,
                                     .n_head = 1,
                                     .n_head_kv = 1,
                                     .head_dim = 8,
                                     .n_ff = 32,
                                     .n_vocab = N_VOCAB,
                                     .n_ctx_train = N,
                                     .rms_eps = 1e-6f,
                                     .rope_style = RF_ROPE_NEOX,
                                     .rope_dim = 8,
                                     .rope.theta = 1e6f,
                                     .rope.scale = 1.0f,
                                     .rope.magnitude = 2.0f,
                                     .rope.factors = factors,
                                     .tied_output = 1,
                                     .qkv_bias = 1};
    uint32_t random = 20260103;
    for (int i = 0; i < N; i++) {
        random = random * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((random >> 8) % N_VOCAB);
    }
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    float *wanted = malloc(sizeof(float) * N * N_VOCAB);
    if (!source || !wanted) return 1;
    CHECK_INT(reference_logits(source, REFERENCE_BF16, tokens, N, NULL, NULL, wanted), 0);
    struct engine engine;
    const struct rf_view_options options = {.kv = RF_KV_F16, .max_rows = BLOCK};
    engine_open(&engine, source, RF_WEIGHTS_BF16, (int)best_tier(), 2, N, &options);
    for (int32_t first = 0; first < N; first += BLOCK) {
        const struct rf_rows rows = {.tokens = tokens + first, .n = BLOCK, .first_pos = first};
        CHECK_INT(engine_read(&engine, rows, BLOCK - CHECKED, BLOCK), 0);
        if (first % 8192 == 0 || first + BLOCK == N)
            compare(&engine, first + BLOCK - CHECKED, wanted);
    }
    read_again(&engine, tokens);
    engine_close(&engine);
    free(wanted);
    synthetic_free(source);
    return check_result();
}
