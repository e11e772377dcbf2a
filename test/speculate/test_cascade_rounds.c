/* The rounds of the cascade: what comes out is the target's own text, whoever drafts, whatever
 * fails and wherever the text is cut. */
#include "speculate/scripts.h"

/* Levels in random number, of all kinds, below a target. */
static void add_levels(struct chain *chain, uint64_t h)
{
    if (h & 1) chain_add(chain, LINES, (double)(h >> 8 & 255) / 255, 0.0, 0.0, (int)(h >> 1 & 1));
    if (h & 4)
        chain_add(chain, TREES, (double)(h >> 16 & 255) / 255, 0.0, 0.0, (int)(h >> 1 & 1))->asks =
            (int)(h >> 63);
    for (uint64_t l = 0; l < (h >> 4 & 3); l++) {
        uint64_t g = mix(h + l);
        enum kind kind = (g >> 28 & 3) == 0 ? PAID : JUDGE;
        struct script *script =
            chain_add(chain, kind, (double)(g & 255) / 255, 0.002 + (double)(g >> 8 & 255) * 4e-4,
                      (double)(g >> 16 & 15) / 40, (int)(g >> 24 & 1));
        if (g >> 32 & 1) script->rows = 1 + (int32_t)(g >> 33 & 15);
        if (g >> 40 & 1) script->second = (double)(g >> 41 & 255) / 256;
    }
    struct script *target = chain_add_target(chain, 0.1);
    if ((h >> 30 & 3) == 0) target->rows = 1 + (int32_t)(h >> 32 & 31);
}

/* One of the levels fails once. */
static void let_one_fail(struct chain *chain, uint64_t h)
{
    struct script *script = &chain->scripts[(h >> 42) % (uint64_t)chain->n];
    script->fail_at = 1 + (int)(h >> 50 & 31);
    /* Logits that are no numbers are a damaged drafter's own affair. */
    if (script->kind >= PAID && !script_is_target(script) && h >> 47 & 1)
        script->fail_code = RF_ERR_FORMAT;
}

/* The cascade's counts equal the scripts' own. */
static void check_stats(const struct chain *chain)
{
    const struct rf_cascade_stats *stats = rf_cascade_stats(chain->cascade, 0);
    const int32_t gamma = chain->cascade->gamma;
    const struct account *account = &chain->account;
    uint64_t drafted = 0, accepted = 0;
    for (int32_t l = 0; l < chain->n; l++) {
        CHECK(stats[l].accepted <= stats[l].drafted);
        drafted += stats[l].drafted;
        accepted += stats[l].accepted;
        for (int32_t i = gamma; gamma && i < RF_MAX_DRAFT; i++) CHECK_INT(stats[l].judged_at[i], 0);
    }
    CHECK_INT(drafted, account->drafted);
    CHECK_INT(accepted, account->accepted);
    for (int32_t i = 0; i < RF_MAX_DRAFT; i++) {
        uint64_t judged_at = 0, accepted_at = 0;
        for (int32_t l = 0; l < chain->n; l++) {
            CHECK(stats[l].accepted_at[i] <= stats[l].judged_at[i]);
            judged_at += stats[l].judged_at[i];
            accepted_at += stats[l].accepted_at[i];
        }
        CHECK_INT(judged_at, account->judged_at[i]);
        CHECK_INT(accepted_at, account->accepted_at[i]);
    }
}

/* The target seems to read any number of rows in the time of one. */
static void make_rows_free(struct chain *chain)
{
    for (int i = 0; i < 10; i++)
        for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
            rf_pace_pass(chain_pace(chain), chain->n - 1, rows, 0.1);
}

/* Random chains, with and without a fixed gamma, some of whose levels fail once. */
static void test_lossless(void)
{
    for (uint64_t seed = 1; seed <= 800; seed++) {
        struct chain chain = {0};
        uint64_t h = mix(seed);
        add_levels(&chain, h);
        if (h >> 40 & 1) let_one_fail(&chain, h);
        chain_start(&chain, N_CTX);
        if (h >> 60 & 1) {
            rf_cascade_set_gamma(chain.cascade, 1 + (int32_t)(h >> 56 & 15) % RF_MAX_DRAFT,
                                 h >> 61 & 1 ? 0.4f : 0.0f);
        }
        if (h >> 62 & 1) make_rows_free(&chain);
        chain_go(&chain, 200);
        CHECK_INT(chain_length(&chain), 200);
        check_stats(&chain);
        met.damaged += chain_count_damaged(&chain);
        chain_finish(&chain);
    }
    CHECK(met.large_trees > 100 && met.merged_trees > 100);
    CHECK(met.trees_in_the_middle > 100 && met.bent_paths > 100);
    CHECK(met.equal_siblings > 100 && met.unread_rows > 100 && met.damaged > 10);
    CHECK(met.runners_up > 100 && met.mixed_trees > 100 && met.kept_runners_up > 100);
    CHECK(met.drafts_behind > 100 && met.kept_behind > 100);
    CHECK(met.probes > 100 && met.kept_probes > 10);
    for (int operation = 0; operation < 3; operation++) CHECK(met.failures[operation] > 10);
}

