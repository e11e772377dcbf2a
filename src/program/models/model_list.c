/* Reads the models' folder and joins it with the list of known models. All names of models in the
 * program are resolved here. */
#include "models/model_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch.h"
#include "hubs/types.h"
#include "models/repositories.h"
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

/* Adds a file or folder of Riffle's folder. */
static const struct model_entry *list_add_own(struct model_list *list, const char *file)
{
    struct buffer path = {0};
    buffer_printf(&path, "%s/%s", list->folder, file);
    char *name = cli_copy(file, stem_length(file));
    model_list_add(list, name, file, path.data, "", NULL);
    free(name);
    buffer_free(&path);
    return &list->items[list->count - 1];
}

/* Adds a model's file or folder, or a model that was fetched in part. */
static int list_add_found(void *user, const char *name)
{
    struct model_list *list = user;
    char file[256], first[256];
    int number, count;
    int is_rest = fetch_is_rest(name, file, sizeof file) && has_suffix(file, suffix);
    if (!is_rest && (name[0] == '.' || strlen(name) >= sizeof file)) return 0;
    if (!is_rest) memcpy(file, name, strlen(name) + 1);
    if (type_part(file, &number, &count) && number > 1) {
        is_rest = 1; /* the first part stands for the model */
        type_other_part(file, 1, first, sizeof first);
        memcpy(file, first, sizeof first);
    }
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].file, file) == 0) return 0;
    if (list_add_own(list, file)->bytes < 0 && !is_rest) model_list_remove_last(list);
    return 0;
}

static int by_model_name(const void *a, const void *b)
{
    return strcmp(((const struct model_entry *)a)->name, ((const struct model_entry *)b)->name);
}

/* ---- known models -------------------------------------------------------------------------- */

static int same_repository(const struct hub_name *a, const struct hub_name *b)
{
    return a->hub && a->hub == b->hub && type_same_text(a->owner, b->owner) &&
           type_same_text(a->repo, b->repo);
}

/* 2: the entry is what the name means; 1: but for a maker's prefix of the type; else 0. */
static int entry_is_hub(const struct model_entry *entry, const struct hub_name *hub)
{
    if (!same_repository(&entry->hub, hub)) return 0;
    if (!hub->type[0] || type_same_text(entry->hub.type, hub->type)) return 2;
    if (hub->hub == HUB_OLLAMA) return 0;
    char file[256]; /* where the type is a file's path in the repository */
    if (type_file_name(hub->type, file, sizeof file) == 0 && type_same_text(entry->file, file))
        return 2;
    return type_matches(entry->file, hub->type);
}

static void list_add_known(struct model_list *list, const struct known_model *known)
{
    struct buffer path = {0};
    char folder[HUB_NAME_TEXT] = "";
    if (known->hub.hub) hub_name_folder(&known->hub, folder);
    buffer_printf(&path, "%s/%s", list->folder, known->hub.hub ? folder : known->file);
    model_list_add(list, known->name, known->file, path.data, "", &known->hub);
    struct model_entry *entry = &list->items[list->count - 1];
    entry->known = known;
    buffer_free(&path);
    if (!known->hub.hub) return;
    entry->bytes = -1; /* the path is the repository's folder until a file is found */
    entry->is_folder = 0;
}

/* A known model of a hub takes the file that was found, which then has one entry. */
static void list_join_known(struct model_list *list, size_t n_known)
{
    for (size_t k = 0; k < n_known; k++) {
        struct model_entry *known = &list->items[k], *found = NULL;
        for (size_t i = n_known; known->hub.hub && i < list->count; i++) {
            struct model_entry *entry = &list->items[i];
            if (entry_is_hub(entry, &known->hub) != 2) continue;
            if (!found || (found->bytes < 0 && entry->bytes >= 0)) found = entry;
        }
        if (!found) continue;
        struct model_entry before = *known;
        known->path = found->path;
        known->file = found->file;
        known->place = found->place;
        known->bytes = found->bytes;
        known->is_folder = found->is_folder;
        known->hub = found->hub;
        free(before.path);
        free(before.file);
        free(found->name);
        memmove(found, found + 1, (size_t)(list->items + --list->count - found) * sizeof *found);
    }
}

