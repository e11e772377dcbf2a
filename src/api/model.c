/* Handles of models, and the model's own facts in the public structures. */
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "engine/encoder.h"
#include "infer/state_kept.h"
#include "model/arch.h"
#include "platform/process.h"

RF_API_OPTIONS(riffle_model_options, .weights = "auto", .activations = "auto", .chain = "auto")

/* Names that are not given are NULL; an empty one is a mistake of whoever made it up. */
static int check_names(const riffle_model_options *options)
{
    const struct {
        const char *field, *value;
    } names[] = {{"draft", options->draft},
                 {"corpus", options->corpus},
                 {"head", options->head},
                 {"device", options->device},
                 {"gpu_layers", options->gpu_layers}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].value && !names[i].value[0])
            return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is an empty text", names[i].field);
    return 0;
}

int riffle_model_open(riffle_model **model, const char *path, const riffle_model_options *options)
{
    riffle_model_options chosen;
    struct rf_allocator allocator;
    struct rf_error error;
    if (model) *model = NULL;
    if (!model || !path)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "path" : "model");
    if (!path[0]) return rf_api_error(RIFFLE_ERR_ARGUMENT, "path is an empty text");
    int code = rf_api_take_riffle_model_options(&chosen, options);
    if (code) return code;
    if (chosen.flags & ~(uint32_t)(RIFFLE_OPEN_HEADER | RIFFLE_OPEN_COPY))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "flags 0x%x: unknown", chosen.flags);
    code = check_names(&chosen);
    if (!code) code = rf_api_allocator(&allocator, chosen.allocator);
    if (code) return code;
    riffle_model *opened = rf_calloc(&allocator, 1, sizeof *opened, "model", &error);
    if (!opened) return rf_api_fail(&error);
    opened->process = rf_process_id();
    if (rf_engine_open(&opened->engine, path, &chosen, &allocator, &error)) {
        rf_free(&allocator, opened);
        return rf_api_fail(&error);
    }
    *model = opened;
    return 0;
}

void riffle_model_close(riffle_model *model)
{
    if (!model || rf_api_check_process(model)) return;
    struct rf_allocator allocator = model->engine->allocator;
    rf_engine_close(model->engine);
    rf_free(&allocator, model);
}

int riffle_model_get_kind(const riffle_model *model)
{
    if (!model) return rf_api_error(RIFFLE_ERR_ARGUMENT, "model is NULL");
    const struct rf_source *source = model->engine->source;
    return !source->params.encoder              ? RIFFLE_KIND_DECODER
           : source->pooling == RF_POOLING_RANK ? RIFFLE_KIND_RERANKER
                                                : RIFFLE_KIND_ENCODER;
}

int riffle_model_get_pooling(const riffle_model *model)
{
    if (!model) return rf_api_error(RIFFLE_ERR_ARGUMENT, "model is NULL");
    return (int)rf_encoder_usual_pooling(model->engine->source);
}

const char *riffle_model_get_prompt_name(const riffle_model *model, size_t i)
{
    return model && i < model->engine->source->n_prompts ? model->engine->source->prompts[i].name
                                                         : NULL;
}

const char *riffle_model_get_prompt(const riffle_model *model, const char *name)
{
    if (!model) return NULL;
    const struct rf_source *source = model->engine->source;
    for (size_t i = 0; i < source->n_prompts; i++)
        if (name ? strcmp(source->prompts[i].name, name) == 0 : i == source->default_prompt)
            return source->prompts[i].text;
    return NULL;
}

int riffle_model_get_info(const riffle_model *model, riffle_model_info *info, size_t info_size)
{
    if (!model || !info)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "info" : "model");
    const struct rf_engine *engine = model->engine;
    const struct rf_source *source = engine->source;
    const struct rf_params *params = &source->params;
    const struct draft_weights *head = rf_drafts_head(&engine->drafts);
    riffle_model_info found = {
        .name = source->name,
        .architecture = params->arch_name,
        .container = source->container,
        .stored_types = engine->stored_types,
        .weights = engine->cost.form == RF_WEIGHTS_STORED ? "stored" : "bf16",
        .weights_note = engine->weights_note,
        .tokenizer = rf_tokenizer_name(engine->tokenizer),
        .chat_template = engine->chat ? rf_chat_template_name(engine->chat) : "",
        .n_params = engine->n_params,
        .file_bytes = source->file_bytes,
        .weight_bytes = engine->cost.pass_bytes,
        .mapped_bytes = engine->cost.mapped_bytes,
        .resident_bytes = engine->cost.resident_bytes,
        .kv_bytes_per_token =
            engine->kind->kv_bytes(params, RF_KV_F16, 1) - rf_states_bytes(params, 1),
        .chain = engine->drafts.chain_text,
        .chain_note = engine->drafts.note,
        .draft_bytes = engine->drafts.bytes,
        .n_layer = params->n_layer,
        .n_embd = params->n_embd,
        .n_head = params->n_head,
        .n_head_kv = params->n_head_kv,
        .head_dim = params->head_dim,
        .n_ff = params->n_ff,
        .n_vocab = params->n_vocab,
        .n_ctx_train = params->n_ctx_train,
        .bos_token = rf_tokenizer_bos(engine->tokenizer),
        .eos_token = rf_tokenizer_eos(engine->tokenizer),
        .adds_bos = rf_tokenizer_adds_bos(engine->tokenizer),
        .rope_theta = params->rope.theta,
        .weights_reason = "",
        .activations_reason = engine->activations_reason,
        .activation_bits = rf_engine_activation_bits(engine),
        .device = engine->device_name,
        .device_note = engine->device_note,
        .n_expert = params->n_expert,
        .n_expert_used = params->n_expert_used,
        .experts_note = engine->experts_note,
        .device_layers = engine->device_layers,
        .layers_note = engine->layers_note,
        .file_type = source->file_type ? source->file_type : "",
        .head = head ? engine->drafts.head_path : "",
        .head_recipe =
            head && engine->drafts.head_file->recipe ? engine->drafts.head_file->recipe : "",
        .head_bytes = head ? head->cost.pass_bytes : 0,
    };
    rf_api_give(info, info_size, &found, sizeof found);
    return 0;
}

int riffle_knows_architecture(const char *name)
{
    const struct rf_arch_row *row = rf_arch_rows;
    while (name && row->name && strcmp(row->name, name) != 0) row++;
    return name && row->name;
}

int riffle_model_has_template(const riffle_model *model)
{
    return model && (model->engine->chat || model->engine->source->chat_template);
}

const char *riffle_model_template(const riffle_model *model)
{
    return model && model->engine->chat ? rf_chat_template_source(model->engine->chat) : "";
}

int riffle_model_get_sampling(const riffle_model *model, riffle_sampling *sampling,
                              size_t sampling_size, const char **source)
{
    if (!model || !sampling)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "sampling" : "model");
    const struct rf_sampling *chosen = &model->engine->sampling;
    riffle_sampling found = {.struct_size = sampling_size,
                             .temperature = chosen->temperature,
                             .top_k = chosen->top_k,
                             .top_p = chosen->top_p,
                             .min_p = chosen->min_p,
                             .repeat_penalty = chosen->repeat_penalty,
                             .repeat_last_n = chosen->repeat_last_n};
    rf_api_give(sampling, sampling_size, &found, sizeof found);
    if (source) *source = model->engine->sampling_source;
    return model->engine->source->sampling.from != NULL;
}

int riffle_token_is_end(const riffle_model *model, int32_t token)
{
    return model ? rf_token_is_end(model->engine->tokenizer, token) : 0;
}
