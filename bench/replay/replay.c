/* Tokens per pass of drafts without a model, along recorded answers: no clock is read, so figures
 * are the same on every machine.
 *
 *     bench_replay MODEL record PROMPTS.jsonl KIND [N [TOKENS]] >> ANSWERS.jsonl
 *     bench_replay MODEL run ANSWERS.jsonl [CORPUS|none [COSTS [new]]]
 *     bench_replay MODEL pool ANSWERS.jsonl W|probes [COSTS]
 *
 * `record` answers N (20) prompts greedily with TOKENS (160) tokens, in the format of
 * scripts/fit_ngram.py. `run` needs the model's vocabulary alone. `pool` has the model verify, with
 * W more sequences in each pass whose tokens only feed the dictionary (Le et al. 2025, algorithm
 * 1).
 *
 * The pace chooses the rows of a tree (pace.h), by fixed costs of rows: COSTS. With `new` it begins
 * every answer with its first guesses, as with a new cache folder, and is told what passes cost. A
 * second table says
 * how honest the sources are: the mean of what they said of their rows, what the pace made of it,
 * and the share of rows that were right, each where the rows that it follows were. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "platform/memory.h"
#include "speculate/corpus.h"
#include "speculate/drafters.h"
#include "speculate/ngram.h"
#include "speculate/pace.h"
#include "speculate/tuning.h"

enum { MOST_TEXT = 4096, KINDS = 16, POOL_LENGTH = 4, MOST_POOL = 8 };
enum { NGRAM, CORPUS, SOURCES, TARGET = SOURCES, LEVELS, BINS = 10 };

struct answer {
    char kind[32];
    int32_t text[MOST_TEXT], n_prompt, n;
    struct rf_best likely[MOST_TEXT]; /* [n]: after text[0 .. i), from n_prompt on */
};

/* Sums over the answers of a kind. */
struct tally {
    char kind[32];
    double answers, tokens, passes, rows, pool_rows, cost, least;
};

/* Rows of the drafts of one source, where the rows that they follow are right: by what the source
 * said of them, how many there were, the sum of what it said, and how many were right. */
struct calibration {
    double rows[BINS], said[BINS], paced[BINS], right[BINS];
};

static struct answer answer;
static struct tally tallies[KINDS];
static struct calibration calibrations[SOURCES];

static void must(int64_t code, const struct rf_error *error)
{
    if (code >= 0) return;
    fprintf(stderr, "bench_replay: %s\n", error ? error->text : riffle_last_error());
    exit(1);
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file) return file;
    fprintf(stderr, "bench_replay: %s: cannot open\n", path);
    exit(1);
}

/* ---- recording ---- */

static const char *prompt_of(json_t *line, char *text, size_t bytes)
{
    const char *code = json_string_value(json_object_get(line, "prompt")), *other;
    static const char *const names[] = {"question", "text"};
    if (code && json_object_get(line, "entry_point")) {
        snprintf(text, bytes, "Complete this Python function:\n\n```python\n%s\n```", code);
        return text;
    }
    if (code) return code;
    json_t *turns = json_object_get(line, "turns");
    if (turns) return json_string_value(json_array_get(turns, 0));
    for (int i = 0; i < 2; i++)
        if ((other = json_string_value(json_object_get(line, names[i])))) return other;
    return NULL;
}

static void print_answer(const struct rf_best *likely)
{
    printf("{\"kind\": \"%s\", \"prompt\": [", answer.kind);
    for (int32_t i = 0; i < answer.n_prompt; i++) printf(i ? ", %d" : "%d", answer.text[i]);
    printf("], \"tokens\": [");
    for (int32_t i = answer.n_prompt; i < answer.n; i++)
        printf(i > answer.n_prompt ? ", %d" : "%d", answer.text[i]);
    printf("], \"likely\": [");
    for (int32_t i = answer.n_prompt; i < answer.n; i++) {
        printf(i > answer.n_prompt ? ", [" : "[");
        for (int32_t k = 0; k < likely[i].n; k++)
            printf(
                "%s[%d, %.5f]", k ? ", " : "", likely[i].top[k].token,
                (double)(expf(likely[i].top[k].logit - likely[i].top[0].logit) / likely[i].mass));
        printf("]");
    }
    printf("]}\n");
    fflush(stdout);
}

