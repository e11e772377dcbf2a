/* Chains write what plain decoding writes: a small real model, as a float and as a quantised file,
 * each the other's draft, with every kind of level, fixed and measured lengths, and every way to
 * ask for tokens. */
#include "api/answers.h"

/* All levels that a model can have before the target; sessions choose among them. */
#define ALL_LEVELS "ngram > draft > draft:mxfp4 > draft:bf16 > mxfp4 > q4 > stored"
#define ALL_LEVELS_OF_16_BITS "ngram > draft > draft:mxfp4 > draft:bf16 > mxfp4 > q4 > a8"
#define LEVELS_WITH_HEAD "ngram > head > draft > draft:mxfp4 > mxfp4 > q4 > stored"

static const struct target {
    const char *path, *weights, *draft, *activations, *levels;
    int every; /* one of its cases in so many is taken */
} targets[] = {{TINY_MODEL, "stored", QUANTISED_MODEL, "auto", ALL_LEVELS, 1},
               {QUANTISED_MODEL, "stored", TINY_MODEL, "8", LEVELS_WITH_HEAD, 1},
               {QUANTISED_MODEL, "bf16", QUANTISED_MODEL, "auto", ALL_LEVELS, 1},
               {QUANTISED_MODEL, "stored", TINY_MODEL, "16", ALL_LEVELS_OF_16_BITS, 3}};
enum { N_TARGETS = sizeof targets / sizeof *targets };

/* One case in so many is taken: slow devices are given an argument. */
static int every = IS_FOR_RACES ? 13 : IS_SANITIZED ? 5 : 1, every_of_target = 1, n_cases;

static int is_taken(void)
{
    return n_cases++ % (every * every_of_target) == 0;
}

static const char *const chains[] = {"ngram",
                                     "mxfp4",
                                     "q4",
                                     "stored",
                                     "draft",
                                     "draft:mxfp4",
                                     "draft:bf16",
                                     "ngram > mxfp4",
                                     "ngram > draft > mxfp4",
                                     "draft:mxfp4 > draft > q4 > stored",
                                     "head",
                                     "ngram > head",
                                     "head > draft > mxfp4",
                                     "a8",
                                     "ngram > a8",
                                     "ngram > draft:mxfp4 > mxfp4 > a8",
                                     NULL};
enum { N_CHAINS = sizeof chains / sizeof *chains };

static const struct {
    int32_t gamma;
    float min_confidence;
} lengths[] = {{0, 0.0f}, {1, 0.0f}, {4, 0.0f}, {15, 0.0f}, {4, 0.4f}, {15, 0.4f}};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, LONG = 150, SHORT = 40, BRIEF = 12 };

static const char *head; /* NULL: this device has none */

/* The target's levels that this device has. */
static const char *levels_of(const struct target *target)
{
    if (head && strcmp(head, TINY_MODEL) == 0 && target == targets) return LEVELS_WITH_HEAD;
    return (head && strcmp(head, TINY_MODEL) != 0) || strcmp(target->levels, LEVELS_WITH_HEAD) != 0
               ? target->levels
               : ALL_LEVELS;
}

static riffle_model *open_model(const struct target *target, const char *chain, const char *draft)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.weights = target->weights;
    options.activations = target->activations;
    options.chain = chain;
    options.draft = draft;
    options.head = strstr(chain, "head") ? head : NULL;
    riffle_model *model;
    every_of_target = target->every;
    if (riffle_model_open(&model, target->path, &options) < 0) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    return model;
}

/* Whether the target's levels hold those of the chain. */
static int has_chain(const struct target *target, const char *chain)
{
    char level[32];
    for (int n; chain && sscanf(chain, "%31[^ >]%n", level, &n) == 1;
         chain += strspn(chain, " >")) {
        if (!strstr(levels_of(target), level)) return 0;
        chain += n;
    }
    return 1;
}

static struct prompt prompts[N_PROMPTS];
static struct answer plain[N_PROMPTS], cut[N_PROMPTS],
    brief[N_PROMPTS]; /* LONG, SHORT and BRIEF tokens */

static void answer_plainly(riffle_model *model)
{
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 1});
    uint64_t accepted;
    for (int p = 0; p < N_PROMPTS; p++) {
        struct answer *answers[] = {&plain[p], &cut[p], &brief[p]};
        const int32_t n[] = {LONG, SHORT, BRIEF};
        for (int i = 0; i < 3; i++) {
            begin(session, &prompts[p]);
            *answers[i] = (struct answer){.n = 0};
            add_tokens(session, n[i], answers[i]);
            CHECK_INT(answers[i]->n, n[i]);
        }
    }
    CHECK_INT(count_drafted(session, &accepted), 0);
    riffle_session_close(session);
}

