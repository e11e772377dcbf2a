/* Opening a model: file, tokenizer, device, forms of weights and activations, drafts, layers, and
 * then the weights. The order matters: everything that is only a choice comes before the first byte
 * of memory is taken, so that a model that does not fit is refused at once. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "devices/shared.h"
#include "engine/devices.h"
#include "engine/encoder.h"
#include "engine/layers.h"
#include "engine/places.h"
#include "engine/progress.h"
#include "engine/queues.h"
#include "engine/recommend.h"
#include "model/open.h"
#include "model/tensors.h"
#include "platform/file.h"
#include "weights/repack.h"

/* Quantised models with fewer parameters are computed with activations in 16 bits, unless the
 * caller chose the form. */
enum { SMALL_MODEL_MILLIONS = 300 };

/* Appends to a list in `text`, as far as it fits. */
static void append_to_list(char text[256], const char *name, const char *relation,
                           const char *value)
{
    size_t length = strlen(text);
    snprintf(text + length, 256 - length, "%s%s%s%s", length ? ", " : "", name, relation, value);
}

/* "Q4_K 169, F32 141, Q6_K 29": the types of the file's tensors, the most frequent first. */
static void describe_types(struct rf_engine *engine)
{
    int32_t counts[RF_DTYPE_LIMIT] = {0};
    for (int32_t i = 0; i < engine->source->n_tensors; i++)
        counts[engine->source->tensors[i].dtype]++;
    for (;;) {
        int most = 0;
        for (int t = 1; t < RF_DTYPE_LIMIT; t++)
            if (counts[t] > counts[most]) most = t;
        if (counts[most] == 0) break;
        char count[16];
        snprintf(count, sizeof count, "%d", counts[most]);
        append_to_list(engine->stored_types, rf_dtype_info(most)->name, " ", count);
        counts[most] = 0;
    }
}

/* "Q5_0 as Q8_0, F16 as BF16": the types of matrices that are computed in another format than the
 * stored one. */
static void describe_weights(struct rf_engine *engine)
{
    for (int t = 0; t < RF_DTYPE_LIMIT; t++) {
        if (engine->cost.form != RF_WEIGHTS_STORED || !engine->cost.matrices[t]) continue;
        const char *from = rf_dtype_info(t)->name,
                   *to = rf_panel_layout(rf_format_of((enum rf_dtype)t))->name;
        if (strcmp(from, to) != 0) append_to_list(engine->weights_note, from, " as ", to);
    }
}

/* The chat template that was asked for, or the file's own. If the file's is not recognised, the
 * model still opens; the calls that need the template fail and say why. */
static int open_chat(struct rf_engine *engine, const char *name, struct rf_error *error)
{
    const struct rf_source *source = engine->source;
    int32_t bos = rf_tokenizer_bos(engine->tokenizer), eos = rf_tokenizer_eos(engine->tokenizer);
    char bos_text[64] = "", eos_text[64] = "";
    struct rf_str text = rf_token_text(engine->tokenizer, bos, 1);
    if (bos >= 0) snprintf(bos_text, sizeof bos_text, "%.*s", (int)text.bytes, text.data);
    text = rf_token_text(engine->tokenizer, eos, 1);
    if (eos >= 0) snprintf(eos_text, sizeof eos_text, "%.*s", (int)text.bytes, text.data);

    if (name && (strstr(name, "{{") || strstr(name, "{%")))
        return rf_chat_template_new(&engine->chat, name, strlen(name), NULL, bos_text, eos_text,
                                    &engine->allocator, error);
    if (rf_engine_refuse_encoder(engine, &engine->chat_error)) return 0;
    if (!name && !source->chat_template) {
        rf_fail(&engine->chat_error, RF_ERR_UNSUPPORTED,
                "%s: the file has no chat template, and no chat_template was chosen", source->name);
        return 0;
    }
    int code =
        rf_chat_template_new(&engine->chat, source->chat_template, source->chat_template_bytes,
                             name, bos_text, eos_text, &engine->allocator, error);
    if (!code || name || code == RF_ERR_MEMORY) return code;
    engine->chat_error = *error;
    return 0;
}