static struct rf_sequence *read_prompt(riffle_session *session)
{
    must(riffle_rewind(session, 0), NULL);
    must(riffle_prefill(session, answer.text, (size_t)answer.n_prompt), NULL);
    return session->inner->sequence;
}

static void record_one(riffle_session *session, const char *prompt, int32_t n_tokens)
{
    struct rf_error error;
    char text[1 << 16];
    const riffle_message message = {.role = "user", .content = prompt};
    int64_t bytes = riffle_chat_format(session->model, &message, 1, 1, text, sizeof text);
    must(bytes, NULL);
    int64_t n =
        riffle_tokenize(session->model, text, (size_t)bytes,
                        RIFFLE_TOKENIZE_BOS | RIFFLE_TOKENIZE_SPECIAL, answer.text, MOST_TEXT);
    must(n, NULL);
    if (n + n_tokens > MOST_TEXT) return;
    answer.n_prompt = answer.n = (int32_t)n;
    struct rf_sequence *sequence = read_prompt(session);
    for (; answer.n < answer.n_prompt + n_tokens; answer.n++) {
        struct rf_ask ask = {.sequence = sequence, .n_text = answer.n};
        const struct rf_read_options options = {.n_best = RF_MAX_BEST,
                                                .best = &answer.likely[answer.n]};
        must(rf_read(session->inner->view, &ask, 1, &options, NULL, &error), &error);
        answer.text[answer.n] = answer.likely[answer.n].top[0].token;
        must(rf_sequence_append(sequence, &answer.text[answer.n], 1, &error), &error);
    }
    print_answer(answer.likely);
}

static void record(riffle_session *session, const char *path, int32_t n, int32_t n_tokens)
{
    FILE *file = open_file(path);
    static char line[1 << 20], text[1 << 16];
    for (int32_t done = 0; done < n && fgets(line, sizeof line, file); done++) {
        json_t *json = json_loads(line, 0, NULL);
        const char *prompt = prompt_of(json, text, sizeof text);
        if (prompt) record_one(session, prompt, n_tokens);
        json_decref(json);
    }
    fclose(file);
}

/* ---- reading what was recorded ---- */

static int32_t integer_at(json_t *array, size_t i)
{
    return (int32_t)json_integer_value(json_array_get(array, i));
}

static int read_answer(const char *line)
{
    json_t *json = json_loads(line, 0, NULL), *prompt = json_object_get(json, "prompt"),
           *tokens = json_object_get(json, "tokens"), *likely = json_object_get(json, "likely");
    size_t n_prompt = json_array_size(prompt), n = n_prompt + json_array_size(tokens);
    int is_good = n_prompt > 0 && n > n_prompt && n <= MOST_TEXT;
    if (is_good) {
        const char *kind = json_string_value(json_object_get(json, "kind"));
        snprintf(answer.kind, sizeof answer.kind, "%s", kind ? kind : "");
        answer.n_prompt = (int32_t)n_prompt;
        answer.n = (int32_t)n;
    }
    for (size_t i = 0; is_good && i < n; i++) {
        answer.text[i] = i < n_prompt ? integer_at(prompt, i) : integer_at(tokens, i - n_prompt);
        if (i < n_prompt) continue;
        json_t *all = json_array_get(likely, i - n_prompt);
        struct rf_best *best = &answer.likely[i];
        best->n = 0;
        for (size_t k = 0; k < json_array_size(all) && k < RF_MAX_BEST; k++) {
            json_t *one = json_array_get(all, k);
            double p = json_number_value(json_array_get(one, 1));
            if (k == 0) best->mass = (float)(1.0 / p);
            best->top[best->n++] =
                (struct rf_candidate){integer_at(one, 0), logf((float)(p > 1e-5 ? p : 1e-5))};
        }
    }
    json_decref(json);
    return is_good;
}

/* ---- rounds ---- */

