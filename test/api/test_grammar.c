/* Answers that a grammar limits: the same with every chain, greedy and sampled, those of decoding
 * with a mask by hand, and complete where they end.
 *
 *     test_grammar [EVERY]     only one of EVERY combinations, for slow devices */
#include <pthread.h>

#include "api/answers.h"
#include "api/changed_model.h"
#include "api/meter.h"
#include "model/json.h"
#include "model/reader.h"

enum { MOST = 90 };

static const struct {
    riffle_grammar_kind kind;
    const char *text;
} grammars[] = {
    {RIFFLE_GRAMMAR_GBNF, "root ::= word (\" \" word)* \".\"\nword ::= [a-z]{1,6}"},
    {RIFFLE_GRAMMAR_GBNF, "root ::= (\"a\" | \"ab\" | \"b\" [a-c]? | \" \")* \"!\""},
    {RIFFLE_GRAMMAR_GBNF,
     "root ::= \"The \" ([^\\n.]{3,20} \"\\x01\\x02\\x03\\x04\\x05\"){2} \"}\\x06\\x07\""},
    {RIFFLE_GRAMMAR_GBNF, "root ::= \"(\" root \")\" | [A-Z] [a-z]+ \" \" root | \"\""},
    {RIFFLE_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":9},"
     "\"kind\":{\"enum\":[\"cat\",\"dog\",\"car\"]},\"n\":{\"type\":\"integer\",\"minimum\":1,"
     "\"maximum\":99},\"all\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,"
     "\"maxItems\":3}},\"required\":[\"name\",\"kind\",\"n\",\"all\"]}"},
};
enum { N_GRAMMARS = sizeof grammars / sizeof *grammars, SCHEMA = N_GRAMMARS - 1 };

static const struct setting settings[] = {{.chain = "ngram"},
                                          {.chain = "ngram", .gamma = 4},
                                          {.chain = "draft", .gamma = 3},
                                          {.chain = "head", .gamma = 3},
                                          {.chain = "ngram > head"},
                                          {.chain = "mxfp4", .gamma = 5},
                                          {.chain = NULL},
                                          {.chain = NULL, .gamma = 3},
                                          {.chain = "foreign", .gamma = 4}};

static char foreign[4096], chain[4300];

static riffle_grammar *new_grammar(const riffle_model *model, int g)
{
    riffle_grammar *grammar = NULL;
    CHECK_OK(riffle_grammar_new(&grammar, model, grammars[g].kind, grammars[g].text,
                                strlen(grammars[g].text)));
    if (!grammar) exit(1);
    return grammar;
}

static int keep(void *user, const riffle_event *event)
{
    struct answer *answer = user;
    if (event->token >= 0) answer->tokens[answer->n++] = event->token;
    memcpy(answer->text + answer->bytes, event->text, event->text_bytes);
    answer->bytes += event->text_bytes;
    return 0;
}

static void answer_by(riffle_session *session, riffle_grammar *grammar, const struct prompt *prompt,
                      const riffle_sampling *sampling, struct answer *answer)
{
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = MOST;
    options.grammar = grammar;
    answer->n = 0;
    answer->bytes = 0;
    begin(session, prompt);
    CHECK_OK(riffle_session_set_sampling(session, sampling));
    CHECK_INT(CHECK_OK(riffle_generate(session, &options, keep, answer)), answer->n);
    answer->finish = riffle_session_finish(session, NULL);
    CHECK(answer->finish == (answer->n == MOST ? RIFFLE_FINISH_LENGTH : RIFFLE_FINISH_STOP) ||
          answer->finish == RIFFLE_FINISH_STOP);
}

static void check_schema(const struct answer *answer)
{
    struct rf_error error = {.text = ""};
    struct rf_reading reading = {.path = "answer", .error = &error};
    struct rf_str text;
    int64_t n;
    int flag;
    struct rf_json *json =
        rf_json_parse(&reading, NULL, (struct rf_str){answer->text, answer->bytes});
    CHECK_MSG(json != NULL, "%s: %.*s", error.text, (int)answer->bytes, answer->text);
    CHECK_INT(rf_json_count(json), 4);
    CHECK(rf_json_string(rf_json_get(json, "name"), &text) && text.bytes <= 36);
    CHECK(rf_json_string(rf_json_get(json, "kind"), &text) && text.bytes == 3);
    CHECK(rf_json_integer(rf_json_get(json, "n"), &n) && n >= 1 && n <= 99);
    const struct rf_json *all = rf_json_get(json, "all");
    CHECK(rf_json_count(all) >= 1 && rf_json_count(all) <= 3);
    for (size_t i = 0; i < rf_json_count(all); i++) CHECK(rf_json_bool(rf_json_at(all, i), &flag));
    rf_json_free(json);
}

