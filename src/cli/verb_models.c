#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/known_models.h"
#include "cli/options.h"
#include "cli/output.h"
#include "platform/file.h"

enum { LONGEST_PATH = 4096 };

static void print_json(const struct known_models *known, const char *folder,
                       const struct buffer *paths)
{
    struct json_writer json = {0};
    jw_object(&json, NULL);
    jw_string(&json, "folder", folder);
    jw_array(&json, "models");
    for (size_t i = 0; i < known->count; i++) {
        const struct known_model *model = &known->models[i];
        jw_object(&json, NULL);
        jw_string(&json, "name", model->name);
        jw_string(&json, "file", model->file);
        jw_string(&json, "licence", model->licence);
        jw_int(&json, "bytes", model->bytes);
        if (rf_file_bytes(paths[i].data) == model->bytes)
            jw_string(&json, "path", paths[i].data);
        else
            jw_null(&json, "path");
        if (strcmp(model->draft, "-") == 0)
            jw_null(&json, "draft");
        else
            jw_string(&json, "draft", model->draft);
        jw_end_object(&json);
    }
    jw_end_array(&json);
    jw_end_object(&json);
    jw_print(&json);
}

static void print_table(const struct known_models *known, const struct buffer *paths)
{
    for (size_t i = 0; i < known->count; i++) {
        const struct known_model *model = &known->models[i];
        char size[32];
        int64_t bytes = rf_file_bytes(paths[i].data);
        printf("%-20s %8s  %-12s ", model->name, human_bytes((uint64_t)model->bytes, size),
               model->licence);
        if (bytes == model->bytes)
            printf("%s\n", paths[i].data);
        else
            printf("%s: scripts/get-model %s\n", bytes < 0 ? "not here" : "incomplete",
                   model->name);
    }
}

int verb_models(const struct cli_options *options)
{
    char folder[LONGEST_PATH];
    int status = models_folder(folder, sizeof folder);
    if (status != CLI_OK) return status;

    struct known_models known = known_models_list();
    struct buffer *paths = cli_allocate(known.count, sizeof *paths);
    for (size_t i = 0; i < known.count; i++) {
        paths[i] = (struct buffer){0};
        buffer_puts(&paths[i], folder);
        buffer_puts(&paths[i], "/");
        buffer_puts(&paths[i], known.models[i].file);
    }
    if (options->json)
        print_json(&known, folder, paths);
    else
        print_table(&known, paths);
    for (size_t i = 0; i < known.count; i++) buffer_free(&paths[i]);
    free(paths);
    known_models_free(&known);
    return CLI_OK;
}
