/* The verb serve: gives the server functions that find, fetch and open models, and runs it. They
 * are called on the server's threads; what they share is not changed after the beginning. */
#include <stdlib.h>
#include <string.h>

#include "models/pull_hub.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/origin.h"
#include "platform/file.h"
#include "platform/folder.h"
#include "platform/memory.h"
#include "serve/serve.h"
#include "session/engine.h"
#include "verbs/verbs.h"

enum { KEEP_SECONDS = 600, COUNTED_CTX = 8192 };

/* A MODEL of the command line. */
struct given {
    const char *typed;
    const char *name; /* in requests */
    char *own_name;   /* for free(); NULL: it is --name */
    char *path;
};

/* The models of the command line; none: those of the list. */
struct offered {
    const struct cli_options *options;
    struct given *given; /* [n] */
    const char **names;  /* [n] */
    size_t n;
};

/* The name of a model, or of its file without the ending, for clients. For free(). */
static char *served_name(const char *path)
{
    size_t bytes;
    const char *name = rf_path_last(path, &bytes);
    if (bytes > 5 && strncmp(name + bytes - 5, ".gguf", 5) == 0) bytes -= 5;
    return cli_copy(name, bytes);
}

static char *text_copy(const char *text)
{
    return cli_copy(text, strlen(text));
}

/* ---- names ---- */

/* The path of a model that is in the list, by its name; NULL: none is. *name, for free(), may be
 * NULL. A request names no file, so nothing else on the disk is found. */
static char *listed_path(const char *wanted, char **name)
{
    struct model_list list;
    char *path = NULL;
    const struct model_entry *entry =
        model_list_read(&list) == CLI_OK ? model_list_named(&list, wanted) : NULL;
    if (entry && model_is_complete(entry)) {
        path = text_copy(entry->path);
        if (name) *name = text_copy(entry->name);
    }
    model_list_free(&list);
    return path;
}

static const struct given *find_given(const struct offered *offered, const char *wanted)
{
    for (size_t i = 0; i < offered->n; i++)
        if (strcmp(offered->given[i].name, wanted) == 0) return &offered->given[i];
    /* A request may repeat a path that was typed, and means no other file by a path. */
    for (size_t i = 0; i < offered->n; i++)
        if (strcmp(offered->given[i].typed, wanted) == 0) return &offered->given[i];
    char *path = listed_path(wanted, NULL);
    const struct given *found = NULL;
    for (size_t i = 0; path && i < offered->n && !found; i++)
        if (strcmp(offered->given[i].path, path) == 0) found = &offered->given[i];
    free(path);
    return found;
}

/* Whether a name that is not in the list means a model that can be fetched. */
static int can_fetch(const char *wanted)
{
    struct hub_name hub;
    if (hub_name_parse(wanted, &hub)) return 1;
    for (const struct known_model *model = known_models(); model->name[0]; model++)
        if (strcmp(model->name, wanted) == 0) return 1;
    return 0;
}

/* struct rf_serve_options.find */
static int offered_find(void *user, const char *wanted, struct rf_serve_entry *entry)
{
    const struct offered *offered = user;
    *entry = (struct rf_serve_entry){NULL, NULL};
    if (offered->n) {
        const struct given *given = find_given(offered, wanted);
        if (!given) return 1;
        *entry = (struct rf_serve_entry){text_copy(given->name), text_copy(given->path)};
        return 0;
    }
    entry->path = listed_path(wanted, &entry->name);
    if (entry->path) return 0;
    if (!offered->options->pulls || !can_fetch(wanted)) return 1;
    entry->name = text_copy(wanted);
    return 0;
}

