/* Memory of a view for the time of its passes, and the rows of operands in it. The files of the
 * operations and view.c take both from here. Rows by expert: an expert's rows are packed as one
 * call of a kernel reads them. */
#include <string.h>

#include "base/half.h"
#include "cpu/cpu.h"

void *rf_cpu_view_alloc(struct cpu_view *view, size_t count, size_t size, struct rf_error *error)
{
    static const char what[] = "activations";
    const struct rf_allocator *allocator = view->queue->base.backend->allocator;
    struct cpu_owned *node = rf_malloc(allocator, 1, sizeof *node, what, error);
    if (!node) return NULL;
    node->memory = rf_malloc(allocator, count, size, what, error);
    node->next = view->owned;
    view->owned = node;
    return node->memory;
}

void rf_cpu_view_release(struct cpu_view *view)
{
    const struct rf_allocator *allocator = view->queue->base.backend->allocator;
    while (view->owned) {
        struct cpu_owned *node = view->owned;
        view->owned = node->next;
        rf_free(allocator, node->memory);
        rf_free(allocator, node);
    }
    rf_free(allocator, view->partials);
    rf_free(allocator, view->mixed);
    view->mixed = NULL;
    view->most_mixed = 0;
    view->partials = NULL;
    view->n_partials = 0;
}

/* Some tiers pack BF16 rows in tiles of several: each expert's begin with a tile. */
static size_t expert_tile_bytes(const struct cpu_view *view, enum rf_operand form, size_t width)
{
    return (view->kernels->packed_bytes[form](1, width) + 63) & ~(size_t)63;
}

static size_t expert_operand_before(const struct cpu_view *view, enum rf_operand form, size_t width,
                                    size_t rows, size_t groups)
{
    size_t bytes = (view->kernels->packed_bytes[form](rows, width) + 63) & ~(size_t)63;
    return bytes + groups * expert_tile_bytes(view, form, width);
}

size_t rf_cpu_expert_operand_bytes(const struct cpu_view *view, enum rf_operand form, size_t rows,
                                   size_t width)
{
    size_t n = (size_t)view->params->n_expert;
    return expert_operand_before(view, form, width, rows, rows < n ? rows : n);
}

size_t rf_cpu_expert_operand_at(const struct cpu_view *view, enum rf_operand form, size_t group,
                                size_t width)
{
    return expert_operand_before(view, form, width, view->experts[group].first, group);
}

size_t rf_cpu_head_bytes(const struct cpu_view *view, enum rf_operand form, size_t width)
{
    size_t rows = (size_t)view->base.shape.max_rows;
    return (view->kernels->packed_bytes[form](rows, width) + 63) & ~(size_t)63;
}

void rf_cpu_pack_head(const struct cpu_view *view, struct cpu_buffer *operand, size_t i,
                      size_t head, const float *x)
{
    size_t width = operand->width / (size_t)view->params->n_head;
    struct rf_pack_args args = {.row = i, .k = width, .x = x, .n = width, .most = view->n_rows};
    for (int form = 0; form < RF_OPERAND_COUNT; form++) {
        if (!operand->forms[form]) continue;
        args.packed = (char *)operand->forms[form] +
                      head * rf_cpu_head_bytes(view, (enum rf_operand)form, width);
        view->kernels->pack[form](&args);
    }
}

/* A whole row in three parts (RF_SPLIT_PARTS). */
static void pack_split(const struct cpu_view *view, const struct cpu_buffer *operand, size_t i,
                       const float *x)
{
    size_t n = operand->width;
    float *parts = view->split_rows + i * view->split_row_floats;
    for (size_t j = 0; j < n; j++) {
        parts[j] = parts[n + j] = x[j];
        parts[2 * n + j] = x[j] - rf_bf16_to_f32(rf_f32_to_bf16(x[j]));
    }
    struct rf_pack_args args = {.packed = operand->forms[CPU_SPLIT],
                                .row = i,
                                .k = RF_SPLIT_PARTS * n,
                                .x = parts,
                                .n = RF_SPLIT_PARTS * n,
                                .most = view->n_rows};
    view->kernels->pack[RF_OPERAND_BF16](&args);
}

void rf_cpu_pack(const struct cpu_view *view, struct cpu_buffer *operand, size_t i, size_t first,
                 size_t n, const float *x)
{
    struct rf_pack_args args = {
        .row = i, .k = operand->width, .x = x, .first = first, .n = n, .most = view->n_rows};
    size_t group = operand->by_expert ? view->expert_rows[i].group : 0;
    if (operand->by_expert) args.row -= view->experts[group].first;
    if (operand->data) memcpy(buffer_row(operand, i) + first, x, n * sizeof *x);
    if (operand->forms[CPU_SPLIT]) pack_split(view, operand, i, x);
    for (int form = 0; form < RF_OPERAND_COUNT; form++) {
        if (!operand->forms[form]) continue;
        args.packed = operand->forms[form];
        if (operand->by_expert)
            args.packed =
                (char *)operand->forms[form] +
                rf_cpu_expert_operand_at(view, (enum rf_operand)form, group, operand->width);
        view->kernels->pack[form](&args);
    }
}
