/* Has a hub list a model's files and fetches them in an order in which the last one makes them a
 * model: the first part of a split one, or config.json. So what is not complete is no model. */
#include "models/pull_hub.h"

#include <stdio.h>
#include <string.h>

#include "fetch/download.h"
#include "hubs/hub.h"
#include "models/model_list.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/wrap.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/folder.h"
#include "platform/terminal.h"
#include "riffle.h"
#include "terminal/ask.h"

enum { DEFAULT_TIMEOUT = 60 };

/* A model on its way from a hub. */
struct hub_pull {
    struct hub_model model;
    const struct pull_limits *limits;
    char name[HUB_NAME_TEXT];
    char folder[LONGEST_PATH - 300];
    int timeout_seconds;
};

static int hub_pull_on_poll(void *user)
{
    return progress_update(user, "asking the hub", 0, 0);
}

/* Asks the hub. hub_model_free must follow. */
static int ask_hub(struct hub_pull *pull, const struct hub_name *name)
{
    struct rf_error error;
    struct progress_line progress = {0};
    const struct hub_call call = {pull->timeout_seconds, hub_pull_on_poll, &progress};
    rf_interrupts_catch_all();
    int code = hub_find(name, &call, &pull->model, &error);
    progress_clear(&progress);
    hub_name_write(&pull->model.name, pull->name);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    if (code) return cli_fail("%s", error.text);
    if (pull->model.moved[0]) inform("%s is called %s now", pull->model.moved, pull->name);
    return CLI_OK;
}

/* Finds the folder of the model's files below the models' folder. */
static int hub_pull_find_folder(struct hub_pull *pull, const char *models)
{
    char below[HUB_NAME_TEXT];
    const struct hub_name *name = &pull->model.name;
    hub_name_folder(name, below);
    int n = snprintf(pull->folder, sizeof pull->folder, "%s/%s%s%s", models, below,
                     pull->model.is_folder ? "/" : "", pull->model.is_folder ? name->repo : "");
    return n > 0 && n < (int)sizeof pull->folder
               ? CLI_OK
               : cli_fail("the path of %s is too long", pull->name);
}

/* Whether another program has the same bytes; `path` then gets where. */
static int is_elsewhere(const struct hub_pull *pull, const struct model_list *list,
                        char path[LONGEST_PATH])
{
    const struct hub_name *name = &pull->model.name;
    for (size_t i = 0; i < list->count; i++) {
        const struct model_entry *entry = &list->items[i];
        if (!entry->place[0] || entry->bytes != (int64_t)pull->model.bytes ||
            entry->hub.hub != name->hub || strcmp(entry->hub.owner, name->owner) != 0 ||
            strcmp(entry->hub.repo, name->repo) != 0 || strcmp(entry->hub.type, name->type) != 0)
            continue;
        snprintf(path, LONGEST_PATH, "%s", entry->path);
        inform("%s is there: %s has it", pull->name, entry->place);
        return 1;
    }
    return 0;
}

static int accept_any(void *user, const char *path, struct rf_error *error)
{
    (void)user, (void)path, (void)error;
    return 0;
}

/* The order of one of the model's files. */
static struct pull hub_pull_order(const struct hub_pull *pull, const struct hub_file *file,
                                  const char *path, uint64_t before)
{
    struct pull one = pull_file(pull->name, path);
    size_t n = strlen(file->file);
    int is_gguf = n > 5 && strcmp(file->file + n - 5, ".gguf") == 0;
    one.order.sources = file->url;
    one.order.bytes = file->bytes;
    one.order.sha256 = file->sha256[0] ? file->sha256 : NULL;
    one.order.magic = is_gguf || pull->model.name.hub == HUB_OLLAMA ? "GGUF" : NULL;
    one.order.token = pull->model.token;
    one.order.timeout_seconds = pull->timeout_seconds;
    if (pull->model.count > 1) one.order.accept = accept_any; /* only all of them can be opened */
    one.before = before;
    one.total = pull->model.bytes;
    return one;
}

