/* Calibrates a model layer by layer: gathers the inputs of its matrices, rounds them, and passes
 * the text on through the rounded layer. At any time one layer and the text's rows are in
 * memory; each finished layer is saved at once, so that another call can continue. The API calls
 * rf_calibrate. */
#include "calibrate/calibrate.h"

#include <stdio.h>
#include <string.h>

#include "calibrate/even.h"
#include "calibrate/inputs.h"
#include "calibrate/saved.h"
#include "calibrate/share.h"
#include "infer/program.h"
#include "model/tensors.h"
#include "platform/file.h"
#include "quant/descent.h"

enum {
    LAYER_MATRICES = 7,
    MEASURED_WINDOWS = 4 /* windows on which each matrix is rounded alone */
};

static const char what[] = "calibrating";

struct calibration {
    const struct rf_calibrate_options *options;
    const struct rf_allocator *allocator;
    struct rf_error *error;
    const struct rf_source *source;
    struct rf_source made;     /* the source with rounded tensors */
    struct rf_tensor *tensors; /* the tensors of `made` */
    struct rf_tensor rows;     /* rows of all windows between two layers: F32 [n_embd, n_rows] */
    struct rf_queue *queue;
    struct rf_cache *cache; /* holds one layer and one window */
    struct rf_params one_layer;
    struct rf_team *team;
    struct rf_blas blas;
    struct rf_gptq gptq;
    struct inputs inputs[RF_LAYER_INPUTS];
    float *evening; /* [n_ff]: of the layer's ffn_up rows and, inversely, of ffn_down's columns */
    struct saved saved;
    uint8_t *high; /* [n_layer][LAYER_MATRICES]: gets six or eight bits */
    void *layer;   /* the rounded tensors of a layer */
    size_t layer_bytes;
    int32_t n_windows;    /* windows of a pass */
    float *outputs;       /* a layer's rows of the measured windows, before anything is rounded */
    double error_sum;     /* the sum of the rows' relative squared errors */
    uint64_t done, total; /* windows */
};

static const struct {
    const char *name;
    enum rf_layer_input input;
} matrices[LAYER_MATRICES] = {{"attn_q.weight", RF_INPUT_QKV},   {"attn_k.weight", RF_INPUT_QKV},
                              {"attn_v.weight", RF_INPUT_QKV},   {"attn_output.weight", RF_INPUT_O},
                              {"ffn_gate.weight", RF_INPUT_FFN}, {"ffn_up.weight", RF_INPUT_FFN},
                              {"ffn_down.weight", RF_INPUT_DOWN}};

static float *hidden_row(const struct calibration *c, size_t i)
{
    return (float *)c->rows.data + i * (size_t)c->rows.ne[0];
}

static int report_windows(struct calibration *c, uint64_t windows)
{
    const struct rf_quantize_options *options = &c->options->quantize;
    c->done += windows;
    if (options->progress && options->progress(options->user, c->done, c->total))
        return rf_fail(c->error, RF_ERR_CANCELLED,
                       "calibrating was cancelled; the same command continues it");
    return 0;
}

/* ---- tensors ---- */

static struct rf_tensor *made_tensor(const struct calibration *c, int32_t layer, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    return (struct rf_tensor *)rf_source_tensor(&c->made, full);
}

static const struct rf_tensor *source_tensor(const struct calibration *c,
                                             const struct rf_tensor *made)
{
    return &c->source->tensors[made - c->tensors];
}

/* Whether a matrix is one to round, and the 4-bit type that it then gets. */
static int is_rounded(const struct calibration *c, const struct rf_tensor *tensor,
                      enum rf_dtype *dtype)
{
    *dtype = rf_cast_type(c->options->quantize.target, tensor->dtype, tensor->ne[0]);
    return *dtype != tensor->dtype && rf_grid_layout(*dtype);
}

/* The type of a matrix that gets more bits. */
static enum rf_dtype high_type(const struct rf_tensor *tensor)
{
    return rf_cast_type(RF_TARGET_Q6, tensor->dtype, tensor->ne[0]);
}

static int is_high(const struct calibration *c, int32_t layer, size_t matrix)
{
    return c->high[(size_t)layer * LAYER_MATRICES + matrix];
}

