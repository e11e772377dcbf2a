/* Tokens per pass of drafts without a model, along recorded answers: no clock is read, so figures
 * are the same on every machine.
 *
 *     bench_replay MODEL record PROMPTS.jsonl KIND [N [TOKENS]] >> ANSWERS.jsonl
 *     bench_replay MODEL run ANSWERS.jsonl [CORPUS]
 *     bench_replay MODEL pool ANSWERS.jsonl W
 *
 * `record` answers N (20) prompts greedily with TOKENS (160) tokens, in the format of
 * scripts/fit_ngram.py. `run` needs the model's vocabulary alone. `pool` has the model verify, with
 * W more sequences in each pass whose tokens only feed the dictionary (Le et al. 2025, algorithm
 * 1).
 *
 * A tree gets its likeliest rows as long as these are worth their cost, by fixed costs: those of a
 * BF16 pass on Zen 4, as the pace guesses them. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "platform/memory.h"
#include "speculate/corpus.h"
#include "speculate/ngram.h"

enum { MOST_TEXT = 4096, KINDS = 16, POOL_LENGTH = 4, MOST_POOL = 8 };

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

static struct answer answer;
static struct tally tallies[KINDS];

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
    return session->sequence;
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
        must(rf_read(session->view, &ask, 1, &options, NULL, &error), &error);
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

/* Of a pass, with that over one row as 1. */
static double cost_of(int32_t rows)
{
    static const double few[] = {1.00, 1.01, 1.02, 1.03, 1.04, 1.06, 1.08, 1.10,
                                 1.20, 1.30, 1.40, 1.50, 1.58, 1.66, 1.74, 1.82};
    return rows <= 16 ? few[rows - 1] : 1.82 + 0.08 * (rows - 16);
}

/* Keeps the likeliest rows that are worth their cost at `rate` tokens a pass. */
static void keep_worthy(struct rf_draft *draft, double rate)
{
    double p[RF_DRAFT_ROWS], yield = 1.0, best = 1.0 - rate;
    int32_t order[RF_DRAFT_ROWS], n = 0;
    int keep[RF_DRAFT_ROWS] = {0};
    for (int32_t i = 0; i < draft->n; i++)
        p[i] = (double)draft->confidence[i] * (draft->parents[i] < 0 ? 1 : p[draft->parents[i]]);
    rf_draft_order(draft, p, order);
    for (int32_t i = 0; i < draft->n; i++) {
        yield += p[order[i]];
        if (yield - rate * cost_of(i + 2) <= best) continue;
        best = yield - rate * cost_of(i + 2);
        n = i + 1;
    }
    for (int32_t i = 0; i < n; i++) keep[order[i]] = 1;
    rf_draft_filter(draft, keep);
}

/* The row of the draft that follows `at` with that token, or -1. */
static int32_t row_after(const struct rf_draft *draft, int32_t n, int32_t at, int32_t token)
{
    for (int32_t i = at + 1; i < n; i++)
        if (draft->parents[i] == at && draft->tokens[i] == token) return i;
    return -1;
}

struct rates {
    double tokens, cost; /* of recent rounds */
};

static void draft_round(struct rf_ngram *ngram, const struct rf_corpus *corpus,
                        const struct rates *recent, int32_t n, struct rf_draft *draft)
{
    struct rf_draft more;
    rf_ngram_follow(ngram, answer.text, n);
    rf_ngram_draft(ngram, answer.text, n, RF_MAX_DRAFT, draft);
    if (corpus) {
        rf_corpus_draft(corpus, answer.text, n, RF_MAX_DRAFT, &more);
        rf_draft_merge(draft, -1, &more);
    }
    double rate = recent->tokens / recent->cost;
    keep_worthy(draft, rate > 1.0 ? rate : 1.0);
}

static void count_round(struct tally *tally, struct rates *recent, int32_t yield, int32_t rows,
                        int32_t pool_rows)
{
    tally->tokens += yield;
    tally->passes++;
    tally->rows += rows;
    tally->pool_rows += pool_rows;
    tally->cost += cost_of(rows + 1);
    recent->tokens = recent->tokens * 0.94 + yield;
    recent->cost = recent->cost * 0.94 + cost_of(rows + 1);
}