/* Costs of passes with 1, 2, 4, 8, 16, 32 and 64 rows, in passes of one row; lines between them. */
enum { COST_POINTS = 7 };
static const struct costs {
    const char *name;
    int is_quantised;
    double at[COST_POINTS];
} costs[] = {{"zen4", 0, {1.00, 1.01, 1.03, 1.10, 1.82, 3.1, 5.7}}, /* BF16, AVX-512 */
             {"amx", 0, {1.00, 1.01, 1.03, 1.06, 1.19, 1.7, 2.7}},  /* BF16, tiles */
             {"q4", 1, {1.00, 1.04, 1.15, 1.47, 2.70, 4.9, 9.4}},   /* Q4_K_M, AVX-512 */
             {"avx2", 1, {1.00, 1.12, 1.70, 2.90, 5.65, 11, 22}}};  /* Q4_K_M, AVX2 */

static struct rf_pace pace;
static const struct costs *costs_of_rows;
static int learns; /* the pace begins with guesses */

static double cost_of(int32_t rows)
{
    int k = 0;
    while (rows > 2 << k) k++;
    double part = (double)(rows - (1 << k)) / (1 << k);
    return costs_of_rows->at[k] + part * (costs_of_rows->at[k + 1] - costs_of_rows->at[k]);
}

static void set_pace(void)
{
    static const struct rf_level_ops no_ops = {0};
    struct rf_level levels[LEVELS] = {
        [NGRAM] = {.ops = &no_ops, .acceptance = rf_tuning.acceptance.ngram},
        [CORPUS] = {.ops = &no_ops, .acceptance = rf_tuning.acceptance.corpus},
        [TARGET] = {.ops = &no_ops,
                    .cost = 1.0,
                    .has_passes = 1,
                    .is_quantised = costs_of_rows->is_quantised}};
    rf_pace_init(&pace, levels, LEVELS);
    for (int32_t rows = 1; !learns && rows <= RF_PACE_ROWS; rows++)
        pace.costs[TARGET].seconds[rows - 1] = cost_of(rows);
    rf_pace_read(&pace, 64, costs_of_rows->at[COST_POINTS - 1]);
}

/* The row of the draft that follows `at` with that token, or -1. */
static int32_t row_after(const struct rf_draft *draft, int32_t n, int32_t at, int32_t token)
{
    for (int32_t i = at + 1; i < n; i++)
        if (draft->parents[i] == at && draft->tokens[i] == token) return i;
    return -1;
}

static int bin_of(double confidence)
{
    static const double ends[BINS - 1] = {0.03, 0.06, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.98};
    int bin = 0;
    while (bin < BINS - 1 && confidence >= ends[bin]) bin++;
    return bin;
}

/* Compares what sources said of the rows after the answer's first n tokens with what came. */
static void calibrate(const struct rf_draft *draft, int32_t n)
{
    for (int32_t at = -1; n < answer.n; n++) {
        for (int32_t i = at + 1; i < draft->n; i++) {
            if (draft->parents[i] != at) continue;
            struct calibration *of = &calibrations[draft->by[i].proposer];
            int bin = bin_of((double)draft->confidence[i]);
            of->rows[bin]++;
            of->said[bin] += (double)draft->confidence[i];
            of->paced[bin] +=
                rf_pace_acceptance(&pace, TARGET, &draft->by[i], (double)draft->confidence[i]);
            of->right[bin] += draft->tokens[i] == answer.text[n];
        }
        at = row_after(draft, draft->n, at, answer.text[n]);
        if (at < 0) return;
    }
}

static void sign(struct rf_draft *draft, int8_t source)
{
    for (int32_t i = 0; i < draft->n; i++) draft->by[i] = (struct rf_proposal){source, source, 0};
}

static void draft_round(struct rf_ngram *ngram, const struct rf_corpus *corpus, int32_t n,
                        struct rf_draft *draft)
{
    struct rf_draft more;
    double value;
    rf_ngram_follow(ngram, answer.text, n);
    rf_ngram_draft(ngram, answer.text, n, RF_MAX_DRAFT, draft);
    sign(draft, NGRAM);
    if (corpus) {
        rf_corpus_draft(corpus, answer.text, n, RF_MAX_DRAFT, &more);
        sign(&more, CORPUS);
        rf_draft_merge(draft, -1, &more);
    }
    calibrate(draft, n);
    rf_pace_offer(&pace, TARGET, draft, &value);
    if (learns && rf_pace_look_at_single(&pace, TARGET, value)) draft->n = 0;
}

