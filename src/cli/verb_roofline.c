/* Kernels against this machine's measured limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

struct measuring {
    struct roofline_results roofline;
    struct progress_line progress;
    int silent; /* no tables: JSON comes at the end */
};

static int on_ceiling(void *user, const riffle_ceiling *ceiling)
{
    struct measuring *measuring = user;
    struct roofline_results *roofline = &measuring->roofline;
    /* Later reports are more precise. */
    for (size_t i = 0; i < roofline->n_ceilings; i++) {
        riffle_ceiling *known = &roofline->ceilings[i];
        if (known->threads != ceiling->threads || strcmp(known->key, ceiling->key) != 0) continue;
        *known = *ceiling;
        return rf_interrupts() > 0;
    }
    roofline->ceilings =
        cli_reallocate(roofline->ceilings, roofline->n_ceilings + 1, sizeof *roofline->ceilings);
    roofline->ceilings[roofline->n_ceilings++] = *ceiling;
    return rf_interrupts() > 0;
}

static int on_row(void *user, const riffle_roofline_row *row)
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

/* A whole number between 1 and INT32_MAX that ends where `end` says; 0 if there is none. */
static int32_t number(const char *text, const char **end)
{
    char *after;
    errno = 0;
    long long value = text[0] >= '0' && text[0] <= '9' ? strtoll(text, &after, 10) : 0;
    *end = value ? after : text;
    return errno || value < 1 || value > INT32_MAX ? 0 : (int32_t)value;
}

/* "1,2,4", for free(); NULL with a sentence. */
static int32_t *parse_rows(const char *text, size_t *count)
{
    int32_t *rows = NULL;
    *count = 0;
    for (const char *at = text;; at++) {
        rows = cli_reallocate(rows, *count + 1, sizeof *rows);
        rows[*count] = number(at, &at);
        if (rows[(*count)++] && *at == 0) return rows;
        if (rows[*count - 1] && *at == ',') continue;
        cli_usage_error("roofline",
                        "--rows needs whole numbers separated by commas, such as 1,2,4, not '%s'",
                        text);
        free(rows);
        return NULL;
    }
}

/* "8192x8192,1536x256", for free(); NULL with a sentence. */
static riffle_shape *parse_shapes(const char *text, size_t *count)
{
    riffle_shape *shapes = NULL;
    *count = 0;
    for (const char *at = text;; at++) {
        shapes = cli_reallocate(shapes, *count + 1, sizeof *shapes);
        riffle_shape *shape = &shapes[(*count)++];
        *shape = (riffle_shape){number(at, &at), 0};
        if (shape->m && (*at == 'x' || *at == 'X')) shape->k = number(at + 1, &at);
        if (shape->k && *at == 0) return shapes;
        if (shape->k && *at == ',') continue;
        cli_usage_error("roofline",
                        "--shape needs sizes such as 8192x8192, separated by commas, not '%s'",
                        text);
        free(shapes);
        return NULL;
    }
}

static void write_json(const struct roofline_results *roofline, const riffle_machine *machine)
{
    struct json_writer json = {0};
    int32_t threads = roofline_threads(roofline);
    jw_object(&json, NULL);
    jw_object(&json, "machine");
    jw_string(&json, "cpu", machine->cpu);
    jw_string(&json, "cpu_best", machine->cpu_best);
    jw_int(&json, "cores", machine->cores);
    jw_int(&json, "threads", threads);
    jw_object(&json, "ceilings");
    for (size_t i = 0; i < roofline->n_ceilings; i++) {
        const riffle_ceiling *ceiling = &roofline->ceilings[i];
        char key[64];
        int is_read = strcmp(ceiling->key, "read") == 0;
        snprintf(key, sizeof key, "%s_%s_1", ceiling->key, is_read ? "gbps" : "gops");
        if (ceiling->threads == 1) jw_number(&json, key, ceiling->per_second / 1e9);
        snprintf(key, sizeof key, "%s_%s%s", ceiling->key, is_read ? "gbps" : "gops",
                 is_read ? "_all" : "");
        if (ceiling->threads == threads) jw_number(&json, key, ceiling->per_second / 1e9);
    }
    jw_end_object(&json);
    jw_end_object(&json);
    jw_array(&json, "kernels");
    for (size_t i = 0; i < roofline->n_rows; i++) {
        const riffle_roofline_row *row = &roofline->rows[i];
        jw_object(&json, NULL);
        jw_string(&json, "kernel", row->kernel);
        jw_string(&json, "tier", row->tier);
        jw_string(&json, "form", row->form);
        jw_int(&json, "rows", row->rows);
        jw_int(&json, "m", row->m);
        jw_int(&json, "k", row->k);
        jw_int(&json, "threads", row->threads);
        jw_string(&json, "where", row->where);
        jw_number(&json, "gbps", row->bytes_per_second / 1e9);
        jw_number(&json, "percent_of_read", row->percent_of_read);
        jw_number(&json, "gops", row->ops_per_second / 1e9);
        jw_number(&json, "percent_of_compute", row->percent_of_compute);
        jw_string(&json, "ceiling", row->ceiling);
        jw_number(&json, "ops_per_byte", row->ops_per_byte);
        jw_string(&json, "binds", row->binds);
        jw_end_object(&json);
    }
    jw_end_array(&json);
    jw_end_object(&json);
    jw_print(&json);
}