/* Experts that are more than memory holds get a part of it, and the cost says so. */
static void limit_experts(struct rf_engine *engine, uint64_t wanted)
{
    struct rf_weight_cost *cost = &engine->cost;
    struct rf_place places[2];
    rf_engine_places(engine, NULL, places);
    uint64_t memory = places[0].memory, others = places[0].weights - cost->resident_experts,
             bytes = wanted;
    if (!wanted && places[0].weights > memory && others < memory / 8 * 7)
        bytes = memory / 8 * 7 - others;
    if (!bytes || bytes >= cost->resident_experts) return;
    snprintf(
        engine->experts_note, sizeof engine->experts_note,
        "%.2f GB of memory for %.2f GB of experts: a token may read up to %.2f GB of them from "
        "the file, at the speed of the disk",
        (double)bytes * 1e-9, (double)cost->resident_experts * 1e-9,
        (double)cost->expert_bytes * 1e-9);
    engine->expert_bytes = bytes;
    cost->resident_bytes -= cost->resident_experts - bytes;
}

int rf_engine_load(struct rf_engine *engine, const riffle_model_options *options,
                   struct rf_error *error)
{
    struct rf_progress report = {options->progress, options->progress_user, "loading"};
    struct rf_place places[2];
    int code = 0, n_places = rf_engine_places(engine, NULL, places);
    engine->backend->expert_bytes = engine->expert_bytes;
    for (int p = 0; !code && p < n_places; p++)
        if (places[p].weights > places[p].memory)
            code = rf_fail(error, RF_ERR_MEMORY,
                           "%s: the weights take %.1f GB of memory, %s has %.1f GB",
                           engine->source->name, (double)places[p].weights * 1e-9, places[p].name,
                           (double)places[p].memory * 1e-9);
    if (!code) code = rf_engine_open_queue(engine, options, error);
    if (!code)
        code = rf_model_load(&engine->model, engine->source, engine->queue, engine->cost.form,
                             options->progress ? rf_progress_report : NULL, &report, error);
    if (!code) code = rf_drafts_load(engine, options, error);
    if (!code)
        code = engine->backend->ops->queue_calibrate(engine->queue, engine->model->weights, error);
    if (!code) code = rf_engine_compare_devices(engine, error);
    return code;
}

/* Puts the processor's backend before the model's. */
static int share_backend(struct rf_engine *engine, struct rf_error *error)
{
    const struct rf_backend_options options = rf_processor_options();
    struct rf_backend *device = engine->backend, *processor;
    int code = rf_backend_kinds[0]->open(&processor, &options, &engine->allocator, error);
    if (code) return code;
    code = rf_shared_backend_new(&engine->backend, processor, device, engine->device_layers,
                                 &engine->allocator, error);
    if (!code) return 0;
    processor->ops->free(processor);
    engine->backend = device;
    return code;
}

static int open_backend(struct rf_engine *engine, struct rf_error *error)
{
    const struct rf_backend_kind *kind = engine->kind;
    const struct rf_backend_options device = rf_engine_device_options(engine);
    struct rf_device_info info;
    int is_shared = rf_engine_is_shared(engine), code = kind->describe(&device, &info, error);
    if (!code) code = kind->open(&engine->backend, &device, &engine->allocator, error);
    if (!code && is_shared) code = share_backend(engine, error);
    if (code) return code;
    engine->tier = info.name ? "cuda" : info.tier;
    if (!is_shared) return 0;
    snprintf(engine->shared_tier, sizeof engine->shared_tier, "%s+%d", engine->tier,
             engine->device_layers);
    engine->tier = engine->shared_tier;
    return 0;
}

/* Sets the form of the weights and their cost. `wanted`: "auto", "stored" or "bf16". */
static int choose_weights(struct rf_engine *engine, const char *wanted, struct rf_error *error)
{
    enum rf_weight_form form = strcmp(wanted, "bf16") == 0 ? RF_WEIGHTS_BF16 : RF_WEIGHTS_STORED;
    int code = rf_weight_cost(engine->source, form, engine->kind, &engine->allocator, &engine->cost,
                              error);
    engine->n_params = engine->cost.n_params;
    if (!code && rf_source_head_is_copy(engine->source))
        engine->n_params -= rf_tensor_elements(rf_source_tensor(engine->source, RF_TOKEN_EMBD));
    return code;
}

int32_t rf_engine_activation_bits(const struct rf_engine *engine)
{
    int in_16 = engine->cost.form == RF_WEIGHTS_BF16 || engine->precision == RF_PRECISION_16;
    return in_16 ? 16 : 8;
}

/* Sets the precision of activations. `wanted`: "auto", "8" or "16". The weights are chosen. Nothing
 * is measured, since noise would make the same command write different texts. */
