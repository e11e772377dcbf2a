/* `riffle roofline`: kernels against this machine's measured limits. Rows are printed as they are
 * measured; JSON and the picture come at the end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/roofline.h"
#include "options/numbers.h"
#include "options/options.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/json.h"
#include "output/output.h"
#include "output/progress.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"
#include "roofline/results.h"
#include "verbs/verbs.h"

struct measuring {
    struct roofline_results roofline;
    struct progress_line progress;
    int silent; /* no tables: JSON comes at the end */
};

static int roofline_on_ceiling(void *user, const struct rf_ceiling *ceiling)
{
    struct measuring *measuring = user;
    struct roofline_results *roofline = &measuring->roofline;
    size_t i = 0, n = roofline->n_ceilings;
    struct rf_ceiling *known = roofline->ceilings;
    while (i < n && (known[i].threads != ceiling->threads || strcmp(known[i].key, ceiling->key)))
        i++;
    if (i == n) known = cli_reallocate(known, ++roofline->n_ceilings, sizeof *known);
    known[i] = *ceiling; /* later reports are more precise */
    roofline->ceilings = known;
    return rf_interrupts() > 0;
}

static int roofline_on_row(void *user, const struct rf_roofline_row *row)
{
    struct measuring *measuring = user;
    struct roofline_results *roofline = &measuring->roofline;
    roofline->rows = cli_reallocate(roofline->rows, roofline->n_rows + 1, sizeof *roofline->rows);
    roofline->rows[roofline->n_rows++] = *row;
    if (!measuring->silent && strcmp(row->where, "cache") == 0) {
        progress_hide(&measuring->progress);
        if (roofline->n_rows == 2) roofline_print_ceilings(roofline);
        roofline_print_last(roofline);
        fflush(stdout);
    }
    return rf_interrupts() > 0;
}

static int roofline_progress(void *user, uint64_t done, uint64_t total)
{
    struct measuring *measuring = user;
    return progress_update(&measuring->progress, "measuring", done, total);
}

/* "8192x8192,1536x256". For free(); NULL if the text is something else. */
static struct rf_roofline_shape *parse_shapes(const char *at, size_t *count)
{
    struct rf_roofline_shape *items = NULL;
    *count = 0;
    for (;; at++) {
        int32_t m, k;
        items = cli_reallocate(items, *count + 1, sizeof *items);
        if (!parse_whole(&at, 1, &m) || (*at != 'x' && *at != 'X')) break;
        at++;
        if (!parse_whole(&at, 1, &k)) break;
        items[(*count)++] = (struct rf_roofline_shape){m, k};
        if (!*at) return items;
        if (*at != ',') break;
    }
    free(items);
    return NULL;
}

static void write_ceiling(struct json_writer *json, const struct rf_ceiling *ceiling,
                          int32_t threads)
{
    char key[64];
    const char *unit = ceiling->is_bandwidth ? "gbps" : "gops";
    double rate = ceiling->per_second > 0 ? ceiling->per_second / 1e9 : NAN;
    snprintf(key, sizeof key, "%s_%s_1", ceiling->key, unit);
    if (ceiling->threads == 1) jw_number(json, key, rate);
    snprintf(key, sizeof key, "%s_%s%s", ceiling->key, unit, ceiling->is_bandwidth ? "_all" : "");
    if (ceiling->threads == threads) jw_number(json, key, rate);
}

/* How memory and each cache are read, or why not. */
static void write_pattern(struct json_writer *json, const struct rf_ceiling *ceiling,
                          int32_t threads)
{
    if (ceiling->threads == threads && ceiling->note[0])
        jw_string(json, ceiling->key, ceiling->note);
}

static void write_kernel(struct json_writer *json, const struct rf_roofline_row *row)
{
    jw_put(json, "{ kernel %s tier %s form %s rows %d", row->kernel, row->tier, row->form,
           row->rows);
    jw_put(json, "m %" PRId64 " k %" PRId64 " threads %d where %s", row->m, row->k, row->threads,
           row->where);
    jw_put(json, "gbps %g percent_of_read %g", row->bytes_per_second / 1e9, row->percent_of_read);
    jw_put(json, "gops %g percent_of_compute %g", row->ops_per_second / 1e9,
           row->percent_of_compute);
    jw_put(json, "ceiling %s ops_per_byte %g binds %s }", row->ceiling, row->ops_per_byte,
           row->binds);
}

static void roofline_write_json(const struct roofline_results *roofline, const struct buffer *notes)
{
    struct json_writer json = {0};
    const riffle_machine *machine = &roofline->origin.machine;
    int32_t threads = roofline_threads(roofline);
    jw_put(&json, "{");
    origin_write(&roofline->origin, &json);
    jw_put(&json, "machine { cpu %s cpu_best %s model %s", machine->cpu, machine->cpu_best,
           roofline->origin.model);
    jw_put(&json, "cores %d threads %d ceilings {", machine->cores, threads);
    for (size_t i = 0; i < roofline->n_ceilings; i++)
        write_ceiling(&json, &roofline->ceilings[i], threads);
    jw_put(&json, "} patterns {");
    for (size_t i = 0; i < roofline->n_ceilings; i++)
        write_pattern(&json, &roofline->ceilings[i], threads);
    jw_put(&json, "} } notes [");
    jw_lines(&json, notes);
    jw_put(&json, "] kernels [");
    for (size_t i = 0; i < roofline->n_rows; i++) write_kernel(&json, &roofline->rows[i]);
    jw_put(&json, "] }");
    jw_print(&json);
}

