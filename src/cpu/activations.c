/* What a view works with: memory for the time of its passes, and rows of operands. */
#include <string.h>

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
    view->partials = NULL;
    view->n_partials = 0;
}

void rf_cpu_pack(const struct cpu_view *view, struct cpu_buffer *operand, size_t i, size_t first,
                 size_t n, const float *x)
{
    struct rf_pack_args args = {.row = i, .k = operand->width, .x = x, .first = first, .n = n};
    if (operand->data) memcpy(buffer_row(operand, i) + first, x, n * sizeof *x);
    for (int form = 0; form < RF_OPERAND_COUNT; form++) {
        args.packed = operand->forms[form];
        if (args.packed) view->kernels->pack[form](&args);
    }
}
