/* Makes views: the memory of one pass. It is taken at the first pass, since each fork has a view
 * and not all of them read. pass.c asks for it; the backend's table has the rest. */
#include <math.h>
#include <string.h>

#include "gpu/view.h"

enum {
    FIRST_BLOCKS = 64,
    MOST_HEAD_DIM = 256,
    LAUNCHES = 256 << 20,    /* bytes of kernels, their graphs and a pass's upload */
    MOST_EXPERT_ROWS = 65535 /* blocks of threads in a grid's second dimension */
};

static const struct rf_allocator *view_allocator(const struct gpu_view *view)
{
    return view->backend->base.allocator;
}

static size_t align_part(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

void gpu_forget_graphs(struct gpu_view *view)
{
    for (int g = 0; g < GPU_GRAPHS; g++)
        if (view->graphs[g].launches) cudaGraphExecDestroy(view->graphs[g].launches);
    memset(view->graphs, 0, sizeof view->graphs);
}

/* ---- pinned memory ---- */

static int pin_memory(void **memory, size_t bytes, struct rf_error *error)
{
    return gpu_check(cudaMallocHost(memory, bytes), "pinned memory", error);
}

static void unpin_memory(void *memory)
{
    if (memory) cudaFreeHost(memory);
}

int gpu_make_upload(struct gpu_view *view, size_t n_blocks, struct rf_error *error)
{
    size_t rows = (size_t)view->base.shape.max_rows;
    struct gpu_upload made = {.n_blocks = n_blocks};
    made.tiles = align_part(rows * sizeof(struct gpu_row));
    made.maps = made.tiles + align_part(rows * sizeof(struct gpu_tile));
    made.wanted = made.maps + align_part(RF_TREE_ROWS * RF_TREE_ROWS * sizeof(int32_t));
    made.targets = made.wanted + align_part(rows * sizeof(int32_t));
    made.has_mask = made.targets + align_part(rows * sizeof(int32_t));
    made.blocks = made.has_mask + align_part(rows * sizeof(int32_t));
    made.groups = made.blocks + align_part(n_blocks * sizeof(uint16_t *));
    made.jobs = made.groups + align_part(2 * n_blocks * sizeof(uint8_t *));
    made.x = made.jobs + align_part(2 * n_blocks * sizeof(struct gpu_group_job));
    made.bytes = made.x + rows * (size_t)view->params->n_embd * sizeof(float);
    gpu_forget_graphs(view);
    cudaStreamSynchronize(view->backend->stream);
    unpin_memory(view->host);
    gpu_give(view->backend, view->device);
    view->host = view->device = NULL;
    view->upload = (struct gpu_upload){0};
    void *host;
    int code = pin_memory(&host, made.bytes, error);
    if (code) return code;
    memset(host, 0, made.bytes);
    view->host = host;
    view->device = gpu_take(view->backend, made.bytes, "a pass", error);
    if (!view->device) return RF_ERR_MEMORY;
    view->upload = made;
    return 0;
}

int gpu_make_masks(struct gpu_view *view, struct rf_error *error)
{
    size_t bytes = (size_t)view->base.shape.max_logits * gpu_mask_words(view) * sizeof(uint64_t);
    void *host;
    if (view->device_masks) return 0;
    if (!view->host_masks) {
        int code = pin_memory(&host, bytes, error);
        if (code) return code;
        view->host_masks = host;
    }
    view->device_masks = gpu_take(view->backend, bytes, "masks", error);
    return view->device_masks ? 0 : RF_ERR_MEMORY;
}

/* ---- buffers ---- */

/* 1 if a matrix takes the slot's rows in BF16; !in_bf16: in 8 or 16 bits. */
static int wants_rows(const struct gpu_view *view, const struct rf_slot_shape *shape, int in_bf16)
{
    const struct gpu_weights *weights = (const struct gpu_weights *)view->base.shape.weights;
    for (int32_t i = 0; i < weights->n; i++) {
        const struct rf_weight *weight = &weights->tensors[i];
        if (weight->plan.is_matrix &&
            (weight->plan.role == RF_WEIGHT_EXPERTS) == shape->by_expert &&
            weight->plan.columns == (size_t)shape->width &&
            (weight->plan.format == RF_FORMAT_BF16) == in_bf16)
            return 1;
    }
    return 0;
}

static int slot_new(struct gpu_view *view, int32_t s, struct rf_error *error)
{
    const struct rf_slot_shape *shape = &view->base.shape.program->slots[s];
    struct gpu_rows *slot = &view->slots[s];
    int32_t max_rows = view->base.shape.max_rows;
    size_t rows = (size_t)(s == RF_SLOT_LOGITS ? view->base.shape.max_logits
                           : shape->by_expert  ? gpu_expert_rows(&view->experts, max_rows)
                                               : max_rows);
    size_t pieces = (rows + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * GPU_ROW_GROUP;
    slot->width = shape->width;
    slot->pairs = (shape->width + GPU_PAIR - 1) / GPU_PAIR;
    pieces *= (size_t)slot->pairs;
    if (!shape->width) return 0;
    if (!shape->is_operand || shape->has_floats) {
        slot->f32 =
            gpu_take(view->backend, rows * (size_t)shape->width * sizeof(float), "a view", error);
        if (!slot->f32) return RF_ERR_MEMORY;
    }
    if (!shape->is_operand) return 0;
    if (wants_rows(view, shape, 1)) {
        slot->bf16 = gpu_take(view->backend, pieces * GPU_PAIR * sizeof(uint16_t), "a view", error);
        if (!slot->bf16) return RF_ERR_MEMORY;
        if (view->backend->has_wgmma && !shape->by_expert) {
            slot->arranged = gpu_take(view->backend, gpu_arranged_bytes(rows, (size_t)slot->pairs),
                                      "a view", error);
            if (!slot->arranged) return RF_ERR_MEMORY;
        }
    }
    if (wants_rows(view, shape, 0)) {
        size_t scales = pieces * GPU_PAIR / RF_BLOCK * 2 * sizeof(float);
        slot->codes = gpu_take(view->backend, pieces * GPU_PAIR, "a view", error);
        slot->scales = gpu_take(view->backend, scales, "a view", error);
        slot->halves = gpu_take(view->backend, scales, "a view", error);
        if (!slot->codes || !slot->scales || !slot->halves) return RF_ERR_MEMORY;
        if (view->base.shape.precision != RF_PRECISION_16) {
            if (!view->backend->has_wgmma || shape->by_expert) return 0;
            slot->pieces = gpu_take(view->backend, gpu_pieces_bytes(rows, (size_t)slot->pairs),
                                    "a view", error);
            return slot->pieces ? 0 : RF_ERR_MEMORY;
        }
        slot->low = gpu_take(view->backend, pieces * GPU_PAIR, "a view", error);
        if (!slot->low) return RF_ERR_MEMORY;
    }
    return 0;
}

/* Bytes of a slot in all its forms, whatever the weights are. */
static uint64_t slot_bytes(const struct rf_slot_shape *shape, uint64_t rows)
{
    uint64_t pairs = ((uint64_t)shape->width + GPU_PAIR - 1) / GPU_PAIR,
             pieces = (rows + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * GPU_ROW_GROUP * pairs * GPU_PAIR,
             floats = rows * (uint64_t)shape->width * sizeof(float);
    if (!shape->is_operand) return floats;
    return floats + pieces * (sizeof(uint16_t) + 2 + 4 * sizeof(float) / RF_BLOCK) +
           gpu_arranged_bytes((size_t)rows, (size_t)pairs) +
           gpu_pieces_bytes((size_t)rows, (size_t)pairs);
}

uint64_t gpu_view_bytes(const struct rf_view_shape *shape)
{
    const struct rf_program *program = shape->program;
    const struct rf_params *params = program->params;
    const struct gpu_experts experts = {.n_expert = params->n_expert,
                                        .used = params->n_expert_used};
    uint64_t rows = (uint64_t)shape->max_rows, logits = (uint64_t)shape->max_logits,
             partials = rows * (uint64_t)params->n_head * (GPU_MOST_SPANS + 2) *
                        ((uint64_t)params->head_dim + GPU_PAIR),
             bytes = LAUNCHES;
    for (int32_t s = 0; s < program->n_slots; s++) {
        const struct rf_slot_shape *slot = &program->slots[s];
        uint64_t of_slot = s == RF_SLOT_LOGITS ? logits
                           : slot->by_expert ? (uint64_t)gpu_expert_rows(&experts, shape->max_rows)
                                             : rows;
        if (slot->width) bytes += slot_bytes(slot, of_slot);
    }
    if (partials > GPU_MOST_PARTIALS) partials = GPU_MOST_PARTIALS;
    return bytes + partials * sizeof(float) +
           rows * ((uint64_t)params->n_embd * 2 + (uint64_t)params->rope_dim * 2 + 64) *
               sizeof(float) +
           logits * ((uint64_t)params->n_vocab / 8 + GPU_SPLITS * sizeof(struct gpu_split));
}

static int frequencies_new(struct gpu_view *view, struct rf_error *error)
{
    const struct rf_params *params = view->params;
    size_t half = (size_t)params->rope_dim / 2, bytes = RF_ROPE_SETS * half * sizeof(double);
    double *host = rf_malloc(view_allocator(view), bytes, 1, "view", error);
    if (!host) return RF_ERR_MEMORY;
    for (size_t i = 0; i < RF_ROPE_SETS * half; i++)
        host[i] = rf_rope_frequency(params, (enum rf_frequencies)(i / half), (int32_t)(i % half));
    view->frequencies = gpu_take(view->backend, bytes, "a view", error);
    int code = view->frequencies ? 0 : RF_ERR_MEMORY;
    if (!code)
        code = gpu_check(cudaMemcpyAsync(view->frequencies, host, bytes, cudaMemcpyHostToDevice,
                                         view->backend->stream),
                         "a view", error);
    if (!code) code = gpu_check(cudaStreamSynchronize(view->backend->stream), "a view", error);
    rf_free(view_allocator(view), host);
    return code;
}

static int experts_new(struct gpu_view *view, struct rf_error *error)
{
    struct gpu_experts *experts = &view->experts;
    int32_t rows = view->base.shape.max_rows;
    if (!experts->n_expert) return 0;
    size_t sorted = (size_t)gpu_expert_rows(experts, rows), groups = 0;
    for (int32_t n = 1; n <= rows; n++)
        if (groups < (size_t)gpu_expert_groups(experts, n))
            groups = (size_t)gpu_expert_groups(experts, n);
    experts->shares = gpu_take(
        view->backend, (size_t)(rows * experts->used) * sizeof *experts->shares, "a view", error);
    experts->sources = gpu_take(view->backend, sorted * sizeof *experts->sources, "a view", error);
    experts->groups = gpu_take(view->backend, groups * sizeof *experts->groups, "a view", error);
    return experts->shares && experts->sources && experts->groups ? 0 : RF_ERR_MEMORY;
}

/* Memory for folded norms. */
static int norms_new(struct gpu_view *view, struct rf_error *error)
{
    size_t rows = (size_t)view->base.shape.max_rows,
           squares = (size_t)view->params->n_embd / GPU_SQUARES + 1;
    view->squares = gpu_take(view->backend, rows * squares * sizeof(float), "a view", error);
    view->row_scales = gpu_take(view->backend, rows * sizeof(float), "a view", error);
    return view->squares && view->row_scales ? 0 : RF_ERR_MEMORY;
}

static int answers_new(struct gpu_view *view, struct rf_error *error)
{
    const struct rf_view_shape *shape = &view->base.shape;
    size_t rows = (size_t)shape->max_rows, logits = (size_t)shape->max_logits;
    void *best, *logprobs;
    int code = pin_memory(&best, logits * sizeof(struct gpu_answer), error);
    if (code) return code;
    view->host_best = best;
    code = pin_memory(&logprobs, rows * sizeof(double), error);
    if (code) return code;
    view->host_logprobs = logprobs;
    view->device_best =
        gpu_take(view->backend, logits * sizeof(struct gpu_answer), "a view", error);
    view->device_logprobs = gpu_take(view->backend, rows * sizeof(double), "a view", error);
    view->splits =
        gpu_take(view->backend, logits * GPU_SPLITS * sizeof(struct gpu_split), "a view", error);
    return view->device_best && view->device_logprobs && view->splits ? 0 : RF_ERR_MEMORY;
}

static void release_view(struct gpu_view *view)
{
    const struct gpu_backend *backend = view->backend;
    gpu_forget_graphs(view);
    for (int s = 0; s < RF_MAX_SLOTS; s++) {
        gpu_give(backend, view->slots[s].f32);
        gpu_give(backend, view->slots[s].bf16);
        gpu_give(backend, view->slots[s].arranged);
        gpu_give(backend, view->slots[s].codes);
        gpu_give(backend, view->slots[s].low);
        gpu_give(backend, view->slots[s].scales);
        gpu_give(backend, view->slots[s].halves);
        gpu_give(backend, view->slots[s].pieces);
        view->slots[s] = (struct gpu_rows){0};
    }
    void *const of_device[] = {view->rotations,       view->frequencies,     view->splits,
                               view->device,          view->device_masks,    view->partials,
                               view->device_best,     view->device_logprobs, view->experts.shares,
                               view->experts.sources, view->experts.groups,  view->squares,
                               view->row_scales};
    for (size_t i = 0; i < sizeof of_device / sizeof *of_device; i++)
        gpu_give(backend, of_device[i]);
    unpin_memory(view->host);
    unpin_memory(view->host_masks);
    unpin_memory(view->host_best);
    unpin_memory(view->host_logprobs);
    if (view->recorder) cudaStreamDestroy(view->recorder);
    if (view->done) cudaEventDestroy(view->done);
    view->experts.shares = NULL;
    view->experts.sources = NULL;
    view->experts.groups = NULL;
    view->rotations = view->partials = view->squares = view->row_scales = NULL;
    view->frequencies = view->device_logprobs = view->host_logprobs = NULL;
    view->splits = NULL;
    view->host = view->device = NULL;
    view->host_masks = view->device_masks = NULL;
    view->host_best = view->device_best = NULL;
    view->recorder = NULL;
    view->done = NULL;
    view->n_partials = 0;
}

int gpu_make_ready(struct gpu_view *view, struct rf_error *error)
{
    const struct rf_view_shape *shape = &view->base.shape;
    size_t half = (size_t)view->params->rope_dim / 2;
    int code = 0;
    if (view->is_ready) return 0;
    for (int32_t s = 0; !code && s < shape->program->n_slots; s++) code = slot_new(view, s, error);
    if (!code) {
        view->rotations = gpu_take(
            view->backend, (size_t)shape->max_rows * 2 * half * 2 * sizeof(float), "a view", error);
        code = view->rotations ? 0 : RF_ERR_MEMORY;
    }
    if (!code) code = frequencies_new(view, error);
    if (!code) code = norms_new(view, error);
    if (!code) code = experts_new(view, error);
    if (!code) code = answers_new(view, error);
    if (!code) code = gpu_make_upload(view, FIRST_BLOCKS, error);
    if (!code)
        code = gpu_check(cudaStreamCreateWithFlags(&view->recorder, cudaStreamNonBlocking),
                         "a stream", error);
    if (!code)
        code = gpu_check(cudaEventCreateWithFlags(&view->done, cudaEventDisableTiming), "an event",
                         error);
    if (code) release_view(view);
    view->is_ready = !code;
    return code;
}

/* ---- views ---- */

void gpu_view_free(struct rf_view *base)
{
    if (!base) return;
    struct gpu_view *view = (struct gpu_view *)base;
    const struct rf_allocator *allocator = view_allocator(view);
    gpu_enter(&view->backend->base);
    cudaStreamSynchronize(view->backend->stream);
    release_view(view);
    rf_free(allocator, view->logits);
    for (int t = 0; t < RF_MAX_TAPS; t++) rf_free(allocator, view->taps[t]);
    rf_free(allocator, view);
}

static int check_params(const struct gpu_view *view, struct rf_error *error)
{
    const struct rf_params *params = view->params;
    if (params->head_dim > MOST_HEAD_DIM)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "CUDA devices compute attention with heads of up to %d dimensions, not %d",
                       MOST_HEAD_DIM, params->head_dim);
    int32_t rows = view->base.shape.max_rows;
    if (params->n_expert && gpu_expert_rows(&view->experts, rows) > MOST_EXPERT_ROWS)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "CUDA devices take up to %d rows for experts in a pass: %d rows choose %d "
                       "each",
                       MOST_EXPERT_ROWS, rows, params->n_expert_used);
    return 0;
}

int gpu_view_new(struct rf_view **out, struct rf_queue *queue, const struct rf_view_shape *shape,
                 struct rf_error *error)
{
    *out = NULL;
    if (shape->has_window)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "drafts that read a window of the text are not supported by CUDA devices");
    struct gpu_view *view = rf_calloc(queue->backend->allocator, 1, sizeof *view, "view", error);
    if (!view) return RF_ERR_MEMORY;
    view->base.shape = *shape;
    view->backend = gpu_backend_of(queue->backend);
    view->params = shape->program->params;
    view->experts = (struct gpu_experts){.n_expert = view->params->n_expert,
                                         .used = view->params->n_expert_used,
                                         .norm = view->params->expert_norm};
    *out = &view->base;
    int code = check_params(view, error);
    if (!code) return 0;
    *out = NULL;
    rf_free(queue->backend->allocator, view);
    return code;
}

