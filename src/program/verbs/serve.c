/* The verb serve: gives the server a function that opens the model, and runs it. Each reload opens
 * an engine of its own. */
#include <stdlib.h>
#include <string.h>

#include "models/pull_hub.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "platform/file.h"
#include "serve/serve.h"
#include "session/engine.h"
#include "verbs/verbs.h"

/* The name of a model, or of its file without the ending, for clients. For free(). */
static char *served_name(const char *path)
{
    size_t bytes;
    const char *name = rf_path_last(path, &bytes);
    if (bytes > 5 && strncmp(name + bytes - 5, ".gguf", 5) == 0) bytes -= 5;
    return cli_copy(name, bytes);
}

/* struct rf_serve_options.open: a model with an engine of its own. */
static int serve_open_model(void *user, struct rf_serve_model *opened)
{
    const struct cli_options *options = user;
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) return cli_fail("out of memory");
    int status = engine_open_model(engine, options, 0);
    if (status != CLI_OK) {
        free(engine);
        return status;
    }
    *opened = (struct rf_serve_model){engine->model, engine->sampling, engine};
    return CLI_OK;
}

static void serve_close_model(void *user, struct rf_serve_model *opened)
{
    (void)user;
    engine_close(opened->owner);
    free(opened->owner);
}

int verb_serve(const struct cli_options *options)
{
    struct rf_error error;
    riffle_session_options session;
    int is_told;
    const char *key = options->api_key ? options->api_key : getenv("RIFFLE_API_KEY");
    struct rf_serve_options serve = {.open = serve_open_model,
                                     .close = serve_close_model,
                                     .user = (void *)options,
                                     .session = &session,
                                     .host = options->host,
                                     .port = options->port,
                                     .api_key = key && key[0] ? key : NULL,
                                     .answers = options->answers,
                                     .queue = options->queue,
                                     .kept_bytes = (int64_t)options->kept_mb * 1000000};
    if (rf_serve_check(&serve, &error))
        return cli_usage_error("%s (choose with --host and --api-key)", error.text);
    int status = pull_offer(options->model);
    if (status != CLI_OK) return status;
    engine_session_options(options, &session);
    char *name = served_name(options->model);
    serve.name = options->name ? options->name : name;
    int code = rf_serve(&serve, &is_told, &error);
    status = code ? CLI_FAILED : CLI_OK;
    if (code && !is_told) status = cli_fail("%s", error.text);
    free(name);
    return status;
}