static int write_picture(const struct roofline_results *roofline, const char *path)
{
    struct buffer svg = {0};
    struct rf_error error;
    roofline_draw(roofline, &svg);
    struct rf_span span = {svg.data, svg.count};
    int code = rf_write_file(path, &span, 1, &error);
    buffer_free(&svg);
    return code ? cli_fail("%s", error.text) : CLI_OK;
}

/* Checks that the file can be written before a minute of measuring, not after it. */
static int check_picture(const char *path)
{
    struct rf_error error;
    int existed = rf_path_exists(path);
    if (existed && rf_file_bytes(path) < 0)
        return cli_fail("%s: is not a file that can be written", path);
    if (existed) return CLI_OK;
    if (rf_write_file(path, NULL, 0, &error)) return cli_fail("%s", error.text);
    remove(path);
    return CLI_OK;
}

static int measure(const struct cli_options *options, riffle_roofline_options *asked)
{
    struct measuring measuring = {.silent = options->json};
    asked->progress = progress_update;
    asked->progress_user = &measuring.progress;
    riffle_machine machine;
    int code = riffle_machine_get(&machine, sizeof machine), status = CLI_OK;
    if (code != RIFFLE_OK) return cli_library_failed(code);
    code = riffle_roofline(asked, on_ceiling, on_row, &measuring);
    progress_clear(&measuring.progress);
    if (code == RIFFLE_ERR_ARGUMENT)
        status = cli_usage_error("roofline", "%s", riffle_last_error());
    else if (code != RIFFLE_OK)
        status = cli_library_failed(code);
    if (status == CLI_OK && roofline_was_disturbed(&measuring.roofline))
        fputs("riffle: the ceilings moved by more than a quarter while the kernels were measured; "
              "on a machine that does nothing else the figures mean more\n",
              stderr);
    if (status == CLI_OK && options->svg) status = write_picture(&measuring.roofline, options->svg);
    if (status == CLI_OK && options->json) write_json(&measuring.roofline, &machine);
    free(measuring.roofline.ceilings);
    free(measuring.roofline.rows);
    return status;
}

int verb_roofline(const struct cli_options *options)
{
    riffle_roofline_options asked;
    riffle_shape *shapes = NULL;
    int32_t *rows = NULL;
    riffle_roofline_options_init(&asked, sizeof asked);
    asked.tiers = options->tiers;
    asked.kernels = options->kernels;
    asked.threads = options->threads;
    asked.rounds = options->rounds;
    asked.pool_bytes = (uint64_t)options->pool_mib << 20;

    int status = CLI_OK;
    if (options->shapes)
        status = (shapes = parse_shapes(options->shapes, &asked.n_shapes)) ? CLI_OK : CLI_USAGE;
    if (options->rows && status == CLI_OK)
        status = (rows = parse_rows(options->rows, &asked.n_rows)) ? CLI_OK : CLI_USAGE;
    if (options->svg && status == CLI_OK) status = check_picture(options->svg);
    asked.shapes = shapes;
    asked.rows = rows;
    if (status == CLI_OK) status = measure(options, &asked);
    free(shapes);
    free(rows);
    return status;
}
