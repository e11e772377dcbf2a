/* Models whose layers are on two devices: how many are on which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "devices/shared.h"
#include "infer/program.h"
#include "platform/memory.h"

enum { ROOM_CTX = 8192 /* tokens of a session that nothing is said about */ };

int rf_api_is_shared(const riffle_model *model)
{
    return model->device_layers < model->source->params.n_layer;
}

/* ---- what a number of layers takes ---- */

static int weight_cost(const riffle_model *model, const struct rf_source *source,
                       enum rf_weight_form form, int32_t n, struct rf_weight_cost *cost,
                       struct rf_error *error)
{
    return rf_shared_weight_cost(source, form, rf_backend_kinds[0], model->kind, n,
                                 &model->allocator, cost, error);
}

/* Of the last n layers of a model, or of all if it has no more. */
static uint64_t kv_bytes(const struct rf_backend_kind *kind, const struct rf_params *params,
                         const struct rf_sequence_shape *shape, int32_t n)
{
    struct rf_params some = *params;
    if (n < some.n_layer) some.n_layer = n;
    return n > 0 ? kind->kv_bytes(&some, shape->kv, shape->n_ctx) : 0;
}

/* Of the device's memory. */
struct need {
    uint64_t weights, all;
};

static int add_need(const riffle_model *model, const struct rf_source *source,
                    enum rf_weight_form form, int32_t n, struct need *need, struct rf_error *error)
{
    struct rf_weight_cost cost;
    int code = weight_cost(model, source, form, n, &cost, error);
    need->weights += code ? 0 : cost.second_bytes;
    need->all += code ? 0 : cost.second_bytes;
    return code;
}

/* Of the target, its drafts and a session with n layers of each model. */
static int need_of(const riffle_model *model, const struct rf_sequence_shape *shape, int32_t n,
                   struct need *need, struct rf_error *error)
{
    const struct drafts *drafts = &model->drafts;
    const struct rf_view_options view = {
        .precision = model->precision, .kv = shape->kv, .max_rows = RF_PROMPT_ROWS};
    const struct rf_params *params = &model->source->params;
    *need = (struct need){0};
    int code = add_need(model, model->source, model->cost.form, n, need, error);
    need->all +=
        kv_bytes(model->kind, params, shape, n) + rf_view_bytes(params, model->kind, &view);
    for (int32_t l = 0; !code && l < drafts->chain.n_levels; l++) {
        const struct rf_chain_level *level = &drafts->chain.levels[l];
        const struct rf_source *own = drafts->weights[l].source;
        if (!rf_level_has_weights(level)) continue;
        const struct rf_source *source = own ? own : model->source;
        need->all += rf_view_bytes(&source->params, model->kind, &view);
        if (own) need->all += kv_bytes(model->kind, &own->params, shape, n);
        if (!rf_drafts_share_weights(model, level))
            code = add_need(model, source, level->form, n, need, error);
    }
    return code;
}

/* The costs of the number that was chosen. */
static int take_costs(riffle_model *model, struct rf_error *error)
{
    struct drafts *drafts = &model->drafts;
    int code = weight_cost(model, model->source, model->cost.form, model->device_layers,
                           &model->cost, error);
    drafts->bytes = drafts->second_bytes = 0;
    for (int32_t l = 0; !code && l < drafts->chain.n_levels; l++) {
        const struct rf_chain_level *level = &drafts->chain.levels[l];
        struct draft_weights *weights = &drafts->weights[l];
        if (!rf_level_has_weights(level)) continue;
        if (rf_drafts_share_weights(model, level)) {
            weights->cost = model->cost;
            continue;
        }
        code = weight_cost(model, weights->source ? weights->source : model->source, level->form,
                           model->device_layers, &weights->cost, error);
        drafts->bytes += weights->cost.resident_bytes;
        drafts->second_bytes += weights->cost.second_bytes;
    }
    return code;
}

/* ---- the choice ---- */

enum { AUTO = -1 };

static int parse(const riffle_model *model, const char *text, int32_t *n, struct rf_error *error)
{
    int32_t n_layer = model->source->params.n_layer;
    char *end;
    if (!text || !*text || strcmp(text, "auto") == 0) {
        *n = AUTO;
        return 0;
    }
    *n = n_layer;
    if (strcmp(text, "all") == 0) return 0;
    long given = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end)
        return rf_fail(error, RF_ERR_ARGUMENT, "gpu_layers \"%s\": known are auto, all and numbers",
                       text);
    if (given > n_layer)
        return rf_fail(error, RF_ERR_ARGUMENT, "gpu_layers %s: %s has %d layers (all)", text,
                       model->source->name, n_layer);
    *n = (int32_t)given;
    return 0;
}

