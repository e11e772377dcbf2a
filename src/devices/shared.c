/* A backend over two others: queues, weights and views are pairs, and a pass runs the first
 * part's program, hands its last rows over, and runs the second part's. The engine sees one
 * backend. The API makes it for models that are split between two devices. */
#include "devices/shared_parts.h"

#include <assert.h>
#include <string.h>

#include "platform/clock.h"

struct shared_view {
    struct rf_view base;
    struct rf_params params[SHARED_PARTS];
    struct rf_program program[SHARED_PARTS];
    struct rf_op *ops; /* operations of both programs */
    struct rf_view *part[SHARED_PARTS];
    int32_t cut;             /* the second part's first layer */
    int32_t result;          /* the first part's tap with the result of its last layer */
    struct rf_rows *groups;  /* [SHARED_PARTS][max_rows], made by the first pass */
    float *x;                /* [max_rows][n_embd], likewise */
    double began;            /* start of the second part's pass */
    int is_pending, has_one; /* a pass of the second part was submitted; it has one row */
    struct rf_shared_times times;
};

static const struct rf_backend_ops ops;

/* ---- the backend and its queues ---- */

static void shared_backend_free(struct rf_backend *base)
{
    struct shared_backend *backend = shared_backend_of(base);
    for (int p = 0; p < SHARED_PARTS; p++) backend->part[p]->ops->free(backend->part[p]);
    rf_free(base->allocator, backend);
}

int rf_shared_backend_new(struct rf_backend **backend, struct rf_backend *first,
                          struct rf_backend *second, int32_t n_second,
                          const struct rf_allocator *allocator, struct rf_error *error)
{
    assert(n_second >= 1);
    struct shared_backend *made = rf_calloc(allocator, 1, sizeof *made, "backend", error);
    *backend = made ? &made->base : NULL;
    if (!made) return RF_ERR_MEMORY;
    made->base =
        (struct rf_backend){.ops = &ops, .allocator = allocator, .first_above = first->first_above};
    made->part[SHARED_FIRST] = first;
    made->part[SHARED_SECOND] = second;
    made->n_second = n_second;
    return 0;
}

static void shared_queue_free(struct rf_queue *base)
{
    if (!base) return;
    struct shared_queue *queue = (struct shared_queue *)base;
    for (int p = 0; p < SHARED_PARTS; p++)
        if (queue->part[p]) shared_ops_of(base->backend, p)->queue_free(queue->part[p]);
    rf_free(base->backend->allocator, queue);
}

static int shared_queue_new(struct rf_queue **queue, struct rf_backend *base,
                            const struct rf_queue_options *options, const struct rf_queue *like,
                            struct rf_error *error)
{
    int code = 0;
    *queue = NULL;
    struct shared_queue *made = rf_calloc(base->allocator, 1, sizeof *made, "queue", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = base;
    for (int p = 0; !code && p < SHARED_PARTS; p++)
        code = shared_ops_of(base, p)->queue_new(
            &made->part[p], shared_backend_of(base)->part[p], options,
            like ? ((const struct shared_queue *)like)->part[p] : NULL, error);
    if (code)
        shared_queue_free(&made->base);
    else
        *queue = &made->base;
    return code;
}

/* The first device's: the other has no cores to choose. */
static void shared_queue_info(const struct rf_queue *base, struct rf_queue_info *info)
{
    const struct shared_queue *queue = (const struct shared_queue *)base;
    shared_ops_of(base->backend, SHARED_FIRST)->queue_info(queue->part[SHARED_FIRST], info);
}

static int shared_queue_calibrate(struct rf_queue *base, const struct rf_weights *weights,
                                  struct rf_error *error)
{
    const struct shared_queue *queue = (const struct shared_queue *)base;
    int code = 0;
    for (int p = 0; !code && p < SHARED_PARTS; p++) {
        const struct rf_weights *part = ((const struct shared_weights *)weights)->part[p];
        if (part)
            code = shared_ops_of(base->backend, p)->queue_calibrate(queue->part[p], part, error);
    }
    return code;
}

/* ---- weights ---- */

static void shared_weights_free(struct rf_weights *base)
{
    if (!base) return;
    struct shared_weights *weights = (struct shared_weights *)base;
    for (int p = 0; p < SHARED_PARTS; p++)
        if (weights->part[p]) shared_ops_of(base->backend, p)->weights_free(weights->part[p]);
    rf_free(base->backend->allocator, weights);
}

/* The progress of both parts as one. */
struct progress {
    rf_load_progress call;
    void *user;
    uint64_t before, total;
};

static int report_part(void *user, uint64_t done, uint64_t total)
{
    const struct progress *progress = user;
    (void)total;
    return progress->call(progress->user, progress->before + done, progress->total);
}

/* Puts the first part's plans in front of the second's; returns the number of the first part's. */
static int32_t sort_plans(struct rf_weight_plan *sorted, const struct rf_weight_plan *plans,
                          int32_t n, int32_t cut)
{
    int32_t count = 0, n_first;
    for (int32_t i = 0; i < n; i++)
        if (!rf_is_shared_second(&plans[i], cut)) sorted[count++] = plans[i];
    n_first = count;
    for (int32_t i = 0; i < n; i++)
        if (rf_is_shared_second(&plans[i], cut)) sorted[count++] = plans[i];
    return n_first;
}

static uint64_t tensor_bytes(const struct rf_weight_plan *plans, int32_t n)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < n; i++) bytes += plans[i].tensor->bytes;
    return bytes;
}