/* One session answers all prompts, most of them briefly, each in another way; `turn` chooses. */
static void check_setting(riffle_model *model, const struct setting *setting, int turn)
{
    static const size_t one[] = {1}, three[] = {3}, sixteen[] = {16},
                        mixed[] = {5, 1, 1000, 2, 16, 3};
    static const struct {
        const size_t *caps;
        size_t n;
    } ways[] = {{NULL, 0}, {one, 1}, {NULL, 0}, {three, 1}, {sixteen, 1}, {mixed, 6}};
    enum { N_WAYS = sizeof ways / sizeof *ways };
    static struct answer got;
    riffle_session *session = open_with(model, setting);
    for (int i = 0; i < 3; i++) {
        int p = (turn * 3 + i) % N_PROMPTS, way = (turn + i) % N_WAYS;
        int is_long = i == 0 && way == 0;
        const struct answer *wanted = setting->threads > 1 ? &brief[p]
                                      : is_long            ? &plain[p]
                                                           : &cut[p];
        char what[256];
        snprintf(what, sizeof what,
                 "%s, gamma %d, min. confidence %.1f, threads %d, prompt %d, way %d",
                 setting->chain ? setting->chain : "the model's chain", setting->gamma,
                 (double)setting->min_confidence, setting->threads, p, way);
        begin(session, &prompts[p]);
        got = (struct answer){.n = 0};
        if (ways[way].caps) {
            add_steps(session, ways[way].caps, ways[way].n, wanted->n, &got);
            check_same_ids(&got, wanted, what);
        } else {
            add_tokens(session, wanted->n, &got);
            check_same_answer(&got, wanted, what);
        }
    }
    uint64_t accepted, drafted = count_drafted(session, &accepted);
    /* A table may have nothing to say after three short answers. */
    int may_be_idle = setting->gamma == 1 && setting->chain && strcmp(setting->chain, "ngram") == 0;
    int is_random = (setting->chain && strstr(setting->chain, "head")) ||
                    strstr(TINY_MODEL, "conv") ||
                    strstr(TINY_MODEL, "latent"); /* weights were never trained */
    if (setting->gamma && setting->min_confidence == 0.0f && !may_be_idle)
        CHECK_MSG(drafted > 0 && (accepted > 0 || is_random), "%s, gamma %d: nothing was drafted",
                  setting->chain, setting->gamma);
    riffle_session_close(session);
}

static void chains_write_what_plain_decoding_writes(void)
{
    int turn = 0;
    for (int t = 0; t < N_TARGETS; t++) {
        riffle_model *model = open_model(&targets[t], levels_of(&targets[t]), targets[t].draft);
        make_prompts(model, prompts);
        answer_plainly(model);
        for (int c = 0; c < N_CHAINS; c++)
            for (int l = 0; l < N_LENGTHS && has_chain(&targets[t], chains[c]); l++, turn++)
                if (is_taken())
                    check_setting(model,
                                  &(struct setting){.chain = chains[c],
                                                    .gamma = lengths[l].gamma,
                                                    .min_confidence = lengths[l].min_confidence,
                                                    .threads = turn % 11 == 5 ? 2 + turn % 2 : 1},
                                  turn);
        riffle_model_close(model);
        /* The chain that models open with by default. */
        for (int with_draft = 0; with_draft < 2; with_draft++) {
            model = open_model(&targets[t], "auto", with_draft ? targets[t].draft : NULL);
            answer_plainly(model);
            for (int i = 0; i < 3; i++, turn++)
                check_setting(model, &(struct setting){.threads = 1 + i, .gamma = i == 1 ? 4 : 0},
                              turn);
            riffle_model_close(model);
        }
    }
}

/* At the end of a small context the answer ends as it would without drafts, with the same sentence.
 */
