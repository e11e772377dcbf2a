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

void rf_cpu_pack_row(const struct cpu_view *view, struct cpu_buffer *operand, size_t i,
                     const float *x)
{
    if (operand->data) memcpy(buffer_row(operand, i), x, operand->width * sizeof *x);
    for (int form = 0; form < RF_OPERAND_COUNT; form++)
        if (operand->forms[form])
            view->kernels->pack[form](operand->forms[form], i, x, operand->width);
}

void rf_cpu_pack_part(const struct cpu_view *view, struct cpu_buffer *operand, size_t i,
                      size_t first, size_t n, const float *x)
{
    if (n == operand->width) {
        rf_cpu_pack_row(view, operand, i, x);
        return;
    }
    if (operand->data) memcpy(buffer_row(operand, i) + first, x, n * sizeof *x);
    struct rf_a8 *a8 = operand->forms[RF_OPERAND_A8];
    uint16_t *a16 = operand->forms[RF_OPERAND_A16];
    if (a8)
        view->kernels->pack[RF_OPERAND_A8](a8 + i * rf_a8_stride(operand->width) + first / RF_BLOCK,
                                           0, x, n);
    if (a16)
        view->kernels->pack[RF_OPERAND_A16](a16 + i * rf_a16_stride(operand->width) + first, 0, x,
                                            n);
}
