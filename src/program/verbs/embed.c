/* The verb embed: vectors of texts, one JSON object in a line or NumPy's array. Texts are read in
 * groups; in a group the shorter ones come first, as passes take whole texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/progress.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"
#include "session/engine.h"
#include "verbs/verbs.h"

enum { GROUP = 1024 /* texts of a group */ };

static const size_t most_bytes = (size_t)1 << 30;

struct text {
    const char *data;
    size_t bytes;
    int64_t n_tokens;
    float *vector; /* [width], for free(); NULL: not yet */
    struct embedding *of;
};

struct embedding {
    const struct cli_options *options;
    struct engine engine;
    riffle_batch *batch;
    const char *prefix; /* comes before each text */
    struct text *texts;
    size_t count, n_done;
    int32_t width; /* 0: no vector is there yet */
    int status;
    struct progress_line progress;
};

/* ---- the texts ---- */

static void add_text(struct embedding *all, const char *data, size_t bytes)
{
    if (all->count % GROUP == 0)
        all->texts = cli_reallocate(all->texts, all->count + GROUP, sizeof *all->texts);
    all->texts[all->count++] = (struct text){.data = data, .bytes = bytes, .of = all};
}

/* Each line is a text, also an empty one. */
static void add_lines(struct embedding *all, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - text) - at : bytes - at;
        add_text(all, text + at, n && text[at + n - 1] == '\r' ? n - 1 : n);
        at += n + 1;
    }
}

/* The texts of the arguments behind MODEL, else the lines of a file. */
static int take_texts(struct embedding *all, char **file)
{
    const struct cli_options *options = all->options;
    const struct text_list *given = &options->arguments;
    struct rf_error error;
    size_t bytes;
    if (given->count > 1 && options->file)
        return cli_usage_error("TEXT and --file cannot both be given");
    for (size_t i = 1; i < given->count; i++)
        add_text(all, given->items[i], strlen(given->items[i]));
    if (all->count) return CLI_OK;
    if (!options->file && rf_is_terminal(RF_STDIN))
        return cli_usage_error("there is no text: give TEXT or --file FILE");
    const char *path = options->file && strcmp(options->file, "-") != 0 ? options->file : NULL;
    int code = rf_slurp(path, most_bytes, file, &bytes, &error);
    if (code) return code == RF_ERR_CANCELLED ? CLI_INTERRUPTED : cli_fail("%s", error.text);
    add_lines(all, *file, bytes);
    return all->count ? CLI_OK : cli_fail("%s has no line", path ? path : "standard input");
}

/* ---- the vectors ---- */

static void on_embedding(void *user, const float *vector, int32_t n)
{
    struct text *text = user;
    text->vector = cli_allocate((size_t)n, sizeof *vector);
    memcpy(text->vector, vector, (size_t)n * sizeof *vector);
    text->of->width = n;
}

static void on_answer(void *user, const riffle_answer *answer)
{
    struct text *text = user;
    struct embedding *all = text->of;
    all->n_done++;
    if (answer->code >= 0 || all->status != CLI_OK) return;
    all->status = cli_fail("text %zu: %s", (size_t)(text - all->texts) + 1, answer->sentence);
}

static int ask(struct embedding *all, struct text *text)
{
    struct buffer whole = {0};
    riffle_request request;
    int32_t *tokens;
    buffer_puts(&whole, all->prefix);
    buffer_append(&whole, text->data, text->bytes);
    text->n_tokens =
        engine_tokenize(&all->engine, whole.data, whole.count, RIFFLE_TOKENIZE_BOS, &tokens);
    buffer_free(&whole);
    if (text->n_tokens < 0) return cli_status(text->n_tokens);
    if (text->n_tokens == 0) {
        free(tokens);
        return cli_fail("text %zu is empty, and this model adds no token to it",
                        (size_t)(text - all->texts) + 1);
    }
    riffle_request_init(&request, sizeof request);
    request.prompt = tokens;
    request.n_prompt = (size_t)text->n_tokens;
    request.on_embedding = on_embedding;
    request.pooling = RIFFLE_POOL_MODEL;
    request.on_answer = on_answer;
    request.user = text;
    int64_t id = riffle_batch_add(all->batch, &request);
    free(tokens);
    if (id == RIFFLE_ERR_CONTEXT)
        return cli_fail("text %zu: %s", (size_t)(text - all->texts) + 1, riffle_last_error());
    return id < 0 ? cli_status(id) : CLI_OK;
}

static int shorter_first(const void *a, const void *b)
{
    const struct text *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes) return (*x)->bytes < (*y)->bytes ? -1 : 1;
    return *x < *y ? -1 : 1;
}

static int read_group(struct embedding *all, struct text *first, size_t n)
{
    struct text *order[GROUP];
    int status = CLI_OK;
    for (size_t i = 0; i < n; i++) order[i] = first + i;
    qsort(order, n, sizeof *order, shorter_first);
    for (size_t i = 0; status == CLI_OK && i < n; i++) status = ask(all, order[i]);
    for (int32_t left = 1; status == CLI_OK && all->status == CLI_OK && left > 0;) {
        left = riffle_batch_step(all->batch);
        if (left < 0) status = cli_status(left);
        if (progress_update(&all->progress, "embedding", all->n_done, all->count))
            status = CLI_INTERRUPTED;
    }
    progress_hide(&all->progress);
    return status == CLI_OK ? all->status : status;
}

