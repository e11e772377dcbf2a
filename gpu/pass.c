/* Passes: what the host prepares, and the launches. Launches of passes over few rows are recorded
 * as a graph when their shape comes for the second time. */
#include <math.h>
#include <string.h>

#include "gpu/view.h"
#include "infer/kv_kept.h"

enum {
    GRAPH_ROWS = RF_TREE_ROWS, /* of a pass whose launches are worth recording */
    FEWEST_PARTS = 2,
    MOST_PARTS = GPU_MOST_SPANS + 2,
    FEW_BLOCKS = 128, /* of attention */
    FEW_QUERIES = 16  /* that a block of threads then takes */
};

_Static_assert(sizeof(struct gpu_answer) == sizeof(struct rf_best) &&
                   offsetof(struct gpu_answer, n) == offsetof(struct rf_best, n) &&
                   offsetof(struct gpu_answer, mass) == offsetof(struct rf_best, mass) &&
                   (int)GPU_BEST == (int)RF_MAX_BEST,
               "answers are copied as they are");
_Static_assert((int)GPU_KV_BLOCK == (int)RF_KV_POSITIONS && (int)GPU_CHUNK == (int)RF_KV_RECENT,
               "blocks and groups of caches");

static struct gpu_row *host_rows(const struct gpu_view *view)
{
    return (struct gpu_row *)(void *)(view->host + view->upload.rows);
}

static struct gpu_tile *host_tiles(const struct gpu_view *view)
{
    return (struct gpu_tile *)(void *)(view->host + view->upload.tiles);
}

static int32_t *host_ints(const struct gpu_view *view, size_t part)
{
    return (int32_t *)(void *)(view->host + part);
}

static int32_t *device_ints(const struct gpu_view *view, size_t part)
{
    return (int32_t *)(void *)(view->device + part);
}

/* ---- preparing ---- */

static int check_group(const struct gpu_view *view, const struct rf_rows *rows, int32_t index,
                       struct rf_error *error)
{
    const struct rf_cache *cache = rows->cache;
    if (rows->n < 1 || rows->first_pos < 0 || rows->n > cache->shape.n_ctx - rows->first_pos)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "group %d: %d rows from position %d on, in a context of %d", index, rows->n,
                       rows->first_pos, cache->shape.n_ctx);
    if (!rf_kv_can_read(view->base.shape.kv, cache->shape.kv))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "group %d: the view cannot read a KV cache of this type", index);
    if (rows->n > view->base.shape.max_rows - view->n_rows)
        return rf_fail(error, RF_ERR_ARGUMENT, "group %d: its rows and those before are over %d",
                       index, view->base.shape.max_rows);
    return 0;
}

static struct gpu_heads heads_of(const struct gpu_view *view)
{
    return gpu_heads_of(view->params, view->base.shape.kv);
}

static struct gpu_cut cut_of(const struct gpu_view *view, int32_t position)
{
    const struct gpu_heads heads = heads_of(view);
    return gpu_cut_of(&heads, position);
}

/* Where the lists of a sequence begin in the upload. */
struct begin {
    int32_t blocks, groups;
};

/* The rows of a group, and the slots of the positions that each row of a tree sees. */
static void take_rows(struct gpu_view *view, const struct rf_rows *rows, const struct begin *begin)
{
    size_t n_groups = ((const struct gpu_cache *)rows->cache)->n_groups;
    struct gpu_row *made = host_rows(view) + view->n_rows;
    int32_t *maps = host_ints(view, view->upload.maps);
    int32_t set =
        rf_rope_is_long(view->params, rows->cache->shape.n_ctx) ? RF_ROPE_LONG : RF_ROPE_GLOBAL;
    for (int32_t i = 0; i < rows->n; i++) {
        int32_t parent = rows->parents ? rows->parents[i] : i - 1;
        made[i] =
            (struct gpu_row){.position = parent < 0 ? rows->first_pos : made[parent].position + 1,
                             .slot = rows->first_pos + i,
                             .table = begin->blocks,
                             .first = rows->first_pos,
                             .map = rows->parents ? (view->n_rows + i) * RF_TREE_ROWS : GPU_NO_MAP,
                             .set = set,
                             .groups = begin->groups,
                             .old_groups = (int32_t)n_groups};
        for (int32_t at = rows->parents ? i : -1; at >= 0; at = rows->parents[at])
            maps[made[i].map + made[at].position - rows->first_pos] = rows->first_pos + at;
        struct gpu_cut cut = cut_of(view, made[i].position);
        if (view->parts < cut.parts) view->parts = cut.parts;
    }
}

