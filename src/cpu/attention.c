/* Attention. Every chunk of positions gives a partial result for each query: RF_ATTENTION_CHUNK of
 * them, or RF_KV_SPAN groups where the cache quantises. Partial results are merged in the order of
 * the chunks. Chunks start at fixed positions, and which groups a row reads quantised depends on
 * its position alone (enum rf_kv_type), so a query's bits depend on nothing else. In a chunk its
 * quantised groups come first, then the positions that lie in blocks of 16 bits.
 *
 * With few rows the workers share heads and chunks, and merge afterwards. With many they share
 * heads and rows, and each merges its own. The arithmetic is the same.
 *
 * Rows of a tree are taken branch by branch. One worker has each chunk that the pass writes to. It
 * copies a branch's keys and values to the slots of their positions, so that the kernel sees a
 * plain sequence. Then it does the same with the next branch, and restores the chunk in the end. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

enum {
    ROW_TILE = 24 /* rows that a worker takes at a time when there are many */
};
_Static_assert(RF_WINDOW_STEP % RF_ATTENTION_CHUNK == 0 &&
                   RF_WINDOW_STEP % (RF_KV_SPAN * RF_KV_GROUP) == 0,
               "windows are whole chunks");

/* A worker's lists for one call of the kernel: the queries of some rows and one KV head. */
struct attention_scratch {
    const float **q;    /* [queries] */
    int32_t *first;     /* [queries] first position seen, counted from the chunk's start */
    int32_t *visible;   /* [queries] end of the visible part, likewise */
    int32_t *groups;    /* [queries] groups of the chunk that the query reads quantised */
    int32_t *within[2]; /* [queries] first and visible, for one call */
    float *piece;       /* [queries][padded_dim + 2] results of one call */
    float *partial;     /* [ROW_TILE * heads of a group][padded_dim + 2] */
    float *merged;      /* the same shape */
};

static size_t view_chunks(const struct cpu_view *view, size_t positions)
{
    return (positions + view->chunk - 1) / view->chunk;
}

/* Query heads that share one KV head. */
static size_t group_size(const struct cpu_view *view, const struct rf_op *op)
{
    return (size_t)(view->params->n_head / rf_n_head_kv(view->params, op->layer));
}

static size_t head_dim(const struct cpu_view *view, const struct rf_op *op)
{
    return (size_t)rf_head_dim(view->params, op->layer);
}

/* Elements of a head in V and in results. */
static size_t padded_dim(const struct cpu_view *view, const struct rf_op *op)
{
    return rf_padded(head_dim(view, op));
}

static size_t result_floats(const struct cpu_view *view, const struct rf_op *op)
{
    return padded_dim(view, op) + 2;
}

/* The same where layers differ: the most of any. */
static size_t most_group(const struct rf_params *params)
{
    size_t a = (size_t)(params->n_head / params->n_head_kv),
           b = params->window_n_head_kv ? (size_t)(params->n_head / params->window_n_head_kv) : 0;
    return a > b ? a : b;
}

static size_t most_floats(const struct rf_params *params)
{
    return rf_padded((size_t)rf_most_head_dim(params)) + 2;
}

