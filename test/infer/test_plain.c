/* The plain backend: it computes what reference/forward.c computes, keeps the host out of its
 * memory, and does nothing before it has to. */
#include <math.h>
#include <unistd.h>

#include "infer/agreement.h"
#include "model/open.h"
#include "support/plain_backend.h"

/* Both round at the same places and sum in double. */
#define TOLERANCE 1e-6

static const struct device plain = {"plain", &plain_backend_kind, NULL};

/* ---- as a device ---- */

/* The kernel refuses to read what the process may not. */
static int host_can_read(const void *address)
{
    int pipes[2];
    if (pipe(pipes)) exit(1);
    int can_read = write(pipes[1], address, 1) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return can_read;
}

/* The inputs and results of a pass of two groups. */
struct request {
    struct rf_cache *caches[2];
    int32_t tokens[2][4], wanted[2];
    struct rf_rows groups[2];
    struct rf_best best[2];
    struct rf_pass pass;
};

static void request_new(struct request *request, const struct opened *opened, uint32_t seed)
{
    memset(request, 0, sizeof *request);
    for (int g = 0; g < 2; g++) {
        request->caches[g] = cache_of(opened, 8);
        random_tokens(request->tokens[g], 4, opened->source->params.n_vocab, seed + (uint32_t)g);
        request->groups[g] =
            (struct rf_rows){.cache = request->caches[g], .tokens = request->tokens[g], .n = 4};
        request->wanted[g] = 4 * g + 3;
        request->best[g].n = -1;
    }
    request->pass = (struct rf_pass){.groups = request->groups,
                                     .n_groups = 2,
                                     .wanted = request->wanted,
                                     .n_wanted = 2,
                                     .n_best = 1,
                                     .best = request->best};
}

static void request_free(struct request *request)
{
    for (int g = 0; g < 2; g++) request->caches[g]->backend->ops->cache_free(request->caches[g]);
}

static void passes_are_done_when_they_must(const struct opened *opened)
{
    const struct rf_backend_ops *ops = opened->backend->ops;
    const struct rf_view_options options = {.max_rows = 8};
    struct rf_view *view = view_of(opened, opened->model, &options),
                   *other = view_of(opened, opened->model, &options);
    struct request first, second;
    struct rf_cache *fork;
    const float *row;
    request_new(&first, opened, 1);
    request_new(&second, opened, 3);

    MUST(ops->submit(view, &first.pass, &error));
    CHECK_INT(first.best[0].n, -1);
    MUST(ops->sync(view, &error));
    CHECK(first.best[0].n == 1 && first.best[1].n == 1);
    MUST(ops->logits(view, 1, &row, &error));
    CHECK(row[first.best[1].top[0].token] == first.best[1].top[0].logit);

    /* The next submit takes the answers away; a queue does one pass after the other. */
    first.best[0].n = -1;
    MUST(ops->submit(view, &first.pass, &error));
    CHECK(isnan(row[0]));
    MUST(ops->submit(other, &second.pass, &error));
    CHECK_INT(first.best[0].n, 1);
    CHECK_INT(second.best[0].n, -1);
    MUST(ops->sync(view, &error));
    /* Calls on a cache wait for the pass. */
    MUST(ops->cache_fork(&fork, second.caches[0], 4, &error));
    CHECK_INT(second.best[0].n, 1);
    MUST(ops->sync(other, &error));
    ops->cache_free(fork);
    request_free(&first);
    request_free(&second);
    rf_view_free(view);
    rf_view_free(other);
}

static void failures_come_where_they_are_asked_for(const struct opened *opened)
{
    const struct rf_backend_ops *ops = opened->backend->ops;
    const struct rf_view_options options = {.max_rows = 8};
    struct rf_view *view = view_of(opened, opened->model, &options);
    struct rf_error failure = {.text = ""};
    struct request request;
    uint8_t kv[4096];
    request_new(&request, opened, 1);
    CHECK(ops->cache_bytes(request.caches[0], 4) <= sizeof kv);
    MUST(rf_view_run(view, &request.pass, &error));

    plain_fail_at(3, RF_ERR_SYSTEM); /* submit, the pass, submit */
    MUST(rf_view_run(view, &request.pass, &error));
    CHECK(!plain_has_failed());
    CHECK_INT(ops->submit(view, &request.pass, &failure), RF_ERR_SYSTEM);
    CHECK(plain_has_failed() && failure.text[0]);
    MUST(rf_view_run(view, &request.pass, &error));

    /* A pass that fails leaves its rows undefined: NaN in F16. */
    plain_fail_at(2, RF_ERR_MEMORY);
    CHECK_INT(ops->submit(view, &request.pass, &failure), 0);
    CHECK_INT(ops->sync(view, &failure), RF_ERR_MEMORY);
    MUST(ops->cache_save(request.caches[0], 4, kv, &error));
    uint16_t half;
    memcpy(&half, kv, sizeof half);
    CHECK((half & 0x7c00) == 0x7c00 && (half & 0x03ff) != 0);
    MUST(rf_view_run(view, &request.pass, &error));
    plain_fail_at(0, 0);
    request_free(&request);
    rf_view_free(view);
}

static void check_device(const struct rf_params *params)
{
    static const enum rf_dtype bf16 = RF_BF16;
    struct rf_source *source = synthetic_new(params, &bf16, 1);
    CHECK(source != NULL);
    if (!source) return;
    struct opened opened = opened_new(&plain, source, RF_WEIGHTS_BF16, &rf_system_allocator);
    size_t before = plain_device_bytes(opened.backend);
    CHECK(before > 0);
    CHECK(!host_can_read(plain_device_address(opened.backend)));
    CHECK(host_can_read(opened.backend));
    passes_are_done_when_they_must(&opened);
    failures_come_where_they_are_asked_for(&opened);
    CHECK(!host_can_read(plain_device_address(opened.backend)));
    CHECK_INT(plain_device_bytes(opened.backend), before);
    opened_free(&opened);
    synthetic_free(source);
}

int main(void)
{
    static const struct agreement agreement = {&plain, TOLERANCE, TOLERANCE, 1, 1};
    struct rf_params qwen2 = synthetic_qwen2();
    check_agreement(&agreement);
    check_device(&qwen2);
    return check_result();
}
