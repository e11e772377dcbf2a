/* bench --suite: each prompt is answered by plain decoding and by every chain in turn. Clocks and
 * other load change within seconds, so each chain is compared with plain decoding just before and
 * after it. Answers are greedy and of one length, so all must have the same tokens. */
#include "cli/bench_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_report.h"
#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "platform/clock.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

enum { DEFAULT_TOKENS = 160, WARM_UP_TOKENS = 16, SPARE_TOKENS = 16 };

/* A session with its own chain, and its last answer. The first lane decodes plainly. */
struct lane {
    riffle_session *session;
    int32_t prompt_tokens, tokens;
    double first_token_seconds;
    riffle_stats stats;
    int32_t *ids; /* [max_tokens] */
};

struct suite {
    const struct cli_options *options;
    struct engine engine;
    struct bench_prompts prompts;
    struct bench_report report;
    riffle_stats *chains;
    struct lane *lanes;
    size_t n_lanes;
    struct bench_row *repeats; /* [repeats][chains] of the current prompt */
    struct progress_line progress;
    uint64_t answers_done, answers;
};

/* ---- one answer ---- */

struct first_token {
    int seen;
    double seconds;
};

static int on_event(void *user, const riffle_event *event)
{
    struct first_token *first = user;
    if (!first->seen && event->token >= 0) {
        first->seen = 1;
        first->seconds = rf_clock_seconds();
    }
    return rf_interrupts() > 0;
}

static int read_prompt(struct suite *suite, struct lane *lane, const struct bench_prompt *prompt)
{
    int64_t n;
    if (suite->options->raw) {
        size_t count;
        int32_t *tokens = engine_tokenize(&suite->engine, prompt->text, prompt->bytes,
                                          RIFFLE_TOKENIZE_BOS, &count);
        if (!tokens) return CLI_FAILED;
        int code = riffle_prefill(lane->session, tokens, count);
        n = code < 0 ? code : (int64_t)count;
        free(tokens);
    } else {
        riffle_message message = {"user", prompt->text};
        n = riffle_chat_prefill(lane->session, &message, 1);
    }
    progress_hide(&suite->engine.progress);
    if (n < 0) return cli_library_failed((int)n);
    lane->prompt_tokens = (int32_t)n;
    return CLI_OK;
}

/* Starts from an empty session, as a user does. The time that a draft model takes to read the
 * prompt counts as decoding. */
static int answer(struct suite *suite, struct lane *lane, const struct bench_prompt *prompt,
                  int32_t max_tokens)
{
    struct first_token first = {0};
    riffle_generate_options generate;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = max_tokens;
    generate.ignore_eos = 1;

    engine_stops(lane->session);
    if (rf_interrupts() > 0) return CLI_INTERRUPTED;
    int code = riffle_rewind(lane->session, 0);
    if (code != RIFFLE_OK) return cli_library_failed(code);
    riffle_session_reset_stats(lane->session);
    double start = rf_clock_seconds();
    int status = read_prompt(suite, lane, prompt);
    if (status != CLI_OK) return status;
    int64_t n = riffle_generate(lane->session, &generate, on_event, &first);
    if (rf_interrupts() > 0) return CLI_INTERRUPTED;
    if (n < 0) return cli_library_failed((int)n);
    lane->first_token_seconds = first.seen ? first.seconds - start : 0;

    const int32_t *ids;
    lane->tokens = riffle_session_tokens(lane->session, &ids) - lane->prompt_tokens;
    if (lane->tokens != n || n > max_tokens)
        return cli_fail("%s: %lld tokens were generated, but %d are in the session", prompt->name,
                        (long long)n, lane->tokens);
    memcpy(lane->ids, ids + lane->prompt_tokens, (size_t)lane->tokens * sizeof *ids);
    code = riffle_session_get_stats(lane->session, &lane->stats, sizeof lane->stats);
    return code == RIFFLE_OK ? CLI_OK : cli_library_failed(code);
}

