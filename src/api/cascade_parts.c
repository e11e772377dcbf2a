/* A session's cascade: a level for each of its chain, over the weights that the model has for it.
 */
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "platform/cpu.h"

enum { DRAFT_CTX = 2048 }; /* tokens that a draft model's own context holds, at most */

/* The place of a level in the model's chain, or -1. A model's name without its form is enough: it
 * is there in the form that it was opened in. */
static int32_t find_level(const struct rf_chain *chain, const struct rf_chain_level *wanted)
{
    int32_t found = -1;
    for (int32_t l = 0; l < chain->n_levels; l++) {
        const struct rf_chain_level *level = &chain->levels[l];
        if (level->kind != wanted->kind) continue;
        if (level->kind == RF_LEVEL_NGRAM || level->kind == RF_LEVEL_TARGET) return l;
        if (strcmp(level->name, wanted->name) != 0) continue;
        if (level->form == wanted->form) return l;
        if (level->kind == RF_LEVEL_MODEL && wanted->form == RF_WEIGHTS_STORED && found < 0)
            found = l;
    }
    return found;
}

static int open_draft(struct part *part, const struct riffle_model *model,
                      const struct draft_weights *weights, const struct rf_session *target,
                      const struct rf_sampler *sampler, struct rf_error *error)
{
    const struct rf_allocator *allocator = &model->allocator;
    int32_t n_vocab = weights->n_vocab ? weights->n_vocab : weights->source->params.n_vocab;
    const struct rf_params *params = &weights->source->params;
    struct rf_session_shape shape = target->shape;
    if (shape.n_ctx > DRAFT_CTX) shape.n_ctx = DRAFT_CTX;
    if (shape.n_ctx > params->n_ctx_train) shape.n_ctx = params->n_ctx_train;
    int code = rf_session_new(&part->session, weights->model, &shape, error);
    if (!code)
        code = rf_sampler_new(&part->sampler, n_vocab, weights->model->backend->first_above,
                              allocator, error);
    if (code) return code;
    part->session->stop = target->stop;
    if (weights->n_vocab) {
        rf_sampler_copy(part->sampler, sampler);
        rf_model_level_of_draft(&part->level, part->session, part->sampler, n_vocab);
        return 0;
    }
    part->translated =
        (struct rf_translated_level){.session = part->session, .sampler = part->sampler};
    code = rf_sampler_set(part->sampler,
                          &(struct rf_sampling){.top_p = 1.0f, .repeat_penalty = 1.0f}, error);
    if (!code)
        code = rf_translator_new(&part->translator, model->tokenizer, weights->tokenizer,
                                 shape.n_ctx, shape.n_ctx, allocator, error);
    part->translated.translator = part->translator;
    return code;
}

/* Of a draft model the name is not enough: "draft" may be another one tomorrow. */
static void name_costs(struct cascade_parts *parts, const struct riffle_model *model, int32_t l)
{
    const struct rf_chain_level *level = &parts->chain.levels[l];
    const struct draft_weights *weights =
        &model->drafts.weights[find_level(&model->drafts.chain, level)];
    char name[RF_PACE_NAME_BYTES - 24];
    rf_chain_level_name(level, name, sizeof name);
    if (level->kind == RF_LEVEL_MODEL)
        snprintf(parts->names[l], sizeof parts->names[l], "%s %llu", name,
                 (unsigned long long)weights->cost.pass_bytes);
    else
        snprintf(parts->names[l], sizeof parts->names[l], "%s", name);
}

/* What was measured with this model, tier and number of threads before. */
static int load_pace(struct cascade_parts *parts, const struct riffle_model *model,
                     const struct rf_session *session, struct rf_error *error)
{
    char path[4200];
    int tier;
    int code = rf_api_tier(&tier, error);
    if (code) return code;
    int length =
        snprintf(path, sizeof path, "%s-%s-%d-of-%d", model->drafts.pace_path, rf_tier_name(tier),
                 rf_team_size(session->shape.team), rf_team_places(session->shape.team));
    parts->pace_file = rf_strndup(&model->allocator, path, (size_t)length, error);
    if (!parts->pace_file) return RF_ERR_MEMORY;
    for (int32_t l = 0; l < parts->n_levels; l++) name_costs(parts, model, l);
    rf_pace_load(&parts->cascade->pace, (const char(*)[RF_PACE_NAME_BYTES])parts->names,
                 parts->pace_file);
    return 0;
}

