/* The benches of the tests of sequences (fixture.h): a small Qwen2 whose blocks of the cache are
 * counted as they are allocated. */
#include "infer/sequence/fixture.h"

#include "cpu/cpu_backend.h"
#include "devices/devices.h"
#include "infer/state_kept.h"
#include "infer/window_kept.h"
#include "support/plain_backend.h"
#include "support/shared_kind.h"
#include "support/synthetic.h"

const struct device bench_devices[N_DEVICES] = {{"cpu", &rf_cpu_backend_kind, NULL},
                                                {"processors", &shared_cpu_kind, NULL},
                                                {"cpu, scalar", &rf_cpu_backend_kind, "scalar"},
                                                {"processor and plain", &shared_mixed_kind, NULL},
                                                {"plain", &plain_backend_kind, NULL},
                                                {"cuda", &rf_cuda_backend_kind, NULL},
                                                {"processor and cuda", &shared_cuda_kind, NULL}};
int first_device, end_device, on_cuda;

const struct rf_params bench_params = {.arch = RF_ARCH_QWEN2,
                                       .arch_name = "qwen2",
                                       .n_layer = 2,
                                       .n_embd = N_EMBD,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .head_dim = 8,
                                       .n_ff = 64,
                                       .n_vocab = N_VOCAB,
                                       .n_ctx_train = 1024,
                                       .rms_eps = 1e-6f,
                                       .rope_style = RF_ROPE_NEOX,
                                       .rope_dim = 8,
                                       .rope.theta = 1e6f,
                                       .rope.scale = 1.0f,
                                       .rope.magnitude = 1.0f,
                                       .tied_output = 1,
                                       .qkv_bias = 1};

/* The same with layers that have a state in place of keys and values, on both of two devices. */
static struct rf_params conv_params(void)
{
    static const uint8_t flags[] = {RF_LAYER_CONV, RF_LAYER_WINDOW, RF_LAYER_CONV};
    struct rf_params params = bench_params;
    params.n_layer = 3;
    params.n_ff = 96; /* no buffer of a view is as large as a block */
    params.layer_flags = flags;
    params.conv_rows = 4;
    return params;
}

struct rf_params bench_delta_params(void)
{
    static const uint8_t flags[] = {RF_LAYER_DELTA, 0, RF_LAYER_DELTA};
    struct rf_params params = bench_params;
    params.n_ff = 96;
    params.head_dim = 12; /* of which 8 are rotated */
    synthetic_deltas(&params, flags, 3);
    return params;
}

/* The same with Mamba-2, whose states are as those of the delta rule. */
static struct rf_params mamba_params(void)
{
    static const uint8_t flags[] = {RF_LAYER_MAMBA, 0, RF_LAYER_MAMBA};
    struct rf_params params = bench_params;
    params.n_ff = 96;
    synthetic_mamba(&params, flags, 3);
    return params;
}

/* The same with layers of two sizes, of which the last ones read the keys and values of others, v
 * that is k, and embeddings of the layers. */
static struct rf_params sized_params(void)
{
    enum { LOCAL = RF_LAYER_WINDOW | RF_LAYER_LOCAL_ROPE };
    static const uint8_t flags[] = {LOCAL, 0, LOCAL, 0};
    struct rf_params params = bench_params;
    params.n_layer = 4;
    params.n_ff = 96;
    params.qkv_bias = 0;
    params.layer_flags = flags;
    params.window = 300;
    params.head_dim = params.rope_dim = 16;
    params.n_head_kv = 4;
    params.window_head_dim = params.window_rope_dim = 8;
    params.window_n_head_kv = 2;
    params.rope_local = params.rope;
    params.n_kv_shared = 2;
    params.n_ff_shared_kv = 112; /* no buffer of a view is as large as a block */
    params.k_is_v = params.v_norm = params.qk_norm = params.layer_scale = 1;
    params.n_embd_layer = 16;
    return params;
}

static struct rf_params latent_params(void)
{
    struct rf_params params = bench_params;
    synthetic_latent(&params, 16);
    params.n_ff = 96;
    return params;
}

static int is_block(const struct meter *meter, size_t bytes)
{
    return bytes >= meter->block_bytes && bytes < meter->block_bytes + 256;
}

static void *meter_alloc(void *user, size_t bytes)
{
    struct meter *meter = user;
    if (meter->until_failure && --meter->until_failure == 0) return NULL;
    meter->made += is_block(meter, bytes);
    meter->out += is_block(meter, bytes);
    if (meter->out > meter->most) meter->most = meter->out;
    return rf_system_allocator.alloc(rf_system_allocator.user, bytes);
}

static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *meter = user;
    meter->out -= memory && is_block(meter, bytes);
    rf_system_allocator.release(rf_system_allocator.user, memory, bytes);
}