static void the_context_ends_answers_alike(riffle_model *model, const struct target *target)
{
    static const size_t caps[] = {16, 4};
    struct prompt prompt = prompts[0];
    static struct answer wanted, got, stepped;
    for (int32_t n_ctx = 1; n_ctx <= 64; n_ctx = n_ctx < 24 ? n_ctx + 1 : n_ctx + 20) {
        prompt.n = n_ctx < 12 ? (n_ctx + 1) / 2 : 9;
        struct setting setting = {.chain = "none", .n_ctx = n_ctx, .threads = 1};
        riffle_session *session = open_with(model, &setting);
        begin(session, &prompt);
        wanted = (struct answer){.n = 0};
        add_tokens(session, 0, &wanted);
        CHECK_INT(wanted.n, n_ctx - prompt.n);
        CHECK_INT(wanted.finish, RIFFLE_FINISH_LENGTH);
        CHECK(wanted.sentence[0]);
        riffle_session_close(session);
        for (int c = 0; c < N_CHAINS; c++) {
            setting.chain = chains[c];
            for (int32_t gamma = 0; gamma <= 15; gamma = gamma ? gamma + 11 : 4) {
                if (!has_chain(target, chains[c]) || !is_taken()) continue;
                char what[128];
                snprintf(what, sizeof what, "%s, gamma %d, context %d",
                         chains[c] ? chains[c] : "the model's chain", gamma, n_ctx);
                setting.gamma = gamma;
                session = open_with(model, &setting);
                begin(session, &prompt);
                got = (struct answer){.n = 0};
                add_tokens(session, 0, &got);
                check_same_answer(&got, &wanted, what);
                /* And from the first tokens of a session that was full. */
                CHECK_OK(riffle_rewind(session, prompt.n));
                stepped = (struct answer){.n = 0};
                add_steps(session, caps, 2, n_ctx, &stepped);
                check_same_ids(&stepped, &wanted, what);
                riffle_session_close(session);
            }
        }
    }
}

/* A callback that stops leaves exactly the tokens that it was told of, and what follows is what
 * would have come. */
static void a_callback_stops_anywhere(riffle_model *model, const char *chain, int32_t gamma)
{
    static struct answer got;
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.ignore_eos = 1;
    riffle_session *session =
        open_with(model, &(struct setting){.chain = chain, .gamma = gamma, .threads = 1});
    for (int32_t each = 1; each < SHORT; each++) {
        if (!is_taken()) continue;
        begin(session, &prompts[each % 2]);
        got = (struct answer){.n = 0};
        while (got.n < SHORT) {
            int32_t left = SHORT - got.n;
            options.max_tokens = left;
            int64_t n = add_generated(session, &options, each, &got);
            CHECK_INT(n, each < left ? each : left);
            CHECK_INT(got.finish, each <= left ? RIFFLE_FINISH_CANCELLED : RIFFLE_FINISH_LENGTH);
            if (n < 1) break;
        }
        got.finish = RIFFLE_FINISH_LENGTH;
        check_same_answer(&got, &cut[each % 2], chain);
    }
    riffle_session_close(session);
}

/* Stop texts, whole and across tokens, end answers at the same byte and the same token. */
static void stop_texts_end_answers_alike(riffle_model *model, const char *chain, int32_t gamma)
{
    static struct answer wanted, got;
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 1}),
                   *drafting = open_with(
                       model, &(struct setting){.chain = chain, .gamma = gamma, .threads = 1});
    for (int p = 0; p < 3; p++) {
        for (size_t at = 3; at + 6 < cut[p].bytes; at += 7) {
            if (!is_taken()) continue;
            char stop[8] = "";
            memcpy(stop, cut[p].text + at, 1 + at % 6);
            const char *const stops[] = {"never", stop};
            riffle_generate_options options;
            riffle_generate_options_init(&options, sizeof options);
            options.max_tokens = SHORT;
            options.ignore_eos = 1;
            options.stop = stops;
            options.n_stop = 2;
            wanted = got = (struct answer){.n = 0};
            begin(session, &prompts[p]);
            add_generated(session, &options, 0, &wanted);
            begin(drafting, &prompts[p]);
            add_generated(drafting, &options, 0, &got);
            CHECK_INT(wanted.finish, RIFFLE_FINISH_STOP);
            check_same_answer(&got, &wanted, stop);
            /* Behind the stop text goes on what would have come. */
            if (got.n < SHORT) add_tokens(drafting, SHORT - got.n, &got);
            check_same_ids(&got, &cut[p], stop);
        }
    }
    riffle_session_close(session);
    riffle_session_close(drafting);
}

/* A copy of the model whose end-of-text token is one that stories are full of. */
static void write_talkative_model(const char *path, int32_t end_token)
{
    static const char key[] = "tokenizer.ggml.eos_token_id";
    FILE *in = fopen(TINY_MODEL, "rb"), *out = fopen(path, "wb");
    static char data[2 << 20];
    size_t bytes = in ? fread(data, 1, sizeof data, in) : 0, at = 0;
    while (at + sizeof key + 8 < bytes && memcmp(data + at, key, sizeof key - 1) != 0) at++;
    CHECK(at + sizeof key + 8 < bytes);
    memcpy(data + at + sizeof key - 1 + 4, &end_token, sizeof end_token);
    CHECK(out && fwrite(data, 1, bytes, out) == bytes);
    if (in) fclose(in);
    if (out) fclose(out);
}

