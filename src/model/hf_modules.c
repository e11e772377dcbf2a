/* Checks of the modules of sentence-transformers that stand behind a model. hf.c lists them and
 * calls this. */
#include <stdio.h>

#include "model/hf.h"

static const char file[] = "modules.json";

enum { MOST_DENSE = 2 };

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
            is_known |= strcmp(module->type, known[k]) == 0;
        if (is_known) continue;
        if (strcmp(module->type, "Dense") != 0)
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