/* The text may be cut and go on otherwise between rounds: every level is told. */
static void test_rewind(void)
{
    struct chain chain = {0};
    chain_add(&chain, LINES, 0.8, 0.0, 0.0, 0);
    chain_add(&chain, TREES, 0.8, 0.0, 0.0, 1);
    chain_add(&chain, PAID, 0.8, 0.02, 0.0, 1);
    chain_add(&chain, JUDGE, 0.9, 0.025, 0.05, 1);
    chain_add_target(&chain, 0.1);
    chain_start(&chain, N_CTX);
    for (int i = 0; i < 20; i++) {
        chain_go(&chain, chain_length(&chain) + 20);
        int32_t last = (rf_sequence_tokens(chain.sequence)[chain_length(&chain) - 8] + i) % VOCAB;
        struct rf_error error;
        rf_sequence_rewind(chain.sequence, chain_length(&chain) - 8);
        CHECK_INT(rf_sequence_append(chain.sequence, &last, 1, &error), 0);
    }
    chain_finish(&chain);
}

/* A round whose tokens are not all committed: the next one begins behind those that are. */
static void test_uncommitted(void)
{
    struct chain chain = {0};
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_error error;
    chain_add(&chain, TREES, 0.9, 0.0, 0.0, 1);
    chain_add(&chain, JUDGE, 0.95, 0.01, 0.05, 1);
    chain_add_target(&chain, 0.1);
    chain_start(&chain, N_CTX);
    rf_cascade_set_gamma(chain.cascade, 7, 0.0f);
    while (chain_length(&chain) < 200) {
        chain.limit = N_CTX;
        int32_t made = rf_cascade_round(chain.cascade, 16, yield, &error);
        CHECK(made > 0);
        if (made <= 0) break;
        for (int32_t i = 0; i < (made + 1) / 2; i++) {
            CHECK_INT(yield[i].token,
                      truth(rf_sequence_tokens(chain.sequence), chain_length(&chain)));
            CHECK_INT(rf_sequence_commit(chain.sequence, &error), 0);
        }
    }
    chain_finish(&chain);
}

/* Drafts end with the context; where it is full, a token still comes, but cannot be committed. */
static void test_full_context(void)
{
    for (int32_t gamma = 0; gamma <= RF_MAX_DRAFT; gamma += 5) {
        struct chain chain = {0};
        struct rf_error error;
        chain_add(&chain, TREES, 0.9, 0.0, 0.0, 1);
        chain_add(&chain, JUDGE, 0.95, 0.01, 0.05, 1);
        chain_add_target(&chain, 0.1);
        chain_start(&chain, 60);
        rf_cascade_set_gamma(chain.cascade, gamma, 0.0f);
        while (chain_length(&chain) < 60 && chain_go_once(&chain, 1000) > 0) continue;
        CHECK_INT(chain_length(&chain), 60);
        CHECK_INT(chain_go_once(&chain, 1000), 1);
        CHECK_INT(rf_sequence_commit(chain.sequence, &error), RF_ERR_CONTEXT);
        rf_sequence_rewind(chain.sequence, 0);
        CHECK_INT(chain_go_once(&chain, 1), RF_ERR_ARGUMENT);
        chain_finish(&chain);
    }
}

/* A target that knows its next token is asked for that alone, and nobody drafts. */
static void test_known_choice(void)
{
    struct chain chain = {0};
    struct script *drafter = chain_add(&chain, LINES, 1.0, 0.0, 0.0, 1);
    struct script *target = chain_add_target(&chain, 0.1);
    chain_start(&chain, N_CTX);
    chain_go(&chain, 50);
    uint64_t passes = rf_cascade_stats(chain.cascade, 1)->passes;
    int calls = drafter->calls;
    target->knows_next = 1;
    CHECK_INT(chain_go_once(&chain, 16), 1);
    CHECK_INT(rf_cascade_stats(chain.cascade, 1)->passes, passes);
    CHECK_INT(drafter->calls, calls);
    chain_go(&chain, 100);
    CHECK(drafter->calls > calls);
    chain_finish(&chain);
}

int main(void)
{
    test_lossless();
    test_rewind();
    test_uncommitted();
    test_full_context();
    test_known_choice();
    return check_result();
}