void devices_choose(int argc, char **argv)
{
    on_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
    /* Devices with "cuda": the plain one, a CUDA device, and a CUDA device with the processor. */
    first_device = on_cuda ? FIRST_CUDA - 1 : 0;
    end_device = on_cuda ? N_DEVICES : IS_SANITIZED ? 2 : FIRST_CUDA;
    if (on_cuda) device_must_exist(&bench_devices[FIRST_CUDA]);
}

/* Counts all layers, but on the cores those that read whole texts, where a model has both kinds. */
static uint64_t block_bytes(const struct device *device, const struct rf_params *params)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < params->n_layer; i++) {
        uint64_t dim = (uint64_t)rf_head_dim(params, i), padded = (dim + 15) / 16 * 16;
        if (rf_has_keys(params, i) && rf_kv_kind_of(params, i) == RF_KV_WHOLE)
            bytes += (uint64_t)rf_n_head_kv(params, i) * (dim + padded) * 2 * RF_KV_POSITIONS;
    }
    if (bytes && device->kind == &rf_cpu_backend_kind) return bytes;
    return device->kind->kv_bytes(params, RF_KV_F16, RF_KV_POSITIONS) -
           rf_states_bytes(params, RF_KV_POSITIONS);
}

void bench_open(struct bench *bench, const struct device *device, const struct rf_source *source,
                enum rf_weight_form form, enum rf_kv_type kv)
{
    memset(bench, 0, sizeof *bench);
    bench->name = device->name;
    bench->n_layer = source->params.n_layer;
    bench->has_states = rf_n_states(&source->params, bench->n_layer) > 0;
    bench->counts_blocks =
        device->kind == &rf_cpu_backend_kind || device->kind == &plain_backend_kind;
    bench->meter.block_bytes = block_bytes(device, &source->params);
    bench->allocator = (struct rf_allocator){meter_alloc, meter_release, &bench->meter};
    bench->opened = opened_new(device, source, form, &bench->allocator);
    struct rf_view_options options = {.kv = kv, .max_rows = MAX_ROWS, .cancel = &bench->cancel};
    MUST(rf_model_load(&bench->cast, source, bench->opened.queue, RF_WEIGHTS_MXFP4, NULL, NULL,
                       &error));
    bench->view = view_of(&bench->opened, bench->opened.model, &options);
    if (kv == RF_KV_Q8) options.kv = RF_KV_Q4; /* the draft reads the upper nibbles alone */
    bench->draft = view_of(&bench->opened, bench->cast, &options);
    random_tokens(bench->text, N_CTX + 100, N_VOCAB, 7);
    bench->meter.made = bench->meter.out = 0;
}

void bench_close(struct bench *bench)
{
    CHECK_INT(bench->meter.out, 0);
    rf_view_free(bench->view);
    rf_view_free(bench->draft);
    rf_model_free(bench->cast);
    opened_free(&bench->opened);
}

struct rf_sequence *sequence_of(struct bench *bench, int32_t n_ctx)
{
    struct rf_sequence *sequence;
    const struct rf_sequence_shape shape = {.n_ctx = n_ctx, .kv = bench->view->shape.kv};
    MUST(rf_sequence_new(&sequence, bench->view, &shape, &bench->allocator, &error));
    return sequence;
}

struct rf_sequence *fork_of(struct bench *bench, struct rf_sequence *from)
{
    struct rf_sequence *copy;
    MUST(rf_sequence_fork(&copy, from, bench->view, &error));
    return copy;
}

void prefill(struct bench *bench, struct rf_sequence *sequence, const int32_t *tokens, int32_t n)
{
    MUST(rf_sequence_prefill(sequence, bench->view, tokens, n, NULL, NULL, &error));
}

void append(struct rf_sequence *sequence, const int32_t *tokens, int32_t n)
{
    MUST(rf_sequence_append(sequence, tokens, n, &error));
}

void copy_logits(const struct rf_view *view, int32_t i, float *out)
{
    const float *row;
    MUST(view->backend->ops->logits((struct rf_view *)view, i, &row, &error));
    memcpy(out, row, N_VOCAB * sizeof *out);
}

void copy_answer(struct rf_sequence *sequence, struct rf_view *view, float *out)
{
    const float *row;
    MUST(rf_sequence_answer(sequence, view, &row, &error));
    memcpy(out, row, N_VOCAB * sizeof *out);
}

void read_plainly(struct bench *bench, const int32_t *tokens, int32_t n, float *out)
{
    struct rf_sequence *sequence = sequence_of(bench, n);
    prefill(bench, sequence, tokens, n);
    copy_answer(sequence, bench->view, out);
    rf_sequence_free(sequence);
}