static void place_made(struct rf_tensor *made, enum rf_dtype dtype, const void *data)
{
    made->dtype = dtype;
    made->bytes = rf_dtype_bytes(dtype, (size_t)rf_tensor_elements(made));
    made->data = data;
}

/* Lets the tensors of a layer that are rounded lie one behind another from `data` on, and adds
 * their bytes to *bytes. */
static void place_layer(const struct calibration *c, int32_t layer, const void *data,
                        uint64_t *bytes)
{
    for (size_t i = 0; i < LAYER_MATRICES; i++) {
        struct rf_tensor *made = made_tensor(c, layer, matrices[i].name);
        const struct rf_tensor *tensor = source_tensor(c, made);
        enum rf_dtype dtype;
        if (!is_rounded(c, tensor, &dtype)) continue;
        if (is_high(c, layer, i)) dtype = high_type(tensor);
        place_made(made, dtype, (const char *)data + *bytes);
        *bytes += made->bytes;
    }
}

/* ---- evening ---- */

static int choose_evening(struct calibration *c, int32_t layer)
{
    const struct rf_tensor *down = source_tensor(c, made_tensor(c, layer, "ffn_down.weight")),
                           *up = source_tensor(c, made_tensor(c, layer, "ffn_up.weight"));
    enum rf_dtype dtype;
    /* MXFP4's codes are finer the smaller they are: uneven columns cost it little, and perplexity
     * with even ones was higher (docs/lab/2026-11-26-calibration.md). */
    int suits = c->options->quantize.target != RF_TARGET_MXFP4;
    if (suits && is_rounded(c, down, &dtype) && is_rounded(c, up, &dtype))
        return rf_even_columns(down, c->evening, c->allocator, c->error);
    for (size_t i = 0; i < (size_t)down->ne[0]; i++) c->evening[i] = 1;
    return 0;
}

/* ---- passes over a layer ---- */

/* A function of a window's rows after its pass. */
typedef int after_window(struct calibration *c, struct rf_view *view, size_t first_row);

static int pass_windows(struct calibration *c, const struct rf_source *source, int32_t layer,
                        enum rf_weight_form form, const struct rf_view_options *view_options,
                        after_window *after)
{
    struct rf_model *model;
    struct rf_view *view = NULL;
    int32_t tokens[RF_CALIBRATE_WINDOW];
    struct rf_rows rows = {.cache = c->cache, .tokens = tokens, .n = RF_CALIBRATE_WINDOW};
    const struct rf_pass pass = {.groups = &rows, .n_groups = 1};
    rows.is_long = rows.n > rf_rope_short_text(&source->params);
    int code = rf_model_load_layer(&model, source, layer, &c->rows, c->queue, form, c->error);
    if (code) return code;
    code = rf_view_new(&view, model, c->queue, view_options, c->error);
    for (int32_t w = 0; !code && w < c->n_windows; w++) {
        for (int32_t i = 0; i < RF_CALIBRATE_WINDOW; i++) tokens[i] = w * RF_CALIBRATE_WINDOW + i;
        code = rf_view_run(view, &pass, c->error);
        if (!code) code = after(c, view, (size_t)w * RF_CALIBRATE_WINDOW);
        if (!code) code = report_windows(c, 1);
    }
    rf_view_free(view);
    rf_model_free(model);
    return code;
}

static int take_inputs(struct calibration *c, struct rf_view *view, size_t first_row)
{
    for (int32_t t = 0; t < RF_LAYER_INPUTS; t++) {
        struct inputs *inputs = &c->inputs[t];
        for (int32_t i = 0; i < RF_CALIBRATE_WINDOW; i++) {
            const float *row;
            if ((first_row + (size_t)i) % inputs->every) continue;
            int code = view->backend->ops->tap(view, t, i, &row, c->error);
            if (code) return code;
            rf_inputs_add(inputs, &c->blas, row, t == RF_INPUT_DOWN ? c->evening : NULL);
        }
    }
    return 0;
}

