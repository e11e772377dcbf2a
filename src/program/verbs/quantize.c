/* The verb quantize: writes a model's file with other types of weights. The library does the work;
 * the verb reports it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_list.h"
#include "options/options.h"
#include "output/errors.h"
#include "output/json.h"
#include "output/output.h"
#include "output/progress.h"
#include "output/wrap.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "verbs/verbs.h"

static void quantize_print_text(const char *path, const riffle_model_info *before,
                                const riffle_model_info *after, double seconds)
{
    char from[32], to[32];
    print_name(stderr, path);
    fprintf(stderr, ": %s of %s, %s, in %.1f s\n", human_bytes(after->file_bytes, to),
            human_bytes(before->file_bytes, from), after->stored_types, seconds);
}

static void quantize_print_json(const char *path, const riffle_model_info *before,
                                const riffle_model_info *after, double seconds)
{
    struct json_writer json = {0};
    jw_put(&json, "{ path %s stored_types %s file_bytes %" PRIu64, path, after->stored_types,
           after->file_bytes);
    jw_put(&json, "input_bytes %" PRIu64 " seconds %g }", before->file_bytes, seconds);
    jw_print(&json);
}

/* Reads the header of a file. The texts of `info` belong to the model. 0 or a code of the library.
 */
static int quantize_describe(const char *path, riffle_model **model, riffle_model_info *info)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    options.chain = "none";
    int code = riffle_model_open(model, path, &options);
    return code == RIFFLE_OK ? riffle_model_get_info(*model, info, sizeof *info) : code;
}

static int read_calibration(const struct cli_options *options, char **text, size_t *bytes)
{
    enum { MOST_MIB = 1024 };
    struct rf_error error;
    if (!options->calibrate ||
        rf_slurp(options->calibrate, (size_t)MOST_MIB << 20, text, bytes, &error) == RF_OK)
        return CLI_OK;
    return cli_fail("%s", error.text);
}

int verb_quantize(const struct cli_options *options)
{
    struct progress_line progress = {0};
    riffle_quantize_options quantize_options;
    riffle_model *models[2] = {NULL, NULL};
    riffle_model_info before, after;
    char *path = model_path(options->model);
    if (!path) return CLI_FAILED;
    char *text = NULL;
    size_t bytes = 0;
    if (read_calibration(options, &text, &bytes) != CLI_OK) {
        free(path);
        return CLI_FAILED;
    }
    rf_interrupts_catch_all(); /* the unfinished file goes */
    riffle_quantize_options_init(&quantize_options, sizeof quantize_options);
    quantize_options.threads = options->threads;
    quantize_options.rule = options->rule;
    quantize_options.calibration = text;
    quantize_options.calibration_bytes = bytes;
    quantize_options.calibration_windows = options->chunks;
    if (options->group) quantize_options.group = strcmp(options->group, "channel") == 0 ? -1 : 128;
    quantize_options.rotate = options->no_rotate ? -1 : options->rotate;
    if (options->high_share >= 0)
        quantize_options.high_share = options->high_share ? options->high_share : -1;
    quantize_options.progress = progress_update;
    quantize_options.progress_user = &progress;
    double start = rf_clock_seconds();
    int code = riffle_quantize(path, options->out, options->type, &quantize_options);
    double seconds = rf_clock_seconds() - start;
    progress_clear(&progress);
    if (code == RIFFLE_OK) code = quantize_describe(path, &models[0], &before);
    if (code == RIFFLE_OK) code = quantize_describe(options->out, &models[1], &after);
    free(path);
    free(text);
    if (code == RIFFLE_OK && options->json)
        quantize_print_json(options->out, &before, &after, seconds);
    else if (code == RIFFLE_OK)
        quantize_print_text(options->out, &before, &after, seconds);
    if (code == RIFFLE_ERR_CANCELLED && options->calibrate)
        inform("riffle: %s", riffle_last_error());
    for (int i = 0; i < 2; i++) riffle_model_close(models[i]);
    return cli_status(code);
}
