/* The choice of a number of layers for the device: as many as fit with the drafts and a session, or
 * the number asked for. It is made once, when a model is opened, before any weight is loaded. */
#include "engine/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/shared.h"
#include "engine/devices.h"
#include "engine/places.h"
#include "infer/program.h"
#include "platform/split.h"

enum { ROOM_CTX = 8192 /* tokens of a session that nothing is said about */ };

/* ---- what a number of layers takes ---- */

static int cost_of_layers(const struct rf_engine *engine, const struct rf_source *source,
                          enum rf_weight_form form, int32_t n, struct rf_weight_cost *cost,
                          struct rf_error *error)
{
    return rf_shared_weight_cost(source, form, rf_backend_kinds[0], engine->kind, n,
                                 &engine->allocator, cost, error);
}

/* Bytes of the device's memory. */
struct need {
    uint64_t weights, all;
};

static int add_need(const struct rf_engine *engine, const struct rf_source *source,
                    enum rf_weight_form form, int32_t n, struct need *need, struct rf_error *error)
{
    struct rf_weight_cost cost;
    int code = cost_of_layers(engine, source, form, n, &cost, error);
    need->weights += code ? 0 : cost.second_bytes;
    need->all += code ? 0 : cost.second_bytes;
    return code;
}

/* The need of the target, its drafts and a session with n layers of each model. */
static int need_of(const struct rf_engine *engine, const struct rf_sequence_shape *shape, int32_t n,
                   struct need *need, struct rf_error *error)
{
    const struct drafts *drafts = &engine->drafts;
    const struct rf_view_options view = {
        .precision = engine->precision, .kv = shape->kv, .max_rows = RF_PROMPT_ROWS};
    const struct rf_params *params = &engine->source->params;
    *need = (struct need){0};
    int code = add_need(engine, engine->source, engine->cost.form, n, need, error);
    need->all += rf_kv_bytes_of_layers(engine->kind, params, shape, n) +
                 rf_view_bytes(params, engine->kind, &view);
    for (int32_t l = 0; !code && l < drafts->chain.n_levels; l++) {
        const struct rf_chain_level *level = &drafts->chain.levels[l];
        const struct rf_source *own = drafts->weights[l].source;
        if (level->kind == RF_LEVEL_HEAD) need->all += drafts->weights[l].cost.resident_bytes;
        if (!rf_chain_level_has_weights(level)) continue;
        const struct rf_source *source = own ? own : engine->source;
        need->all += rf_view_bytes(&source->params, engine->kind, &view);
        if (own) need->all += rf_kv_bytes_of_layers(engine->kind, &own->params, shape, n);
        if (!rf_chain_level_shares_weights(level, engine->cost.form))
            code = add_need(engine, source, level->form, n, need, error);
    }
    return code;
}

/* The costs of the number that was chosen. */
static int take_costs(struct rf_engine *engine, struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    int code = cost_of_layers(engine, engine->source, engine->cost.form, engine->device_layers,
                              &engine->cost, error);
    drafts->bytes = drafts->second_bytes = 0;
    for (int32_t l = 0; !code && l < drafts->chain.n_levels; l++) {
        const struct rf_chain_level *level = &drafts->chain.levels[l];
        struct draft_weights *weights = &drafts->weights[l];
        if (level->kind == RF_LEVEL_HEAD) drafts->bytes += weights->cost.resident_bytes;
        if (!rf_chain_level_has_weights(level)) continue;
        if (rf_chain_level_shares_weights(level, engine->cost.form)) {
            weights->cost = engine->cost;
            continue;
        }
        code = cost_of_layers(engine, weights->source ? weights->source : engine->source,
                              level->form, engine->device_layers, &weights->cost, error);
        drafts->bytes += weights->cost.resident_bytes;
        drafts->second_bytes += weights->cost.second_bytes;
    }
    return code;
}

/* ---- the choice ---- */

enum { AUTO = -1 };

static int parse_layers(const struct rf_engine *engine, const char *text, int32_t *n,
                        struct rf_error *error)
{
    int32_t n_layer = engine->source->params.n_layer;
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
                       engine->source->name, n_layer);
    *n = (int32_t)given;
    return 0;
}

static int expected_shape(const struct rf_engine *engine, const riffle_model_options *options,
                          struct rf_sequence_shape *shape, struct rf_error *error)
{
    int32_t trained = engine->source->params.n_ctx_train;
    shape->n_ctx = options->session_ctx > 0 ? options->session_ctx : ROOM_CTX;
    if (shape->n_ctx > trained) shape->n_ctx = trained;
    return rf_kv_type_find(options->session_kv ? options->session_kv : "f16", &shape->kv, error);
}

/* The most layers, fewer than all, that fit. */
static int most_layers(const struct rf_engine *engine, const struct rf_sequence_shape *shape,
                       uint64_t room, int32_t *most, struct rf_error *error)
{
    int32_t fits = 0, too_many = engine->source->params.n_layer;
    while (too_many - fits > 1) {
        int32_t n = fits + (too_many - fits) / 2;
        struct need need;
        int code = need_of(engine, shape, n, &need, error);
        if (code) return code;
        if (need.all <= room)
            fits = n;
        else
            too_many = n;
    }
    *most = fits;
    return 0;
}