static int shared_weights_new(struct rf_weights **weights, struct rf_queue *queue,
                              const struct rf_weight_plan *plans, int32_t n_plans,
                              rf_load_progress progress, void *user, struct rf_error *error)
{
    struct rf_backend *backend = queue->backend;
    struct progress both = {.call = progress, .user = user};
    int32_t n_layer = 0;
    *weights = NULL;
    struct shared_weights *made = rf_calloc(backend->allocator, 1, sizeof *made, "weights", error);
    struct rf_weight_plan *sorted =
        rf_malloc(backend->allocator, (size_t)n_plans, sizeof *sorted, "weights", error);
    int code = made && sorted ? 0 : RF_ERR_MEMORY;
    if (made) made->base.backend = backend;
    for (int32_t i = 0; i < n_plans; i++)
        if (n_layer <= plans[i].layer) n_layer = plans[i].layer + 1;
    int32_t n_first =
                code ? 0 : sort_plans(sorted, plans, n_plans, shared_cut_of(backend, n_layer)),
            n_of[SHARED_PARTS] = {n_first, n_plans - n_first};
    both.total = tensor_bytes(plans, n_plans);
    shared_backend_of(backend)->part[SHARED_FIRST]->expert_bytes = backend->expert_bytes;
    for (int p = 0; !code && p < SHARED_PARTS; p++) {
        const struct rf_weight_plan *of_part = sorted + (p == SHARED_SECOND ? n_first : 0);
        if (!n_of[p]) continue;
        code = shared_ops_of(backend, p)
                   ->weights_new(&made->part[p], ((struct shared_queue *)queue)->part[p], of_part,
                                 n_of[p], progress ? report_part : NULL, &both, error);
        both.before += tensor_bytes(of_part, n_of[p]);
    }
    rf_free(backend->allocator, sorted);
    if (code)
        shared_weights_free(made ? &made->base : NULL);
    else
        *weights = &made->base;
    return code;
}

/* ---- views ---- */

static struct shared_view *shared_view_of(struct rf_view *view)
{
    return (struct shared_view *)view;
}

/* The two parts of a program. Layers count from 0 in each. */
static void split_program(struct shared_view *view, const struct rf_program *whole)
{
    struct rf_program *first = &view->program[SHARED_FIRST],
                      *second = &view->program[SHARED_SECOND];
    *first = *second = *whole;
    first->params = &view->params[SHARED_FIRST];
    second->params = &view->params[SHARED_SECOND];
    first->body = view->ops;
    first->n_body = first->n_head = second->n_body = 0;
    first->slots[RF_SLOT_LOGITS].width = 0;
    second->body = view->ops + whole->n_body + 1;
    if (view->cut > 0)
        second->body[second->n_body++] = (struct rf_op){
            .kind = RF_OP_EMBED, .layer = -1, .n = 1, .out = {RF_SLOT_X}, .scale = 1};
    for (int32_t o = 0; o < whole->n_body; o++) {
        struct rf_op op = whole->body[o];
        int is_first = op.layer < view->cut && view->cut > 0;
        if (!is_first && op.layer >= 0) op.layer -= view->cut;
        struct rf_program *part = is_first ? first : second;
        part->body[part->n_body++] = op;
    }
    view->result = first->n_slots - RF_SLOT_TAP;
    first->slots[first->n_slots] = (struct rf_slot_shape){.width = whole->params->n_embd};
    first->body[first->n_body++] = (struct rf_op){.kind = RF_OP_COPY,
                                                  .layer = view->cut - 1,
                                                  .n = 1,
                                                  .in = {RF_SLOT_X},
                                                  .out = {(enum rf_slot)first->n_slots}};
    first->n_slots++;
}

