/* The threads that open and close models. One opens and closes, within the bound of memory; one
 * fetches. Both release the lock while they work; a model in use is never closed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "serve/log.h"
#include "serve/models.h"

enum {
    IDLE_MS = 100,   /* time between looks at the table */
    HOLD_SECONDS = 5 /* a model waits so long for others to end their answers; then these get no
                        new ones until it is open */
};

/* ---- opening and closing one, without the lock ---- */

/* Texts that were not stored yet are stored first. */
static void close_served(const struct served_models *models, struct served *served)
{
    while (served->batch && riffle_batch_store(served->batch) > 0) {
    }
    if (served->batch) riffle_batch_close(served->batch);
    models->options->close(models->options->user, &served->model);
    free(served);
}

static void tell_store(void *user, const char *sentence)
{
    const struct served_model *row = user;
    log_event("stored_text", "{s:s, s:s}", "model", row->name, "sentence", sentence);
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return (hash ^ '\n') * 0x100000001b3u;
}

/* A name of all that may change answers: the build, and the model with the form of its weights. */
static void set_fingerprint(const char *build, struct answerer *of)
{
    riffle_model_info info;
    char sizes[96];
    riffle_model_get_info(of->model, &info, sizeof info);
    snprintf(sizes, sizeof sizes, "%llu %llu %d", (unsigned long long)info.n_params,
             (unsigned long long)info.file_bytes, info.activation_bits);
    const char *const texts[] = {
        build, info.name, info.architecture, info.stored_types, info.weights, info.device, sizes};
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash = hash_text(hash, texts[i]);
    snprintf(of->fingerprint, sizeof of->fingerprint, "fp_%016" PRIx64, hash);
}

static int open_batch(const struct rf_serve_options *options, struct served *served,
                      struct rf_error *error)
{
    riffle_batch_options batch;
    int32_t n_ctx = 0;
    riffle_batch_options_init(&batch, sizeof batch);
    batch.session = options->session;
    batch.answers = options->answers;
    batch.kept_bytes = (uint64_t)options->kept_bytes;
    batch.store_folder = options->store_folder;
    batch.store_bytes = options->store_bytes;
    batch.on_store = tell_store;
    batch.store_user = served->of;
    int code = riffle_batch_open(&served->batch, served->model.model, &batch);
    if (!code) code = riffle_session_cost(served->model.model, options->session, &n_ctx, NULL);
    if (code) return rf_fail(error, code, "%s", riffle_last_error());
    served->answerer = (struct answerer){.model = served->model.model,
                                         .name = served->of->name,
                                         .n_ctx = n_ctx,
                                         .sampling = &served->model.sampling,
                                         .has_effort = rf_template_has_effort(served->model.model),
                                         .thinking = rf_template_thinking(served->model.model),
                                         .tools = rf_tools_manner(served->model.model),
                                         .thoughts = rf_thought_form_of(served->model.model)};
    set_fingerprint(options->build, &served->answerer);
    return served->answerer.thoughts ? 0 : rf_fail(error, RF_ERR_MEMORY, "out of memory");
}

/* *is_told: people know why it failed. */
static int open_served(const struct served_models *models, struct served_model *row,
                       struct served **opened, int *is_told, struct rf_error *error)
{
    const struct rf_serve_options *options = models->options;
    struct served *served = calloc(1, sizeof *served);
    *is_told = 0;
    if (!served) return rf_fail(error, RF_ERR_MEMORY, "out of memory");
    served->of = row;
    int code = options->open(options->user, row->path, &served->model, error);
    if (code) {
        free(served);
        *is_told = 1;
        return code;
    }
    code = open_batch(options, served, error);
    if (code) {
        close_served(models, served);
        return code;
    }
    *opened = served;
    return 0;
}

/* ---- memory, under the lock ---- */

/* Memory of an open model, with the texts that it keeps. */
static uint64_t row_bytes(const struct served_model *row)
{
    return row->open ? row->bytes + row->metrics.batch.kept_bytes : 0;
}

