/* Fetches or checks one model, shows progress and says what has come. A file is accepted only if
 * its header can be opened. */
#include "models/pull.h"

#include <stdio.h>
#include <string.h>

#include "hubs/explain.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/wrap.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

enum { DEFAULT_TIMEOUT = 60 };

/* ---- progress ------------------------------------------------------------------------------ */

/* "45.1 MB of 98.4 MB, 3.2 MB/s, 17 s left" */
static void describe_rate(char *note, size_t cap, const struct progress_line *progress,
                          uint64_t done, uint64_t total)
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

static int pull_on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    struct pull *pull = user;
    char note[128] = "";
    if (pull->total && strcmp(stage, "fetching") == 0) {
        done += pull->before;
        total = pull->total;
    }
    if (strcmp(stage, pull->progress.stage) == 0)
        describe_rate(note, sizeof note, &pull->progress, done, total);
    return progress_update_note(&pull->progress, stage, done, total, note);
}

/* ---- fetching ------------------------------------------------------------------------------ */

/* A file is a model if its header can be opened. */
static int pull_accept(void *user, const char *path, struct rf_error *error)
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

/* The value of general.architecture at the beginning of a GGUF file (version 2 or 3), or 0 bytes
 * where it is not among the texts there. */
static size_t find_architecture(const unsigned char *data, char name[64])
{
    static const char key[] = "general.architecture";
    enum { HEADER = 24, STRING = 8 };
    for (size_t at = HEADER; at + 8 <= FETCH_PEEK;) {
        uint64_t n_key, n;
        uint32_t type;
        memcpy(&n_key, data + at, 8);
        if (n_key > FETCH_PEEK || at + 8 + n_key + 12 > FETCH_PEEK) return 0;
        const unsigned char *found = data + at + 8;
        memcpy(&type, found + n_key, 4);
        memcpy(&n, found + n_key + 4, 8);
        at += 8 + n_key + 12;
        if (type != STRING || n > FETCH_PEEK || at + n > FETCH_PEEK) return 0;
        if (n_key == sizeof key - 1 && memcmp(found, key, n_key) == 0) {
            if (n >= 64) return 0;
            memcpy(name, data + at, n);
            name[n] = 0;
            return n;
        }
        at += n;
    }
    return 0;
}

/* A model that does not run is refused before all of it has come. */
static int pull_peek(void *user, const void *data, struct rf_error *error)
{
    const struct pull *pull = user;
    char name[64];
    if (!find_architecture(data, name) || riffle_knows_architecture(name)) return 0;
    return rf_fail(error, RF_ERR_UNSUPPORTED,
                   "%s is of the architecture \"%s\", which does not run here (docs/models.md)",
                   pull->name, name);
}

/* Prints why the fetch failed, and how much of it is kept. */
static int pull_explain(struct pull *pull, int code, const struct rf_error *error)
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

int pull_get(struct pull *pull, char sha256[SHA256_TEXT])
{
    struct rf_error error;
    char folder[LONGEST_PATH];
    const char *slash = rf_path_separator(pull->path);
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - pull->path), pull->path);
    if (rf_make_folder(folder) != 0 || !rf_is_directory(folder))
        return cli_fail("%s: cannot make this folder", folder);
    pull->order.user = pull;
    int code = fetch_file(&pull->order, sha256, &error);
    progress_clear(&pull->progress);
    if (code && pull->hub && pull->order.refusal)
        hub_explain(pull->hub, pull->order.refusal, &error);
    return code ? pull_explain(pull, code, &error) : CLI_OK;
}

static int pull_fetch(struct pull *pull)
{
    char sha256[SHA256_TEXT], size[32];
    const char *slash = rf_path_separator(pull->path);
    inform("Fetching %s%s%s%s%s%s into %.*s", pull->name, pull->licence[0] ? " (" : "",
           pull->licence, pull->order.bytes > 0 ? ", " : "",
           pull->order.bytes > 0 ? human_bytes((uint64_t)pull->order.bytes, size) : "",
           pull->licence[0] ? ")" : "", (int)(slash - pull->path), pull->path);
    double start = rf_clock_seconds();
    int status = pull_get(pull, sha256);
    if (status != CLI_OK) return status;
    inform("%s: %s in %.0f s, %s%s", pull->name,
           human_bytes((uint64_t)rf_file_bytes(pull->path), size), rf_clock_seconds() - start,
           pull->order.sha256 ? "verified" : "not verified: its SHA-256 is ",
           pull->order.sha256 ? "" : sha256);
    return CLI_OK;
}

int pull_compare(struct pull *pull, int again)
{
    char stamped[SHA256_TEXT], now[SHA256_TEXT];
    struct rf_error error;
    int64_t bytes = rf_file_bytes(pull->path);
    enum stamp stamp = stamp_read(pull->path, stamped);
    const char *wanted = pull->order.sha256 ? pull->order.sha256 : stamped;
    pull->order.user = pull;
    if (bytes < 0) return cli_fail("%s is not a file", pull->path);
    if (pull->order.bytes >= 0 && bytes != pull->order.bytes)
        return cli_fail("%s has %lld bytes of %lld: `riffle rm %s` removes it", pull->path,
                        (long long)bytes, (long long)pull->order.bytes, pull->name);
    if (!wanted[0] || (stamp == STAMP_HOLDS && strcmp(stamped, wanted) == 0 && !again))
        return CLI_OK;
    int code = stamp_hash_file(pull->path, now, pull_on_progress, pull, &error);
    progress_clear(&pull->progress);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    if (code) return cli_fail("%s", error.text);
    if (strcmp(now, wanted) != 0)
        return cli_fail("%s: its SHA-256 is %s, not %s; `riffle rm %s` removes it", pull->path, now,
                        wanted, pull->name);
    stamp_write(pull->path, now);
    return CLI_OK;
}

/* The file is there. Checks that it is the right one as far as that is known. */
static int pull_check(struct pull *pull, int again)
{
    char stamped[SHA256_TEXT];
    int status = pull_compare(pull, again);
    if (status != CLI_OK) return status;
    int is_known = pull->order.sha256 || stamp_read(pull->path, stamped) != STAMP_NONE;
    inform(is_known ? "%s is there, verified"
                    : "%s is there; it is not verified, as no SHA-256 is known",
           pull->name);
    return CLI_OK;
}

struct pull pull_file(const char *name, const char *path)
{
    struct pull pull = {.name = name, .path = path, .licence = ""};
    pull.order = (struct fetch_order){.path = path,
                                      .bytes = -1,
                                      .magic = "GGUF",
                                      .timeout_seconds = DEFAULT_TIMEOUT,
                                      .progress = pull_on_progress,
                                      .peek = pull_peek,
                                      .accept = pull_accept};
    return pull;
}

struct pull pull_known(const struct known_model *known, const char *path)
{
    struct pull pull = pull_file(known->name, path);
    pull.licence = known->licence;
    pull.order.sources = known->sources;
    pull.order.bytes = known->bytes;
    pull.order.sha256 = known->sha256;
    return pull;
}

int pull_run(struct pull *pull, int verify)
{
    rf_interrupts_catch_all();
    return rf_path_exists(pull->path) ? pull_check(pull, verify) : pull_fetch(pull);
}
