/* bench --suite: each prompt is answered by plain decoding and by every chain in turn. Clocks and
 * other load change within seconds, so each chain is compared with plain decoding just before and
 * after it. Answers are greedy and of one length, so all must have the same tokens. */
#include "bench/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "bench/summary.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "platform/clock.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

enum { DEFAULT_TOKENS = 160, WARM_UP_TOKENS = 16, WARM_UP_BYTES = 2000, SPARE_TOKENS = 16 };

/* A session with its own chain, and its last answer. */
struct lane {
    riffle_session *session;
    int32_t prompt_tokens, tokens;
    double first_token_seconds, prefill_tps; /* measured when the prompt was last read */
    riffle_stats stats;
    int32_t *ids; /* [max_tokens] */
};

struct suite_run {
    const struct cli_options *options;
    struct bench_suite *results;
    const struct bench_watch *watch; /* NULL: nobody watches */
    size_t prompt;                   /* the current one */
    struct lane *lanes;              /* plain decoding, then each chain */
    struct bench_row *repeat_rows;   /* [n_chains][repeats] of the current prompt */
    struct progress_line progress;
    uint64_t answers_done, answers;
};

/* ---- one answer ---- */

static int lane_on_event(void *user, const riffle_event *event)
{
    double *first_token = user;
    if (*first_token == 0 && event->token >= 0) *first_token = rf_clock_seconds();
    return rf_interrupts() > 0;
}

static int lane_read_prompt(struct suite_run *run, struct lane *lane,
                            const struct bench_prompt *prompt)
{
    riffle_message message = {"user", prompt->text};
    int64_t n = run->results->raw ? engine_prefill(&run->results->engine, lane->session,
                                                   prompt->text, prompt->bytes, RIFFLE_TOKENIZE_BOS)
                                  : riffle_chat_prefill(lane->session, &message, 1);
    progress_hide(&run->results->engine.progress);
    lane->prompt_tokens = (int32_t)n;
    return cli_status(n);
}

/* Keeps the ids and the figures of an answer of n tokens. */
static int lane_keep_answer(struct lane *lane, const struct bench_prompt *prompt, int64_t n,
                            int32_t max_tokens)
{
    const int32_t *ids;
    lane->tokens = riffle_session_tokens(lane->session, &ids) - lane->prompt_tokens;
    if (lane->tokens != n || n > max_tokens)
        return cli_fail("%s: %lld tokens were generated, but %d are in the session", prompt->name,
                        (long long)n, lane->tokens);
    memcpy(lane->ids, ids + lane->prompt_tokens, (size_t)n * sizeof *ids);
    return cli_status(riffle_session_get_stats(lane->session, &lane->stats, sizeof lane->stats));
}

/* Reads the prompt into an empty session, as a user does. */
static int lane_read_afresh(struct suite_run *run, struct lane *lane,
                            const struct bench_prompt *prompt)
{
    int status = cli_status(riffle_rewind(lane->session, 0));
    return status == CLI_OK ? lane_read_prompt(run, lane, prompt) : status;
}

/* Returns to the prompt's end; its last token is read again for the logits. */
static int lane_return_to_prompt(struct lane *lane)
{
    const int32_t *tokens;
    int32_t last = lane->prompt_tokens - 1;
    riffle_session_tokens(lane->session, &tokens);
    int32_t token = tokens[last];
    int status = cli_status(riffle_rewind(lane->session, last));
    return status == CLI_OK ? cli_status(riffle_prefill(lane->session, &token, 1)) : status;
}

/* The time that a draft model takes to read the prompt counts as decoding. `again`: the lane has
 * answered this prompt, and need not read it. Plain decoding alone may do so, as drafts would have
 * read it, too; reading a long text takes longer than its answer. */
static int lane_answer(struct suite_run *run, struct lane *lane, const struct bench_prompt *prompt,
                       int again, int32_t max_tokens)
{
    double first_token = 0;
    char note[96];
    riffle_generate_options generate;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = max_tokens;
    generate.ignore_eos = 1;
    generate.ignore_repetition = 1;

    snprintf(note, sizeof note, "prompt %zu of %zu", run->prompt + 1, run->results->prompts.count);
    progress_update_note(&run->progress, "measuring", run->answers_done++, run->answers, note);
    engine_stops(lane->session);
    if (rf_interrupts() > 0) return CLI_INTERRUPTED;
    riffle_session_reset_stats(lane->session);
    double start = rf_clock_seconds();
    int status = again ? lane_return_to_prompt(lane) : lane_read_afresh(run, lane, prompt);
    if (status != CLI_OK) return status;
    int64_t n = riffle_generate(lane->session, &generate, lane_on_event, &first_token);
    if (rf_interrupts() > 0) return CLI_INTERRUPTED;
    status = n < 0 ? cli_status(n) : lane_keep_answer(lane, prompt, n, max_tokens);
    if (again || status != CLI_OK) return status;
    lane->first_token_seconds = first_token > 0 ? first_token - start : 0;
    lane->prefill_tps = tokens_per_second(lane->stats.prefill_tokens, lane->stats.prefill_seconds);
    return CLI_OK;
}

