/* The verb list: models on the disk and known ones, as a table or JSON. Only headers of files are
 * read, unless --verify asks for more. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fetch/fetch.h"
#include "models/model_list.h"
#include "options/options.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/json.h"
#include "output/output.h"
#include "output/progress.h"
#include "platform/terminal.h"
#include "session/engine.h"
#include "verbs/verbs.h"

/* The facts about one model on the disk. */
struct facts {
    const struct known_model
        *known;          /* the listed model that it is, whatever its name; NULL: none */
    riffle_model *model; /* header of the file; NULL: it cannot be read, or is not there */
    riffle_model_info info;
    char wrong[512];          /* why the header cannot be read; "" */
    char sha256[SHA256_TEXT]; /* hash that the file should have; "" if that is unknown */
    int verified;             /* the file had that hash, and was not touched since */
    uint64_t kept;            /* bytes of an interrupted fetch */
    const char *state;
};

/* The word for a model's state, in the table and in JSON. */
static const char *state_of(const struct model_entry *entry, const struct facts *facts)
{
    if (entry->bytes < 0) return facts->kept ? "interrupted" : "not fetched";
    if (!model_is_complete(entry)) return "incomplete";
    return facts->verified ? "verified" : "not verified";
}

/* Reads a header without a chain: drafts are no matter here. */
static void open_header(struct facts *facts, const char *path)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    options.chain = "none";
    int code = riffle_model_open(&facts->model, path, &options);
    if (code == RIFFLE_OK)
        code = riffle_model_get_info(facts->model, &facts->info, sizeof facts->info);
    if (code != RIFFLE_OK) snprintf(facts->wrong, sizeof facts->wrong, "%s", riffle_last_error());
}

/* Hashes the file again and compares it with the known hash. */
static int list_verify(const struct model_entry *entry, struct facts *facts)
{
    struct progress_line progress = {0};
    struct rf_error error;
    char now[SHA256_TEXT];
    if (!facts->sha256[0] || !model_is_complete(entry) || entry->is_folder) return CLI_OK;
    int code = stamp_hash_file(entry->path, now, progress_update, &progress, &error);
    progress_clear(&progress);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    if (code) return cli_fail("%s", error.text);
    facts->verified = strcmp(now, facts->sha256) == 0;
    if (!facts->verified)
        return cli_fail("%s: its SHA-256 is %s, not %s", entry->path, now, facts->sha256);
    if (!entry->place[0]) stamp_write(entry->path, now);
    return CLI_OK;
}

static int facts_get(struct facts *facts, const struct model_entry *entry, int verifies)
{
    int status = CLI_OK;
    *facts = (struct facts){.kept = model_kept_bytes(entry)};
    facts->known = entry->known ? entry->known : known_model_of(entry->path);
    enum stamp stamp = stamp_read(entry->path, facts->sha256);
    if (facts->known && facts->known->sha256[0] &&
        strcmp(facts->known->sha256, facts->sha256) != 0) {
        memcpy(facts->sha256, facts->known->sha256, sizeof facts->sha256);
        stamp = STAMP_NONE;
    }
    facts->verified = stamp == STAMP_HOLDS;
    if (model_is_complete(entry)) {
        if (verifies) status = list_verify(entry, facts);
        open_header(facts, entry->path);
    }
    facts->state = state_of(entry, facts);
    return status;
}

/* The size of the complete model; -1: unknown. The list's is a guess where a hub has the model. */
static int64_t list_bytes(const struct model_entry *entry, const struct known_model *known)
{
    if (entry->bytes >= 0 && (!known || known->hub.hub)) return entry->bytes;
    return known ? known->bytes : entry->bytes;
}

static void list_write_json(struct json_writer *json, const struct model_entry *entry,
                            const struct facts *facts)
{
    const struct known_model *known = facts->known;
    int complete = model_is_complete(entry);
    int64_t bytes = list_bytes(entry, known);
    jw_put(json, "{ name %s", entry->name);
    jw_string(json, "file", entry->file[0] ? entry->file : NULL);
    jw_string(json, "licence", known ? known->licence : NULL);
    if (bytes >= 0)
        jw_put(json, "bytes %" PRId64, bytes);
    else
        jw_string(json, "bytes", NULL);
    jw_string(json, "path", complete ? entry->path : NULL);
    jw_string(json, "place", complete ? entry->place[0] ? entry->place : "Riffle" : NULL);
    jw_string(json, "draft", known && strcmp(known->draft, "-") != 0 ? known->draft : NULL);
    jw_put(json, "state %s kept_bytes %" PRIu64, facts->state, facts->kept);
    jw_bool(json, "verified", facts->verified);
    jw_string(json, "sha256", facts->sha256[0] ? facts->sha256 : NULL);
    jw_string(json, "arch", facts->model ? facts->info.architecture : NULL);
    jw_string(json, "file_type",
              facts->model && facts->info.file_type[0] ? facts->info.file_type : NULL);
    jw_string(json, "stored_types", facts->model ? facts->info.stored_types : NULL);
    if (facts->model)
        jw_put(json, "n_params %" PRIu64, facts->info.n_params);
    else
        jw_string(json, "n_params", NULL);
    jw_string(json, "error", facts->wrong[0] ? facts->wrong : NULL);
    jw_put(json, "}");
}

