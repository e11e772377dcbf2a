/* The verb corpus: texts that drafts are looked up in. `build OUT --model MODEL FILE...` reads the
 * files, has the model rate the text and writes OUT. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/progress.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"
#include "session/engine.h"
#include "verbs/verbs.h"

enum { LOOKED_AT = 8192 /* bytes of a file of a folder, to tell texts from the rest */ };

static const float default_keep = 0.5f;
static const size_t most_bytes = (size_t)1 << 30;

struct texts {
    riffle_text *items;
    size_t count, bytes, n_left_out;
    int status;
    const char *folder; /* folder that is being visited */
};

/* Takes a file's text. Files that are empty or no texts are left out, and files of a folder that
 * cannot be read. */
static void add_file(struct texts *texts, const char *path, int is_named)
{
    struct rf_error error;
    char *text;
    size_t bytes;
    int code = rf_slurp(path, most_bytes, &text, &bytes, &error);
    if (code) {
        texts->n_left_out++;
        if (is_named || code == RF_ERR_CANCELLED)
            texts->status = code == RF_ERR_CANCELLED ? CLI_INTERRUPTED : cli_fail("%s", error.text);
        return;
    }
    if (!bytes || memchr(text, 0, bytes < LOOKED_AT ? bytes : LOOKED_AT)) {
        free(text);
        texts->n_left_out++;
        return;
    }
    texts->items = cli_reallocate(texts->items, texts->count + 1, sizeof *texts->items);
    texts->items[texts->count++] = (riffle_text){text, bytes};
    texts->bytes += bytes;
}

static void add_path(struct texts *texts, const char *path, int is_named);

static void add_entry(void *user, const char *name)
{
    struct texts *texts = user;
    struct buffer path = {0};
    if (name[0] == '.' || texts->status != CLI_OK) return;
    buffer_printf(&path, "%s/%s", texts->folder, name);
    add_path(texts, path.data, 0);
    buffer_free(&path);
}

static void add_path(struct texts *texts, const char *path, int is_named)
{
    if (!rf_is_directory(path)) {
        add_file(texts, path, is_named);
        return;
    }
    const char *outer = texts->folder;
    texts->folder = path;
    if (rf_visit_folder(path, add_entry, texts) && is_named)
        texts->status = cli_fail("%s: the folder cannot be read", path);
    texts->folder = outer;
}

static void print(const struct cli_options *options, const char *path,
                  const riffle_corpus_info *info, const struct texts *texts, double seconds)
{
    struct json_writer json = {0};
    char from[32], to[32];
    if (options->json) {
        jw_put(&json, "{ path %s texts %" PRIu64, path, (uint64_t)texts->count);
        jw_put(&json, "text_bytes %" PRIu64 " left_out %" PRIu64, (uint64_t)texts->bytes,
               (uint64_t)texts->n_left_out);
        jw_put(&json, "tokens %" PRIu64 " kept_tokens %" PRIu64, info->tokens, info->kept_tokens);
        jw_put(&json, "file_bytes %" PRIu64 " seconds %g }", info->bytes, seconds);
        jw_print(&json);
        return;
    }
    print_name(stderr, path);
    fprintf(stderr, ": %s of %s in %zu text%s, %" PRIu64 " of %" PRIu64 " tokens kept, in %.1f s\n",
            human_bytes(info->bytes, to), human_bytes(texts->bytes, from), texts->count,
            plural((int64_t)texts->count), info->kept_tokens, info->tokens, seconds);
}

static int corpus_build(const struct cli_options *options, const char *path, struct texts *texts)
{
    struct cli_options plain = *options;
    struct engine engine;
    riffle_corpus_options corpus;
    riffle_corpus_info info;
    plain.chain = "none";
    int status = engine_open_model(&engine, &plain, options->no_refine ? RIFFLE_OPEN_HEADER : 0);
    if (status != CLI_OK) return status;
    riffle_corpus_options_init(&corpus, sizeof corpus);
    if (!options->no_refine) corpus.keep = isnan(options->keep) ? default_keep : options->keep;
    corpus.progress = progress_update;
    corpus.progress_user = &engine.progress;
    double start = rf_clock_seconds();
    status = cli_status(riffle_corpus_build(engine.model, path, texts->items, texts->count, &corpus,
                                            &info, sizeof info));
    progress_clear(&engine.progress);
    if (status == CLI_OK) print(options, path, &info, texts, rf_clock_seconds() - start);
    engine_close(&engine);
    return status;
}

int verb_corpus(const struct cli_options *options)
{
    const struct text_list *arguments = &options->arguments;
    struct texts texts = {.status = CLI_OK};
    if (arguments->count == 0 || strcmp(arguments->items[0], "build") != 0)
        return cli_usage_error("'build' is missing: riffle corpus build OUT --model MODEL FILE...");
    if (!options->model) return cli_usage_error("--model is missing: whose drafts it is for");
    if (arguments->count < 2 || !arguments->items[1][0])
        return cli_usage_error("OUT is missing: the name of the file to write");
    if (arguments->count < 3) return cli_usage_error("FILE is missing: texts, or folders of them");
    if (options->no_refine && !isnan(options->keep))
        return cli_usage_error("--keep and --no-refine exclude each other");
    rf_interrupts_catch_all(); /* the unfinished file goes */
    for (size_t i = 2; i < arguments->count && texts.status == CLI_OK; i++)
        add_path(&texts, arguments->items[i], 1);
    if (texts.status == CLI_OK && texts.count == 0)
        texts.status = cli_fail("%s: there are no texts", arguments->items[2]);
    int status =
        texts.status == CLI_OK ? corpus_build(options, arguments->items[1], &texts) : texts.status;
    for (size_t i = 0; i < texts.count; i++) free((char *)texts.items[i].data);
    free(texts.items);
    return status;
}