static int session_shape(const riffle_model *model, const riffle_model_options *options,
                         struct rf_sequence_shape *shape, struct rf_error *error)
{
    int32_t trained = model->source->params.n_ctx_train;
    shape->n_ctx = options->session_ctx > 0 ? options->session_ctx : ROOM_CTX;
    if (shape->n_ctx > trained) shape->n_ctx = trained;
    return rf_api_choose_kv(options->session_kv ? options->session_kv : "f16", &shape->kv, error);
}

/* The most layers, fewer than all, that fit. */
static int most_layers(const riffle_model *model, const struct rf_sequence_shape *shape,
                       uint64_t room, int32_t *most, struct rf_error *error)
{
    int32_t fits = 0, too_many = model->source->params.n_layer;
    while (too_many - fits > 1) {
        int32_t n = fits + (too_many - fits) / 2;
        struct need need;
        int code = need_of(model, shape, n, &need, error);
        if (code) return code;
        if (need.all <= room)
            fits = n;
        else
            too_many = n;
    }
    *most = fits;
    return 0;
}

static int choose_by_memory(riffle_model *model, const struct rf_sequence_shape *shape,
                            uint64_t room, int32_t *chosen, struct rf_error *error)
{
    int32_t n_layer = model->source->params.n_layer;
    struct need all, one;
    int code = need_of(model, shape, n_layer, &all, error);
    *chosen = n_layer;
    if (code || all.all <= room) return code;
    code = most_layers(model, shape, room, chosen, error);
    if (!code && *chosen == 0) code = need_of(model, shape, 1, &one, error);
    if (code) return code;
    char why[256];
    snprintf(why, sizeof why, "%s has %.2f GB free, and with a context of %d tokens ",
             model->device_name, (double)room * 1e-9, shape->n_ctx);
    if (*chosen > 0)
        snprintf(model->layers_note, sizeof model->layers_note,
                 "%d of %d layers and the output head are on %s, the others on the processor: "
                 "%sall would take %.2f GB",
                 *chosen, n_layer, model->device_name, why, (double)all.all * 1e-9);
    else {
        char note[512];
        snprintf(note, sizeof note, "%sone layer and the output head would take %.2f GB", why,
                 (double)one.all * 1e-9);
        rf_api_take_processor(model, note);
    }
    return 0;
}

/* What was asked for must fit, but for the context, which sessions choose. */
static int check_number(riffle_model *model, const struct rf_sequence_shape *shape, uint64_t room,
                        int32_t n, struct rf_error *error)
{
    int32_t n_layer = model->source->params.n_layer, most;
    struct need need;
    int code = need_of(model, shape, n, &need, error);
    if (!code && need.weights > room) code = most_layers(model, shape, room, &most, error);
    if (code) return code;
    if (need.weights > room)
        return rf_fail(error, RF_ERR_MEMORY,
                       "gpu_layers %d: the weights of these layers and the output head take %.2f "
                       "GB, %s has %.2f GB free, and %d layers fit with a context of %d tokens",
                       n, (double)need.weights * 1e-9, model->device_name, (double)room * 1e-9,
                       most, shape->n_ctx);
    if (n < n_layer)
        snprintf(model->layers_note, sizeof model->layers_note,
                 "%d of %d layers and the output head are on %s, as was asked, the others on the "
                 "processor",
                 n, n_layer, model->device_name);
    return 0;
}

