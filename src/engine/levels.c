/* Opening the levels of a session: each gets the engine's weights for it, a view of them, and the
 * first guesses of its cost and acceptance, which the pace corrects by what it measures. */
#include "engine/levels.h"

#include <stdio.h>
#include <string.h>

#include "engine/session.h"
#include "infer/state_kept.h"
#include "speculate/successors.h"
#include "speculate/tuning.h"

/* The index of a level in the model's chain, or -1. A model's name without a form finds it in the
 * form that it was opened in. */
static int32_t find_chain_level(const struct rf_chain *chain, const struct rf_chain_level *wanted)
{
    int32_t found = -1;
    for (int32_t l = 0; l < chain->n_levels; l++) {
        const struct rf_chain_level *level = &chain->levels[l];
        if (level->kind != wanted->kind || strcmp(level->name, wanted->name) != 0) continue;
        if (level->form == wanted->form || level->kind == RF_LEVEL_TARGET) return l;
        if (level->kind == RF_LEVEL_MODEL && wanted->form == RF_WEIGHTS_STORED && found < 0)
            found = l;
    }
    return found;
}

struct opening {
    struct rf_session *session;
    const struct rf_chain_level *chosen;
    const struct draft_weights *weights;
    struct part *part;
    struct rf_head_passes *lent; /* NULL: none */
    struct rf_level *level;      /* result */
};

static int open_drafter_level(struct opening *o, struct rf_error *error)
{
    const struct rf_drafter *drafter = o->chosen->drafter;
    o->part->drafter = drafter;
    *o->level = (struct rf_level){.ops = &drafter->ops, .acceptance = *drafter->acceptance};
    const struct rf_drafter_options options = {.n_ctx = rf_sequence_n_ctx(o->session->sequence),
                                               .corpus = o->session->engine->drafts.corpus};
    int code =
        drafter->open(&o->part->drafter_self, &options, &o->session->engine->allocator, error);
    o->level->self = o->part->drafter_self;
    return code;
}

/* A view of the level's weights for passes of up to max_rows. */
static int open_draft_view(struct opening *o, int32_t max_rows, struct rf_error *error)
{
    enum rf_kv_type kv = o->session->view->shape.kv;
    if (o->chosen->reads == RF_READS_KV4 && !rf_kv_is_quantised(kv))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: the level %s reads a KV cache of the type q8, not of 16 bits",
                       o->chosen->name);
    if (o->chosen->reads != RF_READS_ALL && rf_kv_is_quantised(kv)) kv = RF_KV_Q4;
    const struct rf_view_options options = {.kv = kv,
                                            .has_window = o->chosen->reads == RF_READS_WINDOW,
                                            .max_rows = max_rows,
                                            .cancel = &o->session->cancel};
    return rf_view_new(&o->part->view, o->weights->model, o->session->queue, &options, error);
}

static int open_self_level(struct opening *o, struct rf_error *error)
{
    int32_t n_ctx = rf_sequence_n_ctx(o->session->sequence);
    int code = open_draft_view(o, n_ctx < RF_TREE_ROWS ? n_ctx : RF_TREE_ROWS, error);
    if (code) return code;
    rf_model_level_of_target(&o->part->level, o->part->view, o->session->sequence,
                             o->session->sampler);
    o->level->acceptance = o->weights->cost.form == RF_WEIGHTS_STORED
                               ? rf_tuning.acceptance.own_weights
                               : rf_tuning.acceptance.cast;
    return 0;
}

/* Gives the draft its own sequence, of at most rf_tuning.chain.draft_ctx tokens, and all it needs
 * to write in the target's tokens. */
