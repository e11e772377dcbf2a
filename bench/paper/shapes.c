#include "paper/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "platform/memory.h"

const struct shape shape_llama2_7b = {"Llama-2-7B", RF_ARCH_LLAMA, 32,    4096,  32,
                                      32,           128,           11008, 32000, 0};
const struct shape shape_llama_68m = {"Llama-68M", RF_ARCH_LLAMA, 2,     768, 12, 12,
                                      64,          3072,          32000, 0};
const struct shape shape_qwen25_7b = {
    "Qwen2.5-Coder-7B", RF_ARCH_QWEN2, 28, 3584, 28, 4, 128, 18944, 152064, 0};
const struct shape shape_qwen25_05b = {
    "Qwen2.5-Coder-0.5B", RF_ARCH_QWEN2, 24, 896, 14, 2, 64, 4864, 151936, 1};
const struct shape shape_small = {"small", RF_ARCH_QWEN2, 4, 512, 8, 2, 64, 1536, 2048, 0};
const struct shape shape_tiny = {"tiny", RF_ARCH_QWEN2, 2, 256, 4, 2, 64, 512, 2000, 1};

enum {
    PER_LAYER = 12,
    GLOBAL = 3,
    NAME_BYTES = 48,
    ALIGNMENT = 64,
    POOL = 1048573, /* values; a prime, so that no two rows of weights are alike */
    PIECE = 1 << 22 /* values that a worker fills at a time */
};
static const float SPREAD = 0.03f; /* spread of weights around 0 */

struct made {
    struct rf_source source; /* first, as its address is what callers hold */
    struct rf_tensor *tensors;
    char (*names)[NAME_BYTES];
    uint16_t *matrices; /* all of them, one after another */
    float *vectors;
    size_t n_matrix, n_vector; /* values, rounded up for each tensor */
};

static size_t padded(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The next tensor; its data is set once all are known. `value` is that of all elements of a vector.
 */
static void add(struct made *made, const char *name, int32_t n_in, int32_t n_out)
{
    struct rf_tensor *tensor = &made->tensors[made->source.n_tensors];
    size_t n = (size_t)n_in * (size_t)n_out;
    int is_vector = n_out == 1;
    char *copy = made->names[made->source.n_tensors++];
    snprintf(copy, NAME_BYTES, "%s", name);
    *tensor = (struct rf_tensor){.name = copy,
                                 .dtype = is_vector ? RF_F32 : RF_BF16,
                                 .n_dims = is_vector ? 1 : 2,
                                 .ne = {n_in, n_out, 1, 1},
                                 .bytes = n * (is_vector ? sizeof(float) : sizeof(uint16_t))};
    *(is_vector ? &made->n_vector : &made->n_matrix) += padded(n);
}

static void add_in_layer(struct made *made, int32_t layer, const char *name, int32_t n_in,
                         int32_t n_out)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    add(made, full, n_in, n_out);
}

static void add_all(struct made *made, const struct shape *shape)
{
    int32_t n = shape->n_embd, n_q = shape->n_head * shape->head_dim,
            n_kv = shape->n_head_kv * shape->head_dim;
    add(made, shape->tied_output ? "token_embd.weight" : "output.weight", n, shape->n_vocab);
    add(made, "output_norm.weight", n, 1);
    for (int32_t i = 0; i < shape->n_layer; i++) {
        add_in_layer(made, i, "attn_norm.weight", n, 1);
        add_in_layer(made, i, "attn_q.weight", n, n_q);
        add_in_layer(made, i, "attn_k.weight", n, n_kv);
        add_in_layer(made, i, "attn_v.weight", n, n_kv);
        add_in_layer(made, i, "attn_output.weight", n_q, n);
        add_in_layer(made, i, "ffn_norm.weight", n, 1);
        add_in_layer(made, i, "ffn_gate.weight", n, shape->n_ff);
        add_in_layer(made, i, "ffn_up.weight", n, shape->n_ff);
        add_in_layer(made, i, "ffn_down.weight", shape->n_ff, n);
        if (shape->arch != RF_ARCH_QWEN2) continue;
        add_in_layer(made, i, "attn_q.bias", n_q, 1);
        add_in_layer(made, i, "attn_k.bias", n_kv, 1);
        add_in_layer(made, i, "attn_v.bias", n_kv, 1);
    }
}

static void place(struct made *made)
{
    uint16_t *matrix = made->matrices;
    float *vector = made->vectors;
    for (int32_t i = 0; i < made->source.n_tensors; i++) {
        struct rf_tensor *tensor = &made->tensors[i];
        size_t n = padded((size_t)tensor->ne[0] * (size_t)tensor->ne[1]);
        tensor->data = tensor->dtype == RF_F32 ? (void *)vector : (void *)matrix;
        if (tensor->dtype == RF_F32)
            vector += n;
        else
            matrix += n;
    }
    /* Norms multiply by 1, as do the few biases. */
    for (size_t i = 0; i < made->n_vector; i++) made->vectors[i] = 1.0f;
}