/* H of all inputs of a layer. */
static int gather_inputs(struct calibration *c, int32_t layer)
{
    const struct rf_view_options options = {.max_rows = RF_CALIBRATE_WINDOW, .taps_inputs = 1};
    for (int32_t t = 0; t < RF_LAYER_INPUTS; t++) rf_inputs_clear(&c->inputs[t]);
    int code = pass_windows(c, c->source, layer, RF_WEIGHTS_BF16, &options, take_inputs);
    for (int32_t t = 0; !code && t < RF_LAYER_INPUTS; t++)
        rf_inputs_finish(&c->inputs[t], &c->blas);
    return code;
}

static int take_outputs(struct calibration *c, struct rf_view *view, size_t first_row)
{
    for (int32_t i = 0; i < RF_CALIBRATE_WINDOW; i++) {
        const float *row;
        int code = view->backend->ops->tap(view, 0, i, &row, c->error);
        if (code) return code;
        memcpy(hidden_row(c, first_row + (size_t)i), row, (size_t)c->rows.ne[0] * sizeof *row);
    }
    return 0;
}

static int pass_outputs(struct calibration *c, const struct rf_source *source, int32_t layer,
                        enum rf_weight_form form, after_window *after)
{
    static const int32_t output = 0;
    const struct rf_view_options options = {
        .max_rows = RF_CALIBRATE_WINDOW, .taps = &output, .n_taps = 1};
    return pass_windows(c, source, layer, form, &options, after);
}

/* The rows after a layer in the place of those before it. */
static int step_forward(struct calibration *c, int32_t layer)
{
    return pass_outputs(c, &c->made, layer, RF_WEIGHTS_STORED, take_outputs);
}

/* ---- which matrices get more bits ---- */

static int keep_outputs(struct calibration *c, struct rf_view *view, size_t first_row)
{
    size_t n = (size_t)c->rows.ne[0];
    for (int32_t i = 0; i < RF_CALIBRATE_WINDOW; i++) {
        const float *row;
        int code = view->backend->ops->tap(view, 0, i, &row, c->error);
        if (code) return code;
        memcpy(c->outputs + (first_row + (size_t)i) * n, row, n * sizeof *row);
    }
    return 0;
}

static int compare_outputs(struct calibration *c, struct rf_view *view, size_t first_row)
{
    size_t n = (size_t)c->rows.ne[0];
    for (int32_t i = 0; i < RF_CALIBRATE_WINDOW; i++) {
        const float *row, *wanted = c->outputs + (first_row + (size_t)i) * n;
        double all = 0, off = 0;
        int code = view->backend->ops->tap(view, 0, i, &row, c->error);
        if (code) return code;
        for (size_t j = 0; j < n; j++) {
            double difference = (double)(row[j] - wanted[j]);
            all += (double)wanted[j] * (double)wanted[j];
            off += difference * difference;
        }
        c->error_sum += all > 0 ? off / all : 0;
    }
    return 0;
}

static void cast_matrix(const struct calibration *c, const struct rf_tensor *tensor,
                        enum rf_cast_target target, enum rf_dtype dtype, void *out)
{
    rf_cast_values(c->options->quantize.kernels, target, tensor->dtype, tensor->data, dtype, out,
                   (size_t)rf_tensor_elements(tensor));
}

static struct candidate candidate_from(const struct calibration *c, const struct rf_tensor *tensor)
{
    size_t n = (size_t)rf_tensor_elements(tensor);
    enum rf_dtype dtype;
    is_rounded(c, tensor, &dtype);
    return (struct candidate){c->error_sum,
                              rf_dtype_bytes(high_type(tensor), n) - rf_dtype_bytes(dtype, n)};
}

/* The error of a layer's outputs by each of its matrices, rounded one by one. */
static int measure_layer(struct calibration *c, int32_t layer, struct candidate *candidates)
{
    enum rf_cast_target target = c->options->quantize.target;
    if (rf_is_w4a8(target)) target = RF_TARGET_Q4_0; /* close to it, and needs no text */
    int code = pass_outputs(c, c->source, layer, RF_WEIGHTS_BF16, keep_outputs);
    for (size_t i = 0; !code && i < LAYER_MATRICES; i++) {
        struct rf_tensor *made = made_tensor(c, layer, matrices[i].name);
        const struct rf_tensor *tensor = source_tensor(c, made), unrounded = *made;
        enum rf_dtype dtype;
        if (!is_rounded(c, tensor, &dtype)) continue;
        dtype = rf_cast_type(target, tensor->dtype, tensor->ne[0]);
        cast_matrix(c, tensor, target, dtype, c->layer);
        place_made(made, dtype, c->layer);
        c->error_sum = 0;
        code = pass_outputs(c, &c->made, layer, RF_WEIGHTS_STORED, compare_outputs);
        candidates[i] = candidate_from(c, tensor);
        *made = unrounded;
    }
    memcpy((void *)c->rows.data, c->outputs,
           (size_t)c->n_windows * RF_CALIBRATE_WINDOW * (size_t)c->rows.ne[0] * sizeof(float));
    return code;
}