/* Whether the model can be opened, once all of its files are there. */
static int hub_pull_check_model(const struct hub_pull *pull, const char *path)
{
    riffle_model_options options;
    riffle_model *model;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    options.chain = "none";
    if (riffle_model_open(&model, path, &options) != RIFFLE_OK)
        return cli_fail("%s: Riffle cannot read it: %s; `riffle rm %s` removes it", pull->name,
                        riffle_last_error(), pull->name);
    riffle_model_close(model);
    return CLI_OK;
}

/* Fetches or checks all files. *fetched: how many came. */
static int hub_pull_files(struct hub_pull *pull, char path[LONGEST_PATH], size_t *fetched,
                          char sha256[SHA256_TEXT])
{
    uint64_t before = 0;
    int status = CLI_OK;
    for (size_t i = 0; status == CLI_OK && i < pull->model.count; i++) {
        const struct hub_file *file = &pull->model.files[i];
        struct http_refusal refusal = {0};
        snprintf(path, LONGEST_PATH, "%s/%s", pull->folder, file->file);
        struct pull one = hub_pull_order(pull, file, path, before);
        one.order.refusal = &refusal;
        one.hub = &pull->model.name;
        if (rf_path_exists(path)) {
            status = pull_compare(&one, pull->limits->verify);
        } else {
            status = pull_get(&one, sha256);
            ++*fetched;
        }
        before += (uint64_t)file->bytes;
    }
    if (pull->model.is_folder) snprintf(path, LONGEST_PATH, "%s", pull->folder);
    return status;
}

/* Refuses what is larger than the user or the disk allows, before a byte of it comes. */
static int hub_pull_check_size(const struct hub_pull *pull)
{
    struct rf_error error;
    uint64_t there = 0, most = pull->limits->most_bytes;
    char path[LONGEST_PATH];
    if (most && pull->model.bytes > most)
        return cli_fail("%s has %llu bytes, more than the %llu that are allowed", pull->name,
                        (unsigned long long)pull->model.bytes, (unsigned long long)most);
    for (size_t i = 0; i < pull->model.count; i++) {
        snprintf(path, sizeof path, "%s/%s", pull->folder, pull->model.files[i].file);
        int64_t bytes = rf_file_bytes(path);
        there += fetch_kept_bytes(path) + (bytes > 0 ? (uint64_t)bytes : 0);
    }
    if (there >= pull->model.bytes || rf_make_folder(pull->folder) != 0) return CLI_OK;
    return download_check_space(pull->folder, pull->model.bytes - there, &error)
               ? cli_fail("%s", error.text)
               : CLI_OK;
}

static int is_all_there(const struct hub_pull *pull)
{
    char path[LONGEST_PATH];
    for (size_t i = 0; i < pull->model.count; i++) {
        snprintf(path, sizeof path, "%s/%s", pull->folder, pull->model.files[i].file);
        if (!rf_path_exists(path)) return 0;
    }
    return 1;
}

/* Fetches or checks the model that the hub has named. */
static int hub_pull_model(struct hub_pull *pull, char path[LONGEST_PATH])
{
    char size[32], count[32] = "", sha256[SHA256_TEXT] = "";
    size_t fetched = 0;
    const struct hub_file *last = &pull->model.files[pull->model.count - 1];
    double start = rf_clock_seconds();
    int is_new = !is_all_there(pull), status = hub_pull_check_size(pull);
    if (status != CLI_OK) return status;
    if (pull->model.count > 1) snprintf(count, sizeof count, ", %zu files", pull->model.count);
    human_bytes(pull->model.bytes, size);
    if (is_new) inform("Fetching %s (%s%s) into %s", pull->name, size, count, pull->folder);
    status = hub_pull_files(pull, path, &fetched, sha256);
    if (status == CLI_OK && pull->model.count > 1) status = hub_pull_check_model(pull, path);
    if (status != CLI_OK) return status;
    int is_verified = last->sha256[0] || pull->model.is_folder;
    if (!is_new)
        inform("%s is there%s", pull->name, is_verified ? ", verified" : "");
    else
        inform("%s: %s in %.0f s, %s%s", pull->name, size, rf_clock_seconds() - start,
               is_verified ? "verified" : "not verified: its SHA-256 is ",
               is_verified ? "" : sha256);
    return CLI_OK;
}

