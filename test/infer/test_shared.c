/* A model on two devices computes what it computes on one, bit for bit where both are of one kind:
 * every cut, every layer of the models of all architectures. */
#include "cpu/cpu_backend.h"
#include "devices/shared.h"
#include "infer/agreement.h"
#include "support/plain_backend.h"
#include "support/shared_kind.h"

/* Layers of the second device: one, all, and more than a model has. */
enum { MOST_LAYERS = 3 };

static void same_bits(const struct device *alone, const struct device *both, const char *name,
                      const struct rf_params *params, const enum rf_dtype *types, size_t n_types,
                      enum rf_weight_form form)
{
    struct rf_source *source = synthetic_new(params, types, n_types);
    if (!source) exit(1);
    size_t rows = N_TOKENS * (size_t)params->n_layer;
    struct trace wanted = trace_new(params), got = trace_new(params);
    int32_t tokens[N_TOKENS];
    random_tokens(tokens, N_TOKENS, params->n_vocab, 3);
    trace_device(&wanted, alone, source, form, tokens);
    for (int32_t n = 1; n <= MOST_LAYERS; n++) {
        shared_set_layers(n);
        trace_device(&got, both, source, form, tokens);
        CHECK_MSG(!memcmp(got.hidden, wanted.hidden, rows * wanted.n_embd * sizeof(float)) &&
                      !memcmp(got.logits, wanted.logits, N_TOKENS * wanted.n_vocab * sizeof(float)),
                  "%s: %s with %d layers on the second", name, both->name, n);
    }
    trace_free(&wanted);
    trace_free(&got);
    synthetic_free(source);
}

/* Layers that differ from one another: windows, rotations, experts. */
static void check_kinds(const struct device *alone, const struct device *both)
{
    static const enum rf_dtype bf16 = RF_BF16, mixed[] = {RF_Q4_0, RF_Q8_0, RF_BF16, RF_Q4_1};
    static const uint8_t windows[] = {RF_LAYER_WINDOW, RF_LAYER_NO_ROPE, RF_LAYER_LOCAL_ROPE},
                         experts[] = {RF_LAYER_DENSE, 0, 0};
    struct rf_params params = synthetic_qwen2();
    params.n_layer = 3;
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 160;
    same_bits(alone, both, "qwen2", &params, mixed, 4, RF_WEIGHTS_STORED);
    same_bits(alone, both, "a cast", &params, mixed, 4, RF_WEIGHTS_MXFP4);
    params.tied_output = 0;
    params.embedding_scale = 3;
    params.logit_cap = 20;
    params.window = 40;
    params.rope_local = (struct rf_rope){.theta = 1e4f, .scale = 1, .magnitude = 1};
    params.layer_flags = windows;
    same_bits(alone, both, "windows", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.n_expert = 5;
    params.n_expert_used = 2;
    params.layer_flags = experts;
    params.n_ff_dense = 192;
    params.n_ff_shared = 64;
    same_bits(alone, both, "experts", &params, mixed, 4, RF_WEIGHTS_STORED);
}

/* The memory of both devices for weights and a cache adds up to the memory of one device alone. */
static void memory_is_of_both(void)
{
    static const enum rf_dtype bf16 = RF_BF16;
    struct rf_params params = synthetic_qwen2();
    params.n_layer = 3;
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) exit(1);
    struct rf_weight_cost all, cost;
    const struct rf_backend_kind *cpu = &rf_cpu_backend_kind, *plain = &plain_backend_kind;
    MUST(rf_weight_cost(source, RF_WEIGHTS_BF16, plain, &rf_system_allocator, &all, &error));
    CHECK_INT(all.second_bytes, 0);
    uint64_t before = all.resident_bytes, layer = 0;
    for (int32_t n = 3; n >= 1; n--) {
        MUST(rf_shared_weight_cost(source, RF_WEIGHTS_BF16, cpu, plain, n, &rf_system_allocator,
                                   &cost, &error));
        CHECK_INT(cost.n_params, all.n_params);
        if (n == 3) CHECK_INT(cost.second_bytes, all.resident_bytes);
        if (n == 2) layer = before - cost.second_bytes;
        if (n < 3) CHECK_INT(before - cost.second_bytes, layer);
        before = cost.second_bytes;
    }
    CHECK(layer > 0 && before > layer); /* the head is left */
    synthetic_free(source);
}

int main(void)
{
    static const struct device cpu = {"cpu", &rf_cpu_backend_kind, NULL},
                               cpus = {"processors", &shared_cpu_kind, NULL},
                               plain = {"plain", &plain_backend_kind, NULL},
                               plains = {"plain ones", &shared_plain_kind, NULL},
                               mixed = {"processor and plain", &shared_mixed_kind, NULL};
    /* Bounds of the processor alone (test_engine.c). */
    static const struct agreement agreement = {
        .device = &mixed, .bf16 = 1.2e-2, .quantised = 1.8e-2, .experts = 1, .convs = 1};
    check_kinds(&cpu, &cpus);
    check_kinds(&plain, &plains);
    shared_set_layers(1);
    check_agreement(&agreement);
    memory_is_of_both();
    return check_result();
}
