/* The choice of a model's drafts: its chain, the files of draft models, the costs of all weights.
 * It is made while the model is opened, and costs are known before any weight is loaded. */
#include "engine/drafts.h"

#include <stdio.h>
#include <string.h>

#include "engine/devices.h"
#include "engine/engine.h"
#include "engine/places.h"
#include "engine/progress.h"
#include "model/open.h"
#include "platform/file.h"
#include "speculate/tuning.h"
#include "speculate/vocab_pair.h"

/* Disk space for all kept casts together. */
#define KEPT_CASTS_BYTES (UINT64_C(4) << 30)

static double bits_a_weight(const struct rf_weight_cost *cost)
{
    return cost->n_params ? 8.0 * (double)cost->all_bytes / (double)cost->n_params : 0.0;
}

static struct rf_chain_level *add_level(struct rf_chain *chain, enum rf_level_kind kind,
                                        enum rf_weight_form form, const char *name)
{
    struct rf_chain_level *level = &chain->levels[chain->n_levels++];
    *level = (struct rf_chain_level){.kind = kind, .form = form};
    snprintf(level->name, sizeof level->name, "%s", name);
    return level;
}

/* Adds the drafters without a model for which all that they need was given. */
static void add_drafters(struct rf_chain *chain, const riffle_model_options *options)
{
    for (size_t i = 0; rf_drafters[i]; i++) {
        if (rf_drafters[i]->needs_corpus && !options->corpus) continue;
        add_level(chain, RF_LEVEL_DRAFTER, RF_WEIGHTS_STORED, rf_drafters[i]->name)->drafter =
            rf_drafters[i];
    }
}

static int cost_of_weights(const struct rf_engine *engine, const struct rf_source *source,
                           enum rf_weight_form form, struct rf_weight_cost *cost,
                           struct rf_error *error)
{
    return rf_weight_cost(source, form, engine->kind, &engine->allocator, cost, error);
}

/* ---- the head ---- */

/* The folder's head for the target, named after its fingerprint; "" if it has none. */
static int find_head(const struct rf_engine *engine, const riffle_model_options *options,
                     char *path, size_t cap)
{
    path[0] = 0;
    if (options->head && strcmp(options->head, "none") == 0) return 1;
    if (options->head) return snprintf(path, cap, "%s", options->head) < (int)cap;
    if (!options->head_folder) return 1;
    int written = snprintf(path, cap, "%s/%016llx.gguf", options->head_folder,
                           (unsigned long long)rf_source_fingerprint(engine->source));
    if (written < 0 || (size_t)written >= cap) return 0;
    if (!rf_path_exists(path)) path[0] = 0;
    return 1;
}

/* Opens the head in the model's own file, if there is one. One that cannot serve is left out unless
 * it is asked for, and the note says so. Not for a file that is read into memory, which would be
 * there twice. */
static int open_own_head(struct rf_engine *engine, const char *model, int is_asked,
                         struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    if (!engine->source->has_mtp) return 0;
    if (engine->open.map_flags & RF_MAP_COPY && !is_asked) return 0;
    int code = rf_head_open(&drafts->head_file, model, engine->source, &engine->open,
                            &engine->allocator, error);
    if (!code) snprintf(drafts->head_path, sizeof drafts->head_path, "%s", model);
    if (!code || is_asked || code == RF_ERR_MEMORY) return code;
    snprintf(drafts->note, sizeof drafts->note, "the draft in the file was not taken (%.300s); ",
             error->text);
    return 0;
}

/* Opens the head that the options name, the folder or the model's own file has. One from the folder
 * that cannot serve is left out, and the note says so. */
static int open_head(struct rf_engine *engine, const char *model,
                     const riffle_model_options *options, int is_asked, struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    char *path = drafts->head_path;
    if (!find_head(engine, options, path, sizeof drafts->head_path))
        return rf_fail(error, RF_ERR_ARGUMENT, "head: the path is too long");
    if (!path[0] && options->head) return 0;
    if (!path[0]) return open_own_head(engine, model, is_asked, error);
    int code = rf_head_open(&drafts->head_file, path, engine->source, &engine->open,
                            &engine->allocator, error);
    if (!code || options->head || code == RF_ERR_MEMORY) return code;
    snprintf(drafts->note, sizeof drafts->note, "the draft head was not taken (%.300s); ",
             error->text);
    path[0] = 0;
    return 0;
}