/* The steps after the hub's answer. */
static int hub_pull_answered(struct hub_pull *pull, char path[LONGEST_PATH])
{
    struct model_list list;
    int status = model_list_read(&list);
    if (status == CLI_OK && !is_elsewhere(pull, &list, path)) {
        status = hub_pull_find_folder(pull, list.folder);
        if (status == CLI_OK) status = hub_pull_model(pull, path);
    }
    model_list_free(&list);
    return status;
}

static struct hub_pull hub_pull_of(const struct pull_limits *limits)
{
    return (struct hub_pull){.limits = limits,
                             .timeout_seconds = limits->timeout_seconds ? limits->timeout_seconds
                                                                        : DEFAULT_TIMEOUT};
}

int pull_hub(const struct hub_name *name, const struct pull_limits *limits, char path[LONGEST_PATH])
{
    struct hub_pull pull = hub_pull_of(limits);
    int status = ask_hub(&pull, name);
    if (status == CLI_OK) status = hub_pull_answered(&pull, path);
    hub_model_free(&pull.model);
    return status;
}

int pull_by_name(const char *name)
{
    const struct pull_limits limits = {0};
    struct model_list list;
    struct hub_name hub;
    char path[LONGEST_PATH];
    int status = model_list_read(&list);
    const struct model_entry *entry = status == CLI_OK ? model_list_named(&list, name) : NULL;
    if (entry && entry->known && !entry->known->hub.hub) {
        struct pull pull = pull_known(entry->known, entry->path);
        status = pull_run(&pull, 0);
    } else if (entry && entry->known) {
        status = pull_hub(&entry->known->hub, &limits, path);
    } else if (status == CLI_OK && hub_name_parse(name, &hub)) {
        status = pull_hub(&hub, &limits, path);
    } else if (status == CLI_OK) {
        status = cli_fail("'%s' is the name of no model that can be fetched", name);
    }
    model_list_free(&list);
    return status;
}

/* ---- the offer ----------------------------------------------------------------------------- */

/* Asks on the terminal. *fetches: the answer was yes. */
static int hub_offer_ask(const char *name, const char *licence, uint64_t bytes, int *fetches)
{
    struct buffer question = {0};
    char size[32];
    buffer_printf(&question, "%s (%s%s%s) is not on this disk. Fetch it now?", name, licence,
                  licence[0] ? ", " : "", human_bytes(bytes, size));
    enum answer answer = ask_yes_no(question.data, ANSWER_YES);
    buffer_free(&question);
    *fetches = answer == ANSWER_YES;
    return answer == ANSWER_INTERRUPTED ? CLI_INTERRUPTED : CLI_OK;
}

/* A model of a hub: its size is known once the hub was asked. */
static int offer_hub(const struct hub_name *name)
{
    const struct pull_limits limits = {0};
    struct hub_pull pull = hub_pull_of(&limits);
    char path[LONGEST_PATH];
    int fetches = 1, status = ask_hub(&pull, name);
    if (status == CLI_OK && can_ask())
        status = hub_offer_ask(pull.name, "", pull.model.bytes, &fetches);
    if (status == CLI_OK && fetches) status = hub_pull_answered(&pull, path);
    hub_model_free(&pull.model);
    return status;
}

static int offer_known(const struct model_entry *entry)
{
    int fetches, status;
    if (!can_ask()) return CLI_OK;
    if (entry->known->hub.hub) return offer_hub(&entry->known->hub);
    status =
        hub_offer_ask(entry->name, entry->known->licence, (uint64_t)entry->known->bytes, &fetches);
    if (status != CLI_OK || !fetches) return status;
    struct pull pull = pull_known(entry->known, entry->path);
    return pull_run(&pull, 0);
}

int pull_offer(const char *model)
{
    struct model_list list;
    struct buffer candidates = {0};
    struct hub_name name;
    if (rf_path_exists(model)) return CLI_OK;
    int status = model_list_read(&list);
    const struct model_entry *entry =
        status == CLI_OK ? model_list_find(&list, model, &candidates) : NULL;
    if (entry && entry->known && entry->bytes < 0)
        status = offer_known(entry);
    else if (status == CLI_OK && (!entry || entry->bytes < 0) && hub_name_parse(model, &name))
        status = offer_hub(&name);
    buffer_free(&candidates);
    model_list_free(&list);
    return status;
}
