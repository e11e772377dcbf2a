/* Attention: every chunk of RF_ATTENTION_CHUNK positions gives a partial result for each query, and
 * the partial results are merged in the order of the chunks. Chunks start at fixed positions, so a
 * query's bits depend on nothing else.
 *
 * With few rows the workers share heads and chunks, and merge afterwards; with many they share
 * heads and rows, and each merges as it goes. The arithmetic is the same.
 *
 * Rows of a tree are taken branch by branch: of a chunk that the pass writes to, the one worker
 * that has it lays a branch's keys and values at their positions, so that the kernel sees a plain
 * sequence, then the next branch's, and puts all back in the end. A plain draft is the tree with
 * one branch, which lies where it should. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

enum {
    FEW_ROWS = RF_TREE_ROWS,
    ROW_TILE = 16 /* rows that a worker takes at a time when there are many */
};

/* A worker's lists for one call of the kernel: the queries of up to ROW_TILE rows and one KV head.
 */
struct attention_scratch {
    const float **q;
    int32_t *visible;
    float *partial; /* [queries][padded_dim + 2] */
    float *merged;  /* likewise */
};

static size_t group_size(const struct rf_context *context)
{
    return (size_t)(context->shape.params->n_head / context->shape.params->n_head_kv);
}

static size_t result_floats(const struct rf_context *context)
{
    return context->padded_dim + 2;
}

int cpu_attention_new(struct rf_context *context, struct rf_error *error)
{
    const struct rf_allocator *allocator = context->backend->allocator;
    const struct rf_params *params = context->shape.params;
    size_t chunks = ((size_t)context->shape.n_ctx + RF_ATTENTION_CHUNK - 1) / RF_ATTENTION_CHUNK;
    size_t queries = group_size(context) * ROW_TILE;
    size_t few = context->shape.max_rows < FEW_ROWS ? (size_t)context->shape.max_rows : FEW_ROWS;

    context->partials = rf_malloc(allocator, few * (size_t)params->n_head * chunks,
                                  result_floats(context) * sizeof(float), "attention", error);
    context->attended = rf_malloc(allocator, (size_t)context->shape.max_rows,
                                  (size_t)params->n_head * (size_t)params->head_dim * sizeof(float),
                                  "attention", error);
    context->scratch = rf_calloc(allocator, (size_t)rf_team_size(context->shape.team),
                                 sizeof *context->scratch, "attention", error);
    if (!context->partials || !context->attended || !context->scratch) return RF_ERR_MEMORY;
    for (int32_t t = 0; t < rf_team_size(context->shape.team); t++) {
        struct attention_scratch *scratch = &context->scratch[t];
        scratch->q = rf_malloc(allocator, queries, sizeof *scratch->q, "attention", error);
        scratch->visible =
            rf_malloc(allocator, queries, sizeof *scratch->visible, "attention", error);
        scratch->partial = rf_malloc(allocator, queries, result_floats(context) * sizeof(float),
                                     "attention", error);
        scratch->merged = rf_malloc(allocator, queries, result_floats(context) * sizeof(float),
                                    "attention", error);
        if (!scratch->q || !scratch->visible || !scratch->partial || !scratch->merged)
            return RF_ERR_MEMORY;
    }
    return 0;
}

void cpu_attention_free(struct rf_context *context)
{
    const struct rf_allocator *allocator = context->backend->allocator;
    for (int32_t t = 0; context->scratch && t < rf_team_size(context->shape.team); t++) {
        rf_free(allocator, context->scratch[t].q);
        rf_free(allocator, context->scratch[t].visible);
        rf_free(allocator, context->scratch[t].partial);
        rf_free(allocator, context->scratch[t].merged);
    }
    rf_free(allocator, context->scratch);
    rf_free(allocator, context->attended);
    rf_free(allocator, context->partials);
}

/* Makes row `row` of q, which sees `seen` positions of the cache, the i-th of the lists for a KV
 * head and a chunk. */
static void ask(const struct rf_context *context, struct attention_scratch *scratch, size_t i,
                const struct rf_buffer *q, size_t row, size_t seen, size_t head, size_t chunk)
{
    size_t dim = (size_t)context->shape.params->head_dim, group = group_size(context);
    size_t start = chunk * RF_ATTENTION_CHUNK;
    size_t visible = seen <= start                       ? 0
                     : seen - start < RF_ATTENTION_CHUNK ? seen - start
                                                         : RF_ATTENTION_CHUNK;
    for (size_t g = 0; g < group; g++) {
        scratch->q[i * group + g] = buffer_row(q, row) + (head * group + g) * dim;
        scratch->visible[i * group + g] = (int32_t)visible;
    }
}

