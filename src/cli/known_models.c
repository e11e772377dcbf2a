#include "cli/known_models.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"

const struct known_model *known_models(void)
{
    static struct known_model *models;
    struct known_model model;
    size_t n = 0;
    if (models) return models;
    for (const char *line = known_models_tsv; *line; line += strspn(line, "\n")) {
        int fields = sscanf(line, "%63[^\t\n]\t%127[^\t\n]\t%31[^\t\n]\t%" SCNd64 "\t%63[^\t\n]",
                            model.name, model.file, model.licence, &model.bytes, model.draft);
        if (fields == 5 && *line != '#') {
            models = cli_reallocate(models, n + 2, sizeof *models);
            models[n++] = model;
            models[n] = (struct known_model){.bytes = 0};
        }
        line += strcspn(line, "\n");
    }
    return models;
}

const char *models_folder(char path[LONGEST_PATH])
{
    const char *chosen = getenv("RIFFLE_MODELS");
    char data[LONGEST_PATH];
    int n;
    if (chosen && chosen[0])
        n = snprintf(path, LONGEST_PATH, "%s", chosen);
    else if (rf_user_folder(RF_FOLDER_DATA, data, sizeof data) == 0)
        n = snprintf(path, LONGEST_PATH, "%s/riffle/models", data);
    else
        return "the models' folder is unknown: none of RIFFLE_MODELS, XDG_DATA_HOME and HOME is "
               "set";
    return n < 0 || n >= LONGEST_PATH ? "the path of the models' folder is too long" : NULL;
}

int64_t known_model_file(const struct known_model *model, const char *folder, struct buffer *path)
{
    buffer_printf(path, "%s/%s", folder, model->file);
    return rf_file_bytes(path->data);
}

static char *file_of(const struct known_model *model)
{
    char folder[LONGEST_PATH];
    struct buffer path = {0};
    const char *wrong = models_folder(folder);
    int64_t bytes = wrong ? -1 : known_model_file(model, folder, &path);
    if (bytes == model->bytes) return path.data;
    if (wrong)
        cli_fail("%s", wrong);
    else if (bytes >= 0)
        cli_fail("%s has %lld bytes of %lld: `scripts/get-model %s` fetches it again", path.data,
                 (long long)bytes, (long long)model->bytes, model->name);
    else
        cli_fail("the model %s is not on this disk (%s): `scripts/get-model %s` fetches it",
                 model->name, path.data, model->name);
    buffer_free(&path);
    return NULL;
}

/* The model whose name is or begins with `name`, or NULL. Lists the candidates in `names`. */
static const struct known_model *lookup(const char *name, struct buffer *names)
{
    const struct known_model *found = NULL;
    buffer_clear(names);
    for (const struct known_model *model = known_models(); model->name[0]; model++) {
        if (strncmp(model->name, name, strlen(name)) != 0) continue;
        found = model;
        buffer_printf(names, "%s%s", names->count ? ", " : "", model->name);
        if (strcmp(model->name, name) != 0) continue;
        buffer_clear(names);
        break;
    }
    return found;
}

static void explain_unknown(const char *name)
{
    struct suggestion best = suggestion_for(name);
    for (const struct known_model *model = known_models(); model->name[0]; model++)
        suggestion_offer(&best, model->name);
    cli_fail("there is no file, folder or known model '%s'%s", name,
             best.name ? best.text : "; `riffle models` lists the known ones");
}

char *model_path(const char *model)
{
    if (rf_path_exists(model)) return cli_copy(model, strlen(model));

    struct buffer names = {0};
    char *path = NULL;
    size_t n = strlen(model);
    const struct known_model *found = lookup(model, &names);
    if (strchr(model, '/') || (n > 5 && strcmp(model + n - 5, ".gguf") == 0))
        cli_fail("there is no file or folder %s", model);
    else if (names.count && strchr(names.data, ','))
        cli_fail("'%s' could be any of: %s", model, names.data);
    else if (found)
        path = file_of(found);
    else
        explain_unknown(model);
    buffer_free(&names);
    return path;
}

struct draft draft_of(const char *path)
{
    struct draft draft = {NULL, NULL};
    struct buffer draft_path = {0};
    char folder[LONGEST_PATH];
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path, *wanted = "-";
    const struct known_model *model;
    for (model = known_models(); model->name[0]; model++)
        if (strcmp(model->file, file) == 0) wanted = model->draft;
    for (model = known_models(); model->name[0] && strcmp(model->name, wanted) != 0;) model++;
    if (!model->name[0]) return draft;
    draft.name = model->name;
    if (!models_folder(folder) && known_model_file(model, folder, &draft_path) == model->bytes)
        draft.path = draft_path.data;
    else
        buffer_free(&draft_path);
    return draft;
}