int rf_cpu_attention_new(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_params *params = view->params;
    size_t queries = most_group(params) * RF_TREE_ROWS, tile = most_group(params) * ROW_TILE;
    size_t workers = (size_t)rf_team_size(view->queue->team), n_head = (size_t)params->n_head;
    view->chunk =
        rf_kv_is_quantised(view->base.shape.kv) ? RF_KV_SPAN * RF_KV_GROUP : RF_ATTENTION_CHUNK;
    size_t result = most_floats(params) * sizeof(float);
    view->attended = rf_cpu_view_alloc(view, (size_t)view->base.shape.max_rows * n_head,
                                       (size_t)rf_most_head_dim(params) * sizeof(float), error);
    view->tree_entries = rf_cpu_view_alloc(view, (size_t)rf_most_head_kv(params) * RF_TREE_ROWS,
                                           rf_cpu_entry_elements(params) * sizeof(uint16_t), error);
    view->scratch = rf_cpu_view_alloc(view, workers, sizeof *view->scratch, error);
    if (params->v_norm) {
        view->ones =
            rf_cpu_view_alloc(view, (size_t)rf_most_head_dim(params), sizeof(float), error);
        if (!view->ones) return RF_ERR_MEMORY;
        for (int32_t j = 0; j < rf_most_head_dim(params); j++) view->ones[j] = 1;
    }
    if (!view->attended || !view->tree_entries || !view->scratch) return RF_ERR_MEMORY;
    for (size_t t = 0; t < workers; t++) {
        struct attention_scratch *scratch = &view->scratch[t];
        scratch->q = rf_cpu_view_alloc(view, queries, sizeof *scratch->q, error);
        scratch->first = rf_cpu_view_alloc(view, queries, sizeof *scratch->first, error);
        scratch->visible = rf_cpu_view_alloc(view, queries, sizeof *scratch->visible, error);
        scratch->groups = rf_cpu_view_alloc(view, queries, sizeof *scratch->groups, error);
        for (int i = 0; i < 2; i++)
            scratch->within[i] = rf_cpu_view_alloc(view, queries, sizeof(int32_t), error);
        scratch->piece = rf_cpu_view_alloc(view, queries, result, error);
        scratch->partial = rf_cpu_view_alloc(view, tile, result, error);
        scratch->merged = rf_cpu_view_alloc(view, tile, result, error);
        if (!scratch->q || !scratch->first || !scratch->visible || !scratch->groups ||
            !scratch->within[0] || !scratch->within[1] || !scratch->piece || !scratch->partial ||
            !scratch->merged)
            return RF_ERR_MEMORY;
    }
    return 0;
}

uint16_t *rf_cpu_tree_entry(const struct cpu_view *view, size_t head, size_t row)
{
    return view->tree_entries + (head * RF_TREE_ROWS + row) * rf_cpu_entry_elements(view->params);
}

/* ---- before a pass ---- */

static int has_few_rows(const struct cpu_view *view)
{
    return view->has_trees || view->n_rows <= RF_FEW_ROWS;
}

static void find_branches(const struct rf_rows *rows, int32_t *order, size_t *branch_end)
{
    char taken[RF_MAX_ROWS] = {0};
    size_t begin = 0, b = 0;
    for (int32_t last = rows->n - 1; last >= 0; last--) {
        if (taken[last]) continue;
        size_t n = 0;
        for (int32_t i = last; i >= 0 && !taken[i]; n++) {
            taken[i] = 1;
            i = rows->parents ? rows->parents[i] : i - 1;
        }
        branch_end[b++] = begin + n;
        for (int32_t i = last; n > 0; i = rows->parents ? rows->parents[i] : i - 1)
            order[begin + --n] = i;
        begin = branch_end[b - 1];
    }
}

/* Number of parts that the n rows of a sequence, or the queries of latent attention, whose heads
 * all read one key, are cut into where its heads and chunks are too few for all workers. */
static size_t parts_of_rows(const struct cpu_view *view, size_t items, size_t n)
{
    size_t wanted = 2 * (size_t)rf_team_places(view->queue->team);
    size_t parts = items < wanted ? (wanted + items - 1) / items : 1;
    return parts < n ? parts : n;
}