/* Rows of a tile at most. Rows of a tree differ in what they see, so each is a tile. Larger tiles
 * read the cache less often, but a block of threads does more work, so where blocks are few, tiles
 * are small. */
static int32_t tile_rows(const struct gpu_view *view, const struct rf_rows *rows)
{
    const struct rf_params *params = view->params;
    int32_t group = params->n_head / params->n_head_kv,
            parts = cut_of(view, rows->first_pos + rows->n - 1).parts,
            tiles = (rows->n + GPU_TILE_ROWS - 1) / GPU_TILE_ROWS;
    if (rows->parents) return 1;
    if (parts * params->n_head_kv * tiles >= FEW_BLOCKS) return GPU_TILE_ROWS;
    int32_t fit = FEW_QUERIES / group;
    return fit < 1 ? 1 : fit < GPU_TILE_ROWS ? fit : GPU_TILE_ROWS;
}

/* Rows of a tile have one cut. */
static void take_tiles(struct gpu_view *view, const struct rf_rows *rows)
{
    int32_t most = tile_rows(view, rows), group = view->params->n_head / view->params->n_head_kv;
    const struct gpu_row *of_rows = host_rows(view) + view->n_rows;
    for (int32_t i = 0, n; i < rows->n; i += n) {
        struct gpu_cut cut = cut_of(view, of_rows[i].position);
        for (n = 1; n < most && i + n < rows->n; n++) {
            struct gpu_cut next = cut_of(view, of_rows[i + n].position);
            if (next.groups != cut.groups || next.span != cut.span) break;
        }
        host_tiles(view)[view->n_tiles++] = (struct gpu_tile){view->n_rows + i, n};
        if (view->queries < n * group) view->queries = n * group;
    }
}

static int check_pass(struct gpu_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    int code = 0, has_trees = 0;
    view->n_rows = 0;
    for (int32_t g = 0; !code && g < pass->n_groups; g++) {
        code = check_group(view, &pass->groups[g], g, error);
        has_trees |= pass->groups[g].parents != NULL;
        view->n_rows += pass->groups[g].n;
    }
    if (!code && has_trees && view->n_rows > RF_TREE_ROWS)
        code = rf_fail(error, RF_ERR_ARGUMENT, "%d rows: a pass with branches has at most %d",
                       view->n_rows, RF_TREE_ROWS);
    if (!code && !pass->logprobs && pass->n_wanted > view->base.shape.max_logits)
        code = rf_fail(error, RF_ERR_ARGUMENT, "%d answers: a pass has at most %d", pass->n_wanted,
                       view->base.shape.max_logits);
    return code;
}

static size_t chunks_of(const struct rf_rows *rows)
{
    return gpu_chunks(rows->first_pos + rows->n);
}

/* Makes a sequence's cache ready to be written, and lists its blocks and groups. */
static int take_cache(struct gpu_view *view, const struct rf_rows *rows, const struct begin *begin,
                      struct rf_error *error)
{
    struct gpu_cache *cache = (struct gpu_cache *)rows->cache;
    void **blocks = (void **)(void *)(view->host + view->upload.blocks) + begin->blocks,
         **groups = (void **)(void *)(view->host + view->upload.groups) + begin->groups;
    struct gpu_group_job *jobs = (struct gpu_group_job *)(void *)(view->host + view->upload.jobs);
    size_t n_groups;
    int code = gpu_cache_prepare(cache, rows->first_pos, rows->n, &n_groups, error);
    if (code) return code;
    for (size_t c = 0; c < chunks_of(rows); c++)
        blocks[c] = cache->blocks[c] ? cache->blocks[c]->data : NULL;
    for (size_t g = 0; g < n_groups; g++) groups[g] = cache->groups[g]->data;
    for (size_t g = cache->n_groups; g < n_groups; g++)
        jobs[view->n_jobs++] = (struct gpu_group_job){(int32_t)g, begin->blocks, begin->groups,
                                                      cache->base.shape.kv == RF_KV_Q8};
    return 0;
}

/* Lists groups, rows and tiles. */
static int take_groups(struct gpu_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    size_t n_blocks = 0, room = view->upload.n_blocks;
    int code = 0;
    for (int32_t g = 0; g < pass->n_groups; g++) n_blocks += chunks_of(&pass->groups[g]);
    while (room < n_blocks) room *= 2;
    if (room > view->upload.n_blocks) code = gpu_make_upload(view, room, error);
    view->n_rows = view->n_tiles = view->n_jobs = view->queries = 0;
    view->parts = FEWEST_PARTS;
    n_blocks = 0;
    for (int32_t g = 0; !code && g < pass->n_groups; g++) {
        const struct rf_rows *rows = &pass->groups[g];
        const struct begin begin = {(int32_t)n_blocks, 2 * (int32_t)n_blocks};
        code = take_cache(view, rows, &begin, error);
        take_rows(view, rows, &begin);
        take_tiles(view, rows);
        view->n_rows += rows->n;
        n_blocks += chunks_of(rows);
    }
    /* Of few shapes, so that graphs are used again. */
    int32_t parts = FEWEST_PARTS;
    while (parts < view->parts) parts *= 2;
    view->parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    return code;
}

