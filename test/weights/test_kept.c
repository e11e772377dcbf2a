/* Casts kept in a folder: a second load reads what the first wrote and gives the same logits;
 * damaged, foreign and cut files are replaced; the folder keeps its limit; failures leave nothing.
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>

#include "platform/file.h"
#include "platform/folder.h"
#include "support/check.h"
#include "support/engine.h"
#include "support/synthetic.h"

enum { N_TOKENS = 12 };

static char root[] = "/tmp/riffle-kept-XXXXXX";

/* ---- the folder ---- */

struct listing {
    int n;
    char path[128];
};

static int list_entry(void *user, const char *name)
{
    struct listing *listing = user;
    CHECK(strncmp(name, RF_KEPT_PREFIX, strlen(RF_KEPT_PREFIX)) == 0);
    snprintf(listing->path, sizeof listing->path, "%s/%s", root, name);
    listing->n++;
    return 0;
}

/* The number of files, and the path of one. */
static struct listing listed(void)
{
    struct listing listing = {0};
    CHECK_INT(rf_folder_each(root, list_entry, &listing, NULL), 0);
    return listing;
}

static uint64_t inode_of(const char *path)
{
    struct rf_file_mark mark = {0};
    CHECK_INT(rf_file_mark_get(path, &mark), 0);
    return mark.inode;
}

/* Writes `byte` at a place of the only file, or cuts the file there (-1). */
static void spoil(long at, int byte)
{
    struct listing listing = listed();
    char *data;
    size_t bytes;
    CHECK_INT(listing.n, 1);
    CHECK_INT(rf_slurp(listing.path, 1 << 24, &data, &bytes, NULL), 0);
    size_t place = at < 0 ? bytes - (size_t)-at : (size_t)at;
    if (byte >= 0) data[place] = (char)(data[place] ^ byte);
    const struct rf_span span = {data, byte >= 0 ? bytes : place};
    CHECK_INT(rf_write_file(listing.path, &span, 1, RF_NEW_CACHE, NULL), 0);
    free(data);
}

/* ---- loading ---- */

static int load(struct engine *engine, const struct rf_source *source,
                const struct rf_kept_folder *folder, rf_load_progress progress)
{
    struct rf_error error;
    CHECK_INT(engine_device(engine, rf_kernels_best_tier(), 2, &error), 0);
    return rf_model_load_draft(&engine->model, source, engine->queue, RF_WEIGHTS_MXFP4, folder,
                               progress, NULL, &error);
}

static void logits_of(const struct rf_source *source, const struct rf_kept_folder *folder,
                      float *logits)
{
    const struct rf_view_options view = {.max_rows = N_TOKENS};
    const struct rf_cache_shape shape = {.params = &source->params, .n_ctx = N_TOKENS};
    struct engine engine;
    struct rf_error error;
    int32_t tokens[N_TOKENS];
    size_t n_vocab = (size_t)source->params.n_vocab;
    CHECK_INT(load(&engine, source, folder, NULL), 0);
    CHECK_INT(rf_view_new(&engine.view, engine.model, engine.queue, &view, &error), 0);
    CHECK_INT(engine.backend->ops->cache_new(&engine.cache, engine.backend, &shape, &error), 0);
    for (int32_t i = 0; i < N_TOKENS; i++) tokens[i] = i * 7 % source->params.n_vocab;
    const struct rf_rows rows = {.tokens = tokens, .n = N_TOKENS};
    CHECK_INT(engine_read(&engine, rows, N_TOKENS - 1, N_TOKENS), 0);
    memcpy(logits, engine_logits(&engine, 0), n_vocab * sizeof *logits);
    engine_close(&engine);
}

static int stop_at_once(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done <= total;
}

static struct rf_source *source_of(int32_t n_ff)
{
    static const enum rf_dtype types[] = {RF_BF16, RF_Q8_0, RF_F16};
    struct rf_params params = synthetic_qwen2();
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = n_ff;
    params.tied_output = 0;
    struct rf_source *source = synthetic_new(&params, types, 3);
    if (!source) exit(1);
    return source;
}

/* A matrix that is cast; the caller changes bytes that the file's name does not depend on. */
static unsigned char *cast_data(const struct rf_source *source)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, "blk.0.ffn_down.weight");
    if (!tensor) exit(1);
    return (unsigned char *)(uintptr_t)tensor->data;
}