/* ---- rows that the host asks for after a pass ---- */

/* Row i of a slot, in a copy [rows] that is made now. */
static int copy_row(struct gpu_view *view, const struct gpu_rows *slot, float **copy, int32_t rows,
                    int32_t i, const float **row, struct rf_error *error)
{
    size_t n = (size_t)slot->width;
    gpu_enter(&view->backend->base);
    if (!*copy)
        *copy = rf_malloc(view_allocator(view), (size_t)rows * n, sizeof **copy, "view", error);
    if (!*copy) return RF_ERR_MEMORY;
    float *to = *copy + (size_t)i * n;
    *row = to;
    int code = gpu_check(cudaMemcpyAsync(to, slot->f32 + (size_t)i * n, n * sizeof *to,
                                         cudaMemcpyDeviceToHost, view->backend->stream),
                         "copying a row", error);
    return code ? code
                : gpu_check(cudaStreamSynchronize(view->backend->stream), "copying a row", error);
}

int gpu_logits(struct rf_view *base, int32_t i, const float **row, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    return copy_row(view, &view->slots[RF_SLOT_LOGITS], &view->logits, base->shape.max_logits, i,
                    row, error);
}

int gpu_tap(struct rf_view *base, int32_t tap, int32_t i, const float **row, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    return copy_row(view, &view->slots[RF_SLOT_TAP + tap], &view->taps[tap], base->shape.max_rows,
                    i, row, error);
}