const struct draft_weights *rf_drafts_head(const struct drafts *drafts)
{
    for (int32_t l = 0; l < drafts->chain.n_levels; l++)
        if (drafts->chain.levels[l].kind == RF_LEVEL_HEAD) return &drafts->weights[l];
    return NULL;
}

/* Finds the head where the chain has one or may have one. */
static int choose_head(struct rf_engine *engine, const char *model,
                       const riffle_model_options *options, int is_auto, struct rf_error *error)
{
    int is_asked = rf_drafts_head(&engine->drafts) != NULL;
    if (!is_auto && !is_asked) return 0;
    int code = open_head(engine, model, options, is_asked, error);
    if (code || !is_asked || engine->drafts.head_file) return code;
    return rf_fail(error, RF_ERR_ARGUMENT, "chain: the level head wants a draft head of %s, and %s",
                   engine->source->name,
                   options->head_folder && !options->head ? "none is known" : "none was given");
}

int rf_drafts_settle(struct rf_engine *engine, const riffle_model_options *options,
                     struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    struct rf_chain *chain = &drafts->chain;
    if (!drafts->head_file || engine->device_layers >= engine->source->params.n_layer) return 0;
    if (options->head || (options->chain && strcmp(options->chain, "auto") != 0))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "head: a draft head needs all layers of its target on one device");
    for (int32_t l = 0, to = 0, n = chain->n_levels; l < n; l++) {
        struct draft_weights weights = drafts->weights[l];
        if (chain->levels[l].kind == RF_LEVEL_HEAD) {
            chain->n_levels--;
            drafts->bytes -= weights.cost.resident_bytes;
            continue;
        }
        drafts->weights[l] = (struct draft_weights){0};
        chain->levels[to] = chain->levels[l];
        drafts->weights[to++] = weights;
    }
    rf_chain_format(chain, drafts->chain_text, sizeof drafts->chain_text);
    return 0;
}

/* ---- the levels ---- */

/* "auto": n-grams always, a head or a draft model if there is one, and a cast if it has far fewer
 * bits than the target. */
static int choose_levels(struct rf_engine *engine, const riffle_model_options *options,
                         struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    struct rf_weight_cost stored;
    int code = cost_of_weights(engine, engine->source, RF_WEIGHTS_STORED, &stored, error);
    if (code) return code;
    char draft[320];
    snprintf(draft, sizeof draft, "%s%s",
             drafts->head_file ? ", the draft head was trained for this target" : "",
             options->draft ? ", and the draft model of this target" : "");
    size_t said = strlen(drafts->note);
    char *note = drafts->note + said;
    drafts->chain.choice = RF_CHAIN_LEVELS;
    add_drafters(&drafts->chain, options);
    if (drafts->head_file) add_level(&drafts->chain, RF_LEVEL_HEAD, RF_WEIGHTS_STORED, "head");
    if (options->draft) add_level(&drafts->chain, RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "draft");
    const char *form = engine->cost.form == RF_WEIGHTS_BF16 ? "BF16" : "stored";
    if (bits_a_weight(&engine->cost) < rf_tuning.chain.cast_from_bits) {
        snprintf(note, sizeof drafts->note - said,
                 "n-grams cost nothing%s; a cast would not be much faster than the target's %.1f "
                 "bits a weight",
                 draft, bits_a_weight(&engine->cost));
    } else if (engine->cost.form == RF_WEIGHTS_BF16 &&
               bits_a_weight(&stored) < rf_tuning.chain.cast_from_bits) {
        add_level(&drafts->chain, RF_LEVEL_SELF, RF_WEIGHTS_STORED, "stored");
        snprintf(
            note, sizeof drafts->note - said,
            "n-grams cost nothing%s; the file's own quantised weights draft for the same in BF16",
            draft);
    } else {
        add_level(&drafts->chain, RF_LEVEL_SELF, RF_WEIGHTS_Q4, "q4");
        snprintf(note, sizeof drafts->note - said,
                 "n-grams cost nothing%s; a cast to 4.5 bits a weight drafts for the target's %s "
                 "weights",
                 draft, form);
    }
    add_level(&drafts->chain, RF_LEVEL_TARGET, engine->cost.form, "target");
    return 0;
}