static uint64_t all_bytes(const struct served_models *models)
{
    uint64_t bytes = 0;
    for (const struct served_model *row = models->rows; row; row = row->next)
        bytes += row_bytes(row);
    return bytes;
}

static int fits(const struct served_models *models, uint64_t bytes)
{
    uint64_t most = models->options->models_bytes;
    return !most || bytes <= most;
}

/* Whether nobody uses it. Requests that wait for an open one only count where none is held back:
 * then they are about to take it. */
static int is_unused(const struct served_model *row, int was_holding)
{
    if (row->state != MODEL_READY || (row->n_waiters && !was_holding)) return 0;
    for (const struct served *served = row->open; served; served = served->next)
        if (atomic_load(&served->users)) return 0;
    return 1;
}

/* The least recently used model, if closing unused ones makes room for so many bytes; else NULL. */
static struct served_model *find_least_used(const struct served_models *models, uint64_t bytes,
                                            int was_holding)
{
    struct served_model *least = NULL;
    for (struct served_model *row = models->rows; row; row = row->next)
        if (!is_unused(row, was_holding))
            bytes += row_bytes(row);
        else if (!least || row->used < least->used)
            least = row;
    return fits(models, bytes) ? least : NULL;
}

/* ---- the thread that opens and closes; the lock is held between steps ---- */

static void unload_row(struct served_models *models, struct served_model *row, const char *why)
{
    struct served *served = row->open, *next;
    row->open = NULL;
    row->state = MODEL_UNLOADING;
    metrics_end_batch(&row->metrics);
    rf_lock_release(models->lock);
    for (; served; served = next) {
        next = served->next;
        close_served(models, served);
    }
    rf_lock_take(models->lock);
    row->state = MODEL_CLOSED; /* who waits for it wishes for it again */
    row->bytes = 0;            /* the file may be another one then */
    log_event("unloaded", "{s:s, s:s}", "model", row->name, "reason", why);
}

static void find_row_cost(struct served_models *models, struct served_model *row)
{
    const struct rf_serve_options *options = models->options;
    struct rf_error error;
    uint64_t bytes = 0;
    rf_lock_release(models->lock);
    int code = options->cost(options->user, row->path, &bytes, &error);
    if (code) log_event("not_loaded", "{s:s, s:s}", "model", row->name, "sentence", error.text);
    rf_lock_take(models->lock);
    row->bytes = bytes ? bytes : 1;
    if (!code && !fits(models, bytes))
        code = rf_fail(&error, RF_ERR_ARGUMENT,
                       "the model %s takes about %llu MB, and models may take %llu MB "
                       "(--models-memory)",
                       row->name, (unsigned long long)(bytes / 1000000),
                       (unsigned long long)(models->options->models_bytes / 1000000));
    if (!code) return;
    row->bytes = 0;
    models_fail(models, row, code, error.text);
}

static void open_row(struct served_models *models, struct served_model *row)
{
    struct served *served;
    struct rf_error error;
    int is_told;
    double start = rf_clock_seconds();
    rf_lock_release(models->lock);
    log_event("loading", "{s:s}", "model", row->name);
    int code = open_served(models, row, &served, &is_told, &error);
    double end = rf_clock_seconds();
    if (code)
        log_event("not_loaded", "{s:s, s:s}", "model", row->name, "sentence", error.text);
    else
        log_event("loaded", "{s:s, s:f}", "model", row->name, "seconds", end - start);
    rf_lock_take(models->lock);
    if (code) {
        row->bytes = 0;
        models_fail(models, row, code, error.text);
        return;
    }
    row->open = served;
    row->bytes = served->model.bytes;
    row->state = MODEL_READY;
    row->used = end;
    rf_condition_signal(models->news);
}