/* The groups that a pass has quantised. */
static void count_groups(const struct rf_pass *pass)
{
    for (int32_t g = 0; g < pass->n_groups; g++) {
        const struct rf_rows *rows = &pass->groups[g];
        struct gpu_cache *cache = (struct gpu_cache *)rows->cache;
        size_t n = rf_kv_groups_of_row((size_t)(rows->first_pos + rows->n - 1));
        if (cache->groups && cache->n_groups < n) cache->n_groups = n;
    }
}

/* The first layer's input rows to pinned memory. */
static void read_inputs(const struct gpu_view *view)
{
    const struct rf_op *op = &view->base.shape.program->body[0];
    float *x = (float *)(void *)(view->host + view->upload.x);
    if (!op->weight[0]) {
        memcpy(x, view->pass.x, (size_t)view->n_rows * (size_t)view->params->n_embd * sizeof *x);
        return;
    }
    for (int32_t g = 0; g < view->pass.n_groups; g++)
        for (int32_t i = 0; i < view->pass.groups[g].n; i++, x += view->params->n_embd) {
            gpu_read_table(op->weight[0], view->pass.groups[g].tokens[i], x);
            for (int32_t j = 0; op->scale != 1 && j < view->params->n_embd; j++) x[j] *= op->scale;
        }
}

static int take_masks(struct gpu_view *view, struct rf_error *error)
{
    const struct rf_pass *pass = &view->pass;
    size_t words = gpu_mask_words(view);
    view->has_masks = pass->masks && pass->n_best > 0 && !pass->logprobs;
    if (!view->has_masks) return 0;
    int code = gpu_make_masks(view, error);
    if (code) return code;
    for (int32_t i = 0; i < pass->n_wanted; i++) {
        host_ints(view, view->upload.has_mask)[i] = pass->masks[i] != NULL;
        if (pass->masks[i])
            memcpy(view->host_masks + (size_t)i * words, pass->masks[i], words * sizeof(uint64_t));
    }
    return gpu_check(cudaMemcpyAsync(view->device_masks, view->host_masks,
                                     (size_t)pass->n_wanted * words * sizeof(uint64_t),
                                     cudaMemcpyHostToDevice, view->backend->stream),
                     "copying masks", error);
}

/* Rows whose partial results are held at a time: at least a tile's. */
static int32_t partial_rows(const struct gpu_view *view)
{
    struct gpu_heads heads = heads_of(view);
    size_t of_row = (size_t)heads.n_head * (size_t)view->parts * (size_t)(heads.padded + 2);
    size_t rows = GPU_MOST_PARTIALS / of_row;
    if (rows < GPU_TILE_ROWS) rows = GPU_TILE_ROWS;
    return rows < (size_t)view->n_rows ? (int32_t)rows : view->n_rows;
}

static int reserve_partials(struct gpu_view *view, struct rf_error *error)
{
    struct gpu_heads heads = heads_of(view);
    size_t floats = (size_t)partial_rows(view) * (size_t)heads.n_head * (size_t)view->parts *
                    (size_t)(heads.padded + 2);
    if (floats <= view->n_partials) return 0;
    gpu_forget_graphs(view);
    gpu_give(view->backend, view->partials);
    view->n_partials = 0;
    view->partials = gpu_take(view->backend, floats * sizeof(float), "attention", error);
    if (!view->partials) return RF_ERR_MEMORY;
    view->n_partials = floats;
    return 0;
}

static int prepare(struct gpu_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    int code = check_pass(view, pass, error);
    if (!code) code = take_groups(view, pass, error);
    if (code) return code;
    view->pass = *pass;
    read_inputs(view);
    for (int32_t i = 0; i < pass->n_wanted; i++) {
        host_ints(view, view->upload.wanted)[i] = pass->wanted[i];
        if (pass->logprobs) host_ints(view, view->upload.targets)[i] = pass->targets[i];
    }
    code = take_masks(view, error);
    if (!code) code = reserve_partials(view, error);
    if (code) return code;
    size_t bytes =
        view->upload.x + (size_t)view->n_rows * (size_t)view->params->n_embd * sizeof(float);
    return gpu_check(cudaMemcpyAsync(view->device, view->host, bytes, cudaMemcpyHostToDevice,
                                     view->backend->stream),
                     "copying a pass", error);
}