/* struct rf_serve_options.each */
static void offered_each(void *user, void (*take)(void *to, const char *name, const char *path),
                         void *to)
{
    const struct offered *offered = user;
    struct model_list list;
    for (size_t i = 0; i < offered->n; i++)
        take(to, offered->given[i].name, offered->given[i].path);
    if (offered->n) return;
    if (model_list_read(&list) == CLI_OK)
        for (size_t i = 0; i < list.count; i++) {
            const struct model_entry *entry = &list.items[i];
            /* Several files may share a name: a request gets one of them. */
            if (model_is_complete(entry) && model_list_named(&list, entry->name) == entry)
                take(to, entry->name, entry->path);
        }
    model_list_free(&list);
}

/* ---- files ---- */

/* The sentence of a call on this thread that failed. */
static int offered_fail(struct rf_error *error, int code, const char *sentence)
{
    cli_copy_sentences(NULL, 0);
    return rf_fail(error, code, "%s", sentence[0] ? sentence : "it failed");
}

/* struct rf_serve_options.fetch */
static int offered_fetch(void *user, const char *name, struct rf_error *error)
{
    char sentence[sizeof error->text] = "";
    (void)user;
    cli_copy_sentences(sentence, sizeof sentence);
    if (pull_by_name(name) != CLI_OK) return offered_fail(error, RF_ERR_IO, sentence);
    cli_copy_sentences(NULL, 0);
    return 0;
}

/* The memory of the weights and of a text of some length: keys and values grow with texts. */
static uint64_t engine_bytes(const struct engine *engine, const struct cli_options *options)
{
    const riffle_model_info *info = &engine->info;
    riffle_session_options session;
    int32_t n_ctx = 0;
    uint64_t kv_bytes = 0;
    engine_session_options(options, &session);
    if (riffle_session_cost(engine->model, &session, &n_ctx, &kv_bytes) < 0) kv_bytes = 0;
    if (n_ctx > COUNTED_CTX) {
        session.n_ctx =
            COUNTED_CTX; /* bytes of layers with a window do not grow with the context */
        if (riffle_session_cost(engine->model, &session, NULL, &kv_bytes) < 0) kv_bytes = 0;
    }
    return info->mapped_bytes + info->resident_bytes + info->draft_bytes + kv_bytes;
}

static int open_engine(const struct offered *offered, struct engine *engine, const char *path,
                       unsigned flags, struct rf_error *error)
{
    char sentence[sizeof error->text] = "";
    struct cli_options options = *offered->options;
    options.model = path;
    cli_copy_sentences(sentence, sizeof sentence);
    if (engine_open_model(engine, &options, flags) != CLI_OK)
        return offered_fail(error, RF_ERR_IO, sentence);
    cli_copy_sentences(NULL, 0);
    return 0;
}

/* struct rf_serve_options.cost */
static int offered_cost(void *user, const char *path, uint64_t *bytes, struct rf_error *error)
{
    const struct offered *offered = user;
    struct engine engine;
    int code = open_engine(offered, &engine, path, RIFFLE_OPEN_HEADER, error);
    if (code) return code;
    *bytes = engine_bytes(&engine, offered->options);
    engine_close(&engine);
    return 0;
}

/* struct rf_serve_options.open: a model with an engine of its own. */
static int offered_open(void *user, const char *path, struct rf_serve_model *opened,
                        struct rf_error *error)
{
    const struct offered *offered = user;
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        cli_fail("out of memory");
        return rf_fail(error, RF_ERR_MEMORY, "out of memory");
    }
    int code = open_engine(offered, engine, path, 0, error);
    if (code) {
        free(engine);
        return code;
    }
    *opened = (struct rf_serve_model){engine->model, engine->sampling,
                                      engine_bytes(engine, offered->options), engine};
    return 0;
}

static void offered_close(void *user, struct rf_serve_model *opened)
{
    (void)user;
    engine_close(opened->owner);
    free(opened->owner);
}

/* ---- the command line ---- */