static void test_reading(void)
{
    const struct rf_kept_folder nowhere = {NULL, 0}, folder = {root, 1 << 24};
    struct rf_source *source = source_of(256);
    size_t n = (size_t)source->params.n_vocab * sizeof(float);
    float *wanted = malloc(n), *got = malloc(n);
    if (!wanted || !got) exit(1);
    logits_of(source, &nowhere, wanted);
    CHECK_INT(listed().n, 0);
    logits_of(source, &folder, got);
    CHECK(memcmp(got, wanted, n) == 0);
    struct listing file = listed();
    CHECK_INT(file.n, 1);
    uint64_t inode = inode_of(file.path);

    /* The file is read, not the tensor: a change beside the samples is not seen. */
    unsigned char *changed = cast_data(source) + 100;
    for (int i = 0; i < 64; i++) changed[i] ^= 1;
    logits_of(source, &folder, got);
    CHECK(memcmp(got, wanted, n) == 0);
    logits_of(source, &nowhere, got);
    CHECK(memcmp(got, wanted, n) != 0);
    for (int i = 0; i < 64; i++) changed[i] ^= 1;
    CHECK(inode_of(file.path) == inode);

    /* A change of a sample is. */
    changed[-100] ^= 1;
    logits_of(source, &folder, got);
    CHECK_INT(listed().n, 2);
    changed[-100] ^= 1;
    CHECK_INT(rf_remove(file.path, NULL), 0);
    CHECK_INT(rf_remove(listed().path, NULL), 0);

    static const struct {
        long at;
        int byte, stays; /* a damaged strip is found when all are read: then the file goes */
    } damages[] = {{0, 1, 1},  {8, 1, 1},    {16, 1, 1},  {24, 1, 0},
                   {-1, 1, 0}, {3000, 4, 0}, {-1, -1, 1}, {10, -1, 1}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        logits_of(source, &folder, got);
        spoil(damages[i].at, damages[i].byte);
        logits_of(source, &folder, got);
        CHECK(memcmp(got, wanted, n) == 0);
        CHECK_INT(listed().n, damages[i].stays);
        logits_of(source, &folder, got);
        CHECK(memcmp(got, wanted, n) == 0);
        CHECK_INT(listed().n, 1);
    }
    CHECK_INT(rf_remove(listed().path, NULL), 0);
    free(wanted);
    free(got);
    synthetic_free(source);
}

static void test_limits(void)
{
    struct rf_source *small = source_of(256), *large = source_of(512);
    float *got = malloc((size_t)small->params.n_vocab * sizeof *got);
    struct rf_kept_folder folder = {root, 1 << 24};
    if (!got) exit(1);
    logits_of(large, &folder, got);
    logits_of(small, &folder, got);
    CHECK_INT(listed().n, 2);
    CHECK_INT(rf_remove(listed().path, NULL), 0);
    CHECK_INT(rf_remove(listed().path, NULL), 0);

    logits_of(small, &folder, got);
    struct listing file = listed();
    struct rf_file_mark mark;
    CHECK_INT(rf_file_mark_get(file.path, &mark), 0);
    folder.limit = mark.bytes; /* no room for both, none for the larger one */
    logits_of(large, &folder, got);
    CHECK(listed().n == 1 && strcmp(listed().path, file.path) == 0);
    folder.limit = 3 * mark.bytes / 2;
    logits_of(small, &folder, got);
    CHECK_INT(listed().n, 1);
    folder.limit = 1 << 24;
    logits_of(large, &folder, got);
    CHECK_INT(listed().n, 2);

    /* A folder that cannot be made keeps nothing and says nothing. */
    const struct rf_kept_folder wrong = {file.path, 1 << 24};
    logits_of(small, &wrong, got);
    CHECK_INT(rf_remove(listed().path, NULL), 0);
    CHECK_INT(rf_remove(listed().path, NULL), 0);
    free(got);
    synthetic_free(small);
    synthetic_free(large);
}

static void test_the_oldest_goes(void)
{
    struct rf_source *first = source_of(256), *second = source_of(320);
    struct rf_kept_folder folder = {root, 1 << 24};
    float *got = malloc((size_t)first->params.n_vocab * sizeof *got);
    if (!got) exit(1);
    logits_of(first, &folder, got);
    struct listing old = listed();
    struct rf_file_mark mark;
    CHECK_INT(rf_file_mark_get(old.path, &mark), 0);
    folder.limit = mark.bytes * 2;
    logits_of(second, &folder, got);
    CHECK(listed().n == 1 && strcmp(listed().path, old.path) != 0);
    CHECK_INT(rf_remove(listed().path, NULL), 0);
    free(got);
    synthetic_free(first);
    synthetic_free(second);
}

static void test_a_cancelled_load_keeps_nothing(void)
{
    const struct rf_kept_folder folder = {root, 1 << 24};
    struct rf_source *source = source_of(256);
    struct engine engine;
    CHECK_INT(load(&engine, source, &folder, stop_at_once), RF_ERR_CANCELLED);
    CHECK_INT(listed().n, 0);
    engine.backend->ops->queue_free(engine.queue);
    rf_split_free(engine.split);
    engine.backend->ops->free(engine.backend);
    synthetic_free(source);
}

int main(void)
{
    if (!mkdtemp(root)) return 1;
    test_reading();
    test_limits();
    test_the_oldest_goes();
    test_a_cancelled_load_keeps_nothing();
    CHECK_INT(rf_remove(root, NULL), 0);
    return check_result();
}