static void check_chains(riffle_model *model, const struct prompt *prompts, int every)
{
    static struct answer plain, other;
    int n_case = 0, n_complete = 0;
    for (int g = 0; g < N_GRAMMARS; g++) {
        riffle_grammar *grammar = new_grammar(model, g);
        for (int s = 0; s < 6; s++) {
            if (n_case++ % every) continue;
            riffle_sampling sampling;
            riffle_sampling_init(&sampling, sizeof sampling);
            sampling.temperature = s ? 1.0f : 0.0f;
            sampling.seed = (uint64_t)s;
            if (s == 2) sampling.repeat_penalty = 1.2f;
            if (s == 3) sampling.top_k = 0, sampling.top_p = 1.0f, sampling.min_p = 0.0f;
            const struct prompt *prompt = &prompts[s % 3];
            struct setting none = {.chain = "none", .n_ctx = 256, .threads = 1};
            riffle_session *session = open_with(model, &none);
            answer_by(session, grammar, prompt, &sampling, &plain);
            riffle_session_close(session);
            n_complete += plain.finish == RIFFLE_FINISH_STOP;
            if (g == SCHEMA && plain.finish == RIFFLE_FINISH_STOP) check_schema(&plain);
            for (size_t c = 0; c < sizeof settings / sizeof *settings; c++) {
                struct setting setting = settings[c];
                setting.n_ctx = 256;
                setting.threads = 1;
                if (setting.chain && strcmp(setting.chain, "foreign") == 0) setting.chain = foreign;
                session = open_with(model, &setting);
                answer_by(session, grammar, prompt, &sampling, &other);
                CHECK_MSG(other.n == plain.n && other.finish == plain.finish &&
                              memcmp(other.tokens, plain.tokens,
                                     (size_t)plain.n * sizeof *plain.tokens) == 0,
                          "grammar %d, sampling %d, chain %zu: %.*s, not %.*s", g, s, c,
                          (int)other.bytes, other.text, (int)plain.bytes, plain.text);
                riffle_session_close(session);
            }
        }
        riffle_grammar_free(grammar);
    }
    CHECK(n_complete > 0);
}

/* Greedy decoding, with the mask applied by hand to all logits. */
static void check_by_hand(riffle_model *model, const struct prompt *prompt)
{
    static const char text[] = "root ::= [a-z ]*";
    static struct answer answer;
    static float logits[VOCAB];
    riffle_model_info info;
    riffle_sampling greedy;
    riffle_grammar *grammar;
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    riffle_sampling_init(&greedy, sizeof greedy);
    CHECK_OK(riffle_grammar_new(&grammar, model, RIFFLE_GRAMMAR_GBNF, text, sizeof text - 1));
    riffle_session *session =
        open_with(model, &(struct setting){.chain = "none", .n_ctx = 256, .threads = 1});
    answer_by(session, grammar, prompt, &greedy, &answer);
    begin(session, prompt);
    for (int32_t i = 0; i <= answer.n && i < MOST; i++) {
        int32_t best = -1;
        CHECK_OK(riffle_logits(session, logits, (size_t)info.n_vocab));
        for (int32_t t = 0; t < info.n_vocab; t++) {
            char bytes[64];
            int64_t n = riffle_detokenize(model, &t, 1, 0, bytes, sizeof bytes);
            int allowed = n > 0 || riffle_token_is_end(model, t);
            for (int64_t b = 0; b < n; b++)
                allowed &= bytes[b] == ' ' || (bytes[b] >= 'a' && bytes[b] <= 'z');
            if (allowed && (best < 0 || logits[t] > logits[best])) best = t;
        }
        if (i == answer.n) {
            CHECK(riffle_token_is_end(model, best));
            break;
        }
        CHECK_MSG(best == answer.tokens[i], "token %d is %d, not %d", i, answer.tokens[i], best);
        CHECK_OK(riffle_prefill(session, &best, 1));
    }
    riffle_session_close(session);
    riffle_grammar_free(grammar);
}