/* ---- launching ---- */

static struct gpu_pass device_pass(const struct gpu_view *view)
{
    return (struct gpu_pass){
        .rows = (const struct gpu_row *)(void *)(view->device + view->upload.rows),
        .tiles = (const struct gpu_tile *)(void *)(view->device + view->upload.tiles),
        .maps = device_ints(view, view->upload.maps),
        .blocks = (uint16_t *const *)(void *)(view->device + view->upload.blocks),
        .groups = (uint8_t *const *)(void *)(view->device + view->upload.groups)};
}

static const float *gain_of(const struct rf_weight *weight)
{
    return weight ? weight->data : NULL;
}

/* A slot in the forms that a pass or its head over n rows has. */
static struct gpu_rows rows_of(const struct gpu_view *view, int32_t slot, int32_t n)
{
    struct gpu_rows rows = view->slots[slot];
    if (rows.arranged && n > GPU_NARROW_ROWS)
        rows.bf16 = NULL;
    else
        rows.arranged = NULL;
    return rows;
}

static int32_t parts_of(const struct rf_op *op)
{
    size_t rows = 0;
    for (int32_t l = 0; l < op->n; l++) rows += op->weight[l]->rows;
    return op->kind == RF_OP_EXPERT_LINEAR ? (int32_t)GPU_PARTS : gpu_parts(rows);
}

/* ---- folded norms ---- */

static int writes(const struct rf_op *op, enum rf_slot slot)
{
    int32_t n = op->n > 1 ? op->n : 1;
    for (int32_t l = 0; l < n; l++)
        if (op->out[l] == slot) return 1;
    return 0;
}

static int reads(const struct rf_op *op, enum rf_slot slot)
{
    for (int i = 0; i < RF_OP_INPUTS; i++)
        if (op->in[i] == slot) return 1;
    return 0;
}

static int takes_bf16(const struct rf_op *op)
{
    for (int32_t l = 0; l < op->n; l++)
        if (op->weight[l]->format != RF_FORMAT_BF16) return 0;
    return op->kind == RF_OP_LINEAR;
}

/* 1 if the layers behind an operation of the body can take over its norm: they alone read its
 * results, in BF16. */
static int is_folded(const struct gpu_view *view, const struct rf_op *norm)
{
    const struct rf_program *program = view->base.shape.program;
    const struct gpu_rows *out = &view->slots[norm->out[0]];
    enum rf_slot slot = norm->out[0];
    if (norm->kind != RF_OP_NORM || norm->in[0] != RF_SLOT_X || !out->bf16 || out->f32 ||
        out->width % GPU_PAIR)
        return 0;
    for (const struct rf_op *op = norm + 1; op < program->body + program->n_body; op++) {
        if (reads(op, slot) && !takes_bf16(op)) return 0;
        if (writes(op, slot)) break;
    }
    return 1;
}

static struct gpu_fold fold_of(const struct gpu_view *view, const struct rf_op *norm)
{
    return (struct gpu_fold){.gain = norm->weight[0]->data,
                             .squares = view->squares,
                             .scales = view->row_scales,
                             .eps = view->params->rms_eps};
}

/* The norm folded into an operation, which wrote its input, or NULL. */
static const struct rf_op *norm_before(const struct gpu_view *view, const struct rf_op *op)
{
    const struct rf_program *program = view->base.shape.program;
    if (op < program->body || op >= program->body + program->n_body) return NULL;
    for (const struct rf_op *norm = op - 1; norm >= program->body; norm--)
        if (writes(norm, op->in[0])) return is_folded(view, norm) ? norm : NULL;
    return NULL;
}

/* A slot in BF16 alone. */
static struct gpu_rows bf16_of(const struct gpu_view *view, int32_t slot)
{
    struct gpu_rows rows = rows_of(view, slot, view->n_rows);
    return (struct gpu_rows){
        .bf16 = rows.bf16, .arranged = rows.arranged, .width = rows.width, .pairs = rows.pairs};
}

/* ---- linear layers ---- */

