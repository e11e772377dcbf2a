/* Opens a model and its sessions as the options say, and reports what went wrong. Every verb that
 * computes with a model goes through here. */
#include "session/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/progress.h"
#include "output/suggest.h"
#include "output/wrap.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/process.h"
#include "platform/terminal.h"
#include "session/cache.h"

static void cancel_session(void *user)
{
    riffle_cancel(user);
}

/* Explains that `name` is neither a level nor a model. */
static void explain_level(const char *name)
{
    static const char *const levels[] = {"ngram", "corpus", "head", "draft", "mxfp4",  "q4",
                                         "w4",    "stored", "a8",   "kv4",   "window", "target"};
    struct suggestion best = suggestion_for(name);
    struct buffer list = {0};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        suggestion_offer(&best, levels[i]);
        buffer_printf(&list, "%s, ", levels[i]);
    }
    cli_fail("--chain: '%s' is no level; levels: %sand models (a .gguf file, a folder or a name "
             "from `riffle list`)%s",
             name, list.data, best.text);
    buffer_free(&list);
}

/* riffle_model_options.find_model: a chain takes the same names as MODEL. */
static int find_model(void *user, const char *name, char *path, size_t cap)
{
    struct engine *engine = user;
    char *found = NULL;
    engine->explained = 1;
    if (!may_be_model(name))
        explain_level(name);
    else
        found = model_path(name);
    if (found && strlen(found) >= cap)
        cli_fail("the path of the model %s has more than %zu bytes", name, cap - 1);
    else if (found)
        engine->explained = snprintf(path, cap, "%s", found) < 0;
    free(found);
    return engine->explained;
}

/* Sets values from a row of models.tsv, "temp=0.2,top-p=0.9". */
static void take_listed(riffle_sampling *sampling, const char *listed)
{
    struct cli_options scratch = {.sampling = *sampling};
    char name[32], value[32];
    for (int n; sscanf(listed, "%31[^=]=%31[^,]%n", name, value, &n) == 2;
         listed += *listed == ',') {
        char dashed[sizeof name + 2];
        snprintf(dashed, sizeof dashed, "--%s", name);
        const struct option *option = option_find(dashed, VERB_CHAT);
        if (option) option_set(&scratch, option, listed, value);
        listed += n;
    }
    *sampling = scratch.sampling;
}

/* A chat and a server sample as suits the model: as the options say, else the file, else the list
 * of known models; other verbs are greedy. */
static void choose_sampling(struct engine *engine, const struct cli_options *options)
{
    const struct known_model *known = engine->known;
    riffle_sampling defaults;
    engine->sampling = options->sampling;
    engine->sampling_source = "the defaults of the library";
    riffle_sampling_init(&defaults, sizeof defaults);
    if (options->verb->bit & (VERB_CHAT | VERB_SERVE) &&
        riffle_model_get_sampling(engine->model, &defaults, sizeof defaults,
                                  &engine->sampling_source) == 0 &&
        known && strcmp(known->sampling, "-") != 0) {
        engine->sampling_source = "the list of known models";
        take_listed(&defaults, known->sampling);
    }
    sampling_fill(&engine->sampling, &defaults);
}

/* The folder of draft heads: the one that is chosen, or that came with the program: beside it in an
 * archive or a build folder, else among a prefix's data. NULL: there is none. */
static const char *head_folder(char *path, size_t cap)
{
    static const char *const places[] = {"heads", "../share/riffle/heads"};
    const char *chosen = getenv("RIFFLE_HEADS");
    char program[LONGEST_PATH];
    if (chosen && chosen[0]) return chosen;
    if (rf_program_folder(program, sizeof program)) return NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int n = snprintf(path, cap, "%s/%s", program, places[i]);
        if (n > 0 && (size_t)n < cap && rf_is_directory(path)) return path;
    }
    return NULL;
}

/* The name of a built-in template, or the source of one: a value with a separator, or that ends in
 * .jinja, is a file. *source: for free(), or NULL. CLI_OK, or an exit status with a sentence. */
