/* Adds models to a list and measures them: a file, all parts of a split one, or a folder. */
#include "models/entries.h"

#include <stdlib.h>
#include <string.h>

#include "fetch/fetch.h"
#include "output/buffer.h"
#include "platform/file.h"
#include "platform/folder.h"

static int has_ending(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n > n_end && strcmp(text + n - n_end, end) == 0;
}

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
    contents->has_weights |= has_ending(name, ".safetensors");
    contents->has_config |= strcmp(name, "config.json") == 0;
    buffer_free(&path);
    return 0;
}

int64_t model_folder_bytes(const char *path)
{
    struct contents contents = {.path = path};
    struct rf_error error;
    if (rf_folder_each(path, count_file, &contents, &error) != 0) return -1;
    return contents.has_weights && contents.has_config ? contents.bytes : -1;
}

void model_each_file(const struct model_entry *entry, void (*each)(void *user, const char *path),
                     void *user)
{
    char part[LONGEST_PATH];
    int number, count = 1;
    if (!type_part(entry->path, &number, &count)) each(user, entry->path);
    if (!type_part(entry->path, &number, &count)) return;
    for (int i = 1; i <= count; i++) {
        type_other_part(entry->path, i, part, sizeof part);
        each(user, part);
    }
}

static void sum_file(void *user, const char *path)
{
    int64_t *sum = user, bytes = rf_file_bytes(path);
    *sum = bytes < 0 || *sum < 0 ? -1 : *sum + bytes;
}

/* Sets the bytes of a model's file, of all parts of a split one, or of a folder with safetensors;
 * -1 where something is missing. */
static void entry_measure(struct model_entry *entry)
{
    entry->is_folder = rf_is_directory(entry->path);
    entry->bytes = -1;
    if (entry->is_folder) {
        entry->bytes = model_folder_bytes(entry->path);
    } else if (entry->place[0] || has_ending(entry->path, ".gguf")) {
        entry->bytes = 0;
        model_each_file(entry, sum_file, &entry->bytes);
    }
}

static void sum_kept(void *user, const char *path)
{
    uint64_t *sum = user;
    int64_t bytes = rf_file_bytes(path);
    *sum += fetch_kept_bytes(path) + (bytes > 0 ? (uint64_t)bytes : 0);
}

uint64_t model_kept_bytes(const struct model_entry *entry)
{
    struct contents contents = {.path = entry->path};
    struct rf_error error;
    uint64_t sum = 0;
    int number, count;
    if (entry->bytes < 0 && entry->is_folder && entry->hub.hub) {
        rf_folder_each(entry->path, count_file, &contents, &error);
        return (uint64_t)contents.bytes;
    }
    if (entry->bytes >= 0 || !type_part(entry->path, &number, &count))
        return fetch_kept_bytes(entry->path);
    model_each_file(entry, sum_kept, &sum);
    return sum;
}

void model_list_remove_last(struct model_list *list)
{
    const struct model_entry *entry = &list->items[--list->count];
    free(entry->name);
    free(entry->file);
    free(entry->path);
}

void model_list_add(struct model_list *list, const char *name, const char *file, const char *path,
                    const char *place, const struct hub_name *hub)
{
    list->items = cli_reallocate(list->items, list->count + 1, sizeof *list->items);
    struct model_entry *entry = &list->items[list->count++];
    *entry = (struct model_entry){.name = cli_copy(name, strlen(name)),
                                  .file = cli_copy(file, strlen(file)),
                                  .path = cli_copy(path, strlen(path)),
                                  .place = place};
    if (hub) entry->hub = *hub;
    entry_measure(entry);
    if (place[0] && entry->bytes < 0) model_list_remove_last(list);
}