int rf_cpu_attention_prepare(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_allocator *allocator = view->queue->base.backend->allocator;
    const struct rf_params *params = view->params;
    size_t longest = 0, floats = 0, items = 0, n_head = (size_t)params->n_head;
    int is_few = has_few_rows(view);
    for (int32_t g = 0; g < view->pass->n_groups; g++) {
        struct cpu_group *group = &view->groups[g];
        size_t n = (size_t)group->rows->n, n_ctx = (size_t)group->cache->base.shape.n_ctx;
        if (longest < n_ctx) longest = n_ctx;
        group->chunks = view_chunks(view, (size_t)group->rows->first_pos + n);
        group->first_item = items;
        group->partials = floats;
        group->parts = is_few ? 1 : (n + ROW_TILE - 1) / ROW_TILE;
        size_t whole = (size_t)rf_most_head_kv(params) * (is_few ? group->chunks : 1);
        group->parted = params->latent ? n * most_group(params) : n;
        if (is_few && !group->rows->parents)
            group->parts = parts_of_rows(view, whole, group->parted);
        items += whole * group->parts;
        if (!is_few) continue;
        floats += n * n_head * group->chunks * most_floats(params);
        group->order = view->order + group->first;
        group->branch_end = view->branch_ends + group->first;
        find_branches(group->rows, view->order + group->first, view->branch_ends + group->first);
    }
    view->n_items = items;
    if (floats <= view->n_partials) return 0;
    /* Enough for any pass over contexts of this length. Pages that are never written take no
     * memory. */
    size_t rows = view->has_trees ? RF_TREE_ROWS : RF_FEW_ROWS;
    view->n_partials = 0;
    rf_free(allocator, view->partials);
    floats = rows * n_head * view_chunks(view, longest) * most_floats(params);
    view->partials = rf_malloc(allocator, floats, sizeof *view->partials, "attention", error);
    if (!view->partials) return RF_ERR_MEMORY;
    view->n_partials = floats;
    return 0;
}

/* The group that an item belongs to. */
static const struct cpu_group *group_of_item(const struct cpu_view *view, size_t item)
{
    int32_t g = view->pass->n_groups - 1;
    while (view->groups[g].first_item > item) g--;
    return &view->groups[g];
}

/* ---- one call of the kernel ---- */

/* An operation, and the queries that it reads. */
struct attention {
    const struct rf_op *op;
    const struct cpu_buffer *q;
};

/* The first position that a row sees. */
static size_t first_seen(const struct rf_op *op, size_t position)
{
    size_t window = (size_t)op->window;
    return window > 0 && position >= window ? position - window + 1 : 0;
}

/* The position behind the last one that a row sees. */
static size_t seen_end(const struct cpu_view *view, const struct rf_op *op, size_t row)
{
    const struct rf_rows *rows = view->groups[view->rows[row].group].rows;
    int32_t end = rows->first_pos + rows->n, position = view->rows[row].position;
    if (!op->is_whole) return (size_t)position + 1;
    return (size_t)(op->window && op->window < end - position ? position + op->window : end);
}

/* The first chunk that a row sees. Results over chunks that it does not see are not merged. */
static size_t first_chunk(const struct cpu_view *view, const struct rf_op *op, size_t row)
{
    return first_seen(op, (size_t)view->rows[row].position) / view->chunk;
}

/* Whether a row reads a chunk. A view's window ends where chunks do. */
static int reads_chunk(const struct cpu_view *view, const struct rf_op *op, size_t row,
                       size_t chunk)
{
    return chunk >= first_chunk(view, op, row) &&
           (!view->base.shape.has_window ||
            rf_window_has(view->rows[row].position, (int32_t)(chunk * view->chunk)));
}

/* x - from, within 0 .. most. */
static int32_t clamp_part(size_t x, size_t from, size_t most)
{
    size_t part = x > from ? x - from : 0;
    return (int32_t)(part < most ? part : most);
}

/* Groups of a chunk that a row reads quantised. */
static int32_t quantised_groups(const struct cpu_view *view, size_t row, size_t chunk)
{
    if (!rf_kv_is_quantised(view->base.shape.kv)) return 0;
    size_t group = (size_t)view->rows[row].position / RF_KV_GROUP;
    return clamp_part(group > 0 ? group - 1 : 0, chunk * RF_KV_SPAN, RF_KV_SPAN);
}

/* Makes row `row` of the pass the i-th of the lists for a KV head and a chunk. */
static void list_row(const struct cpu_view *view, struct attention_scratch *scratch, size_t i,
                     const struct attention *what, size_t row, size_t head, size_t chunk)
{
    size_t dim = head_dim(view, what->op), heads = group_size(view, what->op);
    size_t seen = first_seen(what->op, (size_t)view->rows[row].position);
    size_t start = chunk * view->chunk, end = seen_end(view, what->op, row);
    int32_t visible = clamp_part(end, start, view->chunk),
            first = clamp_part(seen, start, view->chunk);
    int32_t groups = quantised_groups(view, row, chunk);
    for (size_t h = 0; h < heads; h++) {
        scratch->q[i * heads + h] = buffer_row(what->q, row) + (head * heads + h) * dim;
        scratch->first[i * heads + h] = first;
        scratch->visible[i * heads + h] = visible;
        scratch->groups[i * heads + h] = groups;
    }
}