/* Partial results of the first n rows of the lists over one chunk, to out. */
static void partial(const struct rf_context *context, const struct attention_scratch *scratch,
                    size_t n, int32_t layer, size_t head, size_t chunk, float *out)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t dim = (size_t)context->shape.params->head_dim;
    struct rf_attention_args args = {.q = scratch->q,
                                     .visible = scratch->visible,
                                     .n_q = n * group_size(context),
                                     .k = k_cache(context, chunk, layer, head),
                                     .v = v_cache(context, chunk, layer, head),
                                     .head_dim = dim,
                                     .scale = 1.0f / sqrtf((float)dim),
                                     .out = out,
                                     .ldo = result_floats(context)};
    if (context->shape.kv == RF_KV_F16)
        kernels->attention_f16(&args);
    else
        kernels->attention_bf16(&args);
}

/* Takes a later chunk's partial result into the running one. */
static void merge(float *running, const float *later, size_t padded)
{
    float *max = running + padded, *sum = running + padded + 1, later_max = later[padded];
    if (later_max == -INFINITY) return;
    float top = fmaxf(*max, later_max);
    float keep = expf(*max - top), take = expf(later_max - top);
    for (size_t j = 0; j < padded; j++) running[j] = running[j] * keep + later[j] * take;
    *sum = *sum * keep + later[padded + 1] * take;
    *max = top;
}

static void merge_begin(float *running, size_t padded)
{
    memset(running, 0, (padded + 2) * sizeof *running);
    running[padded] = -INFINITY;
}

static void finish(float *out, const float *running, size_t dim, size_t padded)
{
    float scale = 1.0f / running[padded + 1];
    for (size_t j = 0; j < dim; j++) out[j] = running[j] * scale;
}

static float *attended_row(const struct rf_context *context, size_t row)
{
    return context->attended +
           row * (size_t)context->shape.params->n_head * (size_t)context->shape.params->head_dim;
}

/* The rows of a pass, branch by branch: a branch ends with a row that none follows, and has those
 * rows of its path that no branch before it has. */
struct branches {
    size_t depth[FEW_ROWS];  /* of each row */
    int32_t order[FEW_ROWS]; /* rows */
    size_t end[FEW_ROWS];    /* of each branch, in `order` */
};

static void branches_find(struct branches *branches, const struct rf_rows *rows)
{
    char taken[FEW_ROWS] = {0};
    for (int32_t i = 0; i < rows->n_rows; i++) branches->depth[i] = (size_t)row_depth(rows, i);
    size_t begin = 0, b = 0;
    for (int32_t last = rows->n_rows - 1; last >= 0; last--) {
        if (taken[last]) continue;
        size_t n = 0;
        for (int32_t i = last; i >= 0 && !taken[i]; i = row_parent(rows, i), n++) taken[i] = 1;
        branches->end[b++] = begin + n;
        for (int32_t i = last; n > 0; i = row_parent(rows, i)) branches->order[begin + --n] = i;
        begin = branches->end[b - 1];
    }
}

/* A KV head and chunk of a layer that one worker has, and which row's entry lies at each slot from
 * first_pos on. */
struct lent_chunk {
    struct rf_context *context;
    const struct rf_rows *rows;
    size_t head, chunk;
    int32_t layer;
    int32_t at[FEW_ROWS];
};

static void lay(struct lent_chunk *lent, size_t place, int32_t row)
{
    size_t pos = (size_t)lent->rows->first_pos + place;
    if (lent->at[place] == row || pos / RF_ATTENTION_CHUNK != lent->chunk) return;
    cpu_kv_put(lent->context, lent->layer, lent->head, pos,
               cpu_tree_entry(lent->context, lent->head, (size_t)row));
    lent->at[place] = row;
}

/* Partial results of all rows, in the order of `branches`, for one KV head over one chunk. */
static void partial_of_branches(struct rf_context *context, struct attention_scratch *scratch,
                                int32_t layer, const struct rf_rows *rows,
                                const struct branches *branches, const struct rf_buffer *q,
                                size_t head, size_t chunk, float *out)
{
    size_t n_rows = (size_t)rows->n_rows, first_pos = (size_t)rows->first_pos;
    int is_written =
        (chunk + 1) * RF_ATTENTION_CHUNK > first_pos; /* else it is the same for all branches */
    struct lent_chunk lent = {
        .context = context, .rows = rows, .head = head, .chunk = chunk, .layer = layer};
    for (size_t i = 0; i < n_rows; i++) lent.at[i] = (int32_t)i;

    for (size_t begin = 0, b = 0, end; begin < n_rows; begin = end, b++) {
        end = is_written ? branches->end[b] : n_rows;
        for (int32_t row = branches->order[end - 1]; is_written && row >= 0;
             row = row_parent(rows, row))
            lay(&lent, branches->depth[row], row);
        for (size_t i = begin; i < end; i++) {
            size_t row = (size_t)branches->order[i];
            ask(context, scratch, i - begin, q, row, first_pos + branches->depth[row] + 1, head,
                chunk);
        }
        partial(context, scratch, end - begin, layer, head, chunk,
                out + begin * group_size(context) * result_floats(context));
    }
    for (size_t i = 0; i < n_rows; i++) lay(&lent, i, (int32_t)i);
}