static int suite_measure_read(struct suite_run *run)
{
    return cli_status(
        bench_read(&run->results->reads, run->results->engine.model, run->results->origin.threads));
}

/* ---- one prompt ---- */

static void compare_tokens(struct bench_row *row, const struct lane *plain, const struct lane *lane)
{
    int32_t n = plain->tokens < lane->tokens ? plain->tokens : lane->tokens, i = 0;
    while (i < n && plain->ids[i] == lane->ids[i]) i++;
    row->differs_at = -1;
    if (i == plain->tokens && i == lane->tokens) return;
    row->differs_at = i;
    row->expected = i < plain->tokens ? plain->ids[i] : -1;
    row->got = i < lane->tokens ? lane->ids[i] : -1;
}

/* Sets the figures that depend on plain decoding before and after the chain. */
static void rate_row(struct bench_row *row, const struct lane *before, const struct lane *after)
{
    double seconds = row->stats.decode_seconds;
    row->plain_seconds = (before->stats.decode_seconds + after->stats.decode_seconds) / 2;
    row->tps = tokens_per_second((uint64_t)row->tokens, seconds);
    row->plain_tps = tokens_per_second((uint64_t)row->tokens, row->plain_seconds);
    row->speedup = seconds > 0 ? row->plain_seconds / seconds : 0;
    row->plain_first_token_seconds = after->first_token_seconds;
    row->plain_prefill_tps = after->prefill_tps;
}

/* Answers once with each chain, then again with plain decoding. The plain lane already holds an
 * answer. Each chain's row is at rows[chain * repeats]. */
static int repeat_once(struct suite_run *run, const struct bench_prompt *prompt,
                       struct bench_row *rows)
{
    struct lane *plain = &run->lanes[0], before = *plain;
    size_t step = (size_t)run->results->repeats;
    int status = CLI_OK;
    for (size_t i = 0; i < run->results->n_chains && status == CLI_OK; i++) {
        struct lane *lane = &run->lanes[1 + i];
        status = lane_answer(run, lane, prompt, 0, run->results->max_tokens);
        struct bench_row *row = &rows[i * step];
        *row = (struct bench_row){.prompt = prompt->name,
                                  .stats = lane->stats,
                                  .prompt_tokens = lane->prompt_tokens,
                                  .tokens = lane->tokens,
                                  .first_token_seconds = lane->first_token_seconds};
        if (status == CLI_OK) compare_tokens(row, plain, lane);
    }
    if (status == CLI_OK) status = lane_answer(run, plain, prompt, 1, run->results->max_tokens);
    for (size_t i = 0; i < run->results->n_chains && status == CLI_OK; i++)
        rate_row(&rows[i * step], &before, plain);
    return status;
}

static int by_speedup(const void *a, const void *b)
{
    double x = ((const struct bench_row *)a)->speedup, y = ((const struct bench_row *)b)->speedup;
    return (x > y) - (x < y);
}

/* The repeat with the median speed-up, and a difference in tokens in any repeat. */
static struct bench_row choose_repeat(struct bench_row *rows, size_t n)
{
    qsort(rows, n, sizeof *rows, by_speedup);
    struct bench_row row = rows[(n - 1) / 2];
    for (size_t i = 0; i < n && row.differs_at < 0; i++) {
        row.differs_at = rows[i].differs_at;
        row.expected = rows[i].expected;
        row.got = rows[i].got;
    }
    return row;
}

/* Plain decoding reads all weights for each token except the first, which the prompt's last pass
 * gives. */
static double row_percent_of_read(const struct suite_run *run, const struct bench_row *row)
{
    double bytes = (double)run->results->engine.info.weight_bytes * (row->tokens - 1);
    return row->plain_seconds > 0 ? 100 * bytes / row->plain_seconds / row->read : 0;
}

