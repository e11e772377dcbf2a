/* Has a hub's files listed, chooses those of one model, and says in one sentence why it cannot be
 * had. The kinds of hubs differ only in their readers. */
#include "hubs/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hubs/listing.h"
#include "hubs/token.h"
#include "hubs/types.h"

static const struct {
    int (*list)(struct listing *listing, const struct hub_call *call, struct rf_error *error);
    int (*url)(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL]);
} kinds[HUB_COUNT] = {[HUB_HUGGINGFACE] = {huggingface_list, huggingface_url},
                      [HUB_OLLAMA] = {ollama_list, ollama_url},
                      [HUB_MODELSCOPE] = {modelscope_list, modelscope_url}};

/* ---- choosing ------------------------------------------------------------------------------ */

static int hub_adopt_file(struct hub_model *model, const struct listing *listing,
                          const struct hub_file *file, struct rf_error *error)
{
    struct hub_file *kept = &model->files[model->count];
    *kept = *file;
    kept->path = malloc(strlen(file->path) + 1);
    if (!kept->path) return rf_fail(error, RF_ERR_MEMORY, "no memory for a list of files");
    strcpy(kept->path, file->path);
    model->count++;
    if (model->bytes > UINT64_MAX / 2 - (uint64_t)file->bytes)
        return listing_bad(listing->address, "has sizes that no disk holds", error);
    model->bytes += (uint64_t)file->bytes;
    if (kinds[listing->name.hub].url(listing, kept, kept->url) != 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: its address is too long", file->path);
    return type_file_name(file->path, kept->file, sizeof kept->file) == 0
               ? 0
               : rf_fail(error, RF_ERR_UNSUPPORTED, "%s: this name of a file cannot be kept here",
                         file->path);
}

static const struct hub_file *listing_find(const struct listing *listing, const char *path)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->files[i].path, path) == 0) return &listing->files[i];
    return NULL;
}

/* The GGUF file, or all parts of a split one: the first part comes last. */
static int hub_take_gguf(struct hub_model *model, const struct listing *listing,
                         const struct hub_file *chosen, struct rf_error *error)
{
    char other[512];
    int number = 1, count = 1;
    type_part(chosen->path, &number, &count);
    if (count > 1000 || (size_t)count > listing->count)
        return rf_fail(error, RF_ERR_FORMAT, "%s: parts of it are missing on the hub",
                       chosen->path);
    model->files = calloc((size_t)count, sizeof *model->files);
    if (!model->files) return rf_fail(error, RF_ERR_MEMORY, "no memory for a list of files");
    for (int i = 2; i <= count; i++) {
        type_other_part(chosen->path, i, other, sizeof other);
        const struct hub_file *part = listing_find(listing, other);
        if (!part) return rf_fail(error, RF_ERR_FORMAT, "%s: is missing on the hub", other);
        int code = hub_adopt_file(model, listing, part, error);
        if (code) return code;
    }
    return hub_adopt_file(model, listing, chosen, error);
}

/* Whether a file of a repository belongs to its folder of safetensors. */
static int is_of_folder(const char *path)
{
    size_t n = strlen(path);
    if (strchr(path, '/') || !hub_is_plain(path)) return 0;
    return (n > 12 && strcmp(path + n - 12, ".safetensors") == 0 &&
            strncmp(path, "consolidated", 12) != 0) ||
           (n > 5 && strcmp(path + n - 5, ".json") == 0) ||
           (n > 6 && strcmp(path + n - 6, ".jinja") == 0) || strcmp(path, "tokenizer.model") == 0;
}

/* The folder of safetensors; config.json comes last. */
static int hub_take_folder(struct hub_model *model, const struct listing *listing,
                           struct rf_error *error)
{
    const struct hub_file *config = listing_find(listing, "config.json");
    int code = 0;
    model->is_folder = 1;
    model->files = calloc(listing->count, sizeof *model->files);
    if (!model->files) return rf_fail(error, RF_ERR_MEMORY, "no memory for a list of files");
    for (size_t i = 0; !code && i < listing->count; i++)
        if (&listing->files[i] != config && is_of_folder(listing->files[i].path))
            code = hub_adopt_file(model, listing, &listing->files[i], error);
    return code ? code : hub_adopt_file(model, listing, config, error);
}

static int has_safetensors(const struct listing *listing)
{
    int has = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const char *path = listing->files[i].path;
        size_t n = strlen(path);
        has |= is_of_folder(path) && n > 12 && strcmp(path + n - 12, ".safetensors") == 0;
    }
    return has && listing_find(listing, "config.json");
}

/* The sentence that lists what there is instead. */
static int hub_explain_choice(const struct listing *listing, struct rf_error *error)
{
    char text[HUB_NAME_TEXT], all[300] = "", type[TYPE_TEXT];
    struct hub_name bare = listing->name;
    size_t n = 0;
    bare.type[0] = 0;
    hub_name_write(&bare, text);
    for (size_t i = 0; i < listing->count; i++) {
        const char *path = listing->files[i].path;
        if (!type_is_model_file(path)) continue;
        type_of_file(path, type);
        const char *shown = type[0] ? type : path;
        if (strstr(all, shown) || n + strlen(shown) + 3 > sizeof all) continue;
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", shown);
    }
    if (!n)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s has neither GGUF files nor a model in safetensors", text);
    if (!listing->name.type[0])
        return rf_fail(error, RF_ERR_UNSUPPORTED, "%s has no type that runs here; it has %s", text,
                       all);
    return rf_fail(error, RF_ERR_UNSUPPORTED, "%s has no %s; it has %s", text, listing->name.type,
                   all);
}

static int hub_choose(const struct listing *listing, struct hub_model *model,
                      struct rf_error *error)
{
    const char *wanted = listing->name.hub == HUB_OLLAMA ? "" : listing->name.type;
    int wants_folder = type_same_text(wanted, "safetensors");
    const char **paths = calloc(listing->count + 1, sizeof *paths);
    if (!paths) return rf_fail(error, RF_ERR_MEMORY, "no memory for a list of files");
    for (size_t i = 0; i < listing->count; i++) paths[i] = listing->files[i].path;
    int chosen = wants_folder ? -1 : type_choose(paths, listing->count, wanted);
    free(paths);
    model->name = listing->name;
    model->token = listing->token;
    memcpy(model->moved, listing->moved, sizeof model->moved);
    if (chosen < 0 && (wants_folder || !wanted[0]) && has_safetensors(listing)) {
        strcpy(model->name.type, "safetensors");
        return hub_take_folder(model, listing, error);
    }
    if (chosen < 0) return hub_explain_choice(listing, error);
    int code = hub_take_gguf(model, listing, &listing->files[chosen], error);
    if (!code && listing->name.hub != HUB_OLLAMA)
        type_label(model->files[model->count - 1].file, model->name.type);
    return code;
}

int hub_find(const struct hub_name *name, const struct hub_call *call, struct hub_model *model,
             struct rf_error *error)
{
    struct listing listing = {.name = *name, .token = hub_token(name->hub)};
    *model = (struct hub_model){.name = *name};
    hub_address(name->hub, listing.address, sizeof listing.address);
    int code = kinds[name->hub].list(&listing, call, error);
    if (!code) code = hub_choose(&listing, model, error);
    for (size_t i = 0; i < listing.count; i++) free(listing.files[i].path);
    free(listing.files);
    return code;
}

void hub_model_free(struct hub_model *model)
{
    for (size_t i = 0; i < model->count; i++) free(model->files[i].path);
    free(model->files);
    model->files = NULL;
    model->count = 0;
}