static int measure_layers(struct calibration *c)
{
    int32_t n_layer = c->source->params.n_layer;
    size_t n = (size_t)n_layer * LAYER_MATRICES,
           n_rows = (size_t)c->n_windows * RF_CALIBRATE_WINDOW;
    struct candidate *candidates = rf_calloc(c->allocator, n, sizeof *candidates, what, c->error);
    c->outputs =
        rf_malloc(c->allocator, n_rows, (size_t)c->rows.ne[0] * sizeof(float), what, c->error);
    int code = candidates && c->outputs ? 0 : RF_ERR_MEMORY;
    for (int32_t i = 0; !code && i < n_layer; i++)
        code = measure_layer(c, i, candidates + (size_t)i * LAYER_MATRICES);
    if (!code) rf_choose_high(candidates, n, c->options->high_share, c->high);
    rf_free(c->allocator, candidates);
    rf_free(c->allocator, c->outputs);
    return code;
}

/* The passes that measuring takes. */
static uint64_t measured_passes(const struct calibration *c)
{
    uint64_t passes = 0;
    for (int32_t i = 0; c->options->high_share && i < c->source->params.n_layer; i++) {
        passes++;
        for (size_t j = 0; j < LAYER_MATRICES; j++) {
            enum rf_dtype dtype;
            const struct rf_tensor *made = made_tensor(c, i, matrices[j].name);
            passes += (uint64_t)is_rounded(c, source_tensor(c, made), &dtype);
        }
    }
    return passes;
}

static int32_t measured_windows(const struct calibration *c)
{
    int32_t n = c->options->n_windows;
    return n < MEASURED_WINDOWS ? n : MEASURED_WINDOWS;
}

/* The choice's in the file of finished layers. */
static size_t high_bytes(const struct calibration *c)
{
    return c->options->high_share ? (size_t)c->source->params.n_layer * LAYER_MATRICES : 0;
}

static int choose_high(struct calibration *c)
{
    size_t bytes = high_bytes(c);
    if (!bytes) return 0;
    int code = rf_saved_read(&c->saved, c->high, bytes, c->error);
    if (code < 0) return code;
    c->n_windows = measured_windows(c);
    if (code) return report_windows(c, measured_passes(c) * (uint64_t)c->n_windows);
    code = measure_layers(c);
    return code ? code : rf_saved_append(&c->saved, c->high, bytes, c->error);
}

/* ---- a layer ---- */

/* The values of a matrix, [m][k], evened; NULL without memory. */
static float *evened_values(const struct calibration *c, const struct rf_tensor *tensor, size_t i)
{
    size_t k = (size_t)tensor->ne[0], m = (size_t)tensor->ne[1];
    int is_up = strcmp(matrices[i].name, "ffn_up.weight") == 0,
        is_down = matrices[i].input == RF_INPUT_DOWN;
    float *w = rf_malloc(c->allocator, m * k, sizeof *w, what, c->error);
    if (!w) return NULL;
    rf_dequantize_f32(tensor->dtype, tensor->data, w, m * k);
    for (size_t row = 0; (is_up || is_down) && row < m; row++)
        for (size_t j = 0; j < k; j++)
            w[row * k + j] *= is_up ? c->evening[row] : 1 / c->evening[j];
    return w;
}