/* The model that was wished for first. Wishes that nobody waits for any more are dropped. */
static struct served_model *oldest_wish(struct served_models *models)
{
    struct served_model *oldest = NULL;
    for (struct served_model *row = models->rows; row; row = row->next) {
        if (row->state != MODEL_LOADING) continue;
        if (!row->n_waiters)
            row->state = MODEL_CLOSED;
        else if (!oldest || row->wished < oldest->wished)
            oldest = row;
    }
    return oldest;
}

static struct served_model *find_wish(const struct served_models *models, int only_unknown)
{
    struct served_model *row = models->rows;
    uint64_t bytes = all_bytes(models);
    while (row && (row->state != MODEL_LOADING ||
                   (only_unknown ? row->bytes != 0 : !fits(models, bytes + row->bytes))))
        row = row->next;
    return row;
}

/* A step towards a model that somebody waits for. 1 if there was one to make. */
static int step_loading(struct served_models *models)
{
    int was_holding = models->is_holding;
    struct served_model *oldest = oldest_wish(models), *unknown = find_wish(models, 1), *row;
    models->is_holding = 0;
    if (models->is_ending || !oldest) return 0;
    if (unknown) {
        find_row_cost(models, unknown);
    } else if (fits(models, all_bytes(models) + oldest->bytes)) {
        open_row(models, oldest);
    } else if ((row = find_least_used(models, oldest->bytes, was_holding))) {
        unload_row(models, row, "memory");
    } else if ((row = find_wish(models, 0))) {
        open_row(models, row);
    } else {
        models->is_holding = rf_clock_seconds() - oldest->wished > HOLD_SECONDS;
        return 0;
    }
    return 1;
}

static int step_reloading(struct served_models *models)
{
    struct served_model *row = models->rows;
    struct served *served;
    struct rf_error error;
    int is_told;
    while (row && !(row->is_reloading && row->state == MODEL_READY)) row = row->next;
    if (models->is_ending || !row) return 0;
    row->is_reloading = 0;
    rf_lock_release(models->lock);
    log_event("reloading", "{s:s}", "model", row->name);
    int code = open_served(models, row, &served, &is_told, &error);
    if (code)
        log_event("not_reloaded", "{s:s, s:s}", "model", row->name, "sentence", error.text);
    else
        log_event("reloaded", "{s:s}", "model", row->name);
    rf_lock_take(models->lock);
    if (code) return 1;
    metrics_end_batch(&row->metrics);
    served->next = row->open;
    row->open = served;
    return 1;
}

/* Closes a model that was replaced and whose answers have ended. */
static int step_closing(struct served_models *models)
{
    struct served *old = NULL;
    struct served_model *row = models->rows;
    for (; row && !old; row = old ? row : row->next) {
        struct served **at = row->open ? &row->open->next : NULL;
        while (at && *at && atomic_load(&(*at)->users)) at = &(*at)->next;
        if (!at || !*at) continue;
        old = *at;
        *at = old->next;
    }
    if (!old) return 0;
    rf_lock_release(models->lock);
    log_event("closed", "{s:s}", "model", old->of->name);
    close_served(models, old);
    rf_lock_take(models->lock);
    return 1;
}

static int step_unloading(struct served_models *models)
{
    struct served_model *row = models->rows;
    double now = rf_clock_seconds();
    int32_t keep = models->options->keep_alive;
    while (row && !(is_unused(row, 0) && now - row->used > keep)) row = row->next;
    if (keep < 0 || !models->has_begun || !row) return 0;
    unload_row(models, row, "age");
    return 1;
}

void *models_load(void *user)
{
    struct served_models *models = user;
    rf_lock_take(models->lock);
    while (!models->is_over)
        if (!step_loading(models) && !step_reloading(models) && !step_closing(models) &&
            !step_unloading(models))
            rf_condition_wait(&models->wishes, models->lock, IDLE_MS);
    rf_lock_release(models->lock);
    return NULL;
}

