/* Sampling through whole chains of a real model: every chain writes the text that the seed has
 * without one, and over many seeds two tokens together have the target's distribution (chi-square;
 * the limit is passed once in ten thousand choices of seeds, and these are fixed).
 * test/speculate/test_sampling.c has the same for single levels, and for broken ones. */
#include <stdlib.h>

#include "riffle.h"
#include "support/check.h"
#include "support/chi_square.h"
#include "support/plain_sampler.h"

enum {
    VOCAB = 512,
    GROUPS = 8,
    CELLS = GROUPS * GROUPS,
    SEEDS = IS_SANITIZED ? 640 : 3000,
    LONG = 40,
    CAP = 64
};

static const char prompt_text[] = "Once upon a time, there was a";
static int32_t prompt[CAP];
static size_t n_prompt;

struct chain {
    const char *chain;
    int32_t gamma;
    float min_confidence;
};

static const struct chain float_chains[] = {{"ngram", 3, 0.0f},
                                            {"mxfp4", 3, 0.0f},
                                            {"ngram > mxfp4", 2, 0.0f},
                                            {"ngram > mxfp4", 0, 0.0f},
                                            {"ngram > stories260K-q.gguf > mxfp4", 5, 0.2f},
                                            {"ngram > stories260K-q.gguf > mxfp4", 0, 0.0f},
                                            {"head", 3, 0.0f},
                                            {"ngram > head > mxfp4", 0, 0.0f}},
                          chains_of_16_bits[] = {{"a8", 3, 0.0f},
                                                 {"ngram > a8", 0, 0.0f},
                                                 {"ngram > stories260K.gguf > a8", 5, 0.2f}};

/* The chains of the model that is checked. */
static const struct chain *chains;
static int n_chains;

static riffle_session *open_session(riffle_model *model, const char *chain, int32_t gamma,
                                    float min_confidence)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.threads = 1;
    options.chain = chain;
    options.gamma = gamma;
    options.min_confidence = min_confidence;
    riffle_session *session;
    int code = riffle_session_open(&session, model, &options);
    CHECK_MSG(code == 0, "%s: %s", chain, riffle_last_error());
    if (!code) CHECK_INT(riffle_prefill(session, prompt, n_prompt), 0);
    return session;
}

/* The n tokens that a seed puts after the prompt. */
static void write_tokens(riffle_session *session, const riffle_sampling *settings, uint64_t seed,
                         int32_t n, int32_t *tokens)
{
    riffle_sampling sampling = *settings;
    sampling.seed = seed;
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = n;
    options.ignore_eos = 1;
    CHECK_INT(riffle_rewind(session, (int32_t)n_prompt), 0);
    CHECK_INT(riffle_session_set_sampling(session, &sampling), 0);
    CHECK_INT(riffle_generate(session, &options, NULL, NULL), n);
    const int32_t *all;
    CHECK_INT(riffle_session_tokens(session, &all), (int32_t)n_prompt + n);
    memcpy(tokens, all + n_prompt, (size_t)n * sizeof *tokens);
}

static uint64_t accepted(const riffle_session *session)
{
    riffle_stats stats;
    uint64_t total = 0;
    CHECK_INT(riffle_session_get_stats(session, &stats, sizeof stats), 0);
    for (int32_t i = 0; i < stats.n_levels; i++) total += stats.levels[i].accepted;
    return total;
}

static void check_same_text(riffle_model *model, const riffle_sampling *settings)
{
    enum { TEXTS = 12 };
    int32_t plain[TEXTS][LONG], drafted[LONG];
    riffle_session *session = open_session(model, "none", 0, 0.0f);
    for (int s = 0; session && s < TEXTS; s++)
        write_tokens(session, settings, (uint64_t)s, LONG, plain[s]);
    riffle_session_close(session);
    for (int c = 0; c < n_chains; c++) {
        session = open_session(model, chains[c].chain, chains[c].gamma, chains[c].min_confidence);
        for (int s = 0; session && s < TEXTS; s++) {
            write_tokens(session, settings, (uint64_t)s, LONG, drafted);
            CHECK_MSG(memcmp(drafted, plain[s], sizeof drafted) == 0,
                      "%s, gamma %d: seed %d has another text", chains[c].chain, chains[c].gamma,
                      s);
        }
        if (session && chains[c].gamma) CHECK(accepted(session) > 0);
        riffle_session_close(session);
    }
}