/* "135M", "1.5B" */
static void short_count(uint64_t count, char text[16])
{
    if (count >= 999500000)
        snprintf(text, 16, "%.*fB", count < 9950000000 ? 1 : 0, (double)count / 1e9);
    else if (count >= 999500)
        snprintf(text, 16, "%.0fM", (double)count / 1e6);
    else
        snprintf(text, 16, "%.0fK", (double)count / 1e3);
}

static void list_print_row(const struct model_entry *entry, const struct facts *facts, int width)
{
    char size[32], kept[32], params[16] = "", type[16] = "";
    int64_t bytes = list_bytes(entry, entry->known);
    if (bytes >= 0) human_bytes((uint64_t)bytes, size);
    int dim = entry->bytes < 0 && rf_terminal_colour(RF_STDOUT);
    if (dim) fputs("\033[2m", stdout);
    int n = print_name(stdout, entry->name);
    if (facts->model) {
        short_count(facts->info.n_params, params);
        engine_type(&facts->info, type);
    }
    printf("%*s  %8s  %6s  %-6s  %-10s  %s", n < width ? width - n : 0, "", bytes >= 0 ? size : "",
           params, type, facts->known ? facts->known->licence : "-",
           facts->wrong[0] ? "cannot be read" : facts->state);
    if (entry->bytes < 0 && facts->kept) printf(" at %s", human_bytes(facts->kept, kept));
    printf("%s\n", dim ? "\033[0m" : "");
}

/* A line above the models of another program. */
static void list_print_place(const struct model_entry *entry, const char *before)
{
    if (!entry->place[0] || strcmp(entry->place, before) == 0) return;
    printf("\nOf %s, only read:\n", entry->place);
}

/* The path of another program's file, which the folder of models does not say. */
static void list_print_path(const struct model_entry *entry)
{
    if (!entry->place[0] || entry->bytes < 0) return;
    fputs("    ", stdout);
    print_name(stdout, entry->path);
    putchar('\n');
}

/* Width of the names: at most 30 columns, so that usual rows fit 80. */
static int name_width(const struct model_list *list)
{
    size_t width = 4;
    for (size_t i = 0; i < list->count; i++)
        if (strlen(list->items[i].name) > width) width = strlen(list->items[i].name);
    return width < 30 ? (int)width : 30;
}

int verb_list(const struct cli_options *options)
{
    struct model_list list;
    struct json_writer json = {0};
    const char *place = "";
    int status = model_list_read(&list), width = name_width(&list);
    if (status == CLI_OK && !options->json) {
        print_name(stdout, list.folder);
        printf("\n%-*s  %8s  %6s  %-6s  %-10s  %s\n", width, "NAME", "SIZE", "PARAMS", "TYPE",
               "LICENCE", "STATE");
    } else if (status == CLI_OK) {
        jw_put(&json, "{ folder %s models [", list.folder);
    }
    for (size_t i = 0; i < list.count && status != CLI_INTERRUPTED && !rf_interrupts(); i++) {
        struct facts facts;
        int one = facts_get(&facts, &list.items[i], options->verify);
        if (one != CLI_OK) status = one;
        const struct model_entry *entry = &list.items[i];
        if (options->json) {
            list_write_json(&json, entry, &facts);
        } else {
            if (!entry->known) list_print_place(entry, place);
            list_print_row(entry, &facts, width);
            list_print_path(entry);
            if (!entry->known) place = entry->place;
        }
        riffle_model_close(facts.model);
    }
    if (rf_interrupts()) status = CLI_INTERRUPTED;
    if (options->json && status != CLI_INTERRUPTED && list.count) {
        jw_put(&json, "] }");
        jw_print(&json);
    }
    buffer_free(&json.text);
    model_list_free(&list);
    return status;
}