/* Finds the file of a MODEL, after offering to fetch it. */
static int add_given(struct offered *offered, const char *typed)
{
    int status = pull_offer(typed);
    char *path = status == CLI_OK ? model_path(typed) : NULL;
    if (!path) return status == CLI_OK ? CLI_FAILED : status;
    struct given given = {typed, offered->options->name, NULL, path};
    if (!given.name) given.name = given.own_name = served_name(typed);
    for (size_t i = 0; i < offered->n && status == CLI_OK; i++)
        if (strcmp(offered->given[i].name, given.name) == 0)
            status = cli_fail("two models have the name %s", given.name);
    offered->given = cli_reallocate(offered->given, offered->n + 1, sizeof *offered->given);
    offered->names = cli_reallocate(offered->names, offered->n + 1, sizeof *offered->names);
    offered->names[offered->n] = given.name;
    offered->given[offered->n++] = given;
    return status;
}

static void offered_free(struct offered *offered)
{
    for (size_t i = 0; i < offered->n; i++) {
        free(offered->given[i].own_name);
        free(offered->given[i].path);
    }
    free(offered->given);
    free(offered->names);
}

/* Makes the folder of --prompt-cache, or checks the one that is there. */
static int set_store(const struct cli_options *options, struct rf_serve_options *serve)
{
    if (!options->store) return CLI_OK;
    if (!rf_path_exists(options->store)) rf_make_folder(options->store);
    if (!rf_folder_is_own(options->store))
        return cli_fail(
            "--prompt-cache %s: not a folder of this user that nobody else may write to",
            options->store);
    serve->store_folder = options->store;
    serve->store_bytes = (uint64_t)options->store_mb * 1000000;
    return CLI_OK;
}

/* The limits, whose defaults depend on the models that are given. */
static void set_limits(const struct cli_options *options, struct rf_serve_options *serve)
{
    uint64_t share = rf_memory_physical() / 4 * 3;
    serve->models_bytes = options->models_mb    ? (uint64_t)options->models_mb * 1000000
                          : serve->n_given == 1 ? 0
                                                : share;
    serve->keep_alive = options->keep_alive != NOT_GIVEN ? options->keep_alive
                        : serve->n_given                 ? -1
                                                         : KEEP_SECONDS;
    serve->model_wait = options->model_wait;
}

int verb_serve(const struct cli_options *options)
{
    struct rf_error error;
    struct offered offered = {.options = options};
    riffle_session_options session;
    int is_told, status = CLI_OK;
    const char *key = options->api_key ? options->api_key : getenv("RIFFLE_API_KEY");
    struct rf_serve_options serve = {.find = offered_find,
                                     .each = offered_each,
                                     .fetch = options->pulls ? offered_fetch : NULL,
                                     .cost = offered_cost,
                                     .open = offered_open,
                                     .close = offered_close,
                                     .user = &offered,
                                     .session = &session,
                                     .build = riffle_commit,
                                     .host = options->host,
                                     .port = options->port,
                                     .api_key = key && key[0] ? key : NULL,
                                     .origins = options->origins.items,
                                     .n_origins = options->origins.count,
                                     .answers = options->answers,
                                     .queue = options->queue,
                                     .kept_bytes = (int64_t)options->kept_mb * 1000000};
    if (rf_serve_check(&serve, &error))
        return cli_usage_error(
            "%s%s", error.text,
            strncmp(error.text, "--", 2) == 0 ? "" : " (choose with --host and --api-key)");
    status = set_store(options, &serve);
    known_models(); /* read once, before there are threads */
    for (size_t i = 0; status == CLI_OK && i < options->arguments.count; i++)
        status = add_given(&offered, options->arguments.items[i]);
    if (status == CLI_OK) {
        engine_session_options(options, &session);
        serve.given = offered.names;
        serve.n_given = offered.n;
        set_limits(options, &serve);
        if (rf_serve(&serve, &is_told, &error))
            status = is_told ? CLI_FAILED : cli_fail("%s", error.text);
    }
    offered_free(&offered);
    return status;
}