/* One head of a layer over one chunk. */
struct place {
    const struct cpu_cache *cache;
    size_t head, chunk;
    const struct rf_op *op;
};

/* The result over no positions. */
static void merge_nothing(float *running, size_t padded)
{
    memset(running, 0, (padded + 2) * sizeof *running);
    running[padded] = -INFINITY;
}

/* Takes a later partial result into the running one. */
static void merge_result(float *running, const float *later, size_t padded)
{
    float *max = running + padded, *sum = running + padded + 1, later_max = later[padded];
    if (later_max == -INFINITY) return;
    float top = fmaxf(*max, later_max);
    float keep = expf(*max - top), take = expf(later_max - top);
    for (size_t j = 0; j < padded; j++) running[j] = running[j] * keep + later[j] * take;
    *sum = *sum * keep + later[padded + 1] * take;
    *max = top;
}

/* Adjacent queries of the lists that read the same groups quantised. */
struct run {
    const struct attention_scratch *scratch;
    size_t begin, n;
    float *out; /* the first query's result */
};

/* Attends in 16 bits to the positions [start, end) of the chunk, which lie in one block. */
static void attend_block(const struct cpu_view *view, const struct place *at, const struct run *run,
                         size_t start, size_t end, float *out)
{
    size_t dim = head_dim(view, at->op), position = at->chunk * view->chunk + start;
    size_t block = position / RF_KV_POSITIONS, within = position % RF_KV_POSITIONS;
    int32_t *first = run->scratch->within[0], *visible = run->scratch->within[1];
    for (size_t i = 0; i < run->n; i++) {
        first[i] = clamp_part((size_t)run->scratch->first[run->begin + i], start, end - start);
        visible[i] = clamp_part((size_t)run->scratch->visible[run->begin + i], start, end - start);
        if (first[i] >= visible[i]) first[i] = visible[i] = 0;
    }
    struct rf_attention_args args = {
        .q = run->scratch->q + run->begin,
        .first = first,
        .visible = visible,
        .n_q = run->n,
        .k = k_cache(at->cache, block, at->op->layer, at->head) + within * dim,
        .v = v_cache(at->cache, block, at->op->layer, at->head) + within * padded_dim(view, at->op),
        .head_dim = dim,
        .scale = at->op->scale,
        .cap = at->op->cap,
        .out = out,
        .ldo = result_floats(view, at->op)};
    if (at->cache->base.shape.kv == RF_KV_BF16)
        view->kernels->attention_bf16(&args);
    else
        view->kernels->attention_f16(&args);
}

/* Attends to the quantised groups [first, n) of the chunk. */
static void attend_quantised(const struct cpu_view *view, const struct place *at,
                             const struct run *run, size_t first, size_t n)
{
    struct rf_kv_group groups[RF_KV_SPAN + 1]; /* the last: the one that is read next */
    size_t begin = at->chunk * RF_KV_SPAN + first, end = at->chunk * RF_KV_SPAN + n;
    size_t cached = rf_cpu_cache_has_group(at->cache, at->op->layer, end) ? end + 1 : end;
    for (size_t g = begin; g < cached; g++)
        groups[g - begin] =
            rf_cpu_cache_group(at->cache, at->op->layer, at->head, g, view->base.shape.kv);
    int32_t *within = run->scratch->within[0];
    for (size_t i = 0; i < run->n; i++)
        within[i] = run->scratch->first[run->begin + i] - (int32_t)(first * RF_KV_GROUP);
    struct rf_attention_kv_args args = {.q = run->scratch->q + run->begin,
                                        .first = at->op->window ? within : NULL,
                                        .n_q = run->n,
                                        .groups = groups,
                                        .n_groups = end - begin,
                                        .next = cached > end ? &groups[end - begin] : NULL,
                                        .head_dim = head_dim(view, at->op),
                                        .scale = at->op->scale,
                                        .cap = at->op->cap,
                                        .out = run->out,
                                        .ldo = result_floats(view, at->op)};
    view->kernels->attention_kv(&args);
}

