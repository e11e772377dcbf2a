#include "cli/known_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/suggest.h"
#include "platform/file.h"

enum { LONGEST_PATH = 4096 };

/* The field at *p up to a tab or the end of the line; advances *p past it. */
static char *next_field(const char **p)
{
    size_t n = strcspn(*p, "\t\n");
    char *field = cli_copy(*p, n);
    *p += n;
    if (**p == '\t') ++*p;
    return field;
}

struct known_models known_models_list(void)
{
    struct known_models known = {NULL, 0};
    for (const char *p = known_models_tsv; *p;) {
        if (*p != '#' && *p != '\n') {
            known.models = cli_reallocate(known.models, known.count + 1, sizeof *known.models);
            struct known_model *model = &known.models[known.count++];
            model->name = next_field(&p);
            model->file = next_field(&p);
            model->licence = next_field(&p);
            char *bytes = next_field(&p);
            model->bytes = strtoll(bytes, NULL, 10);
            free(bytes);
            model->draft = next_field(&p);
        }
        p += strcspn(p, "\n");
        if (*p) p++;
    }
    return known;
}

void known_models_free(struct known_models *known)
{
    for (size_t i = 0; i < known->count; i++) {
        free(known->models[i].name);
        free(known->models[i].file);
        free(known->models[i].licence);
        free(known->models[i].draft);
    }
    free(known->models);
    *known = (struct known_models){NULL, 0};
}

/* NULL, or a sentence about what is wrong. */
static const char *find_folder(char *path, size_t cap)
{
    const char *chosen = getenv("RIFFLE_MODELS");
    char data[LONGEST_PATH];
    int n;
    if (chosen && chosen[0]) {
        n = snprintf(path, cap, "%s", chosen);
    } else {
        if (rf_user_folder(RF_FOLDER_DATA, data, sizeof data) != 0)
            return "the models' folder is unknown: none of RIFFLE_MODELS, XDG_DATA_HOME and HOME "
                   "is set";
        n = snprintf(path, cap, "%s/riffle/models", data);
    }
    return n < 0 || (size_t)n >= cap ? "the path of the models' folder is too long" : NULL;
}

int models_folder(char *path, size_t cap)
{
    const char *wrong = find_folder(path, cap);
    return wrong ? cli_fail("%s", wrong) : CLI_OK;
}

static struct buffer path_in(const char *folder, const struct known_model *model)
{
    struct buffer path = {0};
    buffer_puts(&path, folder);
    buffer_puts(&path, "/");
    buffer_puts(&path, model->file);
    return path;
}

static char *file_of(const struct known_model *model)
{
    char folder[LONGEST_PATH];
    if (models_folder(folder, sizeof folder) != CLI_OK) return NULL;
    struct buffer path = path_in(folder, model);
    int64_t bytes = rf_file_bytes(path.data);
    if (bytes == model->bytes) return path.data;
    if (bytes >= 0)
        cli_fail("%s has %lld bytes of %lld: `scripts/get-model %s` fetches it again", path.data,
                 (long long)bytes, (long long)model->bytes, model->name);
    else
        cli_fail("the model %s is not on this disk (%s): `scripts/get-model %s` fetches it",
                 model->name, path.data, model->name);
    buffer_free(&path);
    return NULL;
}

/* The model whose name is or begins with `name`. Counts the candidates in *n_found and lists them
 * in `names`. */
static const struct known_model *lookup(const struct known_models *known, const char *name,
                                        size_t *n_found, struct buffer *names)
{
    const struct known_model *found = NULL;
    *n_found = 0;
    for (size_t i = 0; i < known->count; i++) {
        const struct known_model *model = &known->models[i];
        if (strcmp(model->name, name) == 0) {
            *n_found = 1;
            return model;
        }
        if (strncmp(model->name, name, strlen(name)) != 0) continue;
        if (found) buffer_puts(names, ", ");
        buffer_puts(names, model->name);
        found = model;
        ++*n_found;
    }
    return found;
}

char *model_path(const char *model)
{
    if (rf_path_exists(model)) return cli_copy(model, strlen(model));

    struct known_models known = known_models_list();
    struct buffer names = {0};
    char *path = NULL;
    size_t n_found, n = strlen(model);
    const struct known_model *found = lookup(&known, model, &n_found, &names);
    int is_path = strchr(model, '/') || (n > 5 && strcmp(model + n - 5, ".gguf") == 0);
    if (is_path) {
        cli_fail("there is no file or folder %s", model);
    } else if (n_found > 1) {
        cli_fail("'%s' could be any of: %s", model, names.data);
    } else if (found) {
        path = file_of(found);
    } else {
        struct suggestion best = suggestion_for(model);
        for (size_t i = 0; i < known.count; i++) suggestion_offer(&best, known.models[i].name);
        if (best.name)
            cli_fail("there is no file, folder or known model '%s'; did you mean %s?", model,
                     best.name);
        else
            cli_fail("there is no file, folder or known model '%s'; `riffle models` lists the "
                     "known ones",
                     model);
    }
    buffer_free(&names);
    known_models_free(&known);
    return path;
}

struct listed_draft listed_draft_of(const char *path)
{
    struct listed_draft draft = {NULL, NULL};
    char folder[LONGEST_PATH];
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    struct known_models known = known_models_list();
    const struct known_model *target = NULL, *found = NULL;
    for (size_t i = 0; i < known.count; i++)
        if (strcmp(known.models[i].file, file) == 0) target = &known.models[i];
    for (size_t i = 0; target && i < known.count; i++)
        if (strcmp(known.models[i].name, target->draft) == 0) found = &known.models[i];
    if (found) draft.name = cli_copy(found->name, strlen(found->name));
    if (found && !find_folder(folder, sizeof folder)) {
        struct buffer draft_path = path_in(folder, found);
        if (rf_file_bytes(draft_path.data) == found->bytes)
            draft.path = draft_path.data;
        else
            buffer_free(&draft_path);
    }
    known_models_free(&known);
    return draft;
}
