/* The host's part of a pass: fills the upload with the pass's rows, tiles of rows, places in
 * caches, input rows and masks, and copies it to the device. pass.c calls this before it launches.
 */
#include <string.h>

#include "gpu/view.h"
#include "infer/kv_kept.h"
#include "weights/pack.h"

enum {
    MOST_PARTS = GPU_MOST_SPANS + 2,
    FEW_BLOCKS = 128, /* fewer blocks of attention do not fill a device */
    FEW_QUERIES = 16  /* queries that a block of threads then takes */
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

static struct gpu_cut cut_at(const struct gpu_view *view, int32_t position)
{
    const struct gpu_heads heads = gpu_view_heads(view);
    return gpu_cut_of(&heads, position);
}

/* The beginning of a sequence's lists in the upload. */
struct list_begin {
    int32_t blocks, groups;
};

/* Lists the rows of a group, and the slots of the positions that each row of a tree sees. */
static void upload_rows(struct gpu_view *view, const struct rf_rows *rows,
                        const struct list_begin *begin)
{
    size_t n_groups = ((const struct gpu_cache *)rows->cache)->n_groups;
    struct gpu_row *made = host_rows(view) + view->n_rows;
    int32_t *maps = host_ints(view, view->upload.maps);
    int32_t set = rows->is_long ? RF_ROPE_LONG : RF_ROPE_GLOBAL;
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
        struct gpu_cut cut = cut_at(view, made[i].position);
        if (view->parts < cut.parts) view->parts = cut.parts;
    }
}

/* The most rows of a tile. Rows of a tree differ in what they see, so each is a tile. Larger tiles
 * read the cache less often, but a block of threads does more work, so where blocks are few, tiles
 * are small. */
static int32_t most_tile_rows(const struct gpu_view *view, const struct rf_rows *rows)
{
    const struct rf_params *params = view->params;
    int32_t group = params->n_head / params->n_head_kv,
            parts = cut_at(view, rows->first_pos + rows->n - 1).parts,
            tiles = (rows->n + GPU_TILE_ROWS - 1) / GPU_TILE_ROWS;
    if (rows->parents) return 1;
    if (parts * params->n_head_kv * tiles >= FEW_BLOCKS) return GPU_TILE_ROWS;
    int32_t fit = FEW_QUERIES / group;
    return fit < 1 ? 1 : fit < GPU_TILE_ROWS ? fit : GPU_TILE_ROWS;
}

/* Lists the tiles of a group; rows of a tile have one cut. */
static void upload_tiles(struct gpu_view *view, const struct rf_rows *rows)
{
    int32_t most = most_tile_rows(view, rows),
            group = view->params->n_head / view->params->n_head_kv;
    const struct gpu_row *of_rows = host_rows(view) + view->n_rows;
    for (int32_t i = 0, n; i < rows->n; i += n) {
        struct gpu_cut cut = cut_at(view, of_rows[i].position);
        for (n = 1; n < most && i + n < rows->n; n++) {
            struct gpu_cut next = cut_at(view, of_rows[i + n].position);
            if (next.groups != cut.groups || next.span != cut.span) break;
        }
        gpu_host_tiles(view)[view->n_tiles++] = (struct gpu_tile){view->n_rows + i, n};
        if (view->queries < n * group) view->queries = n * group;
    }
}

static size_t chunks_of_rows(const struct rf_rows *rows)
{
    return gpu_chunks(rows->first_pos + rows->n);
}

