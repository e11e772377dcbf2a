/* The verb cores: which cores work, and their shares of the work. It collects the plan and writes
 * JSON; cores_text.c prints it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options/options.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/json.h"
#include "report/cores_text.h"
#include "verbs/verbs.h"

static int on_core(void *user, const riffle_core *core)
{
    struct cores *cores = user;
    cores->items = cli_reallocate(cores->items, cores->count + 1, sizeof *cores->items);
    cores->items[cores->count++] = *core;
    for (struct core_kind *kind = cores->kinds; kind < cores->kinds + CORE_KINDS; kind++) {
        if (strcmp(core->kind, kind->name) != 0) continue;
        cores->n_kinds += kind->threads++ == 0;
        kind->cores += core->sibling == 0;
        kind->workers += core->worker >= 0;
        kind->decode_share += core->decode_share;
        kind->prompt_share += core->prompt_share;
    }
    return 0;
}

/* A number, or null if it is less than `least`. */
static void write_known(struct json_writer *json, const char *key, int32_t value, int32_t least)
{
    jw_number(json, key, value >= least ? (double)value : NAN);
}

static void write_core(struct json_writer *json, const riffle_core *core)
{
    jw_put(json, "{ cpu %d core %d package %d kind %s", core->cpu, core->core, core->package,
           core->kind);
    write_known(json, "l2", core->l2, 0);
    write_known(json, "l3", core->l3, 0);
    write_known(json, "max_mhz", core->max_mhz, 1);
    write_known(json, "worker", core->worker, 0);
    jw_put(json, "decode_share %g prompt_share %g", core->decode_share, core->prompt_share);
    jw_string(json, "left_out", core->worker < 0 ? core->reason : NULL);
    jw_put(json, "}");
}

static void cores_write_json(const struct cores *cores, const char *choice)
{
    const riffle_cores_info *info = &cores->info;
    double read = info->read_bytes_per_second;
    struct json_writer json = {0};
    jw_put(&json, "{");
    jw_string(&json, "source", info->source[0] ? info->source : NULL);
    jw_put(&json, "model %s note %s cores %s workers %d placed %d", info->model, info->note,
           choice ? choice : "auto", info->n_workers, info->n_placed);
    write_known(&json, "quota", info->quota, 1);
    jw_bool(&json, "binds", info->binds);
    jw_bool(&json, "measured", info->measured);
    jw_put(&json, "read_gbps %g kinds [", read > 0 ? read / 1e9 : NAN);
    for (int k = 0; k < CORE_KINDS; k++) {
        const struct core_kind *kind = &cores->kinds[k];
        if (!kind->cores) continue;
        jw_put(&json, "{ kind %s cores %d workers %d decode_share %g prompt_share %g }", kind->name,
               kind->cores, kind->workers, kind->decode_share, kind->prompt_share);
    }
    jw_put(&json, "] cpus [");
    for (size_t i = 0; i < cores->count; i++) write_core(&json, &cores->items[i]);
    jw_put(&json, "] }");
    jw_print(&json);
}

int verb_cores(const struct cli_options *options)
{
    riffle_cores_options asked;
    struct cores cores = {.kinds = {{.name = "P"}, {.name = "E"}, {.name = "LP"}}};
    riffle_cores_options_init(&asked, sizeof asked);
    asked.cores = options->cores;
    asked.threads = options->threads;
    asked.flags = RIFFLE_CORES_MEASURE;
    int code = riffle_cores(&asked, &cores.info, sizeof cores.info, on_core, &cores);
    if (code == RIFFLE_OK && options->json) {
        cores_write_json(&cores, options->cores);
    } else if (code == RIFFLE_OK) {
        cores_print_summary(&cores);
        cores_print_picture(&cores);
        cores_print_left_out(&cores);
    }
    free(cores.items);
    return cli_status(code);
}