static int find_draft_path(const struct rf_chain_level *level, const riffle_model_options *options,
                           char *path, size_t cap, struct rf_error *error)
{
    int is_option = strcmp(level->name, "draft") == 0;
    const char *found = is_option ? options->draft : level->name;
    if (!found)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: the level draft wants a draft model, and none was given");
    if (!is_option && options->find_model)
        return options->find_model(options->find_user, found, path, cap) == 0
                   ? 0
                   : rf_fail(error, RF_ERR_ARGUMENT, "chain: there is no model \"%s\"", found);
    if (strlen(found) >= cap) return rf_fail(error, RF_ERR_ARGUMENT, "draft: the path is too long");
    memcpy(path, found, strlen(found) + 1);
    return 0;
}

/* Refuses "a8" where it would compute the same as the target, or there is nothing to compute. */
static int check_a8(const struct rf_engine *engine, const struct rf_chain_level *level,
                    struct rf_error *error)
{
    if (level->kind != RF_LEVEL_SELF || strncmp(level->name, RF_CHAIN_A8, strlen(RF_CHAIN_A8)) != 0)
        return 0;
    if (engine->cost.form == RF_WEIGHTS_BF16)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: a8 drafts with the target's quantised weights, and %s computes in "
                       "BF16",
                       engine->source->name);
    if (engine->precision == RF_PRECISION_16) return 0;
    return rf_fail(error, RF_ERR_ARGUMENT,
                   "chain: a8 drafts for a target with activations in 16 bits, and %s computes "
                   "with 8",
                   engine->source->name);
}

/* Opens the file of a draft model. Its header gives vocabulary and cost. */
static int open_draft_model(struct rf_engine *engine, int32_t l,
                            const riffle_model_options *options, int is_auto,
                            struct rf_error *error)
{
    struct rf_chain_level *level = &engine->drafts.chain.levels[l];
    struct draft_weights *weights = &engine->drafts.weights[l];
    char path[4096];
    int code = find_draft_path(level, options, path, sizeof path, error);
    if (!code)
        code = rf_source_open(&weights->source, path, &engine->open, &engine->allocator, error);
    if (!code) code = rf_engine_can_compute(engine, &weights->source->params, error);
    if (!code)
        code = rf_tokenizer_new(&weights->tokenizer, &weights->source->vocab, path,
                                &engine->allocator, error);
    if (code) return code;
    if (is_auto) {
        struct rf_weight_cost stored;
        code = cost_of_weights(engine, weights->source, RF_WEIGHTS_STORED, &stored, error);
        if (!code && bits_a_weight(&stored) > rf_tuning.chain.cast_draft_from_bits)
            level->form = RF_WEIGHTS_MXFP4;
    }
    if (!code && !rf_vocab_same(engine->tokenizer, weights->tokenizer, &weights->n_vocab))
        weights->n_vocab = 0;
    return code;
}

/* Costs are kept for each model, form of its weights and precision. Names and sizes distinguish
 * models and forms. */
static int name_pace_files(struct rf_engine *engine, const char *folder, struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    char path[4096], name[48];
    size_t length = 0;
    for (const char *c = engine->source->name; *c && length + 1 < sizeof name; c++) {
        char lower = (char)(*c | 0x20);
        name[length++] = (*c >= '0' && *c <= '9') || (lower >= 'a' && lower <= 'z') ? *c : '-';
    }
    name[length] = 0;
    int written = snprintf(path, sizeof path, "%s/pace-%s-%llu%s", folder, name,
                           (unsigned long long)engine->cost.pass_bytes,
                           engine->precision == RF_PRECISION_16 ? "-a16" : "");
    if (written < 0 || (size_t)written >= sizeof path) return 0;
    drafts->pace_path = rf_strndup(&engine->allocator, path, strlen(path), error);
    return drafts->pace_path ? 0 : RF_ERR_MEMORY;
}

static int open_corpus(struct rf_engine *engine, const riffle_model_options *options,
                       struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    if (options->corpus)
        return rf_corpus_open(&drafts->corpus, options->corpus,
                              rf_tokenizer_n_tokens(engine->tokenizer),
                              rf_vocab_fingerprint(engine->tokenizer), engine->open.map_flags,
                              &engine->allocator, error);
    for (int32_t l = 0; l < drafts->chain.n_levels; l++)
        if (drafts->chain.levels[l].drafter && drafts->chain.levels[l].drafter->needs_corpus)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "chain: the level %s wants a corpus, and none was given",
                           drafts->chain.levels[l].name);
    return 0;
}