int model_list_read(struct model_list *list)
{
    struct rf_error error;
    list->items = NULL;
    list->count = 0;
    const char *wrong = models_folder(list->folder);
    if (wrong) return cli_fail("%s", wrong);
    for (const struct known_model *model = known_models(); model->name[0]; model++)
        list_add_known(list, model);
    size_t n_known = list->count;
    if (rf_is_directory(list->folder) &&
        rf_folder_each(list->folder, list_add_found, list, &error) != 0)
        return cli_fail("%s", error.text);
    repositories_add_own(list);
    if (list->count > n_known)
        qsort(list->items + n_known, list->count - n_known, sizeof *list->items, by_model_name);
    repositories_add_others(list);
    list_join_known(list, n_known);
    return CLI_OK;
}

void model_list_free(struct model_list *list)
{
    while (list->count) model_list_remove_last(list);
    free(list->items);
    list->items = NULL;
}

/* ---- names --------------------------------------------------------------------------------- */

static int entry_is_called(const struct model_entry *entry, const char *name)
{
    size_t n = strlen(name);
    if (strcmp(entry->name, name) == 0) return 1;
    if (entry->hub.hub == HUB_OLLAMA) return 0; /* its file is called as a tag */
    return strcmp(entry->file, name) == 0 ||
           (n == stem_length(entry->file) && strncmp(entry->file, name, n) == 0);
}

static int entry_begins_with(const struct model_entry *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry->name, name, n) == 0 ||
           (entry->hub.hub != HUB_OLLAMA && strncmp(entry->file, name, n) == 0);
}

const struct model_entry *model_list_exact(const struct model_list *list, const char *name)
{
    const struct model_entry *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct model_entry *entry = &list->items[i];
        if (!entry_is_called(entry, name)) continue;
        /* A file of the user's comes before a known model that is not here. */
        if (!found || (found->bytes < 0 && entry->bytes >= 0)) found = entry;
    }
    return found;
}

/* The entry that a hub's name means. Without a type the best one that is there. */
static const struct model_entry *list_find_hub(const struct model_list *list,
                                               const struct hub_name *hub)
{
    const struct model_entry *best = NULL;
    int best_worth = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct model_entry *entry = &list->items[i];
        enum { RANKS = 1000 };
        int fits = entry_is_hub(entry, hub), rank = type_rank(entry->hub.type);
        if (!fits) continue;
        /* What is complete, what fits better, what is Riffle's own, and the better type. */
        int worth = 8 * (entry->bytes >= 0) + 2 * fits + !entry->place[0];
        worth = (worth + 1) * RANKS - (rank < 0 ? RANKS - 1 : rank);
        if (worth > best_worth) best = entry;
        if (worth > best_worth) best_worth = worth;
    }
    return best;
}

const struct model_entry *model_list_named(const struct model_list *list, const char *name)
{
    const struct model_entry *found = model_list_exact(list, name);
    struct hub_name hub;
    return !found && hub_name_parse(name, &hub) ? list_find_hub(list, &hub) : found;
}

const struct model_entry *model_list_find(const struct model_list *list, const char *name,
                                          struct buffer *candidates)
{
    const struct model_entry *found = model_list_named(list, name);
    struct hub_name hub;
    size_t n_found = 0;
    buffer_clear(candidates);
    if (found || hub_name_parse(name, &hub)) return found;
    for (int others = 0; others <= 1 && !n_found; others++) {
        for (size_t i = 0; i < list->count; i++) {
            const struct model_entry *entry = &list->items[i];
            if (!entry_begins_with(entry, name) || (entry->place[0] != 0) != others) continue;
            buffer_printf(candidates, "%s%s", n_found++ ? ", " : "", entry->name);
            found = entry;
        }
    }
    return n_found == 1 ? found : NULL;
}