static int choose_template(const struct cli_options *options, const char **chosen, char **source)
{
    static const size_t most_bytes = (size_t)1 << 20;
    const char *name = options->chat_template;
    struct rf_error error;
    size_t bytes, n = name ? strlen(name) : 0;
    *chosen = name;
    *source = NULL;
    if (!name || (!rf_path_separator(name) && (n < 7 || strcmp(name + n - 6, ".jinja") != 0)))
        return CLI_OK;
    if (rf_slurp(name, most_bytes, source, &bytes, &error) != RF_OK)
        return cli_fail("%s", error.text);
    *chosen = *source;
    if (strlen(*source) == bytes && (strstr(*source, "{{") || strstr(*source, "{%"))) return CLI_OK;
    free(*source);
    return cli_fail("%s: is not a template in Jinja: it has neither {{ nor {%%", name);
}

int engine_open_model(struct engine *engine, const struct cli_options *options, unsigned flags)
{
    riffle_model_options model_options;
    char cache[LONGEST_PATH], heads[LONGEST_PATH], *source;
    *engine = (struct engine){.path = model_path(options->model)};
    if (!engine->path) return CLI_FAILED;
    engine->known = known_model_of(engine->path);
    if (options->draft)
        engine->draft.path = model_path(options->draft);
    else if (strcmp(options->chain, "auto") == 0)
        engine->draft = draft_of(engine->known);
    if (options->draft && !engine->draft.path) {
        engine_close(engine);
        return CLI_FAILED;
    }
    const char *chat_template;
    if (choose_template(options, &chat_template, &source) != CLI_OK) {
        engine_close(engine);
        return CLI_FAILED;
    }

    riffle_model_options_init(&model_options, sizeof model_options);
    model_options.flags = flags;
    model_options.threads = options->threads;
    model_options.cores = options->cores;
    model_options.weights = options->weights;
    model_options.activations = options->activations;
    model_options.device = options->device;
    model_options.gpu_layers = options->gpu_layers;
    model_options.session_kv = options->kv;
    model_options.session_ctx = options->n_ctx;
    model_options.expert_bytes = (uint64_t)options->expert_memory * 1000000;
    model_options.chat_template = chat_template;
    model_options.progress = progress_update;
    model_options.progress_user = &engine->progress;
    model_options.chain = options->chain;
    model_options.draft = engine->draft.path;
    model_options.corpus = options->corpus;
    model_options.head = options->head;
    model_options.head_folder = head_folder(heads, sizeof heads);
    model_options.find_model = find_model;
    model_options.find_user = engine;
    /* Without a folder, the pace is measured and drafts are cast anew each time. */
    if (!(flags & RIFFLE_OPEN_HEADER) && strcmp(options->chain, "none") != 0)
        model_options.cache_folder = cache_make_folder(cache);

    double start = rf_clock_seconds();
    int code = riffle_model_open(&engine->model, engine->path, &model_options);
    engine->load_seconds = rf_clock_seconds() - start;
    progress_clear(&engine->progress);
    free(source);
    if (code == RIFFLE_OK)
        code = riffle_model_get_info(engine->model, &engine->info, sizeof engine->info);
    if (code == RIFFLE_OK && engine->info.experts_note[0]) inform("%s", engine->info.experts_note);
    if (code == RIFFLE_OK && engine->info.device_note[0])
        inform("on the processor: %s", engine->info.device_note);
    if (code == RIFFLE_OK && engine->info.layers_note[0]) inform("%s", engine->info.layers_note);
    int status = code != RIFFLE_OK && engine->explained ? CLI_FAILED : cli_status(code);
    if (status == CLI_OK) choose_sampling(engine, options);
    if (status != CLI_OK) engine_close(engine);
    return status;
}

static void print_machine_note(void)
{
    riffle_machine machine;
    if (riffle_machine_get(&machine, sizeof machine) == RIFFLE_OK && machine.note[0])
        inform("riffle: %s", machine.note);
}

/* Warns if the cores belong to another machine, or are fewer than the requested threads. */
static void warn_of_cores(const struct cli_options *options)
{
    riffle_cores_options asked;
    riffle_cores_info info;
    riffle_cores_options_init(&asked, sizeof asked);
    asked.cores = options->cores;
    asked.threads = options->threads;
    if (!getenv("HWLOC_XMLFILE") && !options->threads) return;
    if (riffle_cores(&asked, &info, sizeof info, NULL, NULL) != RIFFLE_OK) return;
    if (info.source[0]) {
        fprintf(stderr, "riffle: %d worker%s as planned for ", info.n_workers,
                plural(info.n_workers));
        print_name(stderr, info.source);
        fputs(" (HWLOC_XMLFILE); nothing is bound here\n", stderr);
    } else if (info.n_placed < info.n_workers) {
        fprintf(stderr, "riffle: %d of %d threads have no core of their own, and sleep\n",
                info.n_workers - info.n_placed, info.n_workers);
    }
}