static void shared_view_free(struct rf_view *base)
{
    if (!base) return;
    struct shared_view *view = shared_view_of(base);
    const struct rf_allocator *allocator = base->backend->allocator;
    for (int p = SHARED_PARTS - 1; p >= 0; p--)
        if (view->part[p]) shared_ops_of(base->backend, p)->view_free(view->part[p]);
    rf_free(allocator, view->x);
    rf_free(allocator, view->groups);
    rf_free(allocator, view->ops);
    rf_free(allocator, view);
}

static int make_part_views(struct shared_view *view, struct rf_queue *queue, struct rf_error *error)
{
    const struct rf_program *whole = view->base.shape.program;
    view->ops = rf_calloc(queue->backend->allocator, 2 * (size_t)(whole->n_body + 1),
                          sizeof *view->ops, "view", error);
    if (!view->ops) return RF_ERR_MEMORY;
    shared_split_params(view->params, whole->params, view->cut);
    split_program(view, whole);
    int code = 0;
    for (int p = view->cut > 0 ? SHARED_FIRST : SHARED_SECOND; !code && p < SHARED_PARTS; p++) {
        struct rf_queue *of_part = ((struct shared_queue *)queue)->part[p];
        struct rf_view_shape shape = view->base.shape;
        shape.program = &view->program[p];
        shape.weights = ((const struct shared_weights *)shape.weights)->part[p];
        code = of_part->backend->ops->view_new(&view->part[p], of_part, &shape, error);
        if (code) break;
        view->part[p]->backend = of_part->backend;
        view->part[p]->shape = shape;
    }
    return code;
}

/* 1 if one of the operations is of a draft head, or gives out features for one. */
static int is_of_head(const struct rf_op *list, int32_t n)
{
    for (const struct rf_op *op = list; op < list + n; op++)
        if (op->column || (op->kind == RF_OP_EMBED && !op->weight[0])) return 1;
    return 0;
}

static int shared_view_new(struct rf_view **out, struct rf_queue *queue,
                           const struct rf_view_shape *shape, struct rf_error *error)
{
    const struct rf_program *program = shape->program;
    *out = NULL;
    if (program->slots[RF_SLOT_JOINED].width || is_of_head(program->body, program->n_body) ||
        is_of_head(program->head, program->n_head))
        return rf_fail(error, RF_ERR_UNSUPPORTED, "a draft head needs all layers on one device");
    if (program->n_slots == RF_MAX_SLOTS)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "a model on two devices has at most %d layers whose rows are asked for",
                       RF_MAX_TAPS - 1);
    struct shared_view *view = rf_calloc(queue->backend->allocator, 1, sizeof *view, "view", error);
    if (!view) return RF_ERR_MEMORY;
    view->base.backend = queue->backend;
    view->base.shape = *shape;
    view->cut = shared_cut_of(queue->backend, program->params->n_layer);
    int code = make_part_views(view, queue, error);
    if (code)
        shared_view_free(&view->base);
    else
        *out = &view->base;
    return code;
}

static int make_rows(struct shared_view *view, struct rf_error *error)
{
    const struct rf_allocator *allocator = view->base.backend->allocator;
    size_t rows = (size_t)view->base.shape.max_rows;
    if (!view->groups)
        view->groups =
            rf_malloc(allocator, SHARED_PARTS * rows, sizeof *view->groups, "view", error);
    if (!view->x)
        view->x = rf_malloc(allocator, rows * (size_t)view->params[SHARED_FIRST].n_embd,
                            sizeof *view->x, "view", error);
    return view->groups && view->x ? 0 : RF_ERR_MEMORY;
}

/* The pass of a part: the whole's, over the part's caches. */
static struct rf_pass pass_of(struct shared_view *view, int p, const struct rf_pass *whole)
{
    struct rf_rows *groups = view->groups + p * view->base.shape.max_rows;
    struct rf_pass pass = *whole;
    for (int32_t g = 0; g < whole->n_groups; g++) {
        groups[g] = whole->groups[g];
        groups[g].cache = ((struct shared_cache *)groups[g].cache)->part[p];
    }
    pass.groups = groups;
    return pass;
}

static int submit_part(struct shared_view *view, int p, const struct rf_pass *pass,
                       struct rf_error *error)
{
    struct rf_view *part = view->part[p];
    part->source = view->base.source;
    part->cancel = view->base.cancel;
    part->passes++;
    return part->backend->ops->submit(part, pass, error);
}