/* The first group that query i of the lists reads quantised, if any. */
static size_t first_group(const struct attention_scratch *scratch, size_t i)
{
    int32_t group = scratch->first[i] / RF_KV_GROUP;
    return (size_t)(group < scratch->groups[i] ? group : scratch->groups[i]);
}

static void attend_run(const struct cpu_view *view, const struct place *at, const struct run *run)
{
    const struct attention_scratch *scratch = run->scratch;
    size_t floats = result_floats(view, at->op), padded = padded_dim(view, at->op), end = 0;
    size_t groups = (size_t)scratch->groups[run->begin], start = groups * RF_KV_GROUP;
    size_t seen = SIZE_MAX;
    for (size_t i = run->begin; i < run->begin + run->n; i++) {
        if (end < (size_t)scratch->visible[i]) end = (size_t)scratch->visible[i];
        if (seen > (size_t)scratch->first[i]) seen = (size_t)scratch->first[i];
    }
    /* Blocks that no query sees may be given up. */
    seen = seen / RF_KV_POSITIONS * RF_KV_POSITIONS;
    if (start < seen) start = seen;
    int has_result = first_group(scratch, run->begin) < groups;
    if (has_result) attend_quantised(view, at, run, first_group(scratch, run->begin), groups);
    for (size_t next; start < end; start = next) {
        next = (start / RF_KV_POSITIONS + 1) * RF_KV_POSITIONS;
        float *out = has_result ? scratch->piece : run->out;
        attend_block(view, at, run, start, next < end ? next : end, out);
        for (size_t i = 0; has_result && i < run->n; i++)
            merge_result(run->out + i * floats, out + i * floats, padded);
        has_result = 1;
    }
    for (size_t i = 0; !has_result && i < run->n; i++) merge_nothing(run->out + i * floats, padded);
}

/* Whether query i of the lists can be in one call with the one before it. */
static int joins_run(const struct attention_scratch *scratch, size_t i)
{
    return scratch->groups[i] == scratch->groups[i - 1] &&
           first_group(scratch, i) == first_group(scratch, i - 1);
}

/* Partial results of the queries [begin, n) of the lists over one chunk, to out. */
static void attend_chunk(const struct cpu_view *view, const struct attention_scratch *scratch,
                         size_t begin, size_t n, struct place at, float *out)
{
    size_t floats = result_floats(view, at.op);
    for (size_t i = begin, end; i < n; i = end) {
        for (end = i + 1; end < n && joins_run(scratch, end);) end++;
        struct run run = {scratch, i, end - i, out + (i - begin) * floats};
        attend_run(view, &at, &run);
    }
}

/* Begins a result with the head's sink, if there is one: a score without a value. */
static void merge_sink(float *running, size_t padded, const struct rf_op *op, size_t head)
{
    merge_nothing(running, padded);
    if (!op->weight[0]) return;
    running[padded] = op->weight[0]->f32[head];
    running[padded + 1] = 1.0f;
}

static void finish_head(float *out, const float *running, size_t dim, size_t padded)
{
    float scale = 1.0f / running[padded + 1];
    for (size_t j = 0; j < dim; j++) out[j] = running[j] * scale;
}

static float *attended_row(const struct cpu_view *view, size_t row)
{
    return view->attended +
           row * (size_t)view->params->n_head * (size_t)rf_most_head_dim(view->params);
}

/* ---- few rows ---- */

/* A KV head and chunk of a layer that one worker rearranges. It records which row's entry lies at
 * each slot. */
struct lent_chunk {
    const struct cpu_view *view;
    const struct cpu_group *group;
    size_t head, chunk;
    int32_t layer;
    int32_t at[RF_TREE_ROWS];
};

/* Copies a row's entry to `place`, counted from the first position of the group's rows. */
static void lay_entry(struct lent_chunk *lent, size_t place, int32_t row)
{
    const struct cpu_group *group = lent->group;
    size_t pos = (size_t)group->rows->first_pos + place;
    if (lent->at[place] == row || pos / lent->view->chunk != lent->chunk) return;
    rf_cpu_cache_put(group->cache, lent->layer, lent->head, pos,
                     rf_cpu_tree_entry(lent->view, lent->head, group->first + (size_t)row));
    lent->at[place] = row;
}