static int measure_read(struct suite *suite, double *read)
{
    struct bench_report *report = &suite->report;
    int code = riffle_measure_read(suite->lanes[0].stats.threads, read);
    if (code != RIFFLE_OK) return cli_library_failed(code);
    report->reads[report->n_reads++] = *read;
    return CLI_OK;
}

static void show_progress(struct suite *suite, size_t prompt)
{
    char note[96];
    snprintf(note, sizeof note, "prompt %zu of %zu", prompt + 1, suite->prompts.count);
    progress_update_note(&suite->progress, "measuring", suite->answers_done++, suite->answers,
                         note);
}

/* ---- one prompt ---- */

static void compare(struct bench_row *row, const struct lane *plain, const struct lane *lane)
{
    int32_t n = plain->tokens < lane->tokens ? plain->tokens : lane->tokens, i = 0;
    while (i < n && plain->ids[i] == lane->ids[i]) i++;
    row->differs_at = -1;
    if (i == plain->tokens && i == lane->tokens) return;
    row->differs_at = i;
    row->expected = i < plain->tokens ? plain->ids[i] : -1;
    row->got = i < lane->tokens ? lane->ids[i] : -1;
}

/* Answers once with each chain, then again with plain decoding; `rows` has one row for each chain.
 * The plain lane already holds an answer. */
static int repeat_once(struct suite *suite, size_t prompt, struct bench_row *rows)
{
    struct lane *plain = &suite->lanes[0];
    struct lane before = *plain;
    int status = CLI_OK;
    for (size_t i = 1; i < suite->n_lanes && status == CLI_OK; i++) {
        struct lane *lane = &suite->lanes[i];
        struct bench_row *row = &rows[i - 1];
        show_progress(suite, prompt);
        status = answer(suite, lane, &suite->prompts.items[prompt], suite->report.max_tokens);
        if (status != CLI_OK) break;
        *row = (struct bench_row){.prompt = prompt,
                                  .chain = i - 1,
                                  .prompt_tokens = lane->prompt_tokens,
                                  .tokens = lane->tokens,
                                  .seconds = lane->stats.decode_seconds,
                                  .first_token_seconds = lane->first_token_seconds,
                                  .stats = lane->stats};
        compare(row, plain, lane);
    }
    if (status != CLI_OK) return status;
    show_progress(suite, prompt);
    status = answer(suite, plain, &suite->prompts.items[prompt], suite->report.max_tokens);
    for (size_t i = 0; i + 1 < suite->n_lanes && status == CLI_OK; i++) {
        rows[i].plain_seconds = (before.stats.decode_seconds + plain->stats.decode_seconds) / 2;
        rows[i].plain_first_token_seconds =
            (before.first_token_seconds + plain->first_token_seconds) / 2;
        rows[i].plain_prefill_tps =
            tokens_per_second(plain->stats.prefill_tokens, plain->stats.prefill_seconds);
    }
    return status;
}

static int by_speedup(const void *a, const void *b)
{
    double x = bench_speedup(a), y = bench_speedup(b);
    return (x > y) - (x < y);
}