struct filling {
    uint16_t *to;
    size_t n;
    uint16_t pool[POOL];
};

static void fill(void *argument, struct rf_worker *worker)
{
    struct filling *filling = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, (filling->n + PIECE - 1) / PIECE, 1, 0.0);
    while (rf_share_next(&share, &begin, &end)) {
        size_t last = end * PIECE < filling->n ? end * PIECE : filling->n;
        for (size_t at = begin * PIECE; at < last;) {
            size_t from = at % POOL, n = POOL - from < last - at ? POOL - from : last - at;
            memcpy(filling->to + at, filling->pool + from, n * sizeof *filling->to);
            at += n;
        }
    }
    rf_team_barrier(worker);
}

static int fill_matrices(struct made *made, struct rf_team *team, struct rf_error *error)
{
    struct filling *filling =
        rf_malloc(&rf_system_allocator, 1, sizeof *filling, "random numbers", error);
    if (!filling) return RF_ERR_MEMORY;
    uint32_t random = 12345;
    for (size_t i = 0; i < POOL; i++) {
        random = random * 1664525u + 1013904223u;
        filling->pool[i] = rf_f32_to_bf16(SPREAD * ((float)(random >> 8) / 8388608.0f - 1.0f));
    }
    filling->to = made->matrices;
    filling->n = made->n_matrix;
    rf_team_run(team, 0, fill, filling);
    rf_free(&rf_system_allocator, filling);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

static struct rf_params params_of(const struct shape *shape)
{
    return (struct rf_params){.arch = shape->arch,
                              .arch_name = shape->arch == RF_ARCH_LLAMA ? "llama" : "qwen2",
                              .n_layer = shape->n_layer,
                              .n_embd = shape->n_embd,
                              .n_head = shape->n_head,
                              .n_head_kv = shape->n_head_kv,
                              .head_dim = shape->head_dim,
                              .n_ff = shape->n_ff,
                              .n_vocab = shape->n_vocab,
                              .n_ctx_train = 4096,
                              .rms_eps = 1e-6f,
                              .rope_style =
                                  shape->arch == RF_ARCH_LLAMA ? RF_ROPE_NORM : RF_ROPE_NEOX,
                              .rope_dim = shape->head_dim,
                              .rope.theta = shape->arch == RF_ARCH_LLAMA ? 1e4f : 1e6f,
                              .rope.scale = 1.0f,
                              .rope.magnitude = 1.0f,
                              .tied_output = shape->tied_output,
                              .qkv_bias = shape->arch == RF_ARCH_QWEN2};
}

uint64_t shape_bytes(const struct shape *shape)
{
    uint64_t n = (uint64_t)shape->n_embd;
    uint64_t heads =
        (uint64_t)(2 * shape->n_head + 2 * shape->n_head_kv) * (uint64_t)shape->head_dim;
    uint64_t layer = n * heads + 3 * n * (uint64_t)shape->n_ff;
    return sizeof(uint16_t) * ((uint64_t)shape->n_layer * layer + n * (uint64_t)shape->n_vocab);
}

int shape_open(struct rf_source **source, const struct shape *shape, struct rf_team *team,
               struct rf_error *error)
{
    const struct rf_allocator *allocator = &rf_system_allocator;
    *source = NULL;
    struct made *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) return RF_ERR_MEMORY;
    size_t most = (size_t)shape->n_layer * PER_LAYER + GLOBAL;
    made->source =
        (struct rf_source){.params = params_of(shape), .name = shape->name, .container = "memory"};
    made->tensors = rf_calloc(allocator, most, sizeof *made->tensors, "tensors", error);
    made->names = rf_calloc(allocator, most, sizeof *made->names, "tensors", error);
    int code = made->tensors && made->names ? 0 : RF_ERR_MEMORY;
    if (!code) {
        add_all(made, shape);
        made->matrices =
            rf_malloc(allocator, made->n_matrix, sizeof *made->matrices, "weights", error);
        made->vectors =
            rf_malloc(allocator, made->n_vector, sizeof *made->vectors, "weights", error);
        if (!made->matrices || !made->vectors) code = RF_ERR_MEMORY;
    }
    if (!code) code = fill_matrices(made, team, error);
    if (code) {
        shape_close(&made->source);
        return code;
    }
    place(made);
    if (!shape->tied_output) {
        struct rf_tensor *table = &made->tensors[made->source.n_tensors++];
        *table = made->tensors[0];
        table->name = "token_embd.weight";
    }
    qsort(made->tensors, (size_t)made->source.n_tensors, sizeof *made->tensors, by_name);
    made->source.tensors = made->tensors;
    *source = &made->source;
    return 0;
}

void shape_close(struct rf_source *source)
{
    struct made *made = (struct made *)source;
    if (!made) return;
    rf_free(&rf_system_allocator, made->matrices);
    rf_free(&rf_system_allocator, made->vectors);
    rf_free(&rf_system_allocator, made->names);
    rf_free(&rf_system_allocator, made->tensors);
    rf_free(&rf_system_allocator, made);
}
