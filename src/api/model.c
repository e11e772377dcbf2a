#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "devices/shared.h"
#include "model/open.h"
#include "platform/file.h"
#include "platform/memory.h"
#include "platform/process.h"
#include "weights/repack.h"

RF_API_OPTIONS(riffle_model_options, .weights = "auto", .activations = "auto", .chain = "auto")

/* Quantised models with fewer parameters are computed in BF16, unless the caller chose the form. */
enum { SMALL_MODEL_MILLIONS = 300 };

/* Appends to a list in `text`, as far as it fits. */
static void append(char text[256], const char *name, const char *relation, const char *value)
{
    size_t length = strlen(text);
    snprintf(text + length, 256 - length, "%s%s%s%s", length ? ", " : "", name, relation, value);
}

/* "Q4_K 169, F32 141, Q6_K 29": the types of the file's tensors, the most frequent first. */
static void describe_types(riffle_model *model)
{
    int32_t counts[RF_DTYPE_LIMIT] = {0};
    for (int32_t i = 0; i < model->source->n_tensors; i++)
        counts[model->source->tensors[i].dtype]++;
    for (;;) {
        int most = 0;
        for (int t = 1; t < RF_DTYPE_LIMIT; t++)
            if (counts[t] > counts[most]) most = t;
        if (counts[most] == 0) break;
        char count[16];
        snprintf(count, sizeof count, "%d", counts[most]);
        append(model->stored_types, rf_dtype_info(most)->name, " ", count);
        counts[most] = 0;
    }
}

/* "Q5_0 as Q8_0, F16 as BF16": the types of matrices that are computed in another format than the
 * stored one. */
static void describe_weights(riffle_model *model)
{
    for (int t = 0; t < RF_DTYPE_LIMIT; t++) {
        if (model->cost.form != RF_WEIGHTS_STORED || !model->cost.matrices[t]) continue;
        const char *from = rf_dtype_info(t)->name,
                   *to = rf_panel_layout(rf_format_of((enum rf_dtype)t))->name;
        if (strcmp(from, to) != 0) append(model->weights_note, from, " as ", to);
    }
}

/* The chat template that was asked for, or the file's own. If the file's is not recognised, the
 * model still opens; the calls that need the template fail and say why. */
static int open_chat(riffle_model *model, const char *name, struct rf_error *error)
{
    const struct rf_source *source = model->source;
    int32_t bos = rf_tokenizer_bos(model->tokenizer), eos = rf_tokenizer_eos(model->tokenizer);
    char bos_text[64] = "", eos_text[64] = "";
    struct rf_str text = rf_token_text(model->tokenizer, bos, 1);
    if (bos >= 0) snprintf(bos_text, sizeof bos_text, "%.*s", (int)text.bytes, text.data);
    text = rf_token_text(model->tokenizer, eos, 1);
    if (eos >= 0) snprintf(eos_text, sizeof eos_text, "%.*s", (int)text.bytes, text.data);

    if (!name && !source->chat_template) {
        rf_fail(&model->chat_error, RF_ERR_UNSUPPORTED,
                "%s: the file has no chat template, and no chat_template was chosen", source->name);
        return 0;
    }
    int code =
        rf_chat_template_new(&model->chat, source->chat_template, source->chat_template_bytes, name,
                             bos_text, eos_text, &model->allocator, error);
    if (!code || name || code == RF_ERR_MEMORY) return code;
    model->chat_error = *error;
    return 0;
}

/* Experts that are more than memory holds get a part of it, and the cost says so. */
static void limit_experts(riffle_model *model, uint64_t wanted)
{
    struct rf_weight_cost *cost = &model->cost;
    struct rf_api_place places[2];
    rf_api_places(model, NULL, places);
    uint64_t memory = places[0].memory, others = places[0].weights - cost->resident_experts,
             bytes = wanted;
    if (!wanted && places[0].weights > memory && others < memory / 8 * 7)
        bytes = memory / 8 * 7 - others;
    if (!bytes || bytes >= cost->resident_experts) return;
    snprintf(
        model->experts_note, sizeof model->experts_note,
        "%.2f GB of memory for %.2f GB of experts: a token may read up to %.2f GB of them from "
        "the file, at the speed of the disk",
        (double)bytes * 1e-9, (double)cost->resident_experts * 1e-9,
        (double)cost->expert_bytes * 1e-9);
    model->expert_bytes = bytes;
    cost->resident_bytes -= cost->resident_experts - bytes;
}