static int round_matrix(struct calibration *c, const struct rf_tensor *made, size_t i)
{
    const struct rf_tensor *tensor = source_tensor(c, made);
    size_t k = (size_t)tensor->ne[0], m = (size_t)tensor->ne[1];
    float *w = evened_values(c, tensor, i), *hessian = c->inputs[matrices[i].input].hessian;
    if (!w) return RF_ERR_MEMORY;
    int has_group = made->dtype == RF_W4A8 || made->dtype == RF_W4A8_ROW;
    size_t group =
        has_group ? (size_t)c->options->quantize.group : rf_dtype_info(made->dtype)->block_elems;
    void *out = (void *)made->data;
    int code = 0;
    if (rf_grid_layout(made->dtype)) {
        code = rf_gptq_round(&c->gptq, hessian, w, m, k, made->dtype, group, out, c->error);
        if (!code)
            code = rf_gptq_descend(&c->gptq, hessian, w, m, k, made->dtype, group,
                                   RF_DESCENT_SWEEPS, out, c->error);
    } else { /* eight bits */
        rf_cast_values(c->options->quantize.kernels, RF_TARGET_Q6, RF_F32, w, made->dtype, out,
                       m * k);
    }
    rf_free(c->allocator, w);
    return code;
}

static int round_layer(struct calibration *c, int32_t layer)
{
    int code = choose_evening(c, layer);
    if (!code) code = gather_inputs(c, layer);
    for (int32_t t = 0; !code && t < RF_LAYER_INPUTS; t++)
        code = rf_gptq_factor(&c->gptq, c->inputs[t].hessian, c->inputs[t].k, c->inputs[t].damping,
                              c->error);
    for (size_t i = 0; !code && i < LAYER_MATRICES; i++) {
        const struct rf_tensor *made = made_tensor(c, layer, matrices[i].name),
                               *tensor = source_tensor(c, made);
        enum rf_dtype dtype;
        if (is_rounded(c, tensor, &dtype)) code = round_matrix(c, made, i);
    }
    return code;
}

static int do_layer(struct calibration *c, int32_t layer)
{
    uint64_t bytes = 0;
    place_layer(c, layer, c->layer, &bytes);
    int code = rf_saved_read(&c->saved, c->layer, (size_t)bytes, c->error);
    if (code < 0) return code;
    if (code) {
        code = report_windows(c, (uint64_t)c->options->n_windows);
    } else {
        code = round_layer(c, layer);
        if (!code) code = rf_saved_append(&c->saved, c->layer, (size_t)bytes, c->error);
    }
    return code ? code : step_forward(c, layer);
}

/* ---- buffers and engine ---- */

static int inputs_new(struct calibration *c)
{
    const struct rf_params *params = &c->source->params;
    const int64_t widths[RF_LAYER_INPUTS] = {[RF_INPUT_QKV] = params->n_embd,
                                             [RF_INPUT_O] = rf_n_q(params, 0),
                                             [RF_INPUT_FFN] = params->n_embd,
                                             [RF_INPUT_DOWN] = params->n_ff};
    size_t n_rows = (size_t)c->rows.ne[1];
    c->evening = rf_malloc(c->allocator, (size_t)params->n_ff, sizeof(float), what, c->error);
    if (!c->evening) return RF_ERR_MEMORY;
    int code = 0;
    for (int32_t t = 0; !code && t < RF_LAYER_INPUTS; t++)
        code = rf_inputs_new(&c->inputs[t], (size_t)widths[t], n_rows, c->allocator, c->error);
    return code;
}

static int hidden_rows_new(struct calibration *c)
{
    int64_t n_embd = c->source->params.n_embd,
            n_rows = (int64_t)c->options->n_windows * RF_CALIBRATE_WINDOW;
    float *data =
        rf_malloc(c->allocator, (size_t)n_rows, (size_t)n_embd * sizeof *data, what, c->error);
    if (!data) return RF_ERR_MEMORY;
    c->rows = (struct rf_tensor){.name = "rows",
                                 .dtype = RF_F32,
                                 .n_dims = 2,
                                 .ne = {n_embd, n_rows, 1, 1},
                                 .data = data,
                                 .bytes = (size_t)(n_rows * n_embd) * sizeof *data};
    return 0;
}