void models_reload(struct served_models *models)
{
    for (struct served_model *row = models->rows; row; row = row->next)
        row->is_reloading = row->state == MODEL_READY;
    rf_condition_signal(&models->wishes);
}

/* ---- the thread that fetches ---- */

/* Fetches the file of a row and finds its path. Called without the lock. */
static int fetch_row(const struct served_models *models, const char *name,
                     struct rf_serve_entry *entry, struct rf_error *error)
{
    const struct rf_serve_options *options = models->options;
    int code = options->fetch(options->user, name, error);
    if (code) return code;
    if (!options->find(options->user, name, entry) && entry->path) return 0;
    free(entry->name);
    *entry = (struct rf_serve_entry){NULL, NULL};
    return rf_fail(error, RF_ERR_IO, "the model %s was fetched and is not here", name);
}

static void step_fetching(struct served_models *models, struct served_model *row)
{
    struct rf_serve_entry entry = {NULL, NULL};
    struct rf_error error;
    rf_lock_release(models->lock);
    log_event("fetching", "{s:s}", "model", row->name);
    int code = fetch_row(models, row->name, &entry, &error);
    if (code)
        log_event("not_loaded", "{s:s, s:s}", "model", row->name, "sentence", error.text);
    else
        log_event("fetched", "{s:s}", "model", row->name);
    rf_lock_take(models->lock);
    if (code) {
        models_fail(models, row, code, error.text);
        return;
    }
    /* Nobody has the name yet: a row without a path was never open. */
    free(row->name);
    row->name = entry.name;
    row->path = entry.path;
    models_wish(models, row);
}

void *models_fetch(void *user)
{
    struct served_models *models = user;
    rf_lock_take(models->lock);
    while (!models->is_over) {
        struct served_model *row = models->rows;
        while (row && row->state != MODEL_FETCHING) row = row->next;
        if (row && !row->n_waiters)
            row->state = MODEL_CLOSED;
        else if (row && !models->is_ending)
            step_fetching(models, row);
        else
            rf_condition_wait(&models->wishes, models->lock, IDLE_MS);
    }
    rf_lock_release(models->lock);
    return NULL;
}

/* ---- beginning and end ---- */

static int open_given(struct served_models *models, const char *name, int *is_told,
                      struct rf_error *error)
{
    const struct rf_serve_options *options = models->options;
    struct rf_serve_entry entry = {NULL, NULL};
    struct served_model *row = NULL;
    uint64_t bytes = 0;
    int code = 0;
    if (options->find(options->user, name, &entry) || !entry.path)
        code = rf_fail(error, RF_ERR_ARGUMENT, "the model %s is not here", name);
    else if (!(row = models_add(models, entry.name, entry.path)))
        code = rf_fail(error, RF_ERR_MEMORY, "out of memory");
    free(entry.name);
    free(entry.path);
    if (!code && options->models_bytes) {
        code = options->cost(options->user, row->path, &bytes, error);
        *is_told = code != 0;
    }
    /* One that does not fit is opened when it is asked for. */
    if (code || !fits(models, all_bytes(models) + bytes)) return code;
    code = open_served(models, row, &row->open, is_told, error);
    if (code) return code;
    row->bytes = row->open->model.bytes;
    row->state = MODEL_READY;
    row->used = rf_clock_seconds();
    return 0;
}

int models_open_given(struct served_models *models, int *is_told, struct rf_error *error)
{
    int code = 0;
    *is_told = 0;
    for (size_t i = 0; !code && i < models->options->n_given; i++)
        code = open_given(models, models->options->given[i], is_told, error);
    return code;
}

void models_free(struct served_models *models)
{
    for (struct served_model *row = models->rows, *next; row; row = next) {
        next = row->next;
        for (struct served *served = row->open, *older; served; served = older) {
            older = served->next;
            close_served(models, served);
        }
        free(row->name);
        free(row->path);
        free(row);
    }
    rf_condition_destroy(&models->wishes);
}