/* The target's joint distribution of two tokens, in groups of tokens of about the same probability
 * at each place. */
struct joint {
    int group[2][VOCAB];
    double p[CELLS];
};

static void group_tokens(const double *p, int *group)
{
    double below = 0.0;
    for (int i = 0; i < VOCAB; i++) {
        int g = (int)(below * GROUPS);
        group[i] = g < GROUPS ? g : GROUPS - 1;
        below += p[i];
    }
}

static void find_joint(riffle_model *model, const struct rf_sampling *settings, struct joint *joint)
{
    static double first[VOCAB], second[VOCAB][VOCAB], marginal[VOCAB];
    static float logits[VOCAB];
    memset(joint, 0, sizeof *joint);
    memset(marginal, 0, sizeof marginal);
    riffle_session *session = open_session(model, "none", 0, 0.0f);
    if (!session) return;
    CHECK_INT(riffle_logits(session, logits, VOCAB), 0);
    plain_probabilities(settings, logits, VOCAB, first);
    for (int32_t a = 0; a < VOCAB; a++) {
        CHECK_INT(riffle_rewind(session, (int32_t)n_prompt), 0);
        CHECK_INT(riffle_prefill(session, &a, 1), 0);
        CHECK_INT(riffle_logits(session, logits, VOCAB), 0);
        plain_probabilities(settings, logits, VOCAB, second[a]);
        for (int b = 0; b < VOCAB; b++) marginal[b] += first[a] * second[a][b];
    }
    group_tokens(first, joint->group[0]);
    group_tokens(marginal, joint->group[1]);
    for (int a = 0; a < VOCAB; a++)
        for (int b = 0; b < VOCAB; b++)
            joint->p[joint->group[0][a] * GROUPS + joint->group[1][b]] += first[a] * second[a][b];
    riffle_session_close(session);
}

static void check_distribution(riffle_model *model, const riffle_sampling *settings,
                               const struct joint *joint)
{
    for (int c = 0; c < n_chains; c++) {
        int32_t counts[CELLS] = {0}, tokens[4];
        riffle_session *session =
            open_session(model, chains[c].chain, chains[c].gamma, chains[c].min_confidence);
        for (uint64_t seed = 0; session && seed < SEEDS; seed++) {
            write_tokens(session, settings, seed, 4, tokens);
            counts[joint->group[0][tokens[0]] * GROUPS + joint->group[1][tokens[1]]]++;
        }
        riffle_session_close(session);
        double excess = chi_square_excess(counts, joint->p, CELLS);
        printf("%-36s gamma %d: chi-square %.2f of its limit\n", chains[c].chain, chains[c].gamma,
               excess);
        CHECK_MSG(excess < 1.0, "%s, gamma %d: chi-square is %.2f of its limit", chains[c].chain,
                  chains[c].gamma, excess);
    }
}

static void check_model(const char *path, const char *activations, const char *chain,
                        const struct chain *all, int n_all)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.activations = activations;
    options.chain = chain;
    options.head = strstr(chain, "head") ? "heads/chosen.gguf" : NULL;
    chains = all;
    n_chains = n_all;
    riffle_model *model;
    int code = riffle_model_open(&model, path, &options);
    CHECK_MSG(code == 0, "%s", riffle_last_error());
    if (code) return;
    int64_t n = riffle_tokenize(model, prompt_text, sizeof prompt_text - 1, RIFFLE_TOKENIZE_BOS,
                                prompt, CAP);
    CHECK(n > 0 && n <= CAP);
    n_prompt = (size_t)n;

    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 1.0f;
    check_same_text(model, &sampling);
    sampling.temperature = 1.3f;
    sampling.repeat_penalty = 1.2f;
    check_same_text(model, &sampling);

    sampling = (riffle_sampling){
        .struct_size = sizeof sampling, .temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f};
    struct rf_sampling inner = {.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f};
    static struct joint joint;
    find_joint(model, &inner, &joint);
    check_distribution(model, &sampling, &joint);
    riffle_model_close(model);
}

#define LIST(array) array, sizeof array / sizeof *(array)

int main(void)
{
    check_model("stories260K.gguf", "auto", "ngram > head > stories260K-q.gguf > mxfp4",
                LIST(float_chains));
    check_model("stories260K-q.gguf", "16", "ngram > stories260K.gguf > a8",
                LIST(chains_of_16_bits));
    return check_result();
}
