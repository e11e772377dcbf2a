/* Reads the models' folder and joins it with the list of known models. All names of models in the
 * program are resolved here. */
#include "models/model_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/suggest.h"
#include "platform/file.h"
#include "platform/folder.h"

static const char suffix[] = ".gguf";

static int has_suffix(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n > n_end && strcmp(text + n - n_end, end) == 0;
}

/* The length of a file's name without .gguf. */
static size_t stem_length(const char *file)
{
    return strlen(file) - (has_suffix(file, suffix) ? sizeof suffix - 1 : 0);
}

/* ---- the folder ---------------------------------------------------------------------------- */

struct contents {
    const char *path;
    int64_t bytes;
    int has_weights, has_config;
};

static int count_file(void *user, const char *name)
{
    struct contents *contents = user;
    struct buffer path = {0};
    buffer_printf(&path, "%s/%s", contents->path, name);
    int64_t bytes = rf_file_bytes(path.data);
    if (bytes > 0) contents->bytes += bytes;
    contents->has_weights |= has_suffix(name, ".safetensors");
    contents->has_config |= strcmp(name, "config.json") == 0;
    buffer_free(&path);
    return 0;
}

/* The bytes of a model's file, or of a folder with safetensors; -1 where there is none. */
static int64_t model_bytes(const char *path, int *is_folder)
{
    struct contents contents = {.path = path};
    struct rf_error error;
    *is_folder = rf_is_directory(path);
    if (!*is_folder) return has_suffix(path, suffix) ? rf_file_bytes(path) : -1;
    if (rf_folder_each(path, count_file, &contents, &error) != 0) return -1;
    return contents.has_weights && contents.has_config ? contents.bytes : -1;
}

static struct model_entry *list_add(struct model_list *list, const char *name, size_t n_name,
                                    const char *file)
{
    struct buffer path = {0};
    buffer_printf(&path, "%s/%s", list->folder, file);
    list->items = cli_reallocate(list->items, list->count + 1, sizeof *list->items);
    struct model_entry *entry = &list->items[list->count++];
    *entry = (struct model_entry){
        .name = cli_copy(name, n_name), .file = cli_copy(file, strlen(file)), .path = path.data};
    entry->bytes = model_bytes(path.data, &entry->is_folder);
    return entry;
}

static void list_remove_last(struct model_list *list)
{
    const struct model_entry *entry = &list->items[--list->count];
    free(entry->name);
    free(entry->file);
    free(entry->path);
}

/* Adds a model's file or folder, or a model that was fetched in part. */
static int list_add_found(void *user, const char *name)
{
    struct model_list *list = user;
    char file[256];
    int is_rest = fetch_is_rest(name, file, sizeof file) && has_suffix(file, suffix);
    if (!is_rest && (name[0] == '.' || strlen(name) >= sizeof file)) return 0;
    if (!is_rest) memcpy(file, name, strlen(name) + 1);
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].file, file) == 0) return 0;
    if (list_add(list, file, stem_length(file), file)->bytes < 0 && !is_rest)
        list_remove_last(list);
    return 0;
}

static int by_model_name(const void *a, const void *b)
{
    return strcmp(((const struct model_entry *)a)->name, ((const struct model_entry *)b)->name);
}

int model_list_read(struct model_list *list)
{
    struct rf_error error;
    list->items = NULL;
    list->count = 0;
    const char *wrong = models_folder(list->folder);
    if (wrong) return cli_fail("%s", wrong);
    for (const struct known_model *model = known_models(); model->name[0]; model++)
        list_add(list, model->name, strlen(model->name), model->file)->known = model;
    size_t n_known = list->count;
    if (rf_is_directory(list->folder) &&
        rf_folder_each(list->folder, list_add_found, list, &error) != 0)
        return cli_fail("%s", error.text);
    if (list->count > n_known)
        qsort(list->items + n_known, list->count - n_known, sizeof *list->items, by_model_name);
    return CLI_OK;
}

void model_list_free(struct model_list *list)
{
    while (list->count) list_remove_last(list);
    free(list->items);
    list->items = NULL;
}

/* ---- names --------------------------------------------------------------------------------- */

static int entry_is_called(const struct model_entry *entry, const char *name)
{
    size_t n = strlen(name);
    return strcmp(entry->name, name) == 0 || strcmp(entry->file, name) == 0 ||
           (n == stem_length(entry->file) && strncmp(entry->file, name, n) == 0);
}

