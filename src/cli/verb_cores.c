/* Which cores work, and their shares of the work. */
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/cores.h"
#include "cli/json.h"
#include "cli/options.h"
#include "riffle.h"

static int on_core(void *user, const riffle_core *core)
{
    struct cores *cores = user;
    cores->items = cli_reallocate(cores->items, cores->count + 1, sizeof *cores->items);
    cores->items[cores->count++] = *core;
    return 0;
}

static void write_kind(struct json_writer *json, const struct cores *cores, const char *kind)
{
    int n_cores = 0, n_workers = 0;
    double decode = 0, prompt = 0;
    for (size_t i = 0; i < cores->count; i++) {
        const riffle_core *core = &cores->items[i];
        if (strcmp(core->kind, kind) != 0) continue;
        n_cores += core->sibling == 0;
        n_workers += core->worker >= 0;
        decode += core->decode_share;
        prompt += core->prompt_share;
    }
    if (!n_cores) return;
    jw_object(json, NULL);
    jw_string(json, "kind", kind);
    jw_int(json, "cores", n_cores);
    jw_int(json, "workers", n_workers);
    jw_number(json, "decode_share", decode);
    jw_number(json, "prompt_share", prompt);
    jw_end_object(json);
}

/* A number, or null if unknown. */
static void write_known(struct json_writer *json, const char *key, int32_t value, int is_known)
{
    if (is_known)
        jw_int(json, key, value);
    else
        jw_null(json, key);
}

static void write_core(struct json_writer *json, const riffle_core *core)
{
    jw_object(json, NULL);
    jw_int(json, "cpu", core->cpu);
    jw_int(json, "core", core->core);
    jw_int(json, "package", core->package);
    jw_string(json, "kind", core->kind);
    write_known(json, "l2", core->l2, core->l2 >= 0);
    write_known(json, "l3", core->l3, core->l3 >= 0);
    write_known(json, "max_mhz", core->max_mhz, core->max_mhz > 0);
    write_known(json, "worker", core->worker, core->worker >= 0);
    jw_number(json, "decode_share", core->decode_share);
    jw_number(json, "prompt_share", core->prompt_share);
    if (core->worker < 0)
        jw_string(json, "left_out", core->reason);
    else
        jw_null(json, "left_out");
    jw_end_object(json);
}

static void write_json(const struct cores *cores)
{
    static const char *const kinds[] = {"P", "E", "LP"};
    const riffle_cores_info *info = &cores->info;
    struct json_writer json = {0};
    jw_object(&json, NULL);
    if (info->source[0])
        jw_string(&json, "source", info->source);
    else
        jw_null(&json, "source");
    jw_string(&json, "model", info->model);
    jw_string(&json, "note", info->note);
    jw_string(&json, "cores", cores->choice ? cores->choice : "auto");
    jw_int(&json, "workers", info->n_workers);
    jw_int(&json, "placed", info->n_placed);
    write_known(&json, "quota", info->quota, info->quota > 0);
    jw_bool(&json, "binds", info->binds);
    jw_bool(&json, "measured", info->measured);
    if (info->read_bytes_per_second > 0)
        jw_number(&json, "read_gbps", info->read_bytes_per_second / 1e9);
    else
        jw_null(&json, "read_gbps");
    jw_array(&json, "kinds");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) write_kind(&json, cores, kinds[k]);
    jw_end_array(&json);
    jw_array(&json, "cpus");
    for (size_t i = 0; i < cores->count; i++) write_core(&json, &cores->items[i]);
    jw_end_array(&json);
    jw_end_object(&json);
    jw_print(&json);
}

int verb_cores(const struct cli_options *options)
{
    riffle_cores_options asked;
    struct cores cores = {.choice = options->cores};
    riffle_cores_options_init(&asked, sizeof asked);
    asked.cores = options->cores;
    asked.threads = options->threads;
    asked.flags = RIFFLE_CORES_MEASURE;
    int code = riffle_cores(&asked, &cores.info, sizeof cores.info, on_core, &cores);
    if (code == RIFFLE_OK && options->json) {
        write_json(&cores);
    } else if (code == RIFFLE_OK) {
        cores_print_summary(&cores);
        cores_print_picture(&cores);
        cores_print_left_out(&cores);
    }
    free(cores.items);
    return code == RIFFLE_OK ? CLI_OK : cli_library_failed(code);
}