int rf_drafts_choose(struct rf_engine *engine, const char *path,
                     const riffle_model_options *options, struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    int is_encoder = engine->source->params.encoder;
    const char *asked = is_encoder ? "target" : options->chain ? options->chain : "auto";
    int code = rf_chain_parse_all(&drafts->chain, asked, error);
    int is_auto = drafts->chain.choice == RF_CHAIN_AUTO;
    if (!code) code = choose_head(engine, path, options, is_auto, error);
    if (code) return code;
    if (is_auto)
        code = choose_levels(engine, options, error);
    else
        snprintf(drafts->note, sizeof drafts->note,
                 is_encoder ? "an encoder writes no text" : "as was asked");
    for (int32_t l = 0; !code && l < drafts->chain.n_levels; l++) {
        const struct rf_chain_level *level = &drafts->chain.levels[l];
        struct draft_weights *weights = &drafts->weights[l];
        if (level->kind == RF_LEVEL_MODEL)
            code = open_draft_model(engine, l, options, is_auto, error);
        if (!code) code = check_a8(engine, level, error);
        if (!code && level->kind == RF_LEVEL_HEAD) {
            code = rf_head_cost(drafts->head_file, engine->source, engine->cost.form, engine->kind,
                                &weights->cost, error);
            drafts->bytes += weights->cost.resident_bytes;
        }
        if (code || !rf_chain_level_has_weights(level)) continue;
        if (rf_chain_level_shares_weights(level, engine->cost.form)) {
            weights->cost = engine->cost;
            continue;
        }
        code = cost_of_weights(engine, weights->source ? weights->source : engine->source,
                               level->form, &weights->cost, error);
        drafts->bytes += weights->cost.resident_bytes;
    }
    if (!code) code = open_corpus(engine, options, error);
    if (!code && options->cache_folder && options->cache_folder[0])
        code = name_pace_files(engine, options->cache_folder, error);
    rf_chain_format(&drafts->chain, drafts->chain_text, sizeof drafts->chain_text);
    return code;
}

int rf_drafts_load(struct rf_engine *engine, const riffle_model_options *options,
                   struct rf_error *error)
{
    struct drafts *drafts = &engine->drafts;
    struct rf_progress report = {options->progress, options->progress_user, "loading drafts"};
    struct rf_place places[2];
    int n_places = rf_engine_places(engine, NULL, places);
    for (const struct rf_place *place = places; place < places + n_places; place++)
        if (place->drafts + place->weights > place->memory)
            return rf_fail(error, RF_ERR_MEMORY,
                           "%s: the weights take %.1f GB of memory and those of its drafts %.1f "
                           "GB, %s has %.1f GB: the chain is too large",
                           engine->source->name, (double)place->weights * 1e-9,
                           (double)place->drafts * 1e-9, place->name, (double)place->memory * 1e-9);
    struct rf_kept_folder folder = {options->cache_folder, KEPT_CASTS_BYTES};
    int code = 0;
    for (int32_t l = 0; !code && l < drafts->chain.n_levels; l++) {
        const struct rf_chain_level *level = &drafts->chain.levels[l];
        struct draft_weights *weights = &drafts->weights[l];
        if (level->kind == RF_LEVEL_HEAD)
            code = rf_head_load(&weights->head, drafts->head_file, engine->model, engine->queue,
                                error);
        if (!rf_chain_level_has_weights(level)) continue;
        if (rf_chain_level_shares_weights(level, engine->cost.form))
            weights->model = engine->model;
        else
            code = rf_model_load_draft(
                &weights->model, weights->source ? weights->source : engine->source, engine->queue,
                level->form, &folder, options->progress ? rf_progress_report : NULL, &report,
                error);
    }
    return code;
}

void rf_drafts_free(struct rf_engine *engine)
{
    rf_free(&engine->allocator, engine->drafts.pace_path);
    rf_corpus_close(engine->drafts.corpus);
    for (int32_t l = 0; l < RF_MAX_LEVELS; l++) {
        struct draft_weights *weights = &engine->drafts.weights[l];
        if (weights->model != engine->model) rf_model_free(weights->model);
        rf_head_free(weights->head);
        rf_tokenizer_free(weights->tokenizer);
        rf_source_close(weights->source);
    }
    rf_head_close(engine->drafts.head_file);
}
