/* The verb rm: removes a model, and what is left of an interrupted pull. Links and unknown files
 * are never removed. */
#include <stdio.h>
#include <string.h>

#include "fetch/fetch.h"
#include "models/model_list.h"
#include "options/options.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/wrap.h"
#include "platform/file.h"
#include "platform/folder.h"
#include "terminal/ask.h"
#include "verbs/verbs.h"

/* The things inside a model's folder. */
struct inside {
    const char *path;
    struct buffer *file; /* path of one of them */
    int removes;         /* else only looks whether all are files */
    struct rf_error *error;
};

static int inside_file(void *user, const char *name)
{
    struct inside *inside = user;
    buffer_clear(inside->file);
    buffer_printf(inside->file, "%s/%s", inside->path, name);
    if (inside->removes) return rf_remove(inside->file->data, inside->error);
    enum rf_kind kind = rf_kind_of(inside->file->data);
    if (kind == RF_KIND_FILE || kind == RF_KIND_LINK) return 0;
    return rf_fail(inside->error, RF_ERR_UNSUPPORTED,
                   "%s holds more than files (%s): remove it by other means", inside->path, name);
}

static int remove_folder(const char *path, struct rf_error *error)
{
    struct buffer file = {0};
    struct inside inside = {path, &file, 0, error};
    int code = rf_folder_each(path, inside_file, &inside, error);
    inside.removes = 1;
    if (!code) code = rf_folder_each(path, inside_file, &inside, error);
    if (!code) code = rf_remove(path, error);
    buffer_free(&file);
    return code;
}

/* Only files and folders are removed: links lead elsewhere. */
static int check_removable(const struct model_entry *entry)
{
    enum rf_kind kind = rf_kind_of(entry->path);
    if (entry->place[0])
        return cli_fail("%s belongs to %s (%s), which can remove it", entry->name, entry->place,
                        entry->path);
    if (kind == RF_KIND_LINK)
        return cli_fail("%s is a symbolic link; it is not removed, nor what it leads to",
                        entry->path);
    if (entry->bytes < 0 && entry->known && entry->known->hub.hub && !entry->is_folder &&
        kind == RF_KIND_FOLDER)
        return cli_fail("the model %s is not on this disk", entry->name);
    if (kind != RF_KIND_NONE && entry->bytes < 0 && !model_kept_bytes(entry))
        return cli_fail("%s is not a model", entry->path);
    if (kind == RF_KIND_NONE && !model_kept_bytes(entry))
        return cli_fail("the model %s is not on this disk", entry->name);
    return CLI_OK;
}

static int confirm(const struct cli_options *options, const struct model_entry *entry,
                   uint64_t bytes)
{
    struct buffer question = {0};
    char size[32];
    if (options->yes) return CLI_OK;
    if (!can_ask())
        return cli_usage_error("there is no terminal to ask on; --yes removes %s without asking",
                               entry->name);
    buffer_printf(&question, "Remove %s (%s)?", entry->name, human_bytes(bytes, size));
    enum answer answer = ask_yes_no(question.data, ANSWER_NO);
    buffer_free(&question);
    if (answer == ANSWER_NO) fputs("Nothing is removed.\n", stderr);
    return answer == ANSWER_YES           ? CLI_OK
           : answer == ANSWER_INTERRUPTED ? CLI_INTERRUPTED
                                          : CLI_FAILED;
}

/* The files of one model while they are removed. */
struct removal {
    uint64_t *freed;
    struct rf_error *error;
    int code;
};

static void remove_file(void *user, const char *path)
{
    struct removal *removal = user;
    int64_t bytes = rf_file_bytes(path);
    if (removal->code) return;
    removal->code = fetch_forget(path, removal->freed, removal->error);
    if (removal->code || bytes < 0) return;
    removal->code = rf_remove(path, removal->error);
    *removal->freed += (uint64_t)bytes;
}

/* Removes the folders of a hub's repository that are empty now: HOST/OWNER/REPO. */
static void remove_empty_folders(const struct model_entry *entry)
{
    char path[LONGEST_PATH];
    struct rf_error ignored;
    snprintf(path, sizeof path, "%s", entry->path);
    for (int i = 0; entry->hub.hub && i < 3; i++) {
        char *slash = strrchr(path, '/');
        if (!slash) return;
        *slash = 0;
        if (rf_remove(path, &ignored) != 0) return;
    }
}

static int remove_entry(const struct cli_options *options, const struct model_entry *entry)
{
    struct rf_error error;
    char size[32];
    uint64_t freed = 0, bytes = entry->bytes > 0 ? (uint64_t)entry->bytes : 0;
    struct removal removal = {&freed, &error, 0};
    int status = check_removable(entry);
    if (status == CLI_OK) status = confirm(options, entry, bytes + model_kept_bytes(entry));
    if (status != CLI_OK) return status;
    if (entry->is_folder) {
        freed = bytes ? bytes : model_kept_bytes(entry);
        removal.code = remove_folder(entry->path, &error);
    } else {
        model_each_file(entry, remove_file, &removal);
    }
    if (removal.code == RF_ERR_CONTEXT)
        return cli_fail("another process is fetching %s", entry->name);
    if (removal.code) return cli_fail("%s", error.text);
    remove_empty_folders(entry);
    inform("Removed %s, %s are free now", entry->name, human_bytes(freed, size));
    return CLI_OK;
}

int verb_rm(const struct cli_options *options)
{
    struct model_list list;
    int status = model_list_read(&list);
    if (status == CLI_OK) {
        const struct buffer none = {0};
        const struct model_entry *entry = model_list_exact(&list, options->model);
        struct hub_name hub;
        struct buffer several = {0};
        if (!entry && hub_name_parse(options->model, &hub) && hub.type[0])
            entry = model_list_find(&list, options->model, &several);
        buffer_free(&several);
        status =
            entry ? remove_entry(options, entry) : model_list_explain(&list, options->model, &none);
    }
    model_list_free(&list);
    return status;
}