/* A linear layer's matrices of the format of matrix `first`, times n rows. */
static struct gpu_linear linear_of(const struct gpu_view *view, const struct rf_op *op,
                                   int32_t first, int32_t n)
{
    int by_expert = op->kind == RF_OP_EXPERT_LINEAR;
    struct gpu_linear args = {.format = op->weight[first]->format,
                              .n = n,
                              .k = (int32_t)op->weight[first]->columns,
                              .accumulate = op->accumulate,
                              .parts = parts_of(op),
                              .x = rows_of(view, op->in[0], n),
                              .groups = by_expert ? view->experts.groups : NULL,
                              .n_groups = by_expert ? gpu_expert_groups(&view->experts, n) : 0};
    for (int32_t l = first; l < op->n; l++) {
        const struct rf_weight *weight = op->weight[l];
        if (weight->format != args.format) continue;
        args.matrices[args.n_matrices++] =
            (struct gpu_matrix){.tiles = weight->data,
                                .bias = gain_of(op->bias[l]),
                                .y = view->slots[op->out[l]].f32,
                                .rows = (int32_t)weight->rows,
                                .of_expert = gpu_matrix_bytes(weight)};
    }
    const struct rf_op *norm = norm_before(view, op);
    if (norm) args.fold = fold_of(view, norm);
    return args;
}

/* The matrices of one format after the other. */
static cudaError_t linear(const struct gpu_view *view, const struct gpu_launch *launch,
                          const struct rf_op *op, int32_t n)
{
    cudaError_t status = cudaSuccess;
    for (int32_t l = 0; status == cudaSuccess && l < op->n; l++) {
        int is_done = 0;
        for (int32_t i = 0; i < l; i++) is_done |= op->weight[i]->format == op->weight[l]->format;
        if (is_done) continue;
        const struct gpu_linear args = linear_of(view, op, l, n);
        status = gpu_linear(launch, &args);
    }
    return status;
}

static struct gpu_rope rope_of(const struct gpu_view *view, const struct rf_op *op)
{
    return (struct gpu_rope){.heads = heads_of(view),
                             .pass = device_pass(view),
                             .q = view->slots[op->in[0]].f32,
                             .k = view->slots[op->in[1]].f32,
                             .v = view->slots[op->in[2]].f32,
                             .q_gain = gain_of(op->weight[0]),
                             .k_gain = gain_of(op->weight[1]),
                             .rotations = view->rotations,
                             .eps = view->params->rms_eps,
                             .half = view->params->rope_dim / 2,
                             .rope_dim = op->rotation == RF_ROTATE_NOT ? 0 : view->params->rope_dim,
                             .is_local = op->rotation == RF_ROTATE_LOCAL,
                             .is_neox = view->params->rope_style == RF_ROPE_NEOX,
                             .layer = op->layer};
}

static cudaError_t rope_store(const struct gpu_view *view, const struct gpu_launch *launch,
                              const struct rf_op *op, int32_t n)
{
    const struct gpu_rope args = rope_of(view, op);
    return gpu_rope_store(launch, &args, n);
}

/* As many tiles at a time as there is room for partial results. */
static cudaError_t attention(const struct gpu_view *view, const struct gpu_launch *launch,
                             const struct rf_op *op)
{
    const struct gpu_tile *tiles = host_tiles(view);
    int32_t room = partial_rows(view);
    cudaError_t status = cudaSuccess;
    const struct gpu_rows out = rows_of(view, op->out[0], view->n_rows);
    struct gpu_attention args = {.heads = heads_of(view),
                                 .pass = device_pass(view),
                                 .q = view->slots[op->in[0]].f32,
                                 .partials = view->partials,
                                 .layer = op->layer,
                                 .parts = view->parts,
                                 .queries = view->queries,
                                 .window = op->window,
                                 .scale = op->scale,
                                 .cap = op->cap,
                                 .sinks = gain_of(op->weight[0])};
    int has_spans = args.heads.quantised && view->parts > FEWEST_PARTS;
    if (view->n_jobs)
        status = gpu_quantise(
            launch, &args,
            (const struct gpu_group_job *)(const void *)(view->device + view->upload.jobs),
            view->n_jobs);
    for (int32_t t = 0; status == cudaSuccess && t < view->n_tiles; t += args.n_tiles) {
        int32_t n = 0;
        args.first_tile = t;
        args.first_row = tiles[t].first;
        args.n_tiles = 0;
        while (t + args.n_tiles < view->n_tiles && n + tiles[t + args.n_tiles].n <= room)
            n += tiles[t + args.n_tiles++].n;
        if (has_spans) status = gpu_attention_kv(launch, &args);
        if (status == cudaSuccess) status = gpu_attention(launch, &args);
        if (status == cudaSuccess) status = gpu_merge(launch, &args, &out, n);
    }
    return status;
}

static cudaError_t embed(const struct gpu_view *view, const struct gpu_launch *launch,
                         const struct gpu_rows *out, int32_t n)
{
    const struct rf_params *params = view->params;
    const struct gpu_rotations rotations = {.values = view->rotations,
                                            .frequencies = view->frequencies,
                                            .half = params->rope_dim / 2,
                                            .local =
                                                params->rope_theta_local > 0 ? RF_ROPE_LOCAL : 0,
                                            .magnitude = (double)params->rope_magnitude};
    return gpu_begin(launch, out->f32, (const float *)(const void *)(view->device + view->upload.x),
                     out->width, device_pass(view).rows, n, &rotations);
}