static void few_rows(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                     struct rf_rows rows, const struct rf_buffer *q, struct rf_buffer *out)
{
    const struct rf_params *params = context->shape.params;
    size_t n_rows = (size_t)rows.n_rows, group = group_size(context),
           dim = (size_t)params->head_dim;
    size_t chunks = ((size_t)rows.first_pos + n_rows + RF_ATTENTION_CHUNK - 1) / RF_ATTENTION_CHUNK;
    size_t floats = result_floats(context), queries = n_rows * group;
    struct branches branches;
    struct rf_share share;
    size_t begin, end;
    branches_find(&branches, &rows);

    /* partials: [head][chunk][row in the order of branches][head of the group] */
    rf_share_begin(&share, worker, (size_t)params->n_head_kv * chunks, 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t item = begin; item < end; item++)
            partial_of_branches(context, &context->scratch[worker->index], layer, &rows, &branches,
                                q, item / chunks, item % chunks,
                                context->partials + item * queries * floats);
    rf_team_barrier(worker);

    /* Heads by themselves where these are parts of an operand's row. */
    size_t parts = has_parts(out) && dim % RF_BLOCK == 0 ? (size_t)params->n_head : 1;
    size_t heads = (size_t)params->n_head / parts;
    rf_share_begin(&share, worker, n_rows * parts, 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t item = begin; item < end; item++) {
            size_t i = item / parts, row = (size_t)branches.order[i], first = item % parts * heads;
            float *running = context->scratch[worker->index].merged;
            for (size_t h = first; h < first + heads; h++) {
                const float *of_head =
                    context->partials +
                    ((h / group * chunks) * queries + i * group + h % group) * floats;
                merge_begin(running, context->padded_dim);
                for (size_t c = 0; c < chunks; c++)
                    merge(running, of_head + c * queries * floats, context->padded_dim);
                finish(attended_row(context, row) + h * dim, running, dim, context->padded_dim);
            }
            if (parts == 1)
                pack_row(context, out, row, attended_row(context, row));
            else
                pack_part(context, out, row, first * dim, dim,
                          attended_row(context, row) + first * dim);
        }
    rf_team_barrier(worker);
}

static void many_rows(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                      struct rf_rows rows, const struct rf_buffer *q, struct rf_buffer *out)
{
    const struct rf_params *params = context->shape.params;
    struct attention_scratch *scratch = &context->scratch[worker->index];
    size_t n_rows = (size_t)rows.n_rows, group = group_size(context),
           dim = (size_t)params->head_dim;
    size_t tiles = (n_rows + ROW_TILE - 1) / ROW_TILE, floats = result_floats(context);
    struct rf_share share;
    size_t begin, end;

    rf_share_begin(&share, worker, (size_t)params->n_head_kv * tiles, 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t item = begin; item < end; item++) {
            size_t head = item / tiles, row = item % tiles * ROW_TILE;
            size_t n = n_rows - row < ROW_TILE ? n_rows - row : ROW_TILE;
            size_t chunks =
                ((size_t)rows.first_pos + row + n + RF_ATTENTION_CHUNK - 1) / RF_ATTENTION_CHUNK;
            for (size_t i = 0; i < n * group; i++)
                merge_begin(scratch->merged + i * floats, context->padded_dim);
            for (size_t c = 0; c < chunks; c++) {
                for (size_t i = 0; i < n; i++)
                    ask(context, scratch, i, q, row + i, (size_t)rows.first_pos + row + i + 1, head,
                        c);
                partial(context, scratch, n, layer, head, c, scratch->partial);
                for (size_t i = 0; i < n * group; i++)
                    merge(scratch->merged + i * floats, scratch->partial + i * floats,
                          context->padded_dim);
            }
            for (size_t i = 0; i < n * group; i++)
                finish(attended_row(context, row + i / group) + (head * group + i % group) * dim,
                       scratch->merged + i * floats, dim, context->padded_dim);
        }
    rf_team_barrier(worker);

    rf_share_begin(&share, worker, n_rows, 4, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin; row < end; row++)
            pack_row(context, out, row, attended_row(context, row));
    rf_team_barrier(worker);
}

void cpu_attention(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                   struct rf_rows rows, const struct rf_buffer *q, struct rf_buffer *out)
{
    if (rows.n_rows <= FEW_ROWS)
        few_rows(context, worker, layer, rows, q, out);
    else
        many_rows(context, worker, layer, rows, q, out);
}