static int open_model_level(struct opening *o, struct rf_error *error)
{
    struct part *part = o->part;
    const struct rf_engine *engine = o->session->engine;
    int32_t trained = o->weights->source->params.n_ctx_train,
            n_ctx = rf_sequence_n_ctx(o->session->sequence);
    if (n_ctx > rf_tuning.chain.draft_ctx) n_ctx = rf_tuning.chain.draft_ctx;
    if (n_ctx > trained) n_ctx = trained;
    int code = open_draft_view(o, n_ctx < RF_PROMPT_ROWS ? n_ctx : RF_PROMPT_ROWS, error);
    if (code) return code;
    const struct rf_sequence_shape shape = {.n_ctx = n_ctx, .kv = part->view->shape.kv};
    code = rf_sequence_new(&part->sequence, part->view, &shape, &engine->allocator, error);
    if (!code && !o->weights->n_vocab) {
        code = rf_translator_new(&part->translator, engine->tokenizer, o->weights->tokenizer, n_ctx,
                                 n_ctx, &engine->allocator, error);
        part->translated = (struct rf_translated_level){
            .view = part->view, .sequence = part->sequence, .translator = part->translator};
        o->level->ops = &rf_translated_level_ops;
        o->level->self = &part->translated;
        o->level->acceptance = rf_tuning.acceptance.translated;
        return code;
    }
    if (!code)
        code = rf_sampler_new(&part->sampler, o->weights->n_vocab, engine->backend->first_above,
                              &engine->allocator, error);
    if (code) return code;
    rf_sampler_copy(part->sampler, o->session->sampler);
    rf_model_level_of_draft(&part->level, part->view, part->sequence, part->sampler,
                            o->weights->n_vocab);
    o->level->acceptance = rf_tuning.acceptance.model;
    return 0;
}

/* The head draws with a sampler of its own, so that rows of two levels may be drawn in turn. */
static int open_head_level(struct opening *o, struct rf_error *error)
{
    struct part *part = o->part;
    const struct rf_session *session = o->session;
    const struct rf_engine *engine = session->engine;
    int code = rf_sampler_new(&part->sampler, engine->source->params.n_vocab,
                              engine->backend->first_above, &engine->allocator, error);
    if (code) return code;
    rf_sampler_copy(part->sampler, session->sampler);
    part->passes = o->lent;
    part->borrows_passes = o->lent != NULL;
    if (!o->lent)
        code = rf_head_passes_new(&part->passes, o->weights->head, session->queue,
                                  rf_sequence_n_ctx(session->sequence), &session->cancel,
                                  &engine->allocator, error);
    if (!code)
        code = rf_head_level_new(&part->head, part->passes, session->sequence, part->sampler,
                                 &engine->allocator, error);
    o->level->ops = &rf_head_level_ops;
    o->level->self = part->head;
    o->level->acceptance = rf_tuning.acceptance.model;
    o->level->is_trained = 1;
    return code;
}

static int open_chain_level(struct opening *o, struct rf_error *error)
{
    switch (o->chosen->kind) {
    case RF_LEVEL_DRAFTER: return open_drafter_level(o, error);
    case RF_LEVEL_SELF: return open_self_level(o, error);
    case RF_LEVEL_MODEL: return open_model_level(o, error);
    case RF_LEVEL_HEAD: return open_head_level(o, error);
    default:
        rf_model_level_of_target(&o->part->level, o->session->view, o->session->sequence,
                                 o->session->sampler);
        return 0;
    }
}

/* The name of a draft model is not enough: "draft" may be another model in the next run. */
static void name_costs(struct levels *levels, const struct rf_engine *engine, int32_t l)
{
    const struct rf_chain_level *level = &levels->chain.levels[l];
    const struct draft_weights *weights =
        &engine->drafts.weights[find_chain_level(&engine->drafts.chain, level)];
    char name[RF_PACE_NAME_BYTES - 24];
    rf_chain_level_name(level, name, sizeof name);
    char size[24] = "";
    if (level->kind == RF_LEVEL_MODEL || level->kind == RF_LEVEL_HEAD)
        snprintf(size, sizeof size, " %llu", (unsigned long long)weights->cost.pass_bytes);
    snprintf(levels->names[l], sizeof levels->names[l], "%s%s", name, size);
}