static int choose_by_memory(struct rf_engine *engine, const struct rf_sequence_shape *shape,
                            uint64_t room, int32_t *chosen, struct rf_error *error)
{
    int32_t n_layer = engine->source->params.n_layer;
    struct need all, one;
    int code = need_of(engine, shape, n_layer, &all, error);
    *chosen = n_layer;
    if (code || all.all <= room) return code;
    code = most_layers(engine, shape, room, chosen, error);
    if (!code && *chosen == 0) code = need_of(engine, shape, 1, &one, error);
    if (code) return code;
    char why[256];
    snprintf(why, sizeof why, "%s has %.2f GB free, and with a context of %d tokens ",
             engine->device_name, (double)room * 1e-9, shape->n_ctx);
    if (*chosen > 0)
        snprintf(engine->layers_note, sizeof engine->layers_note,
                 "%d of %d layers and the output head are on %s, the others on the processor: "
                 "%sall would take %.2f GB",
                 *chosen, n_layer, engine->device_name, why, (double)all.all * 1e-9);
    else {
        char note[512];
        snprintf(note, sizeof note, "%sone layer and the output head would take %.2f GB", why,
                 (double)one.all * 1e-9);
        rf_engine_take_processor(engine, note);
    }
    return 0;
}

/* The number that was asked for must fit, but for the context, which sessions choose. */
static int check_number(struct rf_engine *engine, const struct rf_sequence_shape *shape,
                        uint64_t room, int32_t n, struct rf_error *error)
{
    int32_t n_layer = engine->source->params.n_layer, most;
    struct need need;
    int code = need_of(engine, shape, n, &need, error);
    if (!code && need.weights > room) code = most_layers(engine, shape, room, &most, error);
    if (code) return code;
    if (need.weights > room)
        return rf_fail(error, RF_ERR_MEMORY,
                       "gpu_layers %d: the weights of these layers and the output head take %.2f "
                       "GB, %s has %.2f GB free, and %d layers fit with a context of %d tokens",
                       n, (double)need.weights * 1e-9, engine->device_name, (double)room * 1e-9,
                       most, shape->n_ctx);
    if (n < n_layer)
        snprintf(engine->layers_note, sizeof engine->layers_note,
                 "%d of %d layers and the output head are on %s, as was asked, the others on the "
                 "processor",
                 n, n_layer, engine->device_name);
    return 0;
}

int rf_engine_choose_layers(struct rf_engine *engine, const riffle_model_options *options,
                            struct rf_error *error)
{
    const struct rf_backend_options device = {.device = engine->device};
    struct rf_sequence_shape shape;
    uint64_t room;
    int32_t n, n_layer = engine->source->params.n_layer;
    engine->device_layers = n_layer;
    int code = parse_layers(engine, options->gpu_layers, &n, error);
    if (!code) code = expected_shape(engine, options, &shape, error);
    if (code) return code;
    if (engine->kind == rf_backend_kinds[0]) {
        int is_auto = options->device && strcmp(options->device, "auto") == 0;
        return n <= 0 || is_auto
                   ? 0
                   : rf_fail(error, RF_ERR_ARGUMENT,
                             "gpu_layers %s: the model is on the processor, which has "
                             "all layers, and no other device was chosen",
                             options->gpu_layers);
    }
    if (n == 0) rf_engine_take_processor(engine, "gpu_layers 0");
    if (n == 0) return take_costs(engine, error);
    code = engine->kind->free_bytes(&device, &room, error);
    if (!code)
        code = n == AUTO ? choose_by_memory(engine, &shape, room, &n, error)
                         : check_number(engine, &shape, room, n, error);
    if (code || n == n_layer) return code;
    if (n > 0) engine->device_layers = n;
    return take_costs(engine, error);
}

/* ---- which is faster ---- */

/* Seconds of each device in passes over one row, after some that are not counted. */
static int time_parts(const struct rf_engine *engine, struct rf_view *view, double seconds[2],
                      struct rf_error *error)
{
    enum { FIRST = 2, COUNTED = 3, CONTEXT = 16 };
    const struct rf_sequence_shape shape = {.n_ctx = 64, .kv = view->shape.kv};
    const struct rf_shared_times *times = rf_shared_times(view);
    struct rf_sequence *sequence;
    double each[COUNTED];
    int code = rf_sequence_new(&sequence, view, &shape, &engine->allocator, error);
    if (!code) code = rf_sequence_time_passes(sequence, view, 1, CONTEXT, FIRST, each, error);
    for (int p = 0; !code && p < 2; p++) seconds[p] = -times->seconds[p];
    if (!code) code = rf_sequence_time_passes(sequence, view, 1, CONTEXT, COUNTED, each, error);
    for (int p = 0; !code && p < 2; p++) seconds[p] = (seconds[p] + times->seconds[p]) / COUNTED;
    rf_sequence_free(sequence);
    return code;
}

int rf_engine_compare_devices(struct rf_engine *engine, struct rf_error *error)
{
    const struct rf_view_options options = {
        .precision = engine->precision, .kv = RF_KV_F16, .max_rows = RF_FEW_ROWS};
    const struct rf_weight_cost *cost = &engine->cost;
    struct rf_view *view;
    double seconds[2];
    if (!rf_engine_is_shared(engine)) return 0;
    int code = rf_view_new(&view, engine->model, engine->queue, &options, error);
    if (code) return code;
    code = time_parts(engine, view, seconds, error);
    rf_view_free(view);
    if (code) return code;
    double processor = (double)(cost->pass_bytes - cost->second_pass_bytes) / seconds[0],
           device = (double)cost->second_pass_bytes / seconds[1];
    size_t length = strlen(engine->layers_note);
    snprintf(engine->layers_note + length, sizeof engine->layers_note - length,
             "; a token takes %.2f ms there and %.2f ms on the processor%s", seconds[1] * 1e3,
             seconds[0] * 1e3,
             device < processor
                 ? ", which reads its weights faster: fewer layers there would be faster"
                 : "");
    return 0;
}
