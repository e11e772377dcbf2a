#include <stdlib.h>
#include <string.h>

#include "cli/engine.h"
#include "platform/file.h"
#include "serve/serve.h"

/* The name of a model, or of its file without the ending, which clients can write. For free(). */
static char *file_name(const char *path)
{
    size_t bytes;
    const char *name = rf_path_last(path, &bytes);
    if (bytes > 5 && strncmp(name + bytes - 5, ".gguf", 5) == 0) bytes -= 5;
    return cli_copy(name, bytes);
}

int verb_serve(const struct cli_options *options)
{
    struct engine engine;
    struct rf_error error;
    riffle_session_options session;
    const char *key = options->api_key ? options->api_key : getenv("RIFFLE_API_KEY");
    struct rf_serve_options serve = {.host = options->host,
                                     .port = options->port,
                                     .api_key = key && key[0] ? key : NULL,
                                     .answers = options->answers,
                                     .queue = options->queue,
                                     .kept_bytes = (int64_t)options->kept_mb * 1000000};
    if (rf_serve_check(&serve, &error))
        return cli_usage_error("%s (choose with --host and --api-key)", error.text);
    int status = engine_open_model(&engine, options, 0);
    if (status != CLI_OK) return status;
    engine_session_options(options, &session);
    serve.model = engine.model;
    char *name = file_name(options->model);
    serve.name = options->name ? options->name : name;
    serve.session = &session;
    serve.sampling = &engine.sampling;
    status = rf_serve(&serve, &error) ? cli_fail("%s", error.text) : CLI_OK;
    free(name);
    engine_close(&engine);
    return status;
}