int rf_levels_load_pace(struct rf_session *session, struct rf_error *error)
{
    struct levels *levels = &session->levels;
    const struct rf_engine *engine = session->engine;
    struct rf_queue_info info;
    char path[4200];
    if (!engine->drafts.pace_path) return 0;
    engine->backend->ops->queue_info(session->queue, &info);
    int length = snprintf(path, sizeof path, "%s-%s-%d-of-%d", engine->drafts.pace_path,
                          engine->tier, info.threads, info.places);
    levels->pace_file = rf_strndup(&engine->allocator, path, (size_t)length, error);
    if (!levels->pace_file) return RF_ERR_MEMORY;
    for (int32_t l = 0; l < levels->n_levels; l++) name_costs(levels, engine, l);
    rf_cascade_load_pace(levels->cascade, (const char(*)[RF_PACE_NAME_BYTES])levels->names,
                         levels->pace_file);
    return 0;
}

/* The seconds of a pass over one row, with the target's as 1. */
static double guess_cost(const struct rf_engine *engine, const struct rf_chain_level *level,
                         const struct draft_weights *weights)
{
    /* Bytes decide, but a target with activations in 16 bits spends more on arithmetic. */
    double by_bytes = (double)weights->cost.pass_bytes / (double)engine->cost.pass_bytes;
    int is_lighter = level->kind == RF_LEVEL_SELF && engine->precision == RF_PRECISION_16;
    return rf_tuning.cost.draft_fixed +
           (is_lighter ? rf_tuning.cost.draft_lighter : rf_tuning.cost.draft_share) * by_bytes;
}

/* Guesses what a token of the text adds to a row, as if each row read its keys and values from
 * memory.
 */
static void guess_attention(const struct rf_session *session, const struct part *part,
                            const struct draft_weights *weights, struct rf_level *level)
{
    enum { MANY = 4096 };
    const struct rf_engine *engine = session->engine;
    const struct rf_source *source = weights->source ? weights->source
                                     : weights->head ? weights->head->file->source
                                                     : engine->source;
    enum rf_kv_type kv =
        part->head ? RF_KV_F16 : (part->view ? part->view : session->view)->shape.kv;
    uint64_t bytes = rf_backend_kinds[0]->kv_bytes(&source->params, kv, MANY) -
                     rf_states_bytes(&source->params, MANY);
    level->attention = (double)bytes / MANY / (double)engine->cost.pass_bytes;
    level->window = part->sequence ? rf_sequence_n_ctx(part->sequence) : 0;
    if (part->head) level->window = rf_head_level_window(part->head);
    if (part->view && part->view->shape.has_window) level->window = RF_WINDOW_MEAN;
}

/* Guesses how much dearer more rows are since they choose more experts. */
static void guess_experts(const struct rf_engine *engine, const struct draft_weights *weights,
                          struct rf_level *level)
{
    const struct rf_weight_cost *cost = weights->model ? &weights->cost : &engine->cost;
    const struct rf_params *params = &(weights->source ? weights->source : engine->source)->params;
    if (!params->n_expert) return;
    level->experts = (double)cost->expert_bytes / (double)cost->pass_bytes;
    level->experts_left = 1.0 - (double)params->n_expert_used / (double)params->n_expert;
}