const struct model_entry *model_list_exact(const struct model_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (entry_is_called(&list->items[i], name)) return &list->items[i];
    return NULL;
}

const struct model_entry *model_list_find(const struct model_list *list, const char *name,
                                          struct buffer *candidates)
{
    const struct model_entry *found = model_list_exact(list, name);
    size_t n = strlen(name), n_found = 0;
    buffer_clear(candidates);
    if (found) return found;
    for (size_t i = 0; i < list->count; i++) {
        const struct model_entry *entry = &list->items[i];
        if (strncmp(entry->name, name, n) != 0 && strncmp(entry->file, name, n) != 0) continue;
        buffer_printf(candidates, "%s%s", n_found++ ? ", " : "", entry->name);
        found = entry;
    }
    return n_found == 1 ? found : NULL;
}

int model_list_explain(const struct model_list *list, const char *name,
                       const struct buffer *candidates)
{
    if (candidates->count) return cli_fail("'%s' could be any of: %s", name, candidates->data);
    if (rf_path_separator(name) || has_suffix(name, suffix))
        return cli_fail("there is no file or folder %s", name);
    struct suggestion best = suggestion_for(name);
    for (size_t i = 0; i < list->count; i++) suggestion_offer(&best, list->items[i].name);
    return cli_fail("there is no file, folder or known model '%s'%s", name,
                    best.name ? best.text : "; `riffle list` shows the known ones");
}

int model_is_complete(const struct model_entry *entry)
{
    return entry->known ? entry->bytes == entry->known->bytes : entry->bytes >= 0;
}

int model_explain_missing(const struct model_entry *entry)
{
    char size[32];
    uint64_t kept = fetch_kept_bytes(entry->path);
    if (!entry->known)
        return cli_fail("%s is not complete: `riffle pull` with its URL continues, `riffle rm %s` "
                        "removes what is there",
                        entry->name, entry->name);
    human_bytes((uint64_t)entry->known->bytes, size);
    if (entry->bytes >= 0)
        return cli_fail("%s has %lld bytes of %lld: `riffle rm %s` removes it, and then `riffle "
                        "pull %s` fetches it",
                        entry->path, (long long)entry->bytes, (long long)entry->known->bytes,
                        entry->name, entry->name);
    return cli_fail("the model %s is not on this disk (%s): `riffle pull %s` fetches %s (%s)",
                    entry->name, entry->path, entry->name, kept ? "the rest of it" : "it", size);
}

int may_be_model(const char *name)
{
    struct model_list list;
    struct buffer candidates = {0};
    if (rf_path_exists(name) || rf_path_separator(name) || has_suffix(name, suffix)) return 1;
    int may = model_list_read(&list) != CLI_OK || model_list_find(&list, name, &candidates) ||
              candidates.count;
    buffer_free(&candidates);
    model_list_free(&list);
    return may;
}

char *model_path(const char *model)
{
    if (rf_path_exists(model)) return cli_copy(model, strlen(model));

    struct model_list list;
    struct buffer candidates = {0};
    char *path = NULL;
    if (model_list_read(&list) == CLI_OK) {
        const struct model_entry *found = model_list_find(&list, model, &candidates);
        if (!found)
            model_list_explain(&list, model, &candidates);
        else if (!model_is_complete(found))
            model_explain_missing(found);
        else
            path = cli_copy(found->path, strlen(found->path));
    }
    buffer_free(&candidates);
    model_list_free(&list);
    return path;
}

struct draft draft_of(const struct known_model *target)
{
    struct draft draft = {NULL, NULL};
    struct buffer draft_path = {0};
    char folder[LONGEST_PATH];
    const struct known_model *model;
    const char *wanted = target ? target->draft : "-";
    for (model = known_models(); model->name[0] && strcmp(model->name, wanted) != 0;) model++;
    if (!model->name[0]) return draft;
    draft.name = model->name;
    if (models_folder(folder)) return draft;
    buffer_printf(&draft_path, "%s/%s", folder, model->file);
    if (rf_file_bytes(draft_path.data) == model->bytes)
        draft.path = draft_path.data;
    else
        buffer_free(&draft_path);
    return draft;
}
