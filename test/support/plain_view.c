/* Views, and the passes that they are given. */
#include <math.h>
#include <string.h>

#include "support/plain.h"

/* ---- views ---- */

static const struct rf_allocator *allocator_of(const struct plain_view *view)
{
    return view->queue->base.backend->allocator;
}

/* A pass that was submitted and is not done ends here. */
static void forget(struct plain_view *view)
{
    view->is_pending = 0;
    view->queue->pending = NULL;
    for (int32_t g = 0; g < view->pass.n_groups; g++)
        ((struct plain_cache *)view->pass.groups[g].cache)->pending = NULL;
}

void plain_view_free(struct rf_view *base)
{
    if (!base) return;
    struct plain_view *view = (struct plain_view *)base;
    struct rf_backend *backend = view->queue->base.backend;
    begin_work(backend);
    if (view->is_pending) forget(view);
    for (int s = 0; s < RF_MAX_SLOTS; s++)
        plain_memory_give(plain_memory_of(backend), view->slots[s]);
    end_work(backend);
    rf_free(backend->allocator, view->logits);
    for (int t = 0; t < RF_MAX_TAPS; t++) rf_free(backend->allocator, view->taps[t]);
    rf_free(backend->allocator, view->rows);
    rf_free(backend->allocator, view->turns);
    rf_free(backend->allocator, view->sums);
    rf_free(backend->allocator, view->rounded);
    rf_free(backend->allocator, view->choices);
    rf_free(backend->allocator, view->scores);
    rf_free(backend->allocator, (void *)view->entries);
    rf_free(backend->allocator, view);
}

int32_t plain_rows_of(const struct plain_view *view, enum rf_slot slot)
{
    return view->base.shape.program->slots[slot].by_expert ? view->params->n_expert_used : 1;
}

/* Allocates the buffers that the device computes with. */
static int take_slots(struct plain_view *view, struct rf_error *error)
{
    const struct rf_program *program = view->base.shape.program;
    struct rf_backend *backend = view->queue->base.backend;
    int code = 0;
    begin_work(backend);
    for (int32_t s = 0; !code && s < program->n_slots; s++) {
        int32_t rows =
            s == RF_SLOT_LOGITS ? view->base.shape.max_logits : view->base.shape.max_rows;
        if (!program->slots[s].width) continue;
        rows *= plain_rows_of(view, (enum rf_slot)s);
        view->slots[s] =
            plain_memory_take(plain_memory_of(backend),
                              (size_t)rows * (size_t)program->slots[s].width, "a view", error);
        if (!view->slots[s]) code = RF_ERR_MEMORY;
    }
    end_work(backend);
    return code;
}

static int take_host_memory(struct plain_view *view, struct rf_error *error)
{
    const struct rf_allocator *allocator = allocator_of(view);
    const struct rf_program *program = view->base.shape.program;
    size_t rows = (size_t)view->base.shape.max_rows,
           half = (size_t)rf_most_rope_dim(view->params) / 2;
    size_t widest = 0;
    for (int32_t s = 0; s < program->n_slots; s++)
        if (widest < (size_t)program->slots[s].width) widest = (size_t)program->slots[s].width;
    view->rows = rf_malloc(allocator, rows, sizeof *view->rows, "view", error);
    view->turns = rf_malloc(allocator, rows * 2 * half * 2, sizeof(double), "view", error);
    view->sums = rf_malloc(allocator, widest, sizeof(double), "view", error);
    view->rounded = rf_malloc(allocator, widest, sizeof(float), "view", error);
    view->logits = rf_malloc(allocator, (size_t)view->base.shape.max_logits,
                             (size_t)view->params->n_vocab * sizeof(float), "view", error);
    view->choices = rf_malloc(allocator, rows * (size_t)view->params->n_expert_used,
                              sizeof *view->choices, "view", error);
    int is_short = !view->rows || !view->choices || !view->turns || !view->sums || !view->rounded ||
                   !view->logits;
    for (int32_t t = 0; !is_short && t < program->n_slots - RF_SLOT_TAP; t++) {
        view->taps[t] =
            rf_malloc(allocator, rows,
                      (size_t)program->slots[RF_SLOT_TAP + t].width * sizeof(float), "view", error);
        is_short = !view->taps[t];
    }
    return is_short ? RF_ERR_MEMORY : 0;
}

int plain_view_new(struct rf_view **out, struct rf_queue *queue, const struct rf_view_shape *shape,
                   struct rf_error *error)
{
    *out = NULL;
    int code = plain_fails("a view", error);
    if (code) return code;
    struct plain_view *view = rf_calloc(queue->backend->allocator, 1, sizeof *view, "view", error);
    if (!view) return RF_ERR_MEMORY;
    view->base.shape = *shape;
    view->queue = (struct plain_queue *)queue;
    view->params = shape->program->params;
    code = take_slots(view, error);
    if (!code) code = take_host_memory(view, error);
    if (code) {
        plain_view_free(&view->base);
        return code;
    }
    *out = &view->base;
    return 0;
}

/* ---- a pass ---- */

static int perform_body(struct plain_view *view, struct rf_error *error)
{
    const struct rf_program *program = view->base.shape.program;
    const atomic_int *cancel = view->base.cancel;
    /* A pass that is to fail does so after some of its operations. */
    int code = plain_fails("a pass", error);
    int32_t last =
        code ? (int32_t)(view->base.passes % (uint64_t)program->n_body) : program->n_body;
    for (int32_t o = 0; o < last; o++) {
        const struct rf_op *op = &program->body[o];
        if (op->may_stop && cancel && atomic_load(cancel))
            return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
        for (int32_t i = 0; i < view->n_rows; i++) plain_perform(view, op, i, i);
    }
    return code;
}