/* ---- the output ---- */

/* Version 1.0 of NumPy's format: the header is padded to a multiple of 64 bytes. */
static void print_npy_header(size_t rows, int32_t width)
{
    enum { BEFORE = 10, LINE = 64 };
    char header[192];
    int n = snprintf(header, sizeof header,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %d), }", rows, width);
    size_t bytes = ((size_t)n + 1 + BEFORE + LINE - 1) / LINE * LINE - BEFORE;
    memset(header + n, ' ', bytes - (size_t)n);
    header[bytes - 1] = '\n';
    fwrite("\x93NUMPY\x01\x00", 1, 8, stdout);
    putchar((int)(bytes & 0xff));
    putchar((int)(bytes >> 8));
    fwrite(header, 1, bytes, stdout);
}

/* The values' bytes, the least significant first. */
static void print_values(const struct text *text, int32_t width)
{
    for (int32_t j = 0; j < width; j++) {
        uint32_t bits;
        memcpy(&bits, &text->vector[j], sizeof bits);
        for (int shift = 0; shift < 32; shift += 8) putchar((int)(bits >> shift & 0xff));
    }
}

static void print_line(const struct embedding *all, const struct text *text)
{
    struct json_writer json = {0};
    jw_put(&json, "{ index %" PRId64 " tokens %" PRId64 " embedding [",
           (int64_t)(text - all->texts), text->n_tokens);
    for (int32_t j = 0; j < all->width; j++) jw_number(&json, NULL, (double)text->vector[j]);
    jw_put(&json, "] }");
    jw_print(&json);
}

static void print_group(const struct embedding *all, struct text *first, size_t n)
{
    int is_npy = all->options->format && strcmp(all->options->format, "npy") == 0;
    if (is_npy && first == all->texts) print_npy_header(all->count, all->width);
    for (size_t i = 0; i < n; i++) {
        if (is_npy)
            print_values(&first[i], all->width);
        else
            print_line(all, &first[i]);
        free(first[i].vector);
        first[i].vector = NULL;
    }
}

/* The prompt that the options name, else the model's for texts without one. */
static int find_prefix(struct embedding *all)
{
    const struct cli_options *options = all->options;
    const riffle_model *model = all->engine.model;
    struct buffer names = {0};
    const char *name;
    all->prefix =
        options->prefix ? options->prefix : riffle_model_get_prompt(model, options->prompt_name);
    if (!all->prefix && !options->prompt_name) all->prefix = "";
    if (all->prefix) return CLI_OK;
    for (size_t i = 0; (name = riffle_model_get_prompt_name(model, i)) != NULL; i++) {
        buffer_puts(&names, i ? ", " : "; it has ");
        buffer_puts(&names, name);
    }
    int status = cli_fail("%s has no prompt %s%s", options->model, options->prompt_name,
                          names.count ? names.data : "");
    buffer_free(&names);
    return status;
}

static int read_all(struct embedding *all)
{
    int status = CLI_OK;
    riffle_batch_options batch;
    riffle_session_options session;
    if (riffle_model_get_kind(all->engine.model) == RIFFLE_KIND_RERANKER)
        return cli_fail("%s is a reranker, which gives scores of pairs of texts: /v1/rerank of "
                        "`riffle serve` asks it",
                        all->options->model);
    status = find_prefix(all);
    if (status != CLI_OK) return status;
    riffle_batch_options_init(&batch, sizeof batch);
    riffle_session_options_init(&session, sizeof session);
    engine_session_options(all->options, &session);
    batch.session = &session;
    int code = riffle_batch_open(&all->batch, all->engine.model, &batch);
    if (code) return cli_status(code);
    for (size_t at = 0; status == CLI_OK && at < all->count; at += GROUP) {
        size_t n = all->count - at < GROUP ? all->count - at : GROUP;
        status = read_group(all, all->texts + at, n);
        if (status == CLI_OK) print_group(all, all->texts + at, n);
    }
    riffle_batch_close(all->batch);
    return status;
}

int verb_embed(const struct cli_options *given)
{
    struct cli_options options = *given;
    struct embedding all = {.options = &options, .status = CLI_OK};
    char *file = NULL;
    if (!options.arguments.count) return cli_usage_error("there is no MODEL");
    options.model = options.arguments.items[0];
    if (options.prefix && options.prompt_name)
        return cli_usage_error("--prefix and --prompt cannot both be given");
    int status = take_texts(&all, &file);
    if (status == CLI_OK) status = engine_open_model(&all.engine, &options, 0);
    if (status == CLI_OK) {
        status = read_all(&all);
        progress_clear(&all.progress);
        engine_close(&all.engine);
    }
    for (size_t i = 0; i < all.count; i++) free(all.texts[i].vector);
    free(all.texts);
    free(file);
    return status;
}