/* Makes a sequence's cache ready to be written, and lists its blocks and groups. */
static int upload_cache(struct gpu_view *view, const struct rf_rows *rows,
                        const struct list_begin *begin, struct rf_error *error)
{
    struct gpu_cache *cache = (struct gpu_cache *)rows->cache;
    void **blocks = (void **)(void *)(view->host + view->upload.blocks) + begin->blocks,
         **groups = (void **)(void *)(view->host + view->upload.groups) + begin->groups;
    struct gpu_group_job *jobs = (struct gpu_group_job *)(void *)(view->host + view->upload.jobs);
    size_t n_groups;
    int code = gpu_cache_prepare(cache, rows->first_pos, rows->n, &n_groups, error);
    if (code) return code;
    for (size_t c = 0; c < chunks_of_rows(rows); c++)
        blocks[c] = cache->blocks[c] ? cache->blocks[c]->data : NULL;
    for (size_t g = 0; g < n_groups; g++) groups[g] = cache->groups[g]->data;
    for (size_t g = cache->n_groups; g < n_groups; g++)
        jobs[view->n_jobs++] = (struct gpu_group_job){(int32_t)g, begin->blocks, begin->groups,
                                                      cache->base.shape.kv == RF_KV_Q8};
    return 0;
}

/* Lists groups, rows and tiles. */
static int upload_groups(struct gpu_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    size_t n_blocks = 0, room = view->upload.n_blocks;
    int code = 0;
    for (int32_t g = 0; g < pass->n_groups; g++) n_blocks += chunks_of_rows(&pass->groups[g]);
    while (room < n_blocks) room *= 2;
    if (room > view->upload.n_blocks) code = gpu_make_upload(view, room, error);
    view->n_rows = view->n_tiles = view->n_jobs = view->queries = 0;
    view->parts = GPU_FEWEST_PARTS;
    n_blocks = 0;
    for (int32_t g = 0; !code && g < pass->n_groups; g++) {
        const struct rf_rows *rows = &pass->groups[g];
        const struct list_begin begin = {(int32_t)n_blocks, 2 * (int32_t)n_blocks};
        code = upload_cache(view, rows, &begin, error);
        upload_rows(view, rows, &begin);
        upload_tiles(view, rows);
        view->n_rows += rows->n;
        n_blocks += chunks_of_rows(rows);
    }
    /* A power of two: passes of few shapes use the same graphs again. */
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

/* The rows that an embedding takes. */
static void upload_input(const struct gpu_view *view, const struct rf_op *op, float *x)
{
    size_t width = (size_t)view->base.shape.program->slots[op->out[0]].width;
    if (!op->weight[0]) {
        memcpy(x, view->pass.x, (size_t)view->n_rows * width * sizeof *x);
        return;
    }
    for (int32_t g = 0; g < view->pass.n_groups; g++)
        for (int32_t i = 0; i < view->pass.groups[g].n; i++, x += width) {
            rf_weight_read_row(&op->weight[0]->plan, (size_t)view->pass.groups[g].tokens[i], x);
            for (size_t j = 0; op->scale != 1 && j < width; j++) x[j] *= op->scale;
        }
}

/* The input rows of all embeddings to pinned memory. */
static void upload_inputs(const struct gpu_view *view)
{
    const struct rf_program *program = view->base.shape.program;
    float *x = (float *)(void *)(view->host + view->upload.x);
    for (const struct rf_op *op = program->body; op < program->body + program->n_body; op++)
        if (op->kind == RF_OP_EMBED)
            upload_input(view, op, x + (size_t)view->n_rows * gpu_input_floats(view, op));
}

static int upload_masks(struct gpu_view *view, struct rf_error *error)
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
    int code = upload_groups(view, pass, error);
    if (code) return code;
    view->pass = *pass;
    upload_inputs(view);
    for (int32_t i = 0; i < pass->n_wanted; i++) {
        host_ints(view, view->upload.wanted)[i] = pass->wanted[i];
        if (pass->logprobs) host_ints(view, view->upload.targets)[i] = pass->targets[i];
    }
    code = upload_masks(view, error);
    if (!code) code = reserve_partials(view, error);
    if (code) return code;
    size_t bytes =
        view->upload.x + (size_t)view->n_rows * gpu_input_floats(view, NULL) * sizeof(float);
    return gpu_check(cudaMemcpyAsync(view->device, view->host, bytes, cudaMemcpyHostToDevice,
                                     view->backend->stream),
                     "copying a pass", error);
}