int rf_levels_open(struct rf_session *session, const struct rf_chain *chain,
                   const struct levels *lender, struct rf_error *error)
{
    const struct rf_engine *engine = session->engine;
    const struct drafts *drafts = &engine->drafts;
    struct levels *levels = &session->levels;
    struct rf_level made[RF_MAX_LEVELS];
    *levels = (struct levels){.chain = chain ? *chain : drafts->chain};
    int code = 0;
    for (int32_t l = 0; !code && l < levels->chain.n_levels; l++) {
        struct part *part = &levels->parts[levels->n_levels++];
        int32_t at = find_chain_level(&drafts->chain, &levels->chain.levels[l]);
        if (at < 0) {
            char name[64];
            rf_chain_level_name(&levels->chain.levels[l], name, sizeof name);
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "chain: the model was opened without the level %s; it has %s", name,
                           drafts->chain_text);
        }
        const struct draft_weights *weights = &drafts->weights[at];
        levels->chain.levels[l] = drafts->chain.levels[at];
        made[l] = (struct rf_level){
            .ops = &rf_model_level_ops, .self = &part->level, .cost = 1.0, .has_passes = 1};
        struct opening opening = {.session = session,
                                  .chosen = &levels->chain.levels[l],
                                  .weights = weights,
                                  .part = part,
                                  .lent = lender ? lender->parts[l].passes : NULL,
                                  .level = &made[l]};
        code = open_chain_level(&opening, error);
        int has_own = weights->model || weights->head;
        if (has_own) made[l].cost = guess_cost(engine, &levels->chain.levels[l], weights);
        if (!code && made[l].has_passes) {
            const struct rf_weight_cost *cost = has_own ? &weights->cost : &engine->cost;
            made[l].is_quantised = cost->form != RF_WEIGHTS_BF16;
            guess_attention(session, part, weights, &made[l]);
            if (!weights->head) guess_experts(engine, weights, &made[l]);
        }
    }
    if (!code)
        code = rf_cascade_new(&levels->cascade, made, levels->n_levels, session->sequence,
                              &engine->allocator, error);
    return code;
}

const struct rf_head *rf_levels_head(const struct rf_engine *engine, const struct rf_chain *chain)
{
    const struct rf_chain *own = &engine->drafts.chain;
    for (int32_t l = 0; l < (chain ? chain : own)->n_levels; l++) {
        int32_t at = find_chain_level(own, &(chain ? chain : own)->levels[l]);
        if (at >= 0 && engine->drafts.weights[at].head) return engine->drafts.weights[at].head;
    }
    return NULL;
}

void rf_levels_copy(struct levels *to, const struct levels *from)
{
    const struct rf_successors *dictionary = rf_levels_dictionary(from);
    if (dictionary) rf_successors_copy(rf_levels_dictionary(to), dictionary);
    for (int32_t l = 0; l < to->n_levels; l++)
        if (to->parts[l].head) rf_head_level_copy(to->parts[l].head, from->parts[l].head);
}

struct rf_successors *rf_levels_dictionary(const struct levels *levels)
{
    for (int32_t l = 0; l < levels->n_levels; l++) {
        const struct part *part = &levels->parts[l];
        if (part->drafter && part->drafter->dictionary)
            return part->drafter->dictionary(part->drafter_self);
    }
    return NULL;
}

struct rf_head_level *rf_levels_head_level(const struct levels *levels)
{
    for (int32_t l = 0; l < levels->n_levels; l++)
        if (levels->parts[l].head) return levels->parts[l].head;
    return NULL;
}

void rf_levels_set_sampling(struct levels *levels, const struct rf_sampler *sampler)
{
    for (int32_t l = 0; l < levels->n_levels; l++)
        if (levels->parts[l].sampler) rf_sampler_copy(levels->parts[l].sampler, sampler);
}

void rf_levels_close(struct levels *levels, const struct rf_allocator *allocator)
{
    struct rf_error ignored; /* a pace file that cannot be written is not an error */
    if (levels->cascade && levels->pace_file)
        rf_cascade_save_pace(levels->cascade, (const char(*)[RF_PACE_NAME_BYTES])levels->names,
                             levels->pace_file, &ignored);
    rf_free(allocator, levels->pace_file);
    rf_cascade_free(levels->cascade);
    for (int32_t l = 0; l < levels->n_levels; l++) {
        struct part *part = &levels->parts[l];
        if (part->drafter) part->drafter->close(part->drafter_self);
        rf_head_level_free(part->head);
        if (!part->borrows_passes) rf_head_passes_free(part->passes);
        rf_sequence_free(part->sequence);
        rf_view_free(part->view);
        rf_sampler_free(part->sampler);
        rf_translator_free(part->translator);
    }
    *levels = (struct levels){0};
}