static cudaError_t gate(const struct gpu_view *view, const struct gpu_launch *launch,
                        const struct rf_op *op, int32_t n)
{
    int by_expert = view->base.shape.program->slots[op->out[0]].by_expert;
    const struct gpu_gate args = {.gate = view->slots[op->in[0]].f32,
                                  .up = view->slots[op->in[1]].f32,
                                  .is_gelu = op->kind == RF_OP_GELU_GATE,
                                  .scale = op->scale,
                                  .cap = op->cap,
                                  .sources = by_expert ? view->experts.sources : NULL};
    const struct gpu_rows out = rows_of(view, op->out[0], n);
    return gpu_gate(launch, &out, &args, by_expert ? gpu_expert_rows(&view->experts, n) : n);
}

static cudaError_t choose_experts(const struct gpu_view *view, const struct gpu_launch *launch,
                                  const struct rf_op *op, int32_t n)
{
    cudaError_t status = gpu_choose_experts(launch, &view->experts, view->slots[op->in[0]].f32, n);
    return status != cudaSuccess ? status
                                 : gpu_gather(launch, &view->experts, &view->slots[op->out[0]],
                                              view->slots[op->in[1]].f32, n);
}

static cudaError_t add(const struct gpu_view *view, const struct gpu_launch *launch,
                       const struct rf_op *op, int32_t n)
{
    int has_share = op->kind == RF_OP_ADD_SHARE;
    const struct gpu_add args = {.out = view->slots[op->out[0]].f32,
                                 .x = view->slots[op->in[0]].f32,
                                 .gain = gain_of(op->weight[0]),
                                 .share = has_share ? view->slots[op->in[1]].f32 : NULL,
                                 .width = view->slots[op->in[0]].width,
                                 .eps = view->params->rms_eps,
                                 .scale = op->scale};
    return gpu_add(launch, &args, n);
}

/* Norms and linear layers take n rows: all of the pass, or those of the head, which are `picked`.
 */
static cudaError_t perform(const struct gpu_view *view, const struct gpu_launch *launch,
                           const struct rf_op *op, const int32_t *picked, int32_t n)
{
    const struct gpu_rows *in = &view->slots[op->in[0]], made = rows_of(view, op->out[0], n),
                          *out = &made;
    switch (op->kind) {
    case RF_OP_EMBED: return embed(view, launch, out, n);
    case RF_OP_NORM:
        return gpu_norm(launch, out, in->f32, gain_of(op->weight[0]), view->params->rms_eps, picked,
                        n);
    case RF_OP_LINEAR:
    case RF_OP_EXPERT_LINEAR: return linear(view, launch, op, n);
    case RF_OP_ROPE_STORE: return rope_store(view, launch, op, n);
    case RF_OP_ATTENTION: return attention(view, launch, op);
    case RF_OP_SILU_GATE:
    case RF_OP_GELU_GATE: return gate(view, launch, op, n);
    case RF_OP_CHOOSE_EXPERTS: return choose_experts(view, launch, op, n);
    case RF_OP_SUM_EXPERTS:
        return gpu_sum_experts(launch, &view->experts, out->f32, in->f32, out->width, n);
    case RF_OP_ADD:
    case RF_OP_ADD_SHARE: return add(view, launch, op, n);
    case RF_OP_CAP:
        return gpu_cap(launch, out->f32, in->f32, op->scale, op->cap,
                       (size_t)n * (size_t)out->width);
    case RF_OP_COPY: return gpu_copy(launch, out, in->f32, n);
    }
    return cudaErrorInvalidValue;
}

/* The head over the wanted rows, in groups that fit the logits. */
static cudaError_t answer(const struct gpu_view *view, const struct gpu_launch *launch)
{
    const struct rf_program *program = view->base.shape.program;
    const struct rf_pass *pass = &view->pass;
    int32_t most = view->base.shape.max_logits;
    cudaError_t status = cudaSuccess;
    for (int32_t done = 0; status == cudaSuccess && done < pass->n_wanted; done += most) {
        int32_t n = pass->n_wanted - done < most ? pass->n_wanted - done : most;
        for (int32_t o = 0; status == cudaSuccess && o < program->n_head; o++)
            status = perform(view, launch, &program->head[o],
                             device_ints(view, view->upload.wanted) + done, n);
        if (status != cudaSuccess || (!pass->logprobs && !pass->n_best)) continue;
        const struct gpu_choice args = {.logits = view->slots[RF_SLOT_LOGITS].f32,
                                        .masks = view->has_masks ? view->device_masks : NULL,
                                        .has_mask = device_ints(view, view->upload.has_mask),
                                        .targets = device_ints(view, view->upload.targets) + done,
                                        .splits = view->splits,
                                        .best = pass->logprobs ? NULL : view->device_best,
                                        .logprobs =
                                            pass->logprobs ? view->device_logprobs + done : NULL,
                                        .vocab = view->params->n_vocab,
                                        .n_best = pass->logprobs ? 0 : pass->n_best};
        status = gpu_choose(launch, &args, n);
    }
    return status;
}