/* Reports the repeat with the median speed-up, and a difference in tokens in any repeat. */
static struct bench_row choose_repeat(struct suite *suite, size_t chain)
{
    size_t n_chains = suite->report.n_chains, n = (size_t)suite->report.repeats;
    struct bench_row *sorted = cli_allocate(n, sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = suite->repeats[i * n_chains + chain];
    qsort(sorted, n, sizeof *sorted, by_speedup);
    struct bench_row row = sorted[(n - 1) / 2];
    for (size_t i = 0; i < n && row.differs_at < 0; i++) {
        row.differs_at = sorted[i].differs_at;
        row.expected = sorted[i].expected;
        row.got = sorted[i].got;
    }
    free(sorted);
    return row;
}

static int measure_prompt(struct suite *suite, size_t prompt)
{
    struct bench_report *report = &suite->report;
    double before = report->reads[report->n_reads - 1], after;
    show_progress(suite, prompt);
    int status =
        answer(suite, &suite->lanes[0], &suite->prompts.items[prompt], suite->report.max_tokens);
    for (int32_t i = 0; i < report->repeats && status == CLI_OK; i++)
        status = repeat_once(suite, prompt, suite->repeats + (size_t)i * report->n_chains);
    if (status == CLI_OK) status = measure_read(suite, &after);
    if (status != CLI_OK) return status;
    progress_hide(&suite->progress);
    for (size_t chain = 0; chain < report->n_chains; chain++) {
        struct bench_row *row = &report->rows[report->n_rows++];
        *row = choose_repeat(suite, chain);
        row->read = (before + after) / 2;
        if (!suite->options->json) bench_print_row(report, row);
    }
    return CLI_OK;
}

/* ---- the suite ---- */

/* The chain to open the model with: the one with the most levels, as the others are parts of it.
 * "auto" comes first, as its levels are not known yet. */
static const char *widest(const struct text_list *chains)
{
    const char *found = "auto";
    int most = -1;
    for (size_t i = 0; i < chains->count; i++) {
        int levels = 0;
        for (const char *p = chains->items[i]; *p; p++) levels += *p == '>';
        if (strcmp(chains->items[i], "auto") == 0) return "auto";
        if (strcmp(chains->items[i], "none") == 0) levels = -1;
        if (levels <= most && i > 0) continue;
        most = levels;
        found = chains->items[i];
    }
    return found;
}

/* Tokens that the longest prompt and its answer need. */
static int count_context(struct suite *suite, int32_t *n_ctx)
{
    size_t most = 0;
    for (size_t i = 0; i < suite->prompts.count; i++) {
        const struct bench_prompt *prompt = &suite->prompts.items[i];
        struct buffer text = {0};
        int status = bench_prompt_text(&suite->engine, prompt, suite->options->raw, &text);
        if (status != CLI_OK) return status;
        size_t n;
        int32_t *tokens =
            engine_tokenize(&suite->engine, text.data, text.count, RIFFLE_TOKENIZE_BOS, &n);
        buffer_free(&text);
        if (!tokens) return CLI_FAILED;
        free(tokens);
        size_t room = (size_t)suite->engine.info.n_ctx_train,
               needed = n + (size_t)suite->report.max_tokens;
        if (n == 0) return cli_fail("the prompt %s is empty", prompt->name);
        if (needed + SPARE_TOKENS > room)
            return cli_fail(
                "the prompt %s takes %zu tokens and its answer %d: the model's context holds %zu",
                prompt->name, n, suite->report.max_tokens, room);
        if (needed > most) most = needed;
    }
    *n_ctx = (int32_t)most + SPARE_TOKENS;
    return CLI_OK;
}

static int open_lanes(struct suite *suite)
{
    const struct text_list *chains = &suite->options->chains;
    int32_t n_ctx = 0;
    int status = count_context(suite, &n_ctx);
    if (status != CLI_OK) return status;
    for (size_t i = 0; i < suite->n_lanes; i++) {
        struct lane *lane = &suite->lanes[i];
        const char *chain = i == 0 ? "none" : chains->count ? chains->items[i - 1] : NULL;
        if (chain && strcmp(chain, "auto") == 0) chain = NULL;
        lane->ids = cli_allocate((size_t)suite->report.max_tokens, sizeof *lane->ids);
        status = engine_add_session(&suite->engine, suite->options, n_ctx, chain, &lane->session);
        if (status != CLI_OK) return status;
        int code = riffle_session_get_stats(lane->session, &lane->stats, sizeof lane->stats);
        if (code != RIFFLE_OK) return cli_library_failed(code);
        if (i > 0) suite->chains[i - 1] = lane->stats;
    }
    return CLI_OK;
}

static int measure(struct suite *suite)
{
    struct bench_report *report = &suite->report;
    struct lane *plain = &suite->lanes[0];
    double read;
    /* A short first answer warms everything up and is not counted. */
    int32_t warm_up = report->max_tokens < WARM_UP_TOKENS ? report->max_tokens : WARM_UP_TOKENS;
    int status = CLI_OK;
    for (size_t i = 0; i < suite->n_lanes && status == CLI_OK; i++) {
        show_progress(suite, 0);
        status = answer(suite, &suite->lanes[i], &suite->prompts.items[0], warm_up);
    }
    if (status == CLI_OK && report->options->json) {
        int code = bench_passes(plain->session, plain->prompt_tokens + plain->tokens,
                                report->pass_seconds);
        if (code != RIFFLE_OK) status = cli_library_failed(code);
    }
    if (status == CLI_OK) status = measure_read(suite, &read);
    if (status == CLI_OK && !suite->options->json) {
        progress_hide(&suite->progress);
        bench_print_head(report);
    }
    for (size_t i = 0; i < suite->prompts.count && status == CLI_OK; i++)
        status = measure_prompt(suite, i);
    progress_clear(&suite->progress);
    return status;
}

static void allocate(struct suite *suite)
{
    struct bench_report *report = &suite->report;
    size_t n_prompts = suite->prompts.count, n_chains = suite->n_lanes - 1;
    suite->lanes = cli_allocate(suite->n_lanes, sizeof *suite->lanes);
    memset(suite->lanes, 0, suite->n_lanes * sizeof *suite->lanes);
    suite->chains = cli_allocate(n_chains, sizeof *suite->chains);
    suite->repeats = cli_allocate(n_chains * (size_t)report->repeats, sizeof *suite->repeats);
    report->rows = cli_allocate(n_prompts * n_chains, sizeof *report->rows);
    report->reads = cli_allocate(n_prompts + 1, sizeof *report->reads);
    report->chains = suite->chains;
    report->n_chains = n_chains;
    suite->answers =
        suite->n_lanes + (uint64_t)n_prompts * (1 + (uint64_t)report->repeats * suite->n_lanes);
}

static void close_all(struct suite *suite)
{
    engine_stops(NULL);
    for (size_t i = 0; i < suite->n_lanes; i++) {
        riffle_session_close(suite->lanes[i].session);
        free(suite->lanes[i].ids);
    }
    engine_close(&suite->engine);
    free(suite->lanes);
    free(suite->chains);
    free(suite->repeats);
    free(suite->report.rows);
    free(suite->report.reads);
    bench_prompts_free(&suite->prompts);
}

/* Fails with a sentence about the first difference. */
static int check_identical(const struct bench_report *report)
{
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct bench_row *row = &report->rows[i];
        if (row->differs_at >= 0)
            return cli_fail(
                "the chain %s changed the answer to %s: token %d is %d, plain decoding has %d",
                report->chains[row->chain].chain, report->prompts->items[row->prompt].name,
                row->differs_at, row->got, row->expected);
    }
    return CLI_OK;
}

