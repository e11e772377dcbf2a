/* The table of models as requests see it: names, states, references and those who wait. The threads
 * that prepare questions ask here; the computing thread asks again for requests that wait. */
#define _POSIX_C_SOURCE 200809L
#include "serve/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "requests/reply.h"

enum { STORE_SECONDS = 1 /* the next request of a conversation comes before */ };

const char *const model_states[MODEL_STATES] = {
    [MODEL_CLOSED] = "closed", [MODEL_FETCHING] = "fetching", [MODEL_LOADING] = "loading",
    [MODEL_READY] = "ready",   [MODEL_FAILED] = "failed",     [MODEL_UNLOADING] = "unloading"};

void models_init(struct served_models *models, const struct rf_serve_options *options,
                 struct rf_lock *lock, struct rf_condition *news)
{
    *models = (struct served_models){.options = options, .lock = lock, .news = news};
    rf_condition_init(&models->wishes);
}

/* ---- rows ---- */

struct served_model *models_row(const struct served_models *models, const char *name,
                                const char *path)
{
    struct served_model *row = models->rows;
    while (row && (path ? !row->path || strcmp(row->path, path) != 0
                        : row->path || strcmp(row->name, name) != 0))
        row = row->next;
    return row;
}

/* The row of a name that could not be fetched and that nobody waits for, with another name; NULL:
 * there is none. So names that mean nothing take no memory. */
static struct served_model *rename_failed(const struct served_models *models, const char *name)
{
    struct served_model *row = models->rows;
    while (row && (row->path || row->state != MODEL_FAILED || row->n_waiters)) row = row->next;
    char *copy = row ? strdup(name) : NULL;
    if (!copy) return NULL;
    free(row->name);
    row->name = copy;
    return row;
}

struct served_model *models_add(struct served_models *models, const char *name, const char *path)
{
    struct served_model *failed = path ? NULL : rename_failed(models, name);
    if (failed) return failed;
    struct served_model **end = &models->rows, *row = calloc(1, sizeof *row);
    if (!row) return NULL;
    row->name = strdup(name);
    row->path = path ? strdup(path) : NULL;
    if (!row->name || (path && !row->path)) {
        free(row->name);
        free(row->path);
        free(row);
        return NULL;
    }
    while (*end) end = &(*end)->next;
    *end = row;
    return row;
}

void models_wish(struct served_models *models, struct served_model *row)
{
    row->state = row->path ? MODEL_LOADING : MODEL_FETCHING;
    row->wished = rf_clock_seconds();
    rf_condition_signal(&models->wishes);
}

void models_fail(struct served_models *models, struct served_model *row, int code,
                 const char *sentence)
{
    row->state = MODEL_FAILED;
    refuse(&row->why, code == RF_ERR_MEMORY ? 503 : 500, "model_not_loaded", "%s", sentence);
    rf_condition_signal(models->news);
}

/* ---- names ---- */

/* A sentence that ends with the names of all models. */
struct naming {
    struct refusal *refusal;
    int n, n_left;
};

static void name_model(void *to, const char *name, const char *path)
{
    enum { ROOM = 32 }; /* for the end of the sentence */
    struct naming *naming = to;
    size_t n = strlen(naming->refusal->text), left = sizeof naming->refusal->text - n;
    (void)path;
    if (!reply_can_name(name)) return;
    if (strlen(name) + ROOM > left)
        naming->n_left++;
    else
        snprintf(naming->refusal->text + n, left, "%s%s", naming->n++ ? ", " : "", name);
}

int models_refuse(const struct served_models *models, const char *name, struct refusal *refusal)
{
    const struct rf_serve_options *options = models->options;
    struct naming naming = {.refusal = refusal};
    if (name)
        refuse(refusal, 404, "model_not_found", "the model %.100s is not here; this server has ",
               name);
    else
        refuse(refusal, 400, "invalid_value", "model is missing; this server has ");
    options->each(options->user, name_model, &naming);
    size_t n = strlen(refusal->text);
    if (naming.n_left)
        snprintf(refusal->text + n, sizeof refusal->text - n, " and %d more", naming.n_left);
    else if (!naming.n)
        snprintf(refusal->text + n, sizeof refusal->text - n, "none");
    return name ? -1 : refuse_param(refusal, "model");
}

/* ---- asking ---- */

static enum asked row_take(struct served_model *row, struct served **served)
{
    *served = row->open;
    atomic_fetch_add(&row->open->users, 1);
    row->used = rf_clock_seconds();
    return MODEL_TAKEN;
}