int rf_api_choose_layers(riffle_model *model, const riffle_model_options *options,
                         struct rf_error *error)
{
    const struct rf_backend_options device = {.device = model->device};
    struct rf_sequence_shape shape;
    uint64_t room;
    int32_t n, n_layer = model->source->params.n_layer;
    model->device_layers = n_layer;
    int code = parse(model, options->gpu_layers, &n, error);
    if (!code) code = session_shape(model, options, &shape, error);
    if (code) return code;
    if (model->kind == rf_backend_kinds[0]) {
        int is_auto = options->device && strcmp(options->device, "auto") == 0;
        return n <= 0 || is_auto
                   ? 0
                   : rf_fail(error, RF_ERR_ARGUMENT,
                             "gpu_layers %s: the model is on the processor, which has "
                             "all layers, and no other device was chosen",
                             options->gpu_layers);
    }
    if (n == 0) rf_api_take_processor(model, "gpu_layers 0");
    if (n == 0) return take_costs(model, error);
    code = model->kind->free_bytes(&device, &room, error);
    if (!code)
        code = n == AUTO ? choose_by_memory(model, &shape, room, &n, error)
                         : check_number(model, &shape, room, n, error);
    if (code || n == n_layer) return code;
    if (n > 0) model->device_layers = n;
    return take_costs(model, error);
}

/* ---- what is where ---- */

int rf_api_places(const riffle_model *model, const struct rf_sequence_shape *shape,
                  struct rf_api_place places[2])
{
    const struct rf_weight_cost *cost = &model->cost;
    const struct rf_params *params = &model->source->params;
    int32_t n = model->device_layers;
    int is_device = model->device_bytes != 0;
    struct rf_api_place processor = {.name = "this machine", .memory = rf_memory_physical()},
                        device = {.name = model->device_name, .memory = model->device_bytes};
    if (!rf_api_is_shared(model)) {
        places[0] = is_device ? device : processor;
        places[0].weights = cost->resident_bytes;
        places[0].drafts = model->drafts.bytes;
        places[0].kv = shape ? kv_bytes(model->kind, params, shape, n) : 0;
        return 1;
    }
    processor.weights = cost->resident_bytes - cost->second_bytes;
    processor.drafts = model->drafts.bytes - model->drafts.second_bytes;
    device.weights = cost->second_bytes;
    device.drafts = model->drafts.second_bytes;
    if (shape) {
        processor.kv = kv_bytes(rf_backend_kinds[0], params, shape, params->n_layer - n);
        device.kv = kv_bytes(model->kind, params, shape, n);
    }
    places[0] = processor;
    places[1] = device;
    return is_device ? 2 : 1; /* one that does not say what it has */
}

/* ---- which is faster ---- */

/* Seconds of each device in passes over one row, after some that are not counted. */
static int time_parts(const riffle_model *model, struct rf_view *view, double seconds[2],
                      struct rf_error *error)
{
    enum { FIRST = 2, COUNTED = 3, CONTEXT = 16 };
    const struct rf_sequence_shape shape = {.n_ctx = 64, .kv = view->shape.kv};
    const struct rf_shared_times *times = rf_shared_times(view);
    struct rf_sequence *sequence;
    double each[COUNTED];
    int code = rf_sequence_new(&sequence, view, &shape, &model->allocator, error);
    if (!code) code = rf_sequence_time_passes(sequence, view, 1, CONTEXT, FIRST, each, error);
    for (int p = 0; !code && p < 2; p++) seconds[p] = -times->seconds[p];
    if (!code) code = rf_sequence_time_passes(sequence, view, 1, CONTEXT, COUNTED, each, error);
    for (int p = 0; !code && p < 2; p++) seconds[p] = (seconds[p] + times->seconds[p]) / COUNTED;
    rf_sequence_free(sequence);
    return code;
}

int rf_api_compare_devices(riffle_model *model, struct rf_error *error)
{
    const struct rf_view_options options = {
        .precision = model->precision, .kv = RF_KV_F16, .max_rows = RF_FEW_ROWS};
    const struct rf_weight_cost *cost = &model->cost;
    struct rf_view *view;
    double seconds[2];
    if (!rf_api_is_shared(model)) return 0;
    int code = rf_view_new(&view, model->model, model->queue, &options, error);
    if (code) return code;
    code = time_parts(model, view, seconds, error);
    rf_view_free(view);
    if (code) return code;
    double processor = (double)(cost->pass_bytes - cost->second_pass_bytes) / seconds[0],
           device = (double)cost->second_pass_bytes / seconds[1];
    size_t length = strlen(model->layers_note);
    snprintf(model->layers_note + length, sizeof model->layers_note - length,
             "; a token takes %.2f ms there and %.2f ms on the processor%s", seconds[1] * 1e3,
             seconds[0] * 1e3,
             device < processor
                 ? ", which reads its weights faster: fewer layers there would be faster"
                 : "");
    return 0;
}