/* Partial results of the queries [begin, end) of the rows in a group's order, for one KV head over
 * one chunk. */
static void attend_rows_of_group(const struct cpu_view *view, struct attention_scratch *scratch,
                                 const struct cpu_group *group, const struct attention *what,
                                 size_t head, size_t chunk, size_t begin, size_t end, float *out)
{
    size_t heads = group_size(view, what->op), first = begin / heads;
    for (size_t i = first; i * heads < end; i++)
        list_row(view, scratch, i - first, what, group->first + (size_t)group->order[i], head,
                 chunk);
    attend_chunk(view, scratch, begin - first * heads, end - first * heads,
                 (struct place){group->cache, head, chunk, what->op},
                 out + begin * result_floats(view, what->op));
}

/* Partial results of all rows of a tree, branch by branch. */
static void attend_branches(const struct cpu_view *view, struct attention_scratch *scratch,
                            const struct cpu_group *group, const struct attention *what,
                            size_t head, size_t chunk, float *out)
{
    const struct rf_rows *rows = group->rows;
    const struct cpu_row *of_pass = view->rows + group->first;
    size_t n_rows = (size_t)rows->n;
    /* A chunk that the pass does not write to is the same for all branches. */
    int is_written = (chunk + 1) * view->chunk > (size_t)rows->first_pos;
    struct lent_chunk lent = {
        .view = view, .group = group, .head = head, .chunk = chunk, .layer = what->op->layer};
    for (size_t i = 0; i < n_rows; i++) lent.at[i] = (int32_t)i;

    for (size_t begin = 0, b = 0, end; begin < n_rows; begin = end, b++) {
        end = is_written ? group->branch_end[b] : n_rows;
        for (int32_t row = group->order[end - 1]; is_written && row >= 0; row = rows->parents[row])
            lay_entry(&lent, (size_t)(of_pass[row].position - rows->first_pos), row);
        attend_rows_of_group(view, scratch, group, what, head, chunk,
                             begin * group_size(view, what->op), end * group_size(view, what->op),
                             out);
    }
    for (size_t i = 0; i < n_rows; i++) lay_entry(&lent, i, (int32_t)i);
}

/* One head of the i-th row in a group's order, from its partial results over all chunks. */
static void merge_chunks(const struct cpu_view *view, const struct rf_op *op,
                         const struct cpu_group *group, size_t i, size_t h, float *running)
{
    size_t heads = group_size(view, op), floats = result_floats(view, op);
    size_t queries = (size_t)group->rows->n * heads;
    const float *of_head = view->partials + group->partials +
                           (h / heads * group->chunks * queries + i * heads + h % heads) * floats;
    size_t row = group->first + (size_t)group->order[i];
    merge_sink(running, padded_dim(view, op), op, h);
    for (size_t c = first_chunk(view, op, row); c < group->chunks; c++)
        if (reads_chunk(view, op, row, c))
            merge_result(running, of_head + c * queries * floats, padded_dim(view, op));
}

