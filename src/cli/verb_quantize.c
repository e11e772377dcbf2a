#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/known_models.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "platform/clock.h"
#include "riffle.h"

static void print_result(const char *path, const riffle_model_info *before,
                         const riffle_model_info *after, double seconds, int as_json)
{
    if (as_json) {
        struct json_writer json = {0};
        jw_object(&json, NULL);
        jw_string(&json, "path", path);
        jw_string(&json, "stored_types", after->stored_types);
        jw_uint(&json, "file_bytes", after->file_bytes);
        jw_uint(&json, "input_bytes", before->file_bytes);
        jw_number(&json, "seconds", seconds);
        jw_end_object(&json);
        jw_print(&json);
        return;
    }
    char from[32], to[32];
    print_name(stderr, path);
    fprintf(stderr, ": %s of %s, %s, in %.1f s\n", human_bytes(after->file_bytes, to),
            human_bytes(before->file_bytes, from), after->stored_types, seconds);
}

/* Reads both headers, to report what is on the disk. */
static int describe(const char *in, const char *out, double seconds, int as_json)
{
    const char *paths[2] = {in, out};
    riffle_model *models[2] = {NULL, NULL};
    riffle_model_info info[2];
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    options.chain = "none";
    int code = RIFFLE_OK;
    for (int i = 0; i < 2 && code == RIFFLE_OK; i++) {
        code = riffle_model_open(&models[i], paths[i], &options);
        if (code == RIFFLE_OK) code = riffle_model_get_info(models[i], &info[i], sizeof info[i]);
    }
    if (code == RIFFLE_OK) print_result(out, &info[0], &info[1], seconds, as_json);
    for (int i = 0; i < 2; i++) riffle_model_close(models[i]);
    return code;
}

int verb_quantize(const struct cli_options *options)
{
    struct progress_line progress = {0};
    riffle_quantize_options quantize_options;
    char *path = model_path(options->model);
    if (!path) return CLI_FAILED;
    riffle_quantize_options_init(&quantize_options, sizeof quantize_options);
    quantize_options.threads = options->threads;
    quantize_options.rule = options->rule;
    quantize_options.progress = progress_update;
    quantize_options.progress_user = &progress;
    double start = rf_clock_seconds();
    int code = riffle_quantize(path, options->out, options->type, &quantize_options);
    progress_clear(&progress);
    if (code == RIFFLE_OK)
        code = describe(path, options->out, rf_clock_seconds() - start, options->json);
    free(path);
    return code == RIFFLE_OK ? CLI_OK : cli_library_failed(code);
}