/* Answers a request that does not wait yet. A model that failed is tried again, unless others have
 * still to be told. */
static enum asked row_ask(struct served_models *models, struct served_model *row,
                          struct served **served)
{
    if (row->state == MODEL_READY && !models->is_holding) return row_take(row, served);
    if (row->state == MODEL_CLOSED || (row->state == MODEL_FAILED && !row->n_waiters))
        models_wish(models, row);
    row->n_waiters++;
    return MODEL_AWAITED;
}

int models_is_decided(const struct served_models *models, const struct served_model *row)
{
    return row->state == MODEL_FAILED || (row->state == MODEL_READY && !models->is_holding);
}

enum asked models_ask_again(struct served_models *models, struct served_model *row,
                            struct served **served, struct refusal *refusal)
{
    if (row->state == MODEL_CLOSED) models_wish(models, row);
    if (!models_is_decided(models, row)) return MODEL_AWAITED;
    models_leave(row);
    if (row->state == MODEL_READY) return row_take(row, served);
    *refusal = row->why;
    return MODEL_REFUSED;
}

/* The row of a name that is open: nothing on the disk is looked at. */
static struct served_model *ready_row(const struct served_models *models, const char *name)
{
    struct served_model *row = models->rows;
    while (row && (row->state != MODEL_READY || strcmp(row->name, name) != 0)) row = row->next;
    return row;
}

/* The model that the name means; ":latest", which ollama's clients write, may be behind it. */
static int find_entry(const struct rf_serve_options *options, const char *name,
                      struct rf_serve_entry *entry)
{
    static const char latest[] = ":latest";
    size_t n = strlen(name), end = sizeof latest - 1;
    int code = options->find(options->user, name, entry);
    if (code != 1 || n <= end || strcmp(name + n - end, latest) != 0) return code;
    char *shorter = strdup(name);
    if (!shorter) return code;
    shorter[n - end] = '\0';
    code = options->find(options->user, shorter, entry);
    free(shorter);
    return code;
}

enum asked models_ask(struct served_models *models, const char *name, struct served **served,
                      struct served_model **row, struct refusal *refusal)
{
    const struct rf_serve_options *options = models->options;
    struct rf_serve_entry entry = {NULL, NULL};
    enum asked asked = MODEL_REFUSED;
    const char *wanted = name ? name : options->n_given ? options->given[0] : NULL;
    if (!wanted) {
        models_refuse(models, NULL, refusal);
        return MODEL_REFUSED;
    }
    rf_lock_take(models->lock);
    *row = ready_row(models, wanted);
    if (*row) asked = row_ask(models, *row, served);
    rf_lock_release(models->lock);
    if (*row) return asked;
    if (find_entry(options, wanted, &entry)) {
        models_refuse(models, wanted, refusal);
        return MODEL_REFUSED;
    }
    rf_lock_take(models->lock);
    *row = models_row(models, entry.name, entry.path);
    if (!*row) *row = models_add(models, entry.name, entry.path);
    if (*row)
        asked = row_ask(models, *row, served);
    else
        refuse_memory(refusal);
    rf_lock_release(models->lock);
    free(entry.name);
    free(entry.path);
    return asked;
}

void models_leave(struct served_model *row)
{
    row->n_waiters--;
}

void models_release(struct served *served)
{
    atomic_fetch_sub(&served->users, 1);
}

/* ---- steps ---- */

struct served *models_to_step(struct served_models *models)
{
    struct served *list = NULL;
    double now = rf_clock_seconds();
    models->has_begun = 1;
    for (struct served_model *row = models->rows; row; row = row->next)
        for (struct served *served = row->open; served; served = served->next) {
            if (atomic_load(&served->users) == 0) continue;
            row->used = now;
            atomic_fetch_add(&served->users, 1);
            served->next_step = list;
            list = served;
        }
    return list;
}

void models_stepped(struct served *list)
{
    for (struct served *served = list, *next; served; served = next) {
        struct served_model *row = served->of;
        next = served->next_step; /* released, it may be closed */
        served->may_store = 1;
        if (served == row->open)
            riffle_batch_get_stats(served->batch, &row->metrics.batch, sizeof row->metrics.batch);
        models_release(served);
    }
}

struct served *models_to_store(const struct served_models *models)
{
    double now = rf_clock_seconds();
    for (struct served_model *row = models->options->store_folder ? models->rows : NULL; row;
         row = row->next)
        if (row->open && row->open->may_store && now - row->used > STORE_SECONDS) {
            atomic_fetch_add(&row->open->users, 1);
            return row->open;
        }
    return NULL;
}