int model_list_explain(const struct model_list *list, const char *name,
                       const struct buffer *candidates)
{
    if (candidates->count) return cli_fail("'%s' could be any of: %s", name, candidates->data);
    struct hub_name hub;
    if (hub_name_parse(name, &hub))
        return cli_fail("the model %s is not on this disk: `riffle pull %s` fetches it", name,
                        name);
    if (rf_path_separator(name) || has_suffix(name, suffix))
        return cli_fail("there is no file or folder %s", name);
    struct suggestion best = suggestion_for(name);
    for (size_t i = 0; i < list->count; i++) suggestion_offer(&best, list->items[i].name);
    return cli_fail("there is no file, folder or known model '%s'%s", name,
                    best.name ? best.text
                              : "; `riffle list` shows the known ones, and a name with a tag "
                                "(NAME:latest) is one of ollama's");
}

int model_is_complete(const struct model_entry *entry)
{
    int is_exact = entry->known && !entry->known->hub.hub;
    return is_exact ? entry->bytes == entry->known->bytes : entry->bytes >= 0;
}

int model_explain_missing(const struct model_entry *entry)
{
    char size[32];
    uint64_t kept = model_kept_bytes(entry);
    if (!entry->known && entry->hub.hub)
        return cli_fail(
            "%s is not complete: `riffle pull %s` continues, `riffle rm %s` removes what "
            "is there",
            entry->name, entry->name, entry->name);
    if (!entry->known)
        return cli_fail("%s is not complete: `riffle pull` with its URL continues, `riffle rm %s` "
                        "removes what is there",
                        entry->name, entry->name);
    human_bytes((uint64_t)entry->known->bytes, size);
    if (entry->bytes >= 0 && !entry->known->hub.hub)
        return cli_fail("%s has %lld bytes of %lld: `riffle rm %s` removes it, and then `riffle "
                        "pull %s` fetches it",
                        entry->path, (long long)entry->bytes, (long long)entry->known->bytes,
                        entry->name, entry->name);
    return cli_fail("the model %s is not on this disk (%s): `riffle pull %s` fetches %s (%s%s)",
                    entry->name, entry->path, entry->name, kept ? "the rest of it" : "it",
                    entry->known->hub.hub ? "about " : "", size);
}

int may_be_model(const char *name)
{
    struct model_list list;
    struct buffer candidates = {0};
    struct hub_name hub;
    if (rf_path_exists(name) || rf_path_separator(name) || has_suffix(name, suffix) ||
        hub_name_parse(name, &hub))
        return 1;
    int may = model_list_read(&list) != CLI_OK || model_list_find(&list, name, &candidates) ||
              candidates.count;
    buffer_free(&candidates);
    model_list_free(&list);
    return may;
}

/* The path of a model that exists: a folder stands for the one GGUF model in it. */
static char *existing_path(const char *model)
{
    int count = 0;
    int is_other = rf_is_directory(model) && model_folder_bytes(model) < 0;
    char *only = is_other ? repository_only_model(model, &count) : NULL;
    if (count > 1) {
        cli_fail("the folder %s holds %d models: name the file of one", model, count);
        return NULL;
    }
    return only ? only : cli_copy(model, strlen(model));
}

char *model_path(const char *model)
{
    if (rf_path_exists(model)) return existing_path(model);

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
    struct model_list list;
    const char *wanted = target ? target->draft : "-";
    for (const struct known_model *model = known_models(); model->name[0]; model++)
        if (strcmp(model->name, wanted) == 0) draft.name = model->name;
    char folder[LONGEST_PATH];
    if (!draft.name || models_folder(folder) || model_list_read(&list) != CLI_OK) return draft;
    const struct model_entry *entry = model_list_exact(&list, draft.name);
    if (entry && model_is_complete(entry)) draft.path = cli_copy(entry->path, strlen(entry->path));
    model_list_free(&list);
    return draft;
}