/* Along the answer, whose likely tokens are all that passes tell. */
static void replay(struct rf_ngram *ngram, const struct rf_corpus *corpus, struct tally *tally)
{
    static const struct rf_draft none = {.n = 0};
    struct rates recent = {8.0, 8.0};
    struct rf_draft draft;
    for (int32_t n = answer.n_prompt, yield; n < answer.n; n += yield) {
        draft_round(ngram, corpus, &recent, n, &draft);
        yield = 0;
        for (int32_t at = -1; n + yield < answer.n; yield++) {
            if (yield && at < 0) break;
            rf_ngram_observe(ngram, answer.text, n + yield, &none, &answer.likely[n + yield]);
            at = row_after(&draft, draft.n, at, answer.text[n + yield]);
        }
        count_round(tally, &recent, yield, draft.n, 0);
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

/* The model verifies, and tells what is likely after every row. */
static void replay_with_pool(riffle_session *session, struct rf_ngram *ngram, int32_t w,
                             struct tally *tally)
{
    struct rf_error error;
    struct rf_sequence *sequence = read_prompt(session);
    struct rates recent = {8.0, 8.0};
    struct rf_draft draft;
    struct rf_best best[RF_DRAFT_ROWS + 1];
    struct pool pool = {.w = w};
    int32_t rows[MOST_POOL], path[RF_MAX_DRAFT];
    for (int32_t i = 0; i < w * POOL_LENGTH; i++)
        pool.tokens[i / POOL_LENGTH][i % POOL_LENGTH] = answer.text[(i * 7 + 3) % answer.n_prompt];
    for (int32_t n = answer.n_prompt, kept; n < answer.n; n += kept + 1) {
        draft_round(ngram, NULL, &recent, n, &draft);
        int32_t guesses = draft.n, more = add_pool(&pool, &draft, rows);
        struct rf_ask ask = {.sequence = sequence,
                             .draft = draft.tokens,
                             .parents = draft.parents,
                             .n_text = n,
                             .n_draft = draft.n};
        const struct rf_read_options options = {.n_best = RF_MAX_BEST, .best = best};
        must(rf_read(session->view, &ask, 1, &options, NULL, &error), &error);
        rf_ngram_observe(ngram, answer.text, n, &draft, best);
        kept = verify(&draft, guesses, best, n, path);
        rf_sequence_place(sequence, answer.text + n, kept);
        must(rf_sequence_accept(sequence, session->view, n, path, kept, &error), &error);
        rf_sequence_place(sequence, answer.text + n + kept, 1);
        for (int32_t i = 0; i <= kept; i++) must(rf_sequence_commit(sequence, &error), &error);
        shift_pool(&pool, rows, best);
        count_round(tally, &recent, kept + 1, guesses, more);
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

static void replay_all(riffle_session *session, const char *path, const struct rf_corpus *corpus,
                       int32_t w)
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
            replay_with_pool(session, ngram, w, tally);
        else
            replay(ngram, corpus, tally);
        double rate = (tally->tokens - before.tokens) / (tally->cost - before.cost);
        if (tally->answers == 0 || rate < tally->least) tally->least = rate;
        tally->answers++;
        rf_ngram_free(ngram);
    }
    fclose(file);
    print_tallies();
}

int main(int argc, char **argv)
{
    const char *verb = argc > 3 ? argv[2] : "", *fifth = argc > 4 ? argv[4] : NULL;
    int is_run = strcmp(verb, "run") == 0, is_record = strcmp(verb, "record") == 0,
        is_pool = strcmp(verb, "pool") == 0;
    if ((!is_run && !is_record && !is_pool) || (!is_run && !fifth)) {
        fprintf(stderr, "usage: bench_replay MODEL record PROMPTS.jsonl KIND [N [TOKENS]]\n"
                        "       bench_replay MODEL run ANSWERS.jsonl [CORPUS]\n"
                        "       bench_replay MODEL pool ANSWERS.jsonl W\n");
        return 2;
    }
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    riffle_model *model;
    riffle_session *session = NULL;
    options.chain = is_run && fifth ? "corpus" : "none";
    options.corpus = is_run ? fifth : NULL;
    if (is_run && !fifth) options.flags = RIFFLE_OPEN_HEADER;
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
        replay_all(session, argv[3], model->drafts.corpus,
                   w < 0           ? 0
                   : w < MOST_POOL ? w
                                   : MOST_POOL);
    }
    riffle_session_close(session);
    riffle_model_close(model);
    return 0;
}