int bench_suite(const struct cli_options *options)
{
    struct suite suite = {.options = options,
                          .n_lanes = 1 + (options->chains.count ? options->chains.count : 1)};
    struct bench_report *report = &suite.report;
    int status =
        bench_prompts_read(&suite.prompts, options->suite, options->n_prompts, options->raw);
    if (status != CLI_OK) return status;
    report->options = options;
    report->engine = &suite.engine;
    report->prompts = &suite.prompts;
    report->repeats = options->repeats ? options->repeats : 1;
    report->max_tokens = options->max_tokens ? options->max_tokens : DEFAULT_TOKENS;
    struct cli_options with_chain = *options;
    with_chain.chain = widest(&options->chains);
    status = engine_open_model(&suite.engine, &with_chain, 0);
    if (status != CLI_OK) {
        bench_prompts_free(&suite.prompts);
        return status;
    }
    allocate(&suite);
    int code = riffle_machine_get(&report->machine, sizeof report->machine);
    status = code == RIFFLE_OK ? open_lanes(&suite) : cli_library_failed(code);
    if (status == CLI_OK) status = measure(&suite);
    if (status == CLI_OK) {
        if (options->json)
            bench_print_json(report);
        else
            bench_print_summary(report);
        status = check_identical(report);
    }
    close_all(&suite);
    return status;
}