/* The rows become the embeddings of the text. */
static void embed_rows(const struct calibration *c)
{
    const struct rf_tensor *table = rf_source_tensor(c->source, RF_TOKEN_EMBD);
    size_t n_embd = (size_t)table->ne[0], row_bytes = rf_dtype_bytes(table->dtype, n_embd);
    for (size_t i = 0; i < (size_t)c->rows.ne[1]; i++)
        rf_dequantize_f32(table->dtype,
                          (const char *)table->data + (size_t)c->options->tokens[i] * row_bytes,
                          hidden_row(c, i), n_embd);
}

/* Bytes of the rounded tensors of a layer, if all get more bits. */
static size_t most_bytes(const struct calibration *c, int32_t layer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < LAYER_MATRICES; i++) {
        const struct rf_tensor *tensor = source_tensor(c, made_tensor(c, layer, matrices[i].name));
        enum rf_dtype dtype;
        if (is_rounded(c, tensor, &dtype))
            bytes += rf_dtype_bytes(high_type(tensor), (size_t)rf_tensor_elements(tensor));
    }
    return bytes;
}

static int made_new(struct calibration *c)
{
    size_t n = (size_t)c->source->n_tensors;
    c->made = *c->source;
    c->made.tensors = c->tensors = rf_malloc(c->allocator, n, sizeof *c->tensors, what, c->error);
    if (!c->tensors) return RF_ERR_MEMORY;
    memcpy(c->tensors, c->source->tensors, n * sizeof *c->tensors);
    c->high =
        rf_calloc(c->allocator, (size_t)c->source->params.n_layer, LAYER_MATRICES, what, c->error);
    if (!c->high) return RF_ERR_MEMORY;
    for (int32_t i = 0; i < c->source->params.n_layer; i++) {
        size_t bytes = most_bytes(c, i);
        if (bytes > c->layer_bytes) c->layer_bytes = bytes;
    }
    if (!c->layer_bytes)
        return rf_fail(c->error, RF_ERR_UNSUPPORTED,
                       "%s: there is nothing to calibrate: all matrices have four bits already, or "
                       "rows that do not suit the type",
                       c->source->name);
    c->layer = rf_malloc(c->allocator, c->layer_bytes, 1, what, c->error);
    return c->layer ? 0 : RF_ERR_MEMORY;
}

static int engine_new(struct calibration *c)
{
    const struct rf_backend_ops *ops = c->options->backend->ops;
    int32_t threads = c->options->quantize.threads;
    const struct rf_queue_options queue = {.threads = threads};
    const struct rf_cache_shape shape = {&c->one_layer, RF_CALIBRATE_WINDOW, RF_KV_F16};
    c->one_layer = c->source->params;
    c->one_layer.n_layer = 1;
    int code = rf_blas_load(&c->blas, threads, c->error);
    if (!code) code = ops->queue_new(&c->queue, c->options->backend, &queue, NULL, c->error);
    if (!code) code = ops->cache_new(&c->cache, c->options->backend, &shape, c->error);
    if (!code) code = rf_team_of(&c->team, NULL, threads, c->allocator, c->error);
    c->gptq = (struct rf_gptq){&c->blas, c->team, c->allocator};
    return code;
}

/* A hash of everything that decides the rounded layers. */
static uint64_t identity_of(const struct calibration *c)
{
    enum { SAMPLE = 64 /* bytes of each tensor */ };
    const struct rf_calibrate_options *options = c->options;
    const struct rf_params *params = &c->source->params;
    uint64_t hash = rf_saved_hash(0, &params->n_layer, sizeof params->n_layer);
    hash = rf_saved_hash(hash, &params->n_embd, sizeof params->n_embd);
    hash = rf_saved_hash(hash, &options->quantize.target, sizeof options->quantize.target);
    hash = rf_saved_hash(hash, &options->quantize.group, sizeof options->quantize.group);
    hash = rf_saved_hash(hash, &options->high_share, sizeof options->high_share);
    hash =
        rf_saved_hash(hash, options->tokens,
                      (size_t)options->n_windows * RF_CALIBRATE_WINDOW * sizeof *options->tokens);
    for (int32_t i = 0; i < c->source->n_tensors; i++) {
        const struct rf_tensor *tensor = &c->source->tensors[i];
        hash = rf_saved_hash(hash, &tensor->dtype, sizeof tensor->dtype);
        hash = rf_saved_hash(hash, tensor->data, tensor->bytes < SAMPLE ? tensor->bytes : SAMPLE);
    }
    return hash;
}