/* Tells the pace what became of the draft after the answer's first n tokens. */
static void judge(const struct rf_draft *draft, int32_t n, int32_t yield)
{
    for (int32_t at = -1, end = n + yield; n < end; n++) {
        for (int32_t i = at + 1; i < draft->n; i++)
            if (draft->parents[i] == at)
                rf_pace_judged(&pace, TARGET, &draft->by[i], (double)draft->confidence[i],
                               draft->tokens[i] == answer.text[n]);
        at = row_after(draft, draft->n, at, answer.text[n]);
    }
}

static void count_round(struct tally *tally, const struct rf_draft *draft, int32_t n, int32_t yield,
                        int32_t pool_rows)
{
    tally->tokens += yield;
    tally->passes++;
    tally->rows += draft->n;
    tally->pool_rows += pool_rows;
    tally->cost += cost_of(draft->n + pool_rows + 1);
    if (learns) rf_pace_pass(&pace, TARGET, draft->n + 1, cost_of(draft->n + 1));
    judge(draft, n, yield);
    rf_pace_round(&pace, -1, TARGET, 0, draft->n, yield, 0.0);
}

/* Along the answer, whose likely tokens are all that passes tell. */
static void replay(struct rf_ngram *ngram, const struct rf_corpus *corpus, struct tally *tally)
{
    static const struct rf_draft none = {.n = 0};
    struct rf_draft draft;
    if (learns) set_pace();
    rf_pace_begin(&pace, answer.n - answer.n_prompt);
    for (int32_t n = answer.n_prompt, yield; n < answer.n; n += yield) {
        draft_round(ngram, corpus, n, &draft);
        yield = 0;
        for (int32_t at = -1; n + yield < answer.n; yield++) {
            if (yield && at < 0) break;
            rf_ngram_observe(ngram, answer.text, n + yield, &none, &answer.likely[n + yield]);
            at = row_after(&draft, draft.n, at, answer.text[n + yield]);
        }
        count_round(tally, &draft, n, yield, 0);
    }
}

/* ---- the pool of candidates ---- */

struct pool {
    int32_t w, tokens[MOST_POOL][POOL_LENGTH];
};

/* Adds the candidates as branches. Where a draft has the same rows, they are there already. */
static int32_t add_pool(const struct pool *pool, struct rf_draft *draft, int32_t rows[MOST_POOL])
{
    int32_t before = draft->n;
    for (int32_t i = 0; i < pool->w; i++) {
        rows[i] = -1;
        for (int32_t k = 0, at = -1; k < POOL_LENGTH; k++) {
            int32_t next = row_after(draft, draft->n, at, pool->tokens[i][k]);
            const struct rf_choice choice = {pool->tokens[i][k], 0.0f};
            if (next < 0) next = rf_draft_add(draft, at, &choice, (struct rf_proposal){0});
            if (next < 0) break;
            rows[i] = at = next;
        }
    }
    return draft->n - before;
}

/* Each candidate loses its first token and gets another last one: that which the model finds
 * likeliest among those that no other candidate has. */
static void shift_pool(struct pool *pool, const int32_t *rows, const struct rf_best *best)
{
    for (int32_t i = 0; i < pool->w; i++) {
        const struct rf_best *after = &best[rows[i] + 1];
        int32_t last = after->n ? after->top[0].token : pool->tokens[i][0];
        for (int32_t k = 0, is_new = 0; k < after->n && !is_new; k++) {
            is_new = 1;
            for (int32_t j = 0; j < i; j++)
                is_new &= pool->tokens[j][POOL_LENGTH - 1] != after->top[k].token;
            if (is_new) last = after->top[k].token;
        }
        memmove(pool->tokens[i], pool->tokens[i] + 1, (POOL_LENGTH - 1) * sizeof(int32_t));
        pool->tokens[i][POOL_LENGTH - 1] = last;
    }
}

/* Writes the rows of the draft's first `guesses` that the model keeps; returns how many. */
static int32_t verify(const struct rf_draft *draft, int32_t guesses, const struct rf_best *best,
                      int32_t n, int32_t *path)
{
    int32_t kept = 0;
    for (int32_t at = -1;; kept++) {
        int32_t token = answer.text[n + kept];
        if (best[at + 1].top[0].token != token) {
            fprintf(stderr, "bench_replay: this model does not give the answers\n");
            exit(1);
        }
        if (kept == RF_MAX_DRAFT || n + kept + 1 == answer.n) return kept;
        at = row_after(draft, guesses, at, token);
        if (at < 0) return kept;
        path[kept] = at;
    }
}