static void attend_few_rows(struct cpu_view *view, struct rf_worker *worker,
                            const struct attention *what, struct cpu_buffer *out)
{
    struct attention_scratch *scratch = &view->scratch[worker->index];
    size_t n_head = (size_t)view->params->n_head, dim = head_dim(view, what->op);
    size_t n_kv = (size_t)rf_n_head_kv(view->params, what->op->layer);

    /* partials of a group: [KV head][chunk][row in the order of branches][head of the KV head] */
    struct cpu_items items = cpu_items(worker, view->n_items, 1);
    for (size_t item; cpu_items_next(&items, &item);) {
        const struct cpu_group *group = group_of_item(view, item);
        size_t part = (item - group->first_item) % group->parts;
        size_t at = (item - group->first_item) / group->parts, n = (size_t)group->rows->n,
               queries =
                   n * group_size(view, what->op) / group->parted; /* of what is cut into parts */
        size_t head = at / group->chunks, chunk = at % group->chunks;
        /* No row of the group stands before its first one. */
        if (head >= n_kv || !reads_chunk(view, what->op, group->first, chunk)) continue;
        float *results = view->partials + group->partials +
                         at * n * group_size(view, what->op) * result_floats(view, what->op);
        if (group->rows->parents)
            attend_branches(view, scratch, group, what, head, chunk, results);
        else
            attend_rows_of_group(view, scratch, group, what, head, chunk,
                                 group->parted * part / group->parts * queries,
                                 group->parted * (part + 1) / group->parts * queries, results);
    }

    /* Single heads, if a head is a whole number of the operand's parts. */
    size_t parts = has_parts(out) && dim % RF_BLOCK == 0 ? n_head : 1, heads = n_head / parts;
    items = cpu_items(worker, view->n_rows * parts, 1);
    for (size_t item; cpu_items_next(&items, &item);) {
        const struct cpu_group *group = &view->groups[view->rows[item / parts].group];
        size_t i = item / parts - group->first, first = item % parts * heads;
        size_t row = group->first + (size_t)group->order[i];
        float *attended = attended_row(view, row);
        for (size_t h = first; h < first + heads; h++) {
            merge_chunks(view, what->op, group, i, h, scratch->merged);
            finish_head(attended + h * dim, scratch->merged, dim, padded_dim(view, what->op));
        }
        rf_cpu_pack(view, out, row, first * dim, heads * dim, attended + first * dim);
    }
}

/* ---- many rows ---- */

static void attend_tile(const struct cpu_view *view, struct attention_scratch *scratch,
                        const struct cpu_group *group, const struct attention *what, size_t head,
                        size_t tile)
{
    size_t heads = group_size(view, what->op), dim = head_dim(view, what->op);
    size_t floats = result_floats(view, what->op), left = (size_t)group->rows->n - tile * ROW_TILE;
    size_t first = group->first + tile * ROW_TILE, n = left < ROW_TILE ? left : ROW_TILE;
    size_t chunks = view_chunks(view, seen_end(view, what->op, first + n - 1));
    for (size_t i = 0; i < n * heads; i++)
        merge_sink(scratch->merged + i * floats, padded_dim(view, what->op), what->op,
                   head * heads + i % heads);
    for (size_t c = first_chunk(view, what->op, first); c < chunks; c++) {
        if (!reads_chunk(view, what->op, first, c)) continue;
        for (size_t i = 0; i < n; i++) list_row(view, scratch, i, what, first + i, head, c);
        attend_chunk(view, scratch, 0, n * heads, (struct place){group->cache, head, c, what->op},
                     scratch->partial);
        for (size_t i = 0; i < n * heads; i++)
            if (reads_chunk(view, what->op, first + i / heads, c))
                merge_result(scratch->merged + i * floats, scratch->partial + i * floats,
                             padded_dim(view, what->op));
    }
    for (size_t i = 0; i < n * heads; i++)
        finish_head(attended_row(view, first + i / heads) + (head * heads + i % heads) * dim,
                    scratch->merged + i * floats, dim, padded_dim(view, what->op));
}

static void attend_many_rows(struct cpu_view *view, struct rf_worker *worker,
                             const struct attention *what, struct cpu_buffer *out)
{
    size_t n_kv = (size_t)rf_n_head_kv(view->params, what->op->layer);
    struct cpu_items items = cpu_items(worker, view->n_items, 1);
    for (size_t item; cpu_items_next(&items, &item);) {
        const struct cpu_group *group = group_of_item(view, item);
        size_t at = item - group->first_item;
        if (at / group->parts >= n_kv) continue;
        attend_tile(view, &view->scratch[worker->index], group, what, at / group->parts,
                    at % group->parts);
    }

    items = cpu_items(worker, view->n_rows, 4);
    for (size_t row; cpu_items_next(&items, &row);)
        rf_cpu_pack(view, out, row, 0, out->width, attended_row(view, row));
}

void rf_cpu_attention(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct attention what = {op, &view->buffers[op->in[0]]};
    struct cpu_buffer *out = &view->buffers[op->out[0]];
    if (has_few_rows(view))
        attend_few_rows(view, worker, &what, out);
    else
        attend_many_rows(view, worker, &what, out);
}