void engine_session_options(const struct cli_options *options, riffle_session_options *session)
{
    riffle_session_options_init(session, sizeof *session);
    session->n_ctx = options->n_ctx;
    session->threads = options->threads;
    session->kv = options->kv;
    session->gamma = options->gamma;
    session->min_confidence = options->min_confidence;
}

int engine_add_session(struct engine *engine, const struct cli_options *options, int n_ctx,
                       const char *chain, riffle_session **session)
{
    riffle_session_options session_options;
    engine_session_options(options, &session_options);
    session_options.n_ctx = n_ctx;
    session_options.progress = progress_update;
    session_options.progress_user = &engine->progress;
    session_options.chain = chain;

    double start = rf_clock_seconds();
    int code = riffle_session_open(session, engine->model, &session_options);
    if (code == RIFFLE_OK) code = riffle_session_set_sampling(*session, &engine->sampling);
    engine->load_seconds += rf_clock_seconds() - start;
    if (code == RIFFLE_OK) return CLI_OK;
    int status = cli_status(code);
    riffle_session_close(*session);
    *session = NULL;
    return status;
}

void engine_stops(riffle_session *session)
{
    rf_interrupts_catch(session ? cancel_session : NULL, session);
}

static const size_t most_grammar_bytes = (size_t)16 << 20;

/* Compiles the grammar that answers are limited to, if there is one. A schema may be given itself.
 */
static int open_grammar(struct engine *engine, const struct cli_options *options)
{
    const char *path = options->grammar ? options->grammar : options->json_schema;
    char *text;
    size_t bytes;
    struct rf_error error;
    if (!path) return CLI_OK;
    if (!options->grammar && path[strspn(path, " \t\r\n")] == '{') {
        int given = riffle_grammar_new(&engine->grammar, engine->model, RIFFLE_GRAMMAR_JSON_SCHEMA,
                                       path, strlen(path));
        return given == RIFFLE_OK ? CLI_OK : cli_fail("--json-schema: %s", riffle_last_error());
    }
    if (rf_slurp(path, most_grammar_bytes, &text, &bytes, &error) != RF_OK)
        return cli_fail("%s", error.text);
    int code = riffle_grammar_new(
        &engine->grammar, engine->model,
        options->grammar ? RIFFLE_GRAMMAR_GBNF : RIFFLE_GRAMMAR_JSON_SCHEMA, text, bytes);
    free(text);
    return code == RIFFLE_OK ? CLI_OK : cli_fail("%s: %s", path, riffle_last_error());
}

void engine_generation(const struct engine *engine, const struct cli_options *options,
                       riffle_generate_options *generation)
{
    riffle_generate_options_init(generation, sizeof *generation);
    generation->max_tokens = options->max_tokens;
    generation->stop = options->stop.items;
    generation->n_stop = options->stop.count;
    generation->ignore_repetition = options->ignore_repetition;
    generation->grammar = engine->grammar;
}

int engine_open_session(struct engine *engine, const struct cli_options *options, int n_ctx)
{
    int status = engine_open_model(engine, options, 0);
    return status == CLI_OK ? engine_begin_session(engine, options, n_ctx) : status;
}

int engine_begin_session(struct engine *engine, const struct cli_options *options, int n_ctx)
{
    print_machine_note();
    warn_of_cores(options);
    int status = open_grammar(engine, options);
    if (status == CLI_OK)
        status = engine_add_session(engine, options, n_ctx, NULL, &engine->session);
    if (status != CLI_OK)
        engine_close(engine);
    else
        engine_stops(engine->session);
    return status;
}

void engine_close(struct engine *engine)
{
    rf_interrupts_catch(NULL, NULL);
    progress_clear(&engine->progress);
    riffle_session_close(engine->session);
    riffle_grammar_free(engine->grammar);
    riffle_model_close(engine->model);
    free(engine->path);
    free(engine->draft.path);
    *engine = (struct engine){0};
}