/* All layers are saved: writes the new file. */
static int calibrated_file(struct calibration *c, const char *in, const char *out)
{
    struct rf_quantize_options options = c->options->quantize;
    struct rf_mapping mapping;
    uint64_t bytes = SAVED_HEADER + high_bytes(c);
    int code = rf_map_file(&mapping, c->saved.partial.path, 0, c->error);
    if (code) return code;
    for (int32_t i = 0; i < c->source->params.n_layer; i++) place_layer(c, i, mapping.data, &bytes);
    for (int32_t i = 0; i < c->source->n_tensors; i++)
        if (c->tensors[i].data == c->source->tensors[i].data) c->tensors[i].data = NULL;
    options.made = &c->made;
    options.progress = NULL;
    code = rf_quantize(in, out, &options, c->allocator, c->error);
    rf_unmap_file(&mapping);
    return code;
}

/* Refuses what could not be written in the end. */
static int check_out(const char *in, const char *out, struct rf_error *error)
{
    struct rf_new_file file;
    int code = rf_check_other_file(in, out, error);
    if (!code) code = rf_new_file_open(&file, out, 0, error);
    if (!code) rf_new_file_drop(&file);
    return code;
}

static int check_model(const struct rf_source *source, struct rf_error *error)
{
    const char *why = source->params.n_expert       ? "models with experts"
                      : source->params.latent       ? "models with latent attention"
                      : source->params.fused        ? "models with fused matrices"
                      : source->params.is_mamba     ? "models with Mamba-2"
                      : source->params.delta_values ? "models with the delta rule"
                      : source->params.conv_rows    ? "models with convolutions"
                      : source->params.parallel ? "models whose feed-forward is beside attention"
                      : source->params.no_gate  ? "models whose feed-forward has no gate"
                      : rf_has_layer_sizes(&source->params) ? "models whose layers differ in size"
                                                            : NULL;
    return why ? rf_fail(error, RF_ERR_UNSUPPORTED,
                         "%s: %s cannot be calibrated yet; quantise without a text", source->name,
                         why)
               : 0;
}

static void calibration_free(struct calibration *c)
{
    for (int32_t t = 0; t < RF_LAYER_INPUTS; t++) rf_inputs_free(&c->inputs[t], c->allocator);
    rf_free(c->allocator, c->evening);
    rf_free(c->allocator, (void *)c->rows.data);
    rf_free(c->allocator, c->high);
    rf_free(c->allocator, c->layer);
    rf_free(c->allocator, c->tensors);
    rf_team_free(c->team);
    if (c->cache) c->options->backend->ops->cache_free(c->cache);
    if (c->queue) c->options->backend->ops->queue_free(c->queue);
}

static int calibrate_layers(struct calibration *c, const char *in, const char *out)
{
    int32_t n_layer = c->source->params.n_layer;
    c->total = 2 * (uint64_t)n_layer * (uint64_t)c->options->n_windows +
               measured_passes(c) * (uint64_t)measured_windows(c);
    int code = rf_saved_open(&c->saved, out, identity_of(c), c->error);
    if (code) return code;
    embed_rows(c);
    code = choose_high(c);
    c->n_windows = c->options->n_windows;
    embed_rows(c);
    for (int32_t i = 0; !code && i < n_layer; i++) code = do_layer(c, i);
    if (!code) code = calibrated_file(c, in, out);
    if (code)
        rf_saved_close(&c->saved);
    else
        rf_saved_drop(&c->saved);
    return code;
}

int rf_calibrate(const char *in, const char *out, const struct rf_calibrate_options *options,
                 const struct rf_allocator *allocator, struct rf_error *error)
{
    struct calibration c = {.options = options, .allocator = allocator, .error = error};
    c.source = options->source;
    int code = check_model(c.source, error);
    if (!code) code = check_out(in, out, error);
    if (!code) code = made_new(&c);
    if (!code) code = hidden_rows_new(&c);
    if (!code) code = inputs_new(&c);
    if (!code) code = engine_new(&c);
    if (!code) code = calibrate_layers(&c, in, out);
    calibration_free(&c);
    return code;
}