/* Rows that only ask what follows a token: as many as the pace takes. */
static int32_t add_probes(struct rf_ngram *ngram, struct rf_draft *draft)
{
    struct rf_draft probes = {.n = 0};
    int32_t tokens[RF_PACE_PROBES], before = draft->n;
    int32_t n = rf_ngram_drafter.ops.probe(ngram, rf_pace_probes(&pace, TARGET, before), tokens);
    for (int32_t i = 0; i < n; i++)
        rf_draft_add(&probes, -1, &(struct rf_choice){tokens[i], 0.0f}, (struct rf_proposal){0});
    rf_draft_merge(draft, -1, &probes);
    return draft->n - before;
}

/* The model verifies, and tells what is likely after every row. */
static void replay_with_pool(riffle_session *session, struct rf_ngram *ngram, int32_t w, int asks,
                             struct tally *tally)
{
    struct rf_error error;
    struct rf_sequence *sequence = read_prompt(session);
    struct rf_draft draft;
    struct rf_best best[RF_DRAFT_ROWS + 1];
    struct pool pool = {.w = w};
    int32_t rows[MOST_POOL], path[RF_MAX_DRAFT];
    rf_pace_begin(&pace, answer.n - answer.n_prompt);
    for (int32_t i = 0; i < w * POOL_LENGTH; i++)
        pool.tokens[i / POOL_LENGTH][i % POOL_LENGTH] = answer.text[(i * 7 + 3) % answer.n_prompt];
    for (int32_t n = answer.n_prompt, kept; n < answer.n; n += kept + 1) {
        draft_round(ngram, NULL, n, &draft);
        int32_t guesses = draft.n,
                more = asks ? add_probes(ngram, &draft) : add_pool(&pool, &draft, rows);
        struct rf_ask ask = {.sequence = sequence,
                             .draft = draft.tokens,
                             .parents = draft.parents,
                             .n_text = n,
                             .n_draft = draft.n};
        const struct rf_read_options options = {.n_best = RF_MAX_BEST, .best = best};
        must(rf_read(session->inner->view, &ask, 1, &options, NULL, &error), &error);
        rf_ngram_observe(ngram, answer.text, n, &draft, best);
        kept = verify(&draft, guesses, best, n, path);
        rf_sequence_place(sequence, answer.text + n, kept);
        must(rf_sequence_accept(sequence, session->inner->view, n, path, kept, &error), &error);
        rf_sequence_place(sequence, answer.text + n + kept, 1);
        for (int32_t i = 0; i <= kept; i++) must(rf_sequence_commit(sequence, &error), &error);
        shift_pool(&pool, rows, best);
        draft.n = guesses;
        count_round(tally, &draft, n, kept + 1, more);
    }
}

/* ---- the program ---- */

static struct tally *tally_of(const char *kind)
{
    int k = 0;
    while (k < KINDS - 1 && tallies[k].answers > 0 && strcmp(tallies[k].kind, kind) != 0) k++;
    snprintf(tallies[k].kind, sizeof tallies[k].kind, "%s", kind);
    return &tallies[k];
}

static void print_tallies(void)
{
    printf("%-8s %8s %12s %11s %11s %9s %7s\n", "kind", "answers", "tokens/pass", "rows/pass",
           "pool rows", "tokens/1", "least");
    for (int k = 0; k < KINDS && tallies[k].answers > 0; k++) {
        const struct tally *t = &tallies[k];
        printf("%-8s %8.0f %12.3f %11.2f %11.2f %9.3f %7.2f\n", t->kind, t->answers,
               t->tokens / t->passes, t->rows / t->passes, t->pool_rows / t->passes,
               t->tokens / t->cost, t->least);
    }
}

static void print_calibration(void)
{
    static const char *const names[SOURCES] = {"ngram", "corpus"};
    printf("\n%-8s %8s %8s %8s %8s\n", "source", "rows", "said", "paced", "right");
    for (int s = 0; s < SOURCES; s++) {
        const struct calibration *of = &calibrations[s];
        for (int b = 0; b < BINS; b++)
            if (of->rows[b] > 0)
                printf("%-8s %8.0f %8.3f %8.3f %8.3f\n", names[s], of->rows[b],
                       of->said[b] / of->rows[b], of->paced[b] / of->rows[b],
                       of->right[b] / of->rows[b]);
    }
}