const char *engine_model_name(const struct engine *engine)
{
    if (engine->info.name[0]) return engine->info.name;
    const char *slash = rf_path_separator(engine->path);
    return slash && slash[1] ? slash + 1 : engine->path;
}

void engine_write_model(const struct engine *engine, struct json_writer *json)
{
    const riffle_model_info *info = &engine->info;
    jw_put(json, "model { name %s arch %s weights %s activation_bits %d weight_bytes %" PRIu64 " }",
           engine_model_name(engine), info->architecture, info->weights, info->activation_bits,
           info->weight_bytes);
}

void engine_write(const struct engine *engine, struct json_writer *json, const char *cpu,
                  int32_t threads, double read)
{
    engine_write_model(engine, json);
    jw_put(json, "machine { cpu %s threads %d read_gbps %g }", cpu, threads, read / 1e9);
}

const char *engine_activations(const struct engine *engine, char text[RF_ACTIVATIONS_TEXT])
{
    const riffle_model_info *info = &engine->info;
    snprintf(text, RF_ACTIVATIONS_TEXT, "activations in %d bits%s%s", info->activation_bits,
             info->activations_reason[0] ? ": " : "", info->activations_reason);
    return text;
}

/* Bytes of the session's keys and values once its context is full. */
static uint64_t context_bytes(const struct engine *engine, const struct cli_options *options)
{
    riffle_session_options session_options;
    uint64_t bytes = 0;
    riffle_session_options_init(&session_options, sizeof session_options);
    session_options.n_ctx = riffle_session_n_ctx(engine->session);
    session_options.kv = options->kv;
    riffle_session_cost(engine->model, &session_options, NULL, &bytes);
    return bytes;
}

const char *engine_type(const riffle_model_info *info, char type[16])
{
    const char *name = info->file_type[0] ? info->file_type : info->stored_types;
    snprintf(type, 16, "%.*s", (int)strcspn(name, " "), name);
    return type;
}

/* English words of so many tokens, of which a word takes four thirds, in two digits. */
static int32_t about_words(int32_t tokens)
{
    int32_t words = tokens / 4 * 3, unit = 1;
    while (words / unit >= 100) unit *= 10;
    return words / unit * unit;
}

void engine_introduce(const struct engine *engine, const struct cli_options *options,
                      const char *rest)
{
    const riffle_model_info *info = &engine->info;
    int32_t n_ctx = riffle_session_n_ctx(engine->session);
    char full[32], count[32], type[16];
    inform("%s: %s parameters in %s. Room for %d tokens (about %d words), up to %s of memory.%s",
           engine->known ? engine->known->name : engine_model_name(engine),
           human_count(info->n_params, count), engine_type(info, type), n_ctx, about_words(n_ctx),
           human_bytes(context_bytes(engine, options), full), rest);
    if (!options->verbose) return;
    char activations[RF_ACTIVATIONS_TEXT];
    inform("weights %s, %s", info->weights, engine_activations(engine, activations));
    inform("chain %s: %s", engine->info.chain, engine->info.chain_note);
    if (options->device)
        inform("device %s, %d of %d layers", engine->info.device, engine->info.device_layers,
               engine->info.n_layer);
}

int64_t engine_tokenize(const struct engine *engine, const char *text, size_t bytes, unsigned flags,
                        int32_t **tokens)
{
    /* A token rarely has less than one byte of text; then a second call has enough room. */
    size_t cap = bytes + 16;
    *tokens = cli_allocate(cap, sizeof **tokens);
    int64_t n = riffle_tokenize(engine->model, text, bytes, flags, *tokens, cap);
    if (n > (int64_t)cap) {
        cap = (size_t)n;
        *tokens = cli_reallocate(*tokens, cap, sizeof **tokens);
        n = riffle_tokenize(engine->model, text, bytes, flags, *tokens, cap);
    }
    if (n >= 0) return n;
    free(*tokens);
    *tokens = NULL;
    return n;
}

int64_t engine_prefill(const struct engine *engine, riffle_session *session, const char *text,
                       size_t bytes, unsigned flags)
{
    int32_t *tokens;
    int64_t n = engine_tokenize(engine, text, bytes, flags, &tokens);
    int code = n > 0 ? riffle_prefill(session, tokens, (size_t)n) : RIFFLE_OK;
    free(tokens);
    return code < 0 ? code : n;
}