static int suite_measure_prompt(struct suite_run *run)
{
    const struct bench_prompt *prompt = &run->results->prompts.items[run->prompt];
    size_t n_repeats = (size_t)run->results->repeats;
    int status = lane_answer(run, &run->lanes[0], prompt, 0, run->results->max_tokens);
    for (size_t i = 0; i < n_repeats && status == CLI_OK; i++)
        status = repeat_once(run, prompt, &run->repeat_rows[i]);
    if (status == CLI_OK) status = suite_measure_read(run);
    if (status != CLI_OK) return status;
    progress_hide(&run->progress);
    for (size_t chain = 0; chain < run->results->n_chains; chain++) {
        struct bench_row *row = &run->results->rows[run->results->n_rows++];
        *row = choose_repeat(&run->repeat_rows[chain * n_repeats], n_repeats);
        row->read = bench_reads_around(&run->results->reads);
        row->percent_of_read = row_percent_of_read(run, row);
        if (run->watch) run->watch->row(run->results);
    }
    return CLI_OK;
}

/* ---- the suite ---- */

/* Joins the chains that the model is opened with: the levels of all, or "auto", whose levels are
 * not known yet. */
static void join_chains(const struct text_list *chains, struct buffer *all)
{
    for (size_t i = 0; i < chains->count; i++) {
        if (strcmp(chains->items[i], "auto") == 0) buffer_clear(all);
        buffer_printf(all, "%s%s", all->count ? ";" : "", chains->items[i]);
        if (strcmp(chains->items[i], "auto") == 0) return;
    }
}

/* Tokens that the longest prompt and its answer need. */
static int suite_count_context(struct suite_run *run, int32_t *n_ctx)
{
    int64_t room = run->results->engine.info.n_ctx_train, most = 0;
    for (size_t i = 0; i < run->results->prompts.count; i++) {
        const struct bench_prompt *prompt = &run->results->prompts.items[i];
        struct buffer text = {0};
        int32_t *tokens;
        int status = bench_prompt_text(&run->results->engine, prompt, run->results->raw, &text);
        if (status != CLI_OK) return status;
        int64_t n = engine_tokenize(&run->results->engine, text.data, text.count,
                                    RIFFLE_TOKENIZE_BOS, &tokens);
        buffer_free(&text);
        free(tokens);
        if (n < 0) return cli_status(n);
        if (n == 0) return cli_fail("the prompt %s is empty", prompt->name);
        int64_t needed = n + run->results->max_tokens + SPARE_TOKENS;
        if (needed > room)
            return cli_fail("the prompt %s takes %lld tokens and its answer %d: the model's "
                            "context holds %lld; --prompts takes the first ones only",
                            prompt->name, (long long)n, run->results->max_tokens, (long long)room);
        if (needed > most) most = needed;
    }
    *n_ctx = (int32_t)most;
    return CLI_OK;
}

static int open_lanes(struct suite_run *run)
{
    const struct text_list *chains = &run->options->chains;
    int32_t n_ctx = 0;
    int status = suite_count_context(run, &n_ctx);
    for (size_t i = 0; i <= run->results->n_chains && status == CLI_OK; i++) {
        struct lane *lane = &run->lanes[i];
        const char *chain = i == 0 ? "none" : chains->count ? chains->items[i - 1] : "auto";
        if (strcmp(chain, "auto") == 0) chain = NULL;
        lane->ids = cli_allocate((size_t)run->results->max_tokens, sizeof *lane->ids);
        status =
            engine_add_session(&run->results->engine, run->options, n_ctx, chain, &lane->session);
        if (status != CLI_OK) break;
        int code = riffle_session_get_stats(lane->session, &lane->stats, sizeof lane->stats);
        status = cli_status(code);
    }
    return status;
}

/* A short answer to the first prompt's beginning warms everything up and is not counted. */
static int suite_warm_up(struct suite_run *run)
{
    const struct bench_prompt *first = &run->results->prompts.items[0];
    size_t most = first->bytes < WARM_UP_BYTES ? first->bytes : WARM_UP_BYTES;
    int32_t tokens =
        run->results->max_tokens < WARM_UP_TOKENS ? run->results->max_tokens : WARM_UP_TOKENS;
    struct buffer text = {0};
    size_t whole = rf_utf8_valid_prefix(first->text, most);
    buffer_append(&text, first->text, whole ? whole : most);
    const struct bench_prompt beginning = {first->name, text.data, text.count};
    int status = CLI_OK;
    for (size_t i = 0; i <= run->results->n_chains && status == CLI_OK; i++)
        status = lane_answer(run, &run->lanes[i], &beginning, 0, tokens);
    buffer_free(&text);
    return status;
}