void check_logits(struct bench *bench, const float *got, const int32_t *tokens, int32_t n,
                  const char *what)
{
    float wanted[N_VOCAB];
    read_plainly(bench, tokens, n, wanted);
    CHECK_MSG(memcmp(got, wanted, sizeof wanted) == 0, "%s: %s: other logits after %d tokens",
              bench->name, what, n);
}

int is_read_after_cut(const struct bench *bench, int32_t n_read, int32_t n)
{
    enum { STEP = RF_STATE_CHECKPOINT * RF_STATE_POSITIONS };
    return n_read == n || (bench->has_states && n_read == n / STEP * STEP);
}

void check_sequence(struct bench *bench, struct rf_sequence *sequence, const char *what)
{
    float got[N_VOCAB];
    copy_answer(sequence, bench->view, got);
    check_logits(bench, got, rf_sequence_tokens(sequence), rf_sequence_length(sequence), what);
}

struct rf_source *bench_source_of(const struct rf_params *params, const enum rf_dtype *types,
                                  size_t n_types)
{
    struct rf_source *source = synthetic_new(params, types, n_types);
    CHECK(source != NULL);
    if (!source) exit(1);
    return source;
}

struct rf_source *bench_source(const enum rf_dtype *types, size_t n_types)
{
    return bench_source_of(&bench_params, types, n_types);
}

void on_bench(const struct device *device, const struct rf_source *source, enum rf_weight_form form,
              enum rf_kv_type kv, void (*check)(struct bench *))
{
    static struct bench bench;
    bench_open(&bench, device, source, form, kv);
    check(&bench);
    bench_close(&bench);
}

void on_every_bench(void (*check)(struct bench *bench))
{
    static const enum rf_dtype bf16 = RF_BF16,
                               mixed[] = {RF_Q4_0, RF_Q8_0, RF_BF16, RF_MXFP4, RF_Q4_1};
    const struct rf_params convs = conv_params(), deltas = bench_delta_params(),
                           mambas = mamba_params(), sizes = sized_params(),
                           latents = latent_params();
    struct rf_source *plain = bench_source(&bf16, 1), *stored = bench_source(mixed, 5),
                     *conv = bench_source_of(&convs, &bf16, 1),
                     *delta = bench_source_of(&deltas, &bf16, 1),
                     *mamba = bench_source_of(&mambas, &bf16, 1),
                     *sized = bench_source_of(&sizes, &bf16, 1),
                     *latent = bench_source_of(&latents, &bf16, 1);
    for (int d = first_device; d < end_device; d++) {
        const struct device *device = &bench_devices[d];
        /* Sequences see neither the kernels' tier nor the form of matrices, so that these repeat:
         * the scalar tier has the forms that it computes otherwise, sanitized builds one. */
        int repeats = device->tier || (IS_SANITIZED && d > 0);
        if (!repeats) on_bench(device, plain, RF_WEIGHTS_BF16, RF_KV_F16, check);
        if (!IS_FOR_RACES) on_bench(device, stored, RF_WEIGHTS_STORED, RF_KV_F16, check);
        if (!on_cuda && !device->tier) on_bench(device, conv, RF_WEIGHTS_BF16, RF_KV_F16, check);
        if (!on_cuda && !device->tier) on_bench(device, delta, RF_WEIGHTS_BF16, RF_KV_F16, check);
        if (!on_cuda && !repeats) on_bench(device, mamba, RF_WEIGHTS_BF16, RF_KV_F16, check);
        /* Two devices at a time compute no such layers. */
        if (!on_cuda && (d == 0 || strcmp(device->name, "plain") == 0))
            on_bench(device, sized, RF_WEIGHTS_BF16, RF_KV_F16, check);
        if (!on_cuda && !repeats) on_bench(device, latent, RF_WEIGHTS_BF16, RF_KV_F16, check);
        if (strstr(device->name, "plain")) continue; /* the plain device quantises nothing */
        if (!on_cuda && !repeats && !IS_FOR_RACES)
            on_bench(device, conv, RF_WEIGHTS_BF16, RF_KV_Q8, check);
        if (d == 0) on_bench(device, sized, RF_WEIGHTS_BF16, RF_KV_Q8, check);
        if (d == 0) on_bench(device, delta, RF_WEIGHTS_BF16, RF_KV_Q8, check);
        if (d == 0) on_bench(device, latent, RF_WEIGHTS_BF16, RF_KV_Q4, check);
        on_bench(device, plain, RF_WEIGHTS_BF16, RF_KV_Q8, check);
        if (!IS_FOR_RACES) on_bench(device, plain, RF_WEIGHTS_BF16, RF_KV_Q4, check);
    }
    synthetic_free(plain);
    synthetic_free(stored);
    synthetic_free(conv);
    synthetic_free(delta);
    synthetic_free(mamba);
    synthetic_free(sized);
    synthetic_free(latent);
}
