#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/known_models.h"
#include "cli/options.h"
#include "cli/output.h"

static void write_model(struct json_writer *json, const struct known_model *model, const char *path)
{
    jw_put(json, "{ name %s file %s licence %s bytes %" PRId64, model->name, model->file,
           model->licence, model->bytes);
    jw_string(json, "path", path);
    jw_string(json, "draft", strcmp(model->draft, "-") == 0 ? NULL : model->draft);
    jw_put(json, "}");
}

static void print_model(const struct known_model *model, const char *path, int64_t bytes)
{
    char size[32];
    printf("%-20s %8s  %-12s ", model->name, human_bytes((uint64_t)model->bytes, size),
           model->licence);
    if (path)
        printf("%s\n", path);
    else
        printf("%s: scripts/get-model %s\n", bytes < 0 ? "not here" : "incomplete", model->name);
}

int verb_models(const struct cli_options *options)
{
    char folder[LONGEST_PATH];
    const char *wrong = models_folder(folder);
    struct json_writer json = {0};
    struct buffer path = {0};
    if (wrong) return cli_fail("%s", wrong);

    jw_put(&json, "{ folder %s models [", folder);
    for (const struct known_model *model = known_models(); model->name[0]; model++) {
        buffer_clear(&path);
        int64_t bytes = known_model_file(model, folder, &path);
        const char *complete = bytes == model->bytes ? path.data : NULL;
        if (options->json)
            write_model(&json, model, complete);
        else
            print_model(model, complete, bytes);
    }
    jw_put(&json, "] }");
    if (options->json) jw_print(&json);
    buffer_free(&json.text);
    buffer_free(&path);
    return CLI_OK;
}