/* Copies the chains' names and levels from their sessions. */
static void name_chains(const struct suite_run *run)
{
    for (size_t i = 0; i < run->results->n_chains; i++)
        run->results->chains[i].stats = run->lanes[1 + i].stats;
}

static int suite_measure(struct suite_run *run)
{
    struct lane *plain = &run->lanes[0];
    int status = suite_warm_up(run);
    if (status == CLI_OK) status = suite_measure_read(run);
    if (status == CLI_OK) name_chains(run);
    if (status == CLI_OK && run->watch) {
        progress_hide(&run->progress);
        run->watch->head(run->results);
    }
    for (; run->prompt < run->results->prompts.count && status == CLI_OK; run->prompt++) {
        status = suite_measure_prompt(run);
        if (status == CLI_OK && run->options->json && run->prompt == 0)
            status = cli_status(bench_passes(plain->session, plain->prompt_tokens + plain->tokens,
                                             &run->results->figures[PASS]));
    }
    name_chains(run);
    progress_clear(&run->progress);
    return status;
}

static void suite_allocate(struct suite_run *run)
{
    size_t n_prompts = run->results->prompts.count, n_chains = run->results->n_chains,
           n_lanes = 1 + n_chains, n_repeats = (size_t)run->results->repeats;
    run->lanes = cli_allocate(n_lanes, sizeof *run->lanes);
    memset(run->lanes, 0, n_lanes * sizeof *run->lanes);
    run->repeat_rows = cli_allocate(n_chains * n_repeats, sizeof *run->repeat_rows);
    run->results->rows = cli_allocate(n_prompts * n_chains, sizeof *run->results->rows);
    run->results->chains = cli_allocate(n_chains, sizeof *run->results->chains);
    memset(run->results->chains, 0, n_chains * sizeof *run->results->chains);
    run->answers = n_lanes + n_prompts * (1 + n_repeats * n_lanes);
}

static void close_lanes(struct suite_run *run)
{
    engine_stops(NULL);
    for (size_t i = 0; i <= run->results->n_chains; i++) {
        riffle_session_close(run->lanes[i].session);
        free(run->lanes[i].ids);
    }
    free(run->lanes);
    free(run->repeat_rows);
}

/* Opens the model and measures. */
static int suite_open_and_measure(struct suite_run *run)
{
    struct bench_suite *results = run->results;
    struct cli_options with_chain = *run->options;
    struct buffer chains = {0};
    join_chains(&run->options->chains, &chains);
    with_chain.chain = chains.count ? chains.data : "auto";
    int status = engine_open_model(&results->engine, &with_chain, 0);
    buffer_free(&chains);
    if (status != CLI_OK) return status;
    suite_allocate(run);
    status = open_lanes(run);
    if (status == CLI_OK) status = origin_take(&results->origin, run->lanes[0].stats.threads);
    if (status == CLI_OK) status = suite_measure(run);
    if (status == CLI_OK) bench_summarise(results);
    close_lanes(run);
    return status;
}

int bench_suite_measure(struct bench_suite *suite, const struct cli_options *options,
                        const struct bench_watch *watch)
{
    struct suite_run run = {.options = options, .results = suite, .watch = watch};
    *suite = (struct bench_suite){.name = options->suite,
                                  .raw = options->raw,
                                  .n_chains = options->chains.count ? options->chains.count : 1,
                                  .repeats = options->repeats ? options->repeats : 1,
                                  .max_tokens =
                                      options->max_tokens ? options->max_tokens : DEFAULT_TOKENS};
    int status =
        bench_prompts_read(&suite->prompts, options->suite, options->n_prompts, options->raw);
    return status == CLI_OK ? suite_open_and_measure(&run) : status;
}

int bench_suite_check(const struct bench_suite *suite)
{
    for (size_t i = 0; i < suite->n_rows; i++) {
        const struct bench_row *row = &suite->rows[i];
        if (row->differs_at >= 0)
            return cli_fail(
                "the chain %s changed the answer to %s: token %d is %d, plain decoding has %d",
                row->stats.chain, row->prompt, row->differs_at, row->got, row->expected);
    }
    return CLI_OK;
}

void bench_suite_free(struct bench_suite *suite)
{
    engine_close(&suite->engine);
    free(suite->rows);
    free(suite->chains);
    bench_reads_free(&suite->reads);
    bench_prompts_free(&suite->prompts);
}
