/* The modules of sentence-transformers that stand behind a model: modules.json lists them. Linear
 * layers (Dense) have files of their own. hf.c calls this. */
#include <inttypes.h>
#include <stdio.h>

#include "model/hf.h"
#include "platform/file.h"

static const char file[] = "modules.json";

enum { MOST_DENSE = 2 };

/* The path comes from a file and is opened, so it must be a folder in the folder. */
static int is_folder_name(struct rf_str path)
{
    return path.bytes && path.bytes < 256 && path.data[0] != '.' &&
           strlen(path.data) == path.bytes && !strpbrk(path.data, "/\\:");
}

static int is_type(const struct rf_hf_module *module, const char *type)
{
    const char *last = strrchr(module->type, '.');
    return strcmp(last ? last + 1 : module->type, type) == 0;
}

/* Maps a file of a module's folder. Leaves *text alone if there is no such file. */
static const char *map_part(struct rf_reading *reading, const char *folder, const char *name,
                            struct rf_str *text)
{
    char part[300];
    snprintf(part, sizeof part, "%s/%s", folder, name);
    return rf_hf_map_text(reading, part, text);
}

static void map_dense(struct rf_reading *reading, struct rf_hf_module *module)
{
    struct rf_str tensors = {NULL, 0};
    map_part(reading, module->path, "config.json", &module->config);
    module->shard.path = map_part(reading, module->path, "model.safetensors", &tensors);
    module->shard.data = (const unsigned char *)tensors.data;
    module->shard.bytes = tensors.bytes;
}

void rf_hf_map_modules(struct rf_reading *reading, struct rf_hf_files *files)
{
    struct rf_str text = {NULL, 0};
    rf_hf_map_text(reading, file, &text);
    if (!text.data) return;
    struct rf_json *list = rf_json_parse(reading, file, text);
    size_t n = rf_json_count(list);
    if (!rf_json_is_array(list)) rf_bad_part(reading, file, RF_ERR_FORMAT, "is not a JSON array");
    rf_count(reading, n, file);
    files->modules = rf_keep(reading, n, sizeof *files->modules, "modules");
    for (size_t i = 0; !reading->code && i < n; i++) {
        struct rf_hf_module *module = &files->modules[files->n_modules];
        struct rf_str path = rf_json_text(rf_json_get(rf_json_at(list, i), "path"));
        module->type =
            rf_keep_text(reading, rf_json_text(rf_json_get(rf_json_at(list, i), "type")));
        module->path = rf_keep_text(reading, path);
        if (reading->code) break;
        files->n_modules++;
        if (!is_type(module, "Dense")) continue;
        if (is_folder_name(path))
            map_dense(reading, module);
        else
            rf_bad_part(reading, file, RF_ERR_FORMAT,
                        "names the folder \"%.*s\"; a folder in the same folder is expected",
                        rf_shown(path), path.data);
    }
    rf_json_free(list);
}

/* ---- reading ---- */

static void check_dense(struct rf_hf *hf, const struct rf_hf_module *module)
{
    char part[300];
    int residual = 0;
    snprintf(part, sizeof part, "%s/config.json", module->path);
    if (!module->config.data || !module->shard.data) {
        rf_bad_part(&hf->reading, module->path, RF_ERR_IO, "holds no %s",
                    module->config.data ? "model.safetensors" : "config.json");
        return;
    }
    struct rf_json *config = rf_json_parse(&hf->reading, part, module->config);
    struct rf_str act = rf_json_text(rf_json_get(config, "activation_function"));
    if (!rf_str_is(act, "torch.nn.modules.linear.Identity"))
        rf_bad_part(&hf->reading, part, RF_ERR_UNSUPPORTED,
                    "activation_function is \"%.*s\"; only torch.nn.modules.linear.Identity is "
                    "supported",
                    rf_shown(act), act.data);
    rf_json_bool(rf_json_get(config, "use_residual"), &residual);
    if (residual)
        rf_bad_part(&hf->reading, part, RF_ERR_UNSUPPORTED,
                    "use_residual is true, which is not supported");
    rf_json_free(config);
}

void rf_hf_check_modules(struct rf_hf *hf)
{
    static const char *const known[] = {"Transformer", "Pooling", "Normalize"};
    int n_dense = 0;
    for (size_t i = 0; !hf->reading.code && i < hf->files->n_modules; i++) {
        struct rf_hf_module *module = &hf->files->modules[i];
        int is_known = 0;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            is_known |= is_type(module, known[k]);
        if (is_known) continue;
        if (!is_type(module, "Dense"))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "names a module of type \"%.200s\"; Transformer, Pooling, Dense and "
                        "Normalize are supported",
                        module->type);
        else if (n_dense == MOST_DENSE)
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "names more than %d modules of type Dense", MOST_DENSE);
        else
            check_dense(hf, module);
        module->dense = ++n_dense;
    }
}