/* ---- operations in one launch ---- */

/* Makes the gate of op[1] part of op[0]. */
static int join_gate(const struct gpu_view *view, const struct rf_op *op, struct gpu_linear *args)
{
    if (op[1].kind != RF_OP_SILU_GATE || op[1].cap > 0 || op[1].in[0] != op->out[0] ||
        op[1].in[1] != op->out[1])
        return 0;
    args->gates = 1;
    args->gated = rows_of(view, op[1].out[0], view->n_rows);
    return gpu_can_gate(args);
}

static int join_rotation(const struct gpu_view *view, const struct rf_op *op,
                         struct gpu_linear *args)
{
    if (op[1].kind != RF_OP_ROPE_STORE) return 0;
    for (int i = 0; i < 3; i++)
        if (op[1].in[i] != op->out[i]) return 0;
    args->rotates = 1;
    args->rope = rope_of(view, &op[1]);
    return gpu_can_rotate(args);
}

static int join_norm(const struct gpu_view *view, const struct rf_op *op, struct gpu_linear *args)
{
    if (!is_folded(view, &op[1]) || op[1].in[0] != op->out[0]) return 0;
    args->next = fold_of(view, &op[1]);
    args->normed = bf16_of(view, op[1].out[0]);
    return gpu_can_fold_next(args);
}

/* Operations from op[0] on, of `left` that there are, in one launch where that is possible. *taken:
 * how many. */
static cudaError_t perform_next(const struct gpu_view *view, const struct gpu_launch *launch,
                                const struct rf_op *op, int32_t left, int32_t *taken)
{
    static int (*const joins[])(const struct gpu_view *, const struct rf_op *,
                                struct gpu_linear *) = {join_gate, join_rotation, join_norm};
    int32_t n = view->n_rows;
    *taken = 2;
    for (size_t i = 0; op->kind == RF_OP_LINEAR && left > 1 && i < sizeof joins / sizeof *joins;
         i++) {
        struct gpu_linear args = linear_of(view, op, 0, n);
        if (args.n_matrices == op->n && joins[i](view, op, &args)) return gpu_linear(launch, &args);
    }
    *taken = 1;
    if (!is_folded(view, op)) return perform(view, launch, op, NULL, n);
    const struct gpu_rows out = bf16_of(view, op->out[0]);
    const struct gpu_fold fold = fold_of(view, op);
    return gpu_fold_norm(launch, &out, view->slots[op->in[0]].f32, &fold, n);
}

/* All launches of a pass; *cancelled where it was stopped between them. */
static cudaError_t launch_all(const struct gpu_view *view, const struct gpu_launch *launch,
                              int *cancelled)
{
    const struct rf_program *program = view->base.shape.program;
    const atomic_int *cancel = view->base.cancel;
    cudaError_t status = cudaSuccess;
    for (int32_t o = 0, taken; status == cudaSuccess && o < program->n_body; o += taken) {
        const struct rf_op *op = &program->body[o];
        int may_stop = op->may_stop || (o > 0 && op[-1].may_stop);
        *cancelled = may_stop && cancel && atomic_load_explicit(cancel, memory_order_relaxed);
        if (*cancelled) return status;
        status = perform_next(view, launch, op, program->n_body - o, &taken);
    }
    return status == cudaSuccess ? answer(view, launch) : status;
}

/* ---- graphs ---- */

static struct gpu_graph *find_graph(struct gpu_view *view, const struct gpu_shape *shape)
{
    struct gpu_graph *oldest = view->graphs;
    for (struct gpu_graph *graph = view->graphs; graph < view->graphs + GPU_GRAPHS; graph++) {
        if (graph->used && memcmp(&graph->shape, shape, sizeof *shape) == 0) return graph;
        if (graph->used < oldest->used) oldest = graph;
    }
    if (oldest->launches) cudaGraphExecDestroy(oldest->launches);
    *oldest = (struct gpu_graph){.shape = *shape};
    return oldest;
}

