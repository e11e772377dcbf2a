/* Chains on every tier that this machine has, or whose instructions can be performed for it
 * (test/emulate/emulate.h): on each of them they write what plain decoding writes there. */
#include "api/answers.h"
#include "api/handles.h"
#include "cpu/cpu_backend.h"
#include "emulate/emulate.h"
#include "microkernels/kernels.h"

/* Opens a model as riffle_model_open does, but on a tier that it would refuse. */
static riffle_model *open_on_tier(int tier, const char *path, const riffle_model_options *options)
{
    riffle_model_options header = *options;
    struct rf_error error = {.text = ""};
    riffle_model *model;
    header.flags = RIFFLE_OPEN_HEADER;
    int code = riffle_model_open(&model, path, &header);
    if (!code)
        code = rf_cpu_backend_new(&model->engine->backend, tier, &model->engine->allocator, &error);
    if (!code) {
        model->engine->tier = rf_tier_name((enum rf_tier)tier);
        code = rf_engine_load(model->engine, options, &error);
    }
    CHECK_MSG(code == 0, "tier %s: %s", rf_tier_name((enum rf_tier)tier), error.text);
    if (code) exit(1);
    return model;
}

struct target {
    const char *path, *weights, *activations, *draft;
};

static void check_model(int tier, const struct target *target, int is_slow)
{
    static const struct setting settings[] = {{.gamma = 15, .threads = 1},
                                              {.chain = "draft:mxfp4", .gamma = 4, .threads = 1},
                                              {.chain = "mxfp4", .gamma = 4, .threads = 1},
                                              {.chain = "ngram > draft:mxfp4", .threads = 1},
                                              {.gamma = 3, .min_confidence = 0.4f, .threads = 2},
                                              {.threads = 1}},
                                in_16[] = {{.gamma = 4, .threads = 1},
                                           {.chain = "a8", .gamma = 4, .threads = 1},
                                           {.chain = "a8", .gamma = 15, .threads = 1},
                                           {.chain = "ngram > a8", .threads = 1},
                                           {.gamma = 3, .min_confidence = 0.4f, .threads = 2},
                                           {.threads = 1}};
    int is_16 = strcmp(target->activations, "16") == 0;
    const struct setting *chosen = is_16 ? in_16 : settings;
    static struct prompt prompts[N_PROMPTS];
    static struct answer wanted[N_PROMPTS], got;
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.weights = target->weights;
    options.activations = target->activations;
    options.chain = is_16 ? "ngram > draft:mxfp4 > a8" : "ngram > draft:mxfp4 > mxfp4 > q4";
    options.draft = target->draft;
    options.threads = 1;
    riffle_model *model = open_on_tier(tier, target->path, &options);
    int n_prompts = is_slow ? 1 : 3, n_settings = is_slow ? 2 : 6;
    int32_t n = is_slow ? 8 : 24;
    make_prompts(model, prompts);
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 1});
    for (int p = 0; p < n_prompts; p++) {
        begin(session, &prompts[p]);
        wanted[p] = (struct answer){.n = 0};
        add_tokens(session, n, &wanted[p]);
        CHECK_INT(wanted[p].n, n);
    }
    riffle_session_close(session);
    for (int s = 0; s < n_settings; s++) {
        session = open_with(model, &chosen[s]);
        for (int p = 0; p < (chosen[s].threads > 1 ? 1 : n_prompts); p++) {
            char what[128];
            snprintf(what, sizeof what, "%s, %s as %s with %s, setting %d, prompt %d",
                     rf_tier_name((enum rf_tier)tier), target->path, target->weights,
                     target->activations, s, p);
            begin(session, &prompts[p]);
            got = (struct answer){.n = 0};
            add_tokens(session, n, &got);
            check_same_answer(&got, &wanted[p], what);
        }
        uint64_t accepted;
        if (chosen[s].gamma) CHECK(count_drafted(session, &accepted) > 0);
        riffle_session_close(session);
    }
    riffle_model_close(model);
}

int main(void)
{
    static const struct target targets[] = {{TINY_MODEL, "stored", "auto", QUANTISED_MODEL},
                                            {QUANTISED_MODEL, "stored", "8", TINY_MODEL},
                                            {QUANTISED_MODEL, "stored", "16", TINY_MODEL},
                                            {QUANTISED_MODEL, "bf16", "auto", TINY_MODEL}};
    enum { N_TARGETS = sizeof targets / sizeof *targets };
    int can_emulate = emulate_install() == 0;
    for (int tier = 0; tier < RF_TIER_COUNT; tier++) {
        const char *name = rf_tier_name((enum rf_tier)tier);
        int is_native = rf_cpu_has_tier((enum rf_tier)tier),
            is_slow = !is_native || tier == RF_TIER_SCALAR;
        if ((!is_native && !(can_emulate && emulate_can_run((enum rf_tier)tier))) ||
            !rf_kernels(tier)) {
            printf("%s: not checked, this machine lacks it, and it cannot be emulated here\n",
                   name);
            continue;
        }
        uint64_t before = emulate_count();
        for (int t = 0; t < (is_slow ? 3 : N_TARGETS); t++) check_model(tier, &targets[t], is_slow);
        printf("%s: checked%s, %llu instructions emulated\n", name, is_native ? "" : " (emulated)",
               (unsigned long long)(emulate_count() - before));
        if (!is_native) CHECK(emulate_count() > before);
    }
    return check_result();
}