int rf_api_load_weights(riffle_model *model, const riffle_model_options *options,
                        struct rf_error *error)
{
    struct rf_api_progress report = {options->progress, options->progress_user, "loading"};
    struct rf_api_place places[2];
    int code = 0, n_places = rf_api_places(model, NULL, places);
    model->backend->expert_bytes = model->expert_bytes;
    for (int p = 0; !code && p < n_places; p++)
        if (places[p].weights > places[p].memory)
            code = rf_fail(error, RF_ERR_MEMORY,
                           "%s: the weights take %.1f GB of memory, %s has %.1f GB",
                           model->source->name, (double)places[p].weights * 1e-9, places[p].name,
                           (double)places[p].memory * 1e-9);
    if (!code) code = rf_api_open_queue(model, options, error);
    if (!code)
        code = rf_model_load(&model->model, model->source, model->queue, model->cost.form,
                             options->progress ? rf_api_report : NULL, &report, error);
    if (!code) code = rf_drafts_load(model, options, error);
    if (!code)
        code = model->backend->ops->queue_calibrate(model->queue, model->model->weights, error);
    if (!code) code = rf_api_compare_devices(model, error);
    return code;
}

struct rf_open_options rf_api_open_options(const riffle_model_options *options)
{
    unsigned copy = options->flags & RIFFLE_OPEN_COPY ? RF_MAP_COPY : 0;
    unsigned unguarded = options->flags & RIFFLE_OPEN_UNGUARDED ? RF_MAP_UNGUARDED : 0;
    return (struct rf_open_options){.map_flags = copy | unguarded,
                                    .metadata_bytes = options->metadata_bytes,
                                    .metadata_items = options->metadata_items};
}

/* Puts the processor's backend before the model's. */
static int share_backend(riffle_model *model, struct rf_error *error)
{
    const struct rf_backend_options options = rf_api_device();
    struct rf_backend *device = model->backend, *processor;
    int code = rf_backend_kinds[0]->open(&processor, &options, &model->allocator, error);
    if (code) return code;
    code = rf_shared_backend_new(&model->backend, processor, device, model->device_layers,
                                 &model->allocator, error);
    if (!code) return 0;
    processor->ops->free(processor);
    model->backend = device;
    return code;
}

static int open_backend(riffle_model *model, struct rf_error *error)
{
    const struct rf_backend_kind *kind = model->kind;
    const struct rf_backend_options device = rf_api_model_device(model);
    struct rf_device_info info;
    int is_shared = rf_api_is_shared(model), code = kind->describe(&device, &info, error);
    if (!code) code = kind->open(&model->backend, &device, &model->allocator, error);
    if (!code && is_shared) code = share_backend(model, error);
    if (code) return code;
    model->tier = info.name ? "cuda" : info.tier;
    if (!is_shared) return 0;
    snprintf(model->shared_tier, sizeof model->shared_tier, "%s+%d", model->tier,
             model->device_layers);
    model->tier = model->shared_tier;
    return 0;
}

static int weight_cost(riffle_model *model, enum rf_weight_form form, struct rf_error *error)
{
    return rf_weight_cost(model->source, form, model->kind, &model->allocator, &model->cost, error);
}

/* Sets the form of the weights and their cost. `wanted`: "auto", "stored" or "bf16". */
static int choose_weights(riffle_model *model, const char *wanted, struct rf_error *error)
{
    return weight_cost(model, strcmp(wanted, "bf16") == 0 ? RF_WEIGHTS_BF16 : RF_WEIGHTS_STORED,
                       error);
}

int32_t rf_api_activation_bits(const riffle_model *model)
{
    int in_16 = model->cost.form == RF_WEIGHTS_BF16 || model->precision == RF_PRECISION_16;
    return in_16 ? 16 : 8;
}

/* Sets the precision of activations. `wanted`: "auto", "8" or "16". The weights are chosen. Nothing
 * is measured, since noise would make the same command write different texts. */
static int choose_activations(riffle_model *model, const char *wanted, struct rf_error *error)
{
    int is_8 = strcmp(wanted, "8") == 0, is_auto = strcmp(wanted, "auto") == 0,
        is_small = model->cost.n_params < SMALL_MODEL_MILLIONS * (uint64_t)1000000;
    if (model->cost.form == RF_WEIGHTS_BF16)
        return is_8 ? rf_fail(error, RF_ERR_ARGUMENT,
                              "activations \"8\": %s computes in BF16, which takes activations in "
                              "16 bits",
                              model->source->name)
                    : 0;
    if (is_auto ? is_small : !is_8) model->precision = RF_PRECISION_16;
    if (is_auto)
        snprintf(model->activations_reason, sizeof model->activations_reason,
                 is_small ? "a quantised model of fewer than %d million parameters answers better "
                            "than with 8"
                          : "from %d million parameters on 16 bits gain little, and prompts and "
                            "drafts take twice as long",
                 SMALL_MODEL_MILLIONS);
    return 0;
}