static void an_end_of_text_ends_answers_alike(void)
{
    static struct answer wanted, got;
    char path[4096];
    temporary_path("talkative.gguf", path, sizeof path);
    /* Each of the tokens of an answer may be the one that ends it. */
    for (int32_t at = 2; at < 24; at += 3) {
        write_talkative_model(path, cut[0].tokens[at]);
        const struct target target = {
            .path = path, .weights = "stored", .activations = "auto", .every = 1};
        riffle_model *model = open_model(&target, "ngram > draft > mxfp4", QUANTISED_MODEL);
        CHECK_INT(riffle_token_is_end(model, cut[0].tokens[at]), 1);
        riffle_session *session =
            open_with(model, &(struct setting){.chain = "none", .threads = 1});
        for (int c = 0; c < 3; c++) {
            riffle_session *drafting = open_with(model, &(struct setting){.gamma = c == 0   ? 0
                                                                                   : c == 1 ? 15
                                                                                            : 3,
                                                                          .threads = 1});
            for (int p = 0; p < N_PROMPTS; p += 2) {
                if (!is_taken()) continue;
                riffle_generate_options options;
                riffle_generate_options_init(&options, sizeof options);
                options.max_tokens = LONG;
                wanted = got = (struct answer){.n = 0};
                begin(session, &prompts[p]);
                begin(drafting, &prompts[p]);
                for (int i = 0; i < 3; i++) {
                    add_generated(session, &options, 0, &wanted);
                    add_generated(drafting, &options, 0, &got);
                    check_same_answer(&got, &wanted, "to the end of the text");
                    if (p == 0 && i == 0)
                        CHECK(wanted.finish == RIFFLE_FINISH_STOP && wanted.n <= at);
                    /* The end is not committed: whoever goes on says how. */
                    static const int32_t more[] = {403, 407};
                    CHECK_OK(riffle_prefill(session, more, 2));
                    CHECK_OK(riffle_prefill(drafting, more, 2));
                }
            }
            riffle_session_close(drafting);
        }
        riffle_session_close(session);
        riffle_model_close(model);
    }
    remove(path);
}

static void drawn_answers_are_the_seeds(riffle_model *model, const struct target *target)
{
    static struct answer wanted, got;
    static const float temperatures[] = {0.8f, 1.0f, 1.5f};
    for (uint64_t seed = 0; seed < 6; seed++) {
        riffle_sampling sampling;
        riffle_sampling_init(&sampling, sizeof sampling);
        sampling.temperature = temperatures[seed % 3];
        sampling.seed = seed;
        sampling.repeat_penalty = seed % 2 ? 1.3f : 1.0f;
        sampling.repeat_last_n = seed == 1 ? -1 : 16;
        sampling.frequency_penalty = seed % 3 == 1 ? 0.4f : 0.0f;
        sampling.presence_penalty = seed % 3 == 2 ? 0.8f : 0.0f;
        const struct prompt *prompt = &prompts[seed % N_PROMPTS];
        riffle_session *session =
            open_with(model, &(struct setting){.chain = "none", .threads = 1});
        CHECK_OK(riffle_session_set_sampling(session, &sampling));
        begin(session, prompt);
        wanted = (struct answer){.n = 0};
        add_tokens(session, LONG, &wanted);
        riffle_session_close(session);
        for (int c = 0; c < N_CHAINS; c++) {
            for (int32_t gamma = 0; gamma <= 4; gamma += 4) {
                if (!has_chain(target, chains[c]) || !is_taken()) continue;
                session = open_with(
                    model, &(struct setting){.chain = chains[c], .gamma = gamma, .threads = 1});
                CHECK_OK(riffle_session_set_sampling(session, &sampling));
                begin(session, prompt);
                got = (struct answer){.n = 0};
                add_tokens(session, LONG, &got);
                check_same_answer(&got, &wanted,
                                  chains[c] ? chains[c] : "the model's chain, drawn");
                riffle_session_close(session);
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) every = atoi(argv[1]);
    head = head_if_any();
    chains_write_what_plain_decoding_writes();
    for (int t = N_TARGETS - 1; t >= 0; t -= 3) {
        const struct target *target = &targets[t];
        const char *const some[] = {"ngram", t ? "a8" : "mxfp4",
                                    t ? "ngram > draft > a8" : "ngram > draft > mxfp4"};
        riffle_model *model = open_model(target, levels_of(target), target->draft);
        answer_plainly(model);
        the_context_ends_answers_alike(model, target);
        for (int c = 0; c < 3; c++) {
            for (int32_t gamma = 0; gamma <= 8; gamma += 4) {
                a_callback_stops_anywhere(model, some[c], gamma);
                stop_texts_end_answers_alike(model, some[c], gamma);
            }
        }
        drawn_answers_are_the_seeds(model, target);
        riffle_model_close(model);
    }
    an_end_of_text_ends_answers_alike();
    return check_result();
}