static int write_picture(const struct roofline_results *roofline, const char *path)
{
    struct buffer svg = {0};
    struct rf_error error;
    roofline_draw(roofline, &svg);
    struct rf_span span = {svg.data, svg.count};
    int code = rf_write_file(path, &span, 1, 0, &error);
    buffer_free(&svg);
    return code ? cli_fail("%s", error.text) : CLI_OK;
}

/* Checks that the file can be written before a minute of measuring, not after it. */
static int check_picture(const char *path)
{
    struct rf_error error;
    struct rf_new_file file;
    if (rf_new_file_open(&file, path, 0, &error)) return cli_fail("%s", error.text);
    rf_new_file_drop(&file);
    return CLI_OK;
}

/* The device in the place of the processor, in the origin of the figures. */
struct device_origin {
    const char *name;
    struct origin *origin;
};

static int take_device(void *user, const riffle_device *device)
{
    struct device_origin *wanted = user;
    size_t length = strlen(wanted->name); /* "cuda" is "cuda:0" */
    int is_auto = strcmp(wanted->name, "auto") == 0;
    if (device->problem[0] || strcmp(device->name, "cpu") == 0) return 0;
    if (!is_auto && (strncmp(device->name, wanted->name, length) != 0 ||
                     (device->name[length] && strcmp(device->name + length, ":0") != 0)))
        return 0;
    snprintf(wanted->origin->model, sizeof wanted->origin->model, "%s", device->description);
    snprintf(wanted->origin->machine.cpu, sizeof wanted->origin->machine.cpu, "cuda");
    snprintf(wanted->origin->machine.cpu_best, sizeof wanted->origin->machine.cpu_best, "cuda");
    wanted->origin->threads = 1;
    return 1;
}

static int status_of(int code, const struct rf_error *error)
{
    if (!code) return CLI_OK;
    if (code == RF_ERR_ARGUMENT) return cli_usage_error("%s", error->text);
    if (code == RF_ERR_CANCELLED && rf_interrupts() > 0) return CLI_INTERRUPTED;
    return cli_explain(error->text);
}

static int roofline_run(const struct cli_options *options, struct rf_roofline_request *asked)
{
    struct measuring measuring = {.silent = options->json,
                                  .roofline.chosen = options->kernels != NULL};
    struct roofline_results *roofline = &measuring.roofline;
    struct buffer notes = {0};
    const struct rf_roofline_callbacks callbacks = {roofline_on_ceiling, roofline_on_row,
                                                    roofline_progress, &measuring};
    struct rf_error error;
    int status = origin_take(&roofline->origin, options->threads);
    if (status != CLI_OK) return status;
    if (!options->threads) roofline->origin.threads = roofline->origin.machine.cores;
    asked->tier = roofline->origin.machine.cpu;
    if (options->device) {
        struct device_origin device = {options->device, &roofline->origin};
        riffle_devices(take_device, &device);
    }
    int code = rf_roofline(asked, &callbacks, &error);
    progress_clear(&measuring.progress);
    status = status_of(code, &error);
    if (status == CLI_OK) roofline_notes(roofline, &notes);
    if (status == CLI_OK && options->svg) status = write_picture(roofline, options->svg);
    if (status == CLI_OK && options->json) roofline_write_json(roofline, &notes);
    print_notes(&notes);
    buffer_free(&notes);
    free(roofline->ceilings);
    free(roofline->rows);
    return status;
}

int verb_roofline(const struct cli_options *options)
{
    struct rf_roofline_request asked = {.device = options->device,
                                        .tiers = options->tiers,
                                        .kernels = options->kernels,
                                        .threads = options->threads,
                                        .rounds = options->rounds,
                                        .pool_bytes = (uint64_t)options->pool_mib << 20};
    int status = CLI_OK;
    struct rf_roofline_shape *shapes = NULL;
    int32_t *rows = NULL;
    if (options->shapes && !(shapes = parse_shapes(options->shapes, &asked.n_shapes)))
        status = cli_usage_error("--shape needs sizes such as 8192x8192, separated by commas, not "
                                 "'%s'",
                                 options->shapes);
    else if (options->rows && !(rows = parse_wholes(options->rows, 1, &asked.n_rows)))
        status = cli_usage_error("--rows needs whole numbers separated by commas, such as 1,2,4, "
                                 "not '%s'",
                                 options->rows);
    else if (options->svg)
        status = check_picture(options->svg);
    asked.shapes = shapes;
    asked.rows = rows;
    if (status == CLI_OK) status = roofline_run(options, &asked);
    free(shapes);
    free(rows);
    return status;
}