static int choose_activations(struct rf_engine *engine, const char *wanted, struct rf_error *error)
{
    int is_8 = strcmp(wanted, "8") == 0, is_auto = strcmp(wanted, "auto") == 0,
        is_small = engine->n_params < SMALL_MODEL_MILLIONS * (uint64_t)1000000;
    if (engine->cost.form == RF_WEIGHTS_BF16)
        return is_8 ? rf_fail(error, RF_ERR_ARGUMENT,
                              "activations \"8\": %s computes in BF16, which takes activations in "
                              "16 bits",
                              engine->source->name)
                    : 0;
    if (is_auto ? is_small : !is_8) engine->precision = RF_PRECISION_16;
    if (is_auto)
        snprintf(engine->activations_reason, sizeof engine->activations_reason,
                 is_small ? "a quantised model of fewer than %d million parameters answers better "
                            "than with 8"
                          : "from %d million parameters on 16 bits gain little, and prompts and "
                            "drafts take twice as long",
                 SMALL_MODEL_MILLIONS);
    return 0;
}

static int open_engine_parts(struct rf_engine *engine, const char *path,
                             const riffle_model_options *options, struct rf_error *error)
{
    const char *weights = options->weights ? options->weights : "auto";
    if (strcmp(weights, "auto") != 0 && strcmp(weights, "stored") != 0 &&
        strcmp(weights, "bf16") != 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "weights \"%s\": known are auto, stored and bf16",
                       weights);
    const char *activations = options->activations ? options->activations : "auto";
    if (strcmp(activations, "auto") != 0 && strcmp(activations, "8") != 0 &&
        strcmp(activations, "16") != 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "activations \"%s\": known are auto, 8 and 16",
                       activations);

    int code = rf_source_open(&engine->source, path, &engine->open, &engine->allocator, error);
    if (!code)
        code = rf_tokenizer_new(&engine->tokenizer, &engine->source->vocab, path,
                                &engine->allocator, error);
    if (!code) code = rf_engine_choose_device(engine, options->device, error);
    if (!code) code = choose_weights(engine, weights, error);
    if (!code) code = choose_activations(engine, activations, error);
    if (code) return code;
    describe_types(engine);
    rf_recommend_sampling(engine);
    code = open_chat(engine, options->chat_template, error);
    if (!code) code = rf_drafts_choose(engine, path, options, error);
    if (!code) code = rf_engine_choose_layers(engine, options, error);
    if (!code) code = rf_drafts_settle(engine, options, error);
    if (code) return code;
    limit_experts(engine, options->expert_bytes);
    if (options->flags & RIFFLE_OPEN_COPY) {
        engine->cost.resident_bytes += engine->source->file_bytes;
        engine->cost.mapped_bytes = 0;
    }
    describe_weights(engine);
    if (options->flags & RIFFLE_OPEN_HEADER) return 0;
    code = open_backend(engine, error);
    if (!code) code = rf_engine_load(engine, options, error);
    return code;
}

static struct rf_open_options open_options(const riffle_model_options *options)
{
    unsigned copy = options->flags & RIFFLE_OPEN_COPY ? RF_MAP_COPY : 0;
    return (struct rf_open_options){.map_flags = copy,
                                    .metadata_bytes = options->metadata_bytes,
                                    .metadata_items = options->metadata_items};
}

int rf_engine_open(struct rf_engine **engine, const char *path, const riffle_model_options *options,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    *engine = NULL;
    struct rf_engine *opened = rf_calloc(allocator, 1, sizeof *opened, "model", error);
    if (!opened) return RF_ERR_MEMORY;
    opened->allocator = *allocator;
    opened->open = open_options(options);
    int code = open_engine_parts(opened, path, options, error);
    if (code)
        rf_engine_close(opened);
    else
        *engine = opened;
    return code;
}

void rf_engine_close(struct rf_engine *engine)
{
    if (!engine) return;
    struct rf_allocator allocator = engine->allocator;
    rf_drafts_free(engine);
    rf_model_free(engine->model);
    if (engine->queue) engine->backend->ops->queue_free(engine->queue);
    if (engine->backend) engine->backend->ops->free(engine->backend);
    rf_free(&allocator, engine->cores);
    rf_chat_template_free(engine->chat);
    rf_tokenizer_free(engine->tokenizer);
    rf_source_close(engine->source);
    rf_free(&allocator, engine);
}