static void replay_all(riffle_session *session, const char *path, const struct rf_corpus *corpus,
                       int32_t w, int asks)
{
    static char line[1 << 22];
    struct rf_error error;
    FILE *file = open_file(path);
    while (fgets(line, sizeof line, file)) {
        struct rf_ngram *ngram;
        if (!read_answer(line)) continue;
        must(rf_ngram_new(&ngram, MOST_TEXT, &rf_system_allocator, &error), &error);
        struct tally *tally = tally_of(answer.kind), before = *tally;
        if (session)
            replay_with_pool(session, ngram, w, asks, tally);
        else
            replay(ngram, corpus, tally);
        double rate = (tally->tokens - before.tokens) / (tally->cost - before.cost);
        if (tally->answers == 0 || rate < tally->least) tally->least = rate;
        tally->answers++;
        rf_ngram_free(ngram);
    }
    fclose(file);
    print_tallies();
    print_calibration();
}

static const char usage[] =
    "usage: bench_replay MODEL record PROMPTS.jsonl KIND [N [TOKENS]]\n"
    "       bench_replay MODEL run ANSWERS.jsonl [CORPUS|none [COSTS [new]]]\n"
    "       bench_replay MODEL pool ANSWERS.jsonl W|probes [COSTS]\n"
    "COSTS of rows: zen4, amx, q4, avx2, or those of 1, 2, 4, ... 64 rows: 1,1.04,1.15,1.5,3,5,9\n";

/* "1,1.04,1.15,1.47,2.7,4.9,9.4": costs that are not in the table. NULL if they are none. */
static const struct costs *read_costs(const char *text)
{
    static struct costs read = {.name = "given", .is_quantised = 1};
    for (int i = 0; i < COST_POINTS; i++) {
        char *end;
        read.at[i] = strtod(text, &end);
        int ends = i + 1 == COST_POINTS;
        if (end == text || *end != (ends ? 0 : ',') || read.at[i] < (i ? read.at[i - 1] : 1))
            return NULL;
        text = end + !ends;
    }
    return &read;
}

static const struct costs *find_costs(const char *name)
{
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (!name || strcmp(costs[i].name, name) == 0) return &costs[i];
    return read_costs(name);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 3 ? argv[2] : "", *fifth = argc > 4 ? argv[4] : NULL;
    int is_run = strcmp(verb, "run") == 0, is_record = strcmp(verb, "record") == 0,
        is_pool = strcmp(verb, "pool") == 0;
    costs_of_rows = find_costs(is_record || argc < 6 ? NULL : argv[5]);
    learns = is_run && argc > 6 && strcmp(argv[6], "new") == 0;
    if ((!is_run && !is_record && !is_pool) || (!is_run && !fifth) || !costs_of_rows) {
        fputs(usage, stderr);
        return 2;
    }
    set_pace();
    const char *corpus = is_run && fifth && strcmp(fifth, "none") != 0 ? fifth : NULL;
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    riffle_model *model;
    riffle_session *session = NULL;
    options.chain = corpus ? "corpus" : "none";
    options.corpus = corpus;
    if (is_run && !corpus) options.flags = RIFFLE_OPEN_HEADER;
    must(riffle_model_open(&model, argv[1], &options), NULL);
    if (!is_run) {
        riffle_session_options of_session;
        riffle_session_options_init(&of_session, sizeof of_session);
        of_session.n_ctx = MOST_TEXT;
        must(riffle_session_open(&session, model, &of_session), NULL);
    }
    if (is_record) {
        snprintf(answer.kind, sizeof answer.kind, "%s", fifth);
        record(session, argv[3], argc > 5 ? atoi(argv[5]) : 20, argc > 6 ? atoi(argv[6]) : 160);
    } else {
        int32_t w = is_pool ? atoi(fifth) : 0;
        replay_all(session, argv[3], model->engine->drafts.corpus,
                   w < 0           ? 0
                   : w < MOST_POOL ? w
                                   : MOST_POOL,
                   is_pool && strcmp(fifth, "probes") == 0);
    }
    riffle_session_close(session);
    riffle_model_close(model);
    return 0;
}