/* A greedy answer within a grammar, and what it took, by a chain that has nothing that drafts. The
 * caller closes the session. */
static riffle_session *answer_without_drafts(riffle_model *model, const struct prompt *prompt,
                                             const char *text, struct answer *answer,
                                             riffle_stats *stats)
{
    riffle_sampling greedy;
    riffle_grammar *grammar;
    riffle_sampling_init(&greedy, sizeof greedy);
    CHECK_OK(riffle_grammar_new(&grammar, model, RIFFLE_GRAMMAR_GBNF, text, strlen(text)));
    riffle_session *session =
        open_with(model, &(struct setting){.chain = "none", .n_ctx = 256, .threads = 1});
    begin(session, prompt);
    riffle_session_reset_stats(session);
    answer_by(session, grammar, prompt, &greedy, answer);
    CHECK_OK(riffle_session_get_stats(session, stats, sizeof *stats));
    riffle_grammar_free(grammar);
    return session;
}

/* Tokens without an alternative take no pass. */
static void check_forced(riffle_model *model, const struct prompt *prompt)
{
    static const char text[] =
        "root ::= \"\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x01\\x02\\x03\\x04\\x05"
        "\\x06\\x07\\x01\\x02\\x03\\x04\\x05\\x06\"";
    static struct answer answer;
    riffle_stats stats;
    riffle_session *session = answer_without_drafts(model, prompt, text, &answer, &stats);
    CHECK_INT(answer.n, 20);
    CHECK_INT(answer.finish, RIFFLE_FINISH_STOP);
    CHECK(answer.bytes == 20 && answer.text[19] == 6);
    CHECK_INT(stats.levels[0].passes, 1); /* over the prompt */
    /* The session goes on from there. */
    CHECK_INT(generate(session, 5).count, 5);
    riffle_session_close(session);
}

/* Bytes without an alternative, which tokens may spell in several ways, are drafted even where the
 * chain has nothing that drafts. */
static void check_drafted_bytes(riffle_model *model, const struct prompt *prompt)
{
    static const char text[] =
        "root ::= [a-z] \" there was a little girl named Lily and a \" [a-z]";
    static struct answer answer;
    riffle_stats stats;
    riffle_session *session = answer_without_drafts(model, prompt, text, &answer, &stats);
    CHECK_INT(answer.finish, RIFFLE_FINISH_STOP);
    CHECK_INT(answer.bytes, 44);
    CHECK_MSG(answer.n > 12 && stats.levels[0].passes + 3 < (uint64_t)answer.n,
              "%llu passes for %d tokens", (unsigned long long)stats.levels[0].passes, answer.n);
    riffle_session_close(session);
}