int rf_cascade_parts_new(struct cascade_parts *parts, const struct riffle_model *model,
                         const struct rf_chain *chain, struct rf_session *session,
                         struct rf_sampler *sampler, struct rf_error *error)
{
    const struct drafts *drafts = &model->drafts;
    struct rf_level levels[RF_CHAIN_MAX_LEVELS];
    *parts = (struct cascade_parts){.chain = chain ? *chain : drafts->chain};
    int code = 0;
    for (int32_t l = 0; !code && l < parts->chain.n_levels; l++) {
        struct part *part = &parts->parts[parts->n_levels++];
        int32_t at = find_level(&drafts->chain, &parts->chain.levels[l]);
        if (at < 0) {
            char name[64];
            rf_chain_level_name(&parts->chain.levels[l], name, sizeof name);
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "chain: the model was opened without the level %s; it has %s", name,
                           drafts->chain_text);
        }
        const struct draft_weights *weights = &drafts->weights[at];
        parts->chain.levels[l] = drafts->chain.levels[at];
        levels[l] = (struct rf_level){
            .ops = &rf_model_level_ops, .self = &part->level, .cost = 1.0, .has_passes = 1};
        switch (parts->chain.levels[l].kind) {
        case RF_LEVEL_NGRAM:
            code = rf_ngram_new(&part->ngram, session->shape.n_ctx, &model->allocator, error);
            levels[l] = (struct rf_level){
                .ops = &rf_ngram_level_ops, .self = part->ngram, .acceptance = 0.5};
            break;
        case RF_LEVEL_SELF:
            code = rf_session_new_sharing(&part->session, weights->model, session, error);
            if (!code) rf_model_level_of_target(&part->level, part->session, sampler);
            levels[l].acceptance = weights->cost.form == RF_WEIGHTS_STORED ? 0.95 : 0.88;
            break;
        case RF_LEVEL_MODEL:
            code = open_draft(part, model, weights, session, sampler, error);
            levels[l].acceptance = weights->n_vocab ? 0.7 : 0.55;
            if (weights->n_vocab) break;
            levels[l].ops = &rf_translated_level_ops;
            levels[l].self = &part->translated;
            break;
        case RF_LEVEL_TARGET: rf_model_level_of_target(&part->level, session, sampler); break;
        }
        if (weights->model)
            levels[l].cost =
                0.01 + 1.05 * (double)weights->cost.pass_bytes / (double)model->cost.pass_bytes;
    }
    if (!code)
        code = rf_cascade_new(&parts->cascade, levels, parts->chain.n_levels, session->shape.n_ctx,
                              &model->allocator, error);
    if (!code && drafts->pace_path) code = load_pace(parts, model, session, error);
    return code;
}

void rf_cascade_parts_set_sampling(struct cascade_parts *parts, const struct rf_sampler *sampler)
{
    for (int32_t l = 0; l < parts->n_levels; l++)
        if (parts->parts[l].sampler && !parts->parts[l].translator)
            rf_sampler_copy(parts->parts[l].sampler, sampler);
}

void rf_cascade_parts_free(struct cascade_parts *parts, const struct rf_allocator *allocator)
{
    struct rf_error ignored; /* a cache that cannot be written is none */
    if (parts->cascade && parts->pace_file)
        rf_pace_save(&parts->cascade->pace, (const char(*)[RF_PACE_NAME_BYTES])parts->names,
                     parts->pace_file, &ignored);
    rf_free(allocator, parts->pace_file);
    rf_cascade_free(parts->cascade);
    for (int32_t l = 0; l < parts->n_levels; l++) {
        rf_ngram_free(parts->parts[l].ngram);
        rf_session_free(parts->parts[l].session);
        rf_sampler_free(parts->parts[l].sampler);
        rf_translator_free(parts->parts[l].translator);
    }
    *parts = (struct cascade_parts){0};
}
