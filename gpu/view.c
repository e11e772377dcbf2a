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

size_t gpu_input_floats(const struct gpu_view *view, const struct rf_op *end)
{
    const struct rf_program *program = view->base.shape.program;
    size_t floats = 0;
    for (const struct rf_op *op = program->body; op < program->body + program->n_body && op != end;
         op++)
        if (op->kind == RF_OP_EMBED) floats += (size_t)program->slots[op->out[0]].width;
    return floats;
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
    made.bytes = made.x + rows * gpu_input_floats(view, NULL) * sizeof(float);
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

/* The forms of a slot's rows that operations read. */
struct slot_forms {
    int bf16, codes; /* codes: of 8 or 16 bits */
    int few;         /* the forms of few rows, whatever the number */
};

/* Adds what n operations read. */
static void note_readers(struct slot_forms *forms, int32_t slot, const struct rf_op *ops, int32_t n)
{
    for (const struct rf_op *op = ops; op < ops + n; op++) {
        if ((op->kind != RF_OP_LINEAR && op->kind != RF_OP_EXPERT_LINEAR) ||
            (int32_t)op->in[0] != slot)
            continue;
        for (int32_t l = 0; l < op->n && op->weight[l]; l++) { /* a layer alone has no output */
            int is_bf16 = op->weight[l]->plan.format == RF_FORMAT_BF16;
            forms->bf16 |= is_bf16;
            forms->codes |= !is_bf16;
        }
    }
}

static struct slot_forms forms_of(const struct gpu_view *view, int32_t slot)
{
    const struct rf_program *program = view->base.shape.program;
    int by_expert = program->slots[slot].by_expert;
    struct slot_forms forms = {.few = !view->backend->has_wgmma || by_expert};
    note_readers(&forms, slot, program->body, program->n_body);
    note_readers(&forms, slot, program->head, program->n_head);
    return forms;
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
    const struct slot_forms forms = forms_of(view, s);
    if (forms.bf16) {
        slot->bf16 = gpu_take(view->backend, pieces * GPU_PAIR * sizeof(uint16_t), "a view", error);
        if (!slot->bf16) return RF_ERR_MEMORY;
        if (!forms.few) {
            slot->arranged = gpu_take(view->backend, gpu_arranged_bytes(rows, (size_t)slot->pairs),
                                      "a view", error);
            if (!slot->arranged) return RF_ERR_MEMORY;
        }
    }
    if (forms.codes) {
        size_t scales = pieces * GPU_PAIR / RF_BLOCK * 2 * sizeof(float);
        slot->codes = gpu_take(view->backend, pieces * GPU_PAIR, "a view", error);
        slot->scales = gpu_take(view->backend, scales, "a view", error);
        slot->halves = gpu_take(view->backend, scales, "a view", error);
        if (!slot->codes || !slot->scales || !slot->halves) return RF_ERR_MEMORY;
        if (view->base.shape.precision != RF_PRECISION_16) {
            if (forms.few) return 0;
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
    gpu_copies_free(view);
    rf_free(allocator, view);
}

int gpu_can_compute(const struct rf_params *params, struct rf_error *error)
{
    if (rf_n_states(params, params->n_layer))
        return rf_fail(error, RF_ERR_UNSUPPORTED, "CUDA devices do not compute layers with %s (%s)",
                       params->is_mamba       ? "Mamba-2"
                       : params->delta_values ? "the delta rule"
                                              : "convolutions",
                       params->arch_name);
    if (params->encoder)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "CUDA devices do not compute encoders (%s)",
                       params->arch_name);
    if (rf_has_layer_sizes(params))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "CUDA devices do not compute layers of different sizes (%s)",
                       params->arch_name);
    if (params->latent)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "CUDA devices do not compute latent attention (%s)", params->arch_name);
    return params->expert_sigmoid
               ? rf_fail(error, RF_ERR_UNSUPPORTED,
                         "CUDA devices do not compute experts with sigmoids as shares (%s)",
                         params->arch_name)
               : 0;
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
    return gpu_can_compute(params, error);
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