/* Does a submitted pass. */
void plain_finish(struct plain_view *view)
{
    if (!view || !view->is_pending) return;
    const struct rf_pass *pass = &view->pass;
    int code = 0;
    for (int32_t g = 0; !code && g < pass->n_groups; g++)
        code = plain_own_positions((struct plain_cache *)pass->groups[g].cache,
                                   pass->groups[g].first_pos,
                                   pass->groups[g].first_pos + pass->groups[g].n, &view->error);
    if (!code) code = perform_body(view, &view->error);
    for (int32_t i = 0; !code && i < pass->n_wanted; i++) plain_answer(view, i);
    for (int32_t g = 0; code && g < pass->n_groups; g++)
        plain_ruin_positions((struct plain_cache *)pass->groups[g].cache, pass->groups[g].first_pos,
                             pass->groups[g].first_pos + pass->groups[g].n);
    view->code = code;
    forget(view);
}

static void take_group(struct plain_view *view, const struct rf_rows *rows)
{
    int32_t first = view->n_rows;
    for (int32_t i = 0; i < rows->n; i++) {
        int32_t parent = rows->parents ? rows->parents[i] : i - 1;
        view->rows[first + i] = (struct row){
            .token = rows->tokens[i],
            .position = parent < 0 ? rows->first_pos : view->rows[first + parent].position + 1,
            .slot = rows->first_pos + i,
            .parent = parent < 0 ? -1 : first + parent,
            .group = rows};
    }
    view->n_rows += rows->n;
}

/* Room for what a row sees. */
static int reserve_scores(struct plain_view *view, const struct rf_pass *pass,
                          struct rf_error *error)
{
    const struct rf_allocator *allocator = allocator_of(view);
    size_t n = 0;
    for (int32_t g = 0; g < pass->n_groups; g++)
        if (n < (size_t)pass->groups[g].cache->shape.n_ctx)
            n = (size_t)pass->groups[g].cache->shape.n_ctx;
    if (n <= view->n_scores) return 0;
    view->n_scores = 0;
    rf_free(allocator, view->scores);
    rf_free(allocator, (void *)view->entries);
    view->scores = rf_malloc(allocator, n, sizeof *view->scores, "attention", error);
    view->entries = rf_malloc(allocator, n, sizeof *view->entries, "attention", error);
    if (!view->scores || !view->entries) return RF_ERR_MEMORY;
    view->n_scores = n;
    return 0;
}

/* Answers of the pass before are gone. */
static void ruin_answers(struct plain_view *view)
{
    const struct rf_view_shape *shape = &view->base.shape;
    plain_memory_ruin(view->logits, (size_t)shape->max_logits * (size_t)view->params->n_vocab);
    for (int32_t t = 0; t < shape->program->n_slots - RF_SLOT_TAP; t++)
        plain_memory_ruin(view->taps[t], (size_t)shape->max_rows *
                                             (size_t)shape->program->slots[RF_SLOT_TAP + t].width);
}

/* Only takes note of the pass: `sync`, or a call that has to wait for it, does the work. */
int plain_submit(struct rf_view *base, const struct rf_pass *pass, struct rf_error *error)
{
    struct plain_view *view = (struct plain_view *)base;
    int code = plain_fails("a submitted pass", error);
    if (code) return code;
    begin_work(base->backend);
    plain_finish(view->queue->pending);
    for (int32_t g = 0; g < pass->n_groups; g++)
        plain_finish(((struct plain_cache *)pass->groups[g].cache)->pending);
    view->n_rows = 0;
    for (int32_t g = 0; g < pass->n_groups; g++) take_group(view, &pass->groups[g]);
    code = reserve_scores(view, pass, error);
    if (!code) {
        ruin_answers(view);
        view->pass = *pass;
        view->is_pending = 1;
        view->queue->pending = view;
        for (int32_t g = 0; g < pass->n_groups; g++)
            ((struct plain_cache *)pass->groups[g].cache)->pending = view;
    }
    end_work(base->backend);
    return code;
}

int plain_sync(struct rf_view *base, struct rf_error *error)
{
    struct plain_view *view = (struct plain_view *)base;
    begin_work(base->backend);
    plain_finish(view);
    end_work(base->backend);
    if (view->code && error) *error = view->error;
    return view->code;
}

/* Copies n floats of the device's to the host. */
static int copy_out(const struct plain_view *view, float *to, const float *from, size_t n,
                    const char *what, struct rf_error *error)
{
    int code = plain_fails(what, error);
    if (code) return code;
    begin_work(view->base.backend);
    memcpy(to, from, n * sizeof *to);
    end_work(view->base.backend);
    return 0;
}

int plain_logits(struct rf_view *base, int32_t i, const float **row, struct rf_error *error)
{
    const struct plain_view *view = (const struct plain_view *)base;
    size_t n = (size_t)view->params->n_vocab;
    *row = view->logits + (size_t)i * n;
    return copy_out(view, view->logits + (size_t)i * n, plain_row(view, RF_SLOT_LOGITS, i), n,
                    "logits", error);
}

int plain_tap(struct rf_view *base, int32_t t, int32_t i, const float **row, struct rf_error *error)
{
    const struct plain_view *view = (const struct plain_view *)base;
    enum rf_slot slot = (enum rf_slot)(RF_SLOT_TAP + t);
    size_t n = (size_t)base->shape.program->slots[slot].width;
    *row = view->taps[t] + (size_t)i * n;
    return copy_out(view, view->taps[t] + (size_t)i * n, plain_row(view, slot, i), n, "a tap",
                    error);
}
