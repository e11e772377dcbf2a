/* What the host prepares of a pass: its rows, tiles of rows, places in caches, masks. */
#include <string.h>

#include "gpu/view.h"
#include "infer/kv_kept.h"

enum {
    MOST_PARTS = GPU_MOST_SPANS + 2,
    FEW_BLOCKS = 128, /* of attention */
    FEW_QUERIES = 16  /* that a block of threads then takes */
};

_Static_assert((int)GPU_KV_BLOCK == (int)RF_KV_POSITIONS && (int)GPU_CHUNK == (int)RF_KV_RECENT,
               "blocks and groups of caches");

static struct gpu_row *host_rows(const struct gpu_view *view)
{
    return (struct gpu_row *)(void *)(view->host + view->upload.rows);
}

static int32_t *host_ints(const struct gpu_view *view, size_t part)
{
    return (int32_t *)(void *)(view->host + part);
}

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

static struct gpu_cut cut_of(const struct gpu_view *view, int32_t position)
{
    const struct gpu_heads heads = gpu_view_heads(view);
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
        gpu_host_tiles(view)[view->n_tiles++] = (struct gpu_tile){view->n_rows + i, n};
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
    view->parts = GPU_FEWEST_PARTS;
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
    int32_t parts = GPU_FEWEST_PARTS;
    while (parts < view->parts) parts *= 2;
    view->parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    return code;
}

void gpu_count_groups(const struct rf_pass *pass)
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

int32_t gpu_partial_rows(const struct gpu_view *view)
{
    struct gpu_heads heads = gpu_view_heads(view);
    size_t of_row = (size_t)heads.n_head * (size_t)view->parts * (size_t)(heads.padded + 2);
    size_t rows = GPU_MOST_PARTIALS / of_row;
    if (rows < GPU_TILE_ROWS) rows = GPU_TILE_ROWS;
    return rows < (size_t)view->n_rows ? (int32_t)rows : view->n_rows;
}

static int reserve_partials(struct gpu_view *view, struct rf_error *error)
{
    struct gpu_heads heads = gpu_view_heads(view);
    size_t floats = (size_t)gpu_partial_rows(view) * (size_t)heads.n_head * (size_t)view->parts *
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

int gpu_prepare(struct gpu_view *view, const struct rf_pass *pass, struct rf_error *error)
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