/* The first part's pass, and its result in view->x. */
static int run_first(struct shared_view *view, const struct rf_pass *whole, struct rf_error *error)
{
    struct rf_view *part = view->part[SHARED_FIRST];
    size_t width = (size_t)view->params[SHARED_FIRST].n_embd;
    const struct rf_pass of_part = pass_of(view, SHARED_FIRST, whole);
    const struct rf_pass pass = {.groups = of_part.groups, .n_groups = of_part.n_groups};
    int32_t n_rows = 0;
    int code = submit_part(view, SHARED_FIRST, &pass, error);
    if (!code) code = part->backend->ops->sync(part, error);
    for (int32_t g = 0; g < pass.n_groups; g++) n_rows += pass.groups[g].n;
    for (int32_t i = 0; !code && i < n_rows; i++) {
        const float *row;
        code = part->backend->ops->tap(part, view->result, i, &row, error);
        if (!code) memcpy(view->x + (size_t)i * width, row, width * sizeof *row);
    }
    return code;
}

static int shared_sync(struct rf_view *base, struct rf_error *error)
{
    struct shared_view *view = shared_view_of(base);
    struct rf_view *part = view->part[SHARED_SECOND];
    int code = part->backend->ops->sync(part, error);
    if (view->is_pending && view->has_one && !code) {
        view->times.passes++;
        view->times.seconds[SHARED_SECOND] += rf_clock_seconds() - view->began;
    }
    view->is_pending = 0;
    return code;
}

static int shared_submit(struct rf_view *base, const struct rf_pass *whole, struct rf_error *error)
{
    struct shared_view *view = shared_view_of(base);
    struct rf_error ignored; /* the answers of a pass that nobody waited for are gone */
    if (view->is_pending) shared_sync(base, &ignored);
    int code = make_rows(view, error);
    if (code) return code;
    double start = rf_clock_seconds();
    struct rf_pass pass = pass_of(view, SHARED_SECOND, whole);
    view->has_one = whole->n_groups == 1 && whole->groups->n == 1;
    if (view->part[SHARED_FIRST]) {
        code = run_first(view, whole, error);
        pass.x = view->x;
    }
    view->began = rf_clock_seconds();
    if (!code) code = submit_part(view, SHARED_SECOND, &pass, error);
    if (!code && view->has_one) view->times.seconds[SHARED_FIRST] += view->began - start;
    view->is_pending = !code;
    return code;
}

static int shared_logits(struct rf_view *base, int32_t i, const float **row, struct rf_error *error)
{
    struct rf_view *part = shared_view_of(base)->part[SHARED_SECOND];
    return part->backend->ops->logits(part, i, row, error);
}

/* Asks the part that has the operation with that result. */
static int shared_tap(struct rf_view *base, int32_t tap, int32_t i, const float **row,
                      struct rf_error *error)
{
    const struct shared_view *view = shared_view_of(base);
    const struct rf_program *second = &view->program[SHARED_SECOND];
    struct rf_view *part = view->part[SHARED_FIRST];
    for (int32_t o = 0; o < second->n_body; o++)
        if ((int32_t)second->body[o].out[0] == RF_SLOT_TAP + tap) part = view->part[SHARED_SECOND];
    return part->backend->ops->tap(part, tap, i, row, error);
}

static int32_t shared_view_threads(const struct rf_view *base, int32_t n_rows)
{
    const struct shared_view *view = (const struct shared_view *)base;
    const struct rf_view *part =
        view->part[view->part[SHARED_FIRST] ? SHARED_FIRST : SHARED_SECOND];
    return part->backend->ops->view_threads(part, n_rows);
}

const struct rf_shared_times *rf_shared_times(const struct rf_view *view)
{
    return view->backend->ops == &ops ? &((const struct shared_view *)view)->times : NULL;
}

static const struct rf_backend_ops ops = {
    .free = shared_backend_free,
    .queue_new = shared_queue_new,
    .queue_free = shared_queue_free,
    .queue_info = shared_queue_info,
    .queue_calibrate = shared_queue_calibrate,
    .weights_new = shared_weights_new,
    .weights_free = shared_weights_free,
    .cache_new = rf_shared_cache_new,
    .cache_fork = rf_shared_cache_fork,
    .cache_free = rf_shared_cache_free,
    .cache_trim = rf_shared_cache_trim,
    .cache_settle = rf_shared_cache_settle,
    .cache_resume = rf_shared_cache_resume,
    .cache_can_save = rf_shared_cache_can_save,
    .cache_keep = rf_shared_cache_keep,
    .cache_bytes = rf_shared_cache_bytes,
    .cache_held = rf_shared_cache_held,
    .cache_save = rf_shared_cache_save,
    .cache_load = rf_shared_cache_load,
    .view_new = shared_view_new,
    .view_free = shared_view_free,
    .submit = shared_submit,
    .sync = shared_sync,
    .logits = shared_logits,
    .tap = shared_tap,
    .view_threads = shared_view_threads,
};