static cudaError_t record(const struct gpu_view *view, struct gpu_graph *graph)
{
    const struct gpu_launch launch = {view->recorder, view->backend->overlap};
    cudaGraph_t recorded = NULL;
    int cancelled = 0;
    cudaError_t status = cudaStreamBeginCapture(view->recorder, cudaStreamCaptureModeThreadLocal);
    if (status != cudaSuccess) return status;
    cudaError_t launched = launch_all(view, &launch, &cancelled);
    status = cudaStreamEndCapture(view->recorder, &recorded);
    if (launched != cudaSuccess) status = launched;
    if (status == cudaSuccess && !cancelled)
        status = cudaGraphInstantiate(&graph->launches, recorded, 0);
    if (recorded) cudaGraphDestroy(recorded);
    return status;
}

/* Launches a pass from its graph; 0 in *done where it has none. */
static cudaError_t launch_graph(struct gpu_view *view, int *done)
{
    const struct rf_pass *pass = &view->pass;
    *done = 0;
    if (view->n_rows > GRAPH_ROWS || view->n_jobs || pass->logprobs ||
        partial_rows(view) < view->n_rows)
        return cudaSuccess;
    const struct gpu_shape shape = {.rows = view->n_rows,
                                    .tiles = view->n_tiles,
                                    .parts = view->parts,
                                    .queries = view->queries,
                                    .wanted = pass->n_wanted,
                                    .best = pass->n_best,
                                    .masks = view->has_masks};
    struct gpu_graph *graph = find_graph(view, &shape);
    int is_new = !graph->used;
    graph->used = view->base.passes + 1;
    if (is_new) return cudaSuccess;
    cudaError_t status = graph->launches ? cudaSuccess : record(view, graph);
    if (status != cudaSuccess || !graph->launches) return status;
    *done = 1;
    return cudaGraphLaunch(graph->launches, view->backend->stream);
}

/* ---- a pass ---- */

static cudaError_t copy_answers(const struct gpu_view *view)
{
    const struct rf_pass *pass = &view->pass;
    size_t n = (size_t)pass->n_wanted;
    cudaStream_t stream = view->backend->stream;
    if (!n) return cudaSuccess;
    if (pass->logprobs)
        return cudaMemcpyAsync(view->host_logprobs, view->device_logprobs, n * sizeof(double),
                               cudaMemcpyDeviceToHost, stream);
    if (!pass->n_best) return cudaSuccess;
    return cudaMemcpyAsync(view->host_best, view->device_best, n * sizeof(struct gpu_answer),
                           cudaMemcpyDeviceToHost, stream);
}

static int run(struct gpu_view *view, struct rf_error *error)
{
    const struct gpu_launch launch = {view->backend->stream, view->backend->overlap};
    const atomic_int *cancel = view->base.cancel;
    int done = 0, cancelled = cancel && atomic_load_explicit(cancel, memory_order_relaxed);
    if (cancelled) return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    cudaError_t status = launch_graph(view, &done);
    if (status == cudaSuccess && !done) status = launch_all(view, &launch, &cancelled);
    if (status == cudaSuccess && !cancelled) status = copy_answers(view);
    if (status == cudaSuccess) status = cudaEventRecord(view->done, view->backend->stream);
    int code = gpu_check(status, "a pass", error);
    return !code && cancelled ? rf_fail(error, RF_ERR_CANCELLED, "cancelled") : code;
}

int gpu_submit(struct rf_view *base, const struct rf_pass *pass, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    struct rf_error ignored; /* the answers of a pass that nobody waited for are gone */
    gpu_enter(&view->backend->base);
    if (view->is_pending) gpu_sync(base, &ignored);
    int code = gpu_make_ready(view, error);
    if (!code) code = prepare(view, pass, error);
    if (!code) code = run(view, error);
    if (!code) count_groups(pass);
    view->is_pending = !code;
    /* The pinned memory must not change under a copy of a pass that was given up. */
    if (code) cudaStreamSynchronize(view->backend->stream);
    return code;
}

int gpu_sync(struct rf_view *base, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    const struct rf_pass *pass = &view->pass;
    if (!view->is_pending) return 0;
    view->is_pending = 0;
    gpu_enter(&view->backend->base);
    int code = gpu_check(cudaEventSynchronize(view->done), "a pass", error);
    if (code) return code;
    size_t n = (size_t)pass->n_wanted;
    if (pass->logprobs && n)
        memcpy(pass->logprobs, view->host_logprobs, n * sizeof(double));
    else if (pass->n_best && n)
        memcpy(pass->best, view->host_best, n * sizeof *pass->best);
    return 0;
}