static void check_errors(riffle_model *model, const struct prompt *prompt)
{
    riffle_generate_options options;
    riffle_model *other = open_tiny_model();
    riffle_grammar *grammar = new_grammar(other, 0);
    riffle_grammar *none;
    riffle_session *session =
        open_with(model, &(struct setting){.chain = "none", .n_ctx = 256, .threads = 1});
    begin(session, prompt);
    riffle_generate_options_init(&options, sizeof options);
    options.grammar = grammar;
    CHECK_FAILS(riffle_generate(session, &options, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    options.ignore_eos = 1;
    CHECK_FAILS(riffle_generate(session, &options, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_INT(riffle_session_tokens(session, NULL), prompt->n);
    CHECK_INT(generate(session, 5).count, 5);
    CHECK_FAILS(riffle_grammar_new(&none, model, RIFFLE_GRAMMAR_GBNF, "root", 4),
                RIFFLE_ERR_FORMAT);
    CHECK(none == NULL);
    CHECK_FAILS(riffle_grammar_new(&none, model, (riffle_grammar_kind)7, "", 0),
                RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_grammar_new(&none, NULL, RIFFLE_GRAMMAR_GBNF, "", 0), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_grammar_new(&none, model, RIFFLE_GRAMMAR_GBNF, NULL, 1),
                RIFFLE_ERR_ARGUMENT);
    riffle_session_close(session);
    riffle_grammar_free(grammar);
    riffle_grammar_free(NULL);
    riffle_model_close(other);
}

/* ---- threads ---- */

struct writer {
    riffle_model *model;
    riffle_grammar *grammar;
    const struct prompt *prompt;
    struct answer answer;
};

static void *write_answer(void *argument)
{
    struct writer *writer = argument;
    riffle_sampling greedy;
    riffle_sampling_init(&greedy, sizeof greedy);
    riffle_session *session =
        open_with(writer->model, &(struct setting){.chain = "ngram", .n_ctx = 256, .threads = 1});
    for (int i = 0; i < 3; i++)
        answer_by(session, writer->grammar, writer->prompt, &greedy, &writer->answer);
    riffle_session_close(session);
    return NULL;
}

static void check_threads(riffle_model *model, const struct prompt *prompt)
{
    static struct writer writers[3];
    pthread_t threads[3];
    riffle_grammar *grammar = new_grammar(model, SCHEMA);
    for (int i = 0; i < 3; i++) {
        writers[i].model = model;
        writers[i].grammar = grammar;
        writers[i].prompt = prompt;
        CHECK_INT(pthread_create(&threads[i], NULL, write_answer, &writers[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i < 3; i++)
        check_same_ids(&writers[i].answer, &writers[0].answer, "on another thread");
    riffle_grammar_free(grammar);
}

/* ---- memory ---- */

static int open_model(riffle_model **model, struct meter *meter)
{
    riffle_allocator allocator = {.alloc = meter_alloc, .release = meter_release, .user = meter};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.allocator = &allocator;
    options.threads = 1;
    options.chain = chain;
    options.draft = QUANTISED_MODEL;
    options.head = TINY_HEAD;
    return riffle_model_open(model, TINY_MODEL, &options);
}

static void check_memory(riffle_model *model, struct meter *meter, const struct prompt *prompt)
{
    static struct answer wanted, got;
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = MOST;
    riffle_session *session = open_with(
        model, &(struct setting){.chain = "ngram > mxfp4", .gamma = 3, .n_ctx = 256, .threads = 1});
    int failed = 0, done = 0;
    for (size_t n = 0; !done && n < 100000; n += n < 60 ? 1 : 23) {
        struct answer *answer = n ? &got : &wanted;
        riffle_grammar *grammar = NULL;
        answer->n = 0;
        answer->bytes = 0;
        begin(session, prompt);
        const struct meter before = *meter;
        meter->calls = 0;
        meter->fail_at = n;
        int64_t code = riffle_grammar_new(&grammar, model, grammars[SCHEMA].kind,
                                          grammars[SCHEMA].text, strlen(grammars[SCHEMA].text));
        options.grammar = grammar;
        if (!code) code = riffle_generate(session, &options, keep, answer);
        done = n && meter->calls < n;
        meter->fail_at = 0;
        CHECK_MSG(!n || done ? code > 0 : code == RIFFLE_ERR_MEMORY,
                  "failing allocation %zu gives %lld: %s", n, (long long)code, riffle_last_error());
        failed += code < 0;
        if (code > 0 && n) check_same_ids(&got, &wanted, "after all allocations");
        riffle_grammar_free(grammar);
        CHECK(n < 60 || meter->blocks_out <= before.blocks_out + 4); /* a cache may have grown */
    }
    CHECK(failed > 60);
    riffle_session_close(session);
}

int main(int argc, char **argv)
{
    static struct file file;
    static struct prompt prompts[N_PROMPTS];
    int every = argc > 1 ? atoi(argv[1]) : 1;
    temporary_path("foreign.gguf", foreign, sizeof foreign);
    snprintf(chain, sizeof chain, "ngram > head > %s > draft > mxfp4", foreign);
    read_model(&file);
    change_places(&file);
    write_model(file.data, file.bytes, foreign);
    struct meter meter = {0};
    riffle_model *model;
    if (CHECK_OK(open_model(&model, &meter)) == 0) {
        make_prompts(model, prompts);
        check_chains(model, prompts, every);
        check_by_hand(model, &prompts[0]);
        check_forced(model, &prompts[1]);
        check_drafted_bytes(model, &prompts[1]);
        if (every == 1) {
            check_errors(model, &prompts[0]);
            check_memory(model, &meter, &prompts[0]);
        }
        riffle_model_close(model);
    }
    check_all_released(&meter, 0, "all");
    if (every == 1) {
        model = open_tiny_model();
        check_threads(model, &prompts[0]);
        riffle_model_close(model);
    }
    remove(foreign);
    return check_result();
}