static int open_parts(riffle_model *model, const char *path, const riffle_model_options *options,
                      struct rf_error *error)
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

    struct rf_open_options open = rf_api_open_options(options);
    int code = rf_source_open(&model->source, path, &open, &model->allocator, error);
    if (!code)
        code = rf_tokenizer_new(&model->tokenizer, &model->source->vocab, path, &model->allocator,
                                error);
    if (!code) code = rf_api_choose_device(model, options->device, error);
    if (!code) code = choose_weights(model, weights, error);
    if (!code) code = choose_activations(model, activations, error);
    if (code) return code;
    describe_types(model);
    rf_recommend_sampling(model);
    code = open_chat(model, options->chat_template, error);
    if (!code) code = rf_drafts_choose(model, options, error);
    if (!code) code = rf_api_choose_layers(model, options, error);
    if (code) return code;
    limit_experts(model, options->expert_bytes);
    if (options->flags & RIFFLE_OPEN_COPY) {
        model->cost.resident_bytes += model->source->file_bytes;
        model->cost.mapped_bytes = 0;
    }
    describe_weights(model);
    if (options->flags & RIFFLE_OPEN_HEADER) return 0;
    code = open_backend(model, error);
    if (!code) code = rf_api_load_weights(model, options, error);
    return code;
}

int riffle_model_open(riffle_model **model, const char *path, const riffle_model_options *options)
{
    riffle_model_options chosen;
    if (model) *model = NULL;
    if (!model || !path)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "path" : "model");
    int code = take_riffle_model_options(&chosen, options);
    if (code) return code;
    if (chosen.flags & ~(uint32_t)(RIFFLE_OPEN_HEADER | RIFFLE_OPEN_COPY | RIFFLE_OPEN_UNGUARDED))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "flags 0x%x: unknown", chosen.flags);
    struct rf_allocator allocator;
    code = rf_api_allocator(&allocator, chosen.allocator);
    if (code) return code;
    struct rf_error error;
    riffle_model *opened = rf_calloc(&allocator, 1, sizeof *opened, "model", &error);
    if (!opened) return rf_api_fail(&error);
    opened->allocator = allocator;
    opened->process = rf_process_id();
    code = open_parts(opened, path, &chosen, &error);
    if (code) {
        riffle_model_close(opened);
        return rf_api_fail(&error);
    }
    *model = opened;
    return 0;
}

void riffle_model_close(riffle_model *model)
{
    if (!model || rf_api_check_process(model)) return;
    struct rf_allocator allocator = model->allocator;
    rf_drafts_free(model);
    rf_model_free(model->model);
    if (model->queue) model->backend->ops->queue_free(model->queue);
    if (model->backend) model->backend->ops->free(model->backend);
    rf_free(&allocator, model->cores);
    rf_chat_template_free(model->chat);
    rf_tokenizer_free(model->tokenizer);
    rf_source_close(model->source);
    rf_free(&allocator, model);
}

int riffle_model_get_info(const riffle_model *model, riffle_model_info *info, size_t info_size)
{
    if (!model || !info)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "info" : "model");
    const struct rf_source *source = model->source;
    const struct rf_params *params = &source->params;
    riffle_model_info found = {
        .name = source->name,
        .architecture = params->arch_name,
        .container = source->container,
        .stored_types = model->stored_types,
        .weights = model->cost.form == RF_WEIGHTS_STORED ? "stored" : "bf16",
        .weights_note = model->weights_note,
        .tokenizer = rf_tokenizer_name(model->tokenizer),
        .chat_template = model->chat ? rf_chat_template_name(model->chat) : "",
        .n_params = model->cost.n_params,
        .file_bytes = source->file_bytes,
        .weight_bytes = model->cost.pass_bytes,
        .mapped_bytes = model->cost.mapped_bytes,
        .resident_bytes = model->cost.resident_bytes,
        .kv_bytes_per_token = model->kind->kv_bytes(params, RF_KV_F16, 1),
        .chain = model->drafts.chain_text,
        .chain_note = model->drafts.note,
        .draft_bytes = model->drafts.bytes,
        .n_layer = params->n_layer,
        .n_embd = params->n_embd,
        .n_head = params->n_head,
        .n_head_kv = params->n_head_kv,
        .head_dim = params->head_dim,
        .n_ff = params->n_ff,
        .n_vocab = params->n_vocab,
        .n_ctx_train = params->n_ctx_train,
        .bos_token = rf_tokenizer_bos(model->tokenizer),
        .eos_token = rf_tokenizer_eos(model->tokenizer),
        .adds_bos = rf_tokenizer_adds_bos(model->tokenizer),
        .rope_theta = params->rope_theta,
        .weights_reason = "",
        .activations_reason = model->activations_reason,
        .activation_bits = rf_api_activation_bits(model),
        .device = model->device_name,
        .device_note = model->device_note,
        .n_expert = params->n_expert,
        .n_expert_used = params->n_expert_used,
        .experts_note = model->experts_note,
        .device_layers = model->device_layers,
        .layers_note = model->layers_note,
    };
    rf_api_give(info, info_size, &found, sizeof found);
    return 0;
}

int riffle_token_is_end(const riffle_model *model, int32_t token)
{
    return model ? rf_token_is_end(model->tokenizer, token) : 0;
}
