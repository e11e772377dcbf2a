/* The rows and the summary of a suite as text and JSON. All sums and medians are in the results
 * already. */
#include "bench/suite_report.h"

#include <stdio.h>

#include "bench/plain_json.h"
#include "output/output.h"
#include "session/levels.h"

enum { NAME_WIDTH = 20 };

/* A letter for each chain if there are several. */
static char chain_letter(const struct bench_suite *suite, size_t chain)
{
    return suite->n_chains > 1 ? (char)('A' + chain % 26) : ' ';
}

void bench_suite_print_head(const struct bench_suite *suite)
{
    const riffle_model_info *info = &suite->engine.info;
    struct buffer from = {0};
    char bytes[32];
    origin_machine(&suite->origin, &from);
    buffer_puts(&from, "\n");
    origin_program(&suite->origin, &from);
    print_name(stdout, engine_model_name(&suite->engine));
    printf(", weights %s, %s\n%s\nsuite ", info->weights, human_bytes(info->weight_bytes, bytes),
           from.data);
    buffer_free(&from);
    print_name(stdout, suite->name);
    printf(": %zu prompt%s, %d tokens each", suite->prompts.count,
           plural((int64_t)suite->prompts.count), suite->max_tokens);
    if (suite->repeats > 1) printf(", medians of %d repeats", suite->repeats);
    printf("\n");
    for (size_t i = 0; i < suite->n_chains; i++)
        printf("chain %c %s\n", chain_letter(suite, i), suite->chains[i].stats.chain);
    printf("\n%-*s  %9s %9s %9s  kept of what each level drafted\n", NAME_WIDTH, "prompt",
           "plain t/s", "t/s", "speed-up");
    fflush(stdout);
}

void bench_suite_print_row(const struct bench_suite *suite)
{
    const struct bench_row *row = &suite->rows[suite->n_rows - 1];
    int shown = print_name(stdout, row->prompt);
    printf("%*s%c %9.2f %9.2f %8.2fx ", shown < NAME_WIDTH ? NAME_WIDTH - shown : 1, "",
           chain_letter(suite, (suite->n_rows - 1) % suite->n_chains), row->plain_tps, row->tps,
           row->speedup);
    for (int32_t i = 0; i < row->stats.n_levels - 1; i++) {
        const riffle_level_stats *level = &row->stats.levels[i];
        printf("%s", i > 0 ? ", " : " ");
        print_name(stdout, level->name);
        if (level->drafted)
            printf(" %.0f %% of %llu", 100 * (double)level->accepted / (double)level->drafted,
                   (unsigned long long)level->drafted);
        else
            printf(" -");
    }
    printf("%s\n", row->differs_at >= 0 ? "  TOKENS DIFFER" : "");
    fflush(stdout);
}

/* Levels that draft: all but the target. */
static int32_t chain_count_sources(const struct bench_chain *chain)
{
    return chain->stats.n_levels - 1;
}

static void chain_print_sources(const struct bench_chain *chain)
{
    for (int32_t l = 0; l < chain_count_sources(chain); l++) {
        const riffle_level_stats *source = &chain->stats.levels[l];
        printf("        ");
        print_name(stdout, source->name);
        printf(": %llu of %llu drafted tokens kept (%.0f %%)\n",
               (unsigned long long)source->accepted, (unsigned long long)source->drafted,
               source->drafted ? 100 * (double)source->accepted / (double)source->drafted : 0);
    }
}

static void chain_write_sources(struct json_writer *json, const struct bench_chain *chain)
{
    jw_put(json, "sources [");
    for (int32_t l = 0; l < chain_count_sources(chain); l++) {
        const riffle_level_stats *source = &chain->stats.levels[l];
        jw_put(json, "{ name %s passes %" PRIu64 " drafted %" PRIu64, source->name, source->passes,
               source->drafted);
        jw_put(json, "accepted %" PRIu64 " seconds %g }", source->accepted, source->seconds);
    }
    jw_put(json, "]");
}

static void suite_print_summary(const struct bench_suite *suite)
{
    const double *figures = suite->figures;
    printf("\nplain   %.2f tokens/s, %.1f %% of the read bandwidth (%.1f GB/s), first token after "
           "%.2f s\n",
           figures[DECODE_TPS], figures[PERCENT_OF_READ], bench_reads_median(&suite->reads) / 1e9,
           figures[FIRST_TOKEN]);
    for (size_t i = 0; i < suite->n_chains; i++) {
        const struct bench_chain *chain = &suite->chains[i];
        printf("chain %c %.2f tokens/s, first token after %.2f s; speed-up %.2fx (geometric mean), "
               "least %.2fx (",
               chain_letter(suite, i), chain->tps, chain->first_token_seconds, chain->mean,
               chain->least);
        print_name(stdout, chain->least_prompt);
        if (chain->n_different)
            printf("); tokens DIFFER from plain decoding's in %zu of %zu answers\n",
                   chain->n_different, suite->prompts.count);
        else
            printf("); tokens identical\n");
        chain_print_sources(chain);
    }
}

static void suite_write_row(struct json_writer *json, const struct bench_row *row)
{
    jw_put(json, "{ prompt %s chain %s prompt_tokens %d tokens %d", row->prompt, row->stats.chain,
           row->prompt_tokens, row->tokens);
    jw_put(json, "tps %g plain_tps %g speedup %g", row->tps, row->plain_tps, row->speedup);
    jw_bool(json, "identical", row->differs_at < 0);
    jw_put(json, "first_token_s %g plain_first_token_s %g", row->first_token_seconds,
           row->plain_first_token_seconds);
    jw_put(json, "read_gbps %g percent_of_read %g", row->read / 1e9, row->percent_of_read);
    levels_write(json, &row->stats);
    jw_put(json, "}");
}

static void suite_write_prompt(struct json_writer *json, const struct bench_suite *suite,
                               const struct bench_prompt *prompt)
{
    struct buffer text = {0};
    jw_put(json, "{ name %s", prompt->name);
    if (bench_prompt_text(&suite->engine, prompt, suite->raw, &text) == CLI_OK)
        jw_text(json, "text", text.data, text.count);
    jw_put(json, "}");
    buffer_free(&text);
}

static void suite_write_summary(struct json_writer *json, const struct bench_chain *chain)
{
    jw_put(json, "{ chain %s mean_speedup %g min_speedup %g min_prompt %s", chain->stats.chain,
           chain->mean, chain->least, chain->least_prompt);
    jw_put(json, "tps %g first_token_s %g", chain->tps, chain->first_token_seconds);
    jw_bool(json, "identical", chain->n_different == 0);
    chain_write_sources(json, chain);
    jw_put(json, "}");
}

static void suite_print_json(const struct bench_suite *suite, const struct buffer *notes)
{
    struct json_writer json = {0};
    jw_put(&json, "{");
    bench_write_plain(&json, &suite->engine, &suite->origin, &suite->reads, notes, suite->figures);
    jw_put(&json, "suite %s prompts [", suite->name);
    for (size_t i = 0; i < suite->prompts.count; i++)
        suite_write_prompt(&json, suite, &suite->prompts.items[i]);
    jw_put(&json, "] rows [");
    for (size_t i = 0; i < suite->n_rows; i++) suite_write_row(&json, &suite->rows[i]);
    jw_put(&json, "] summary [");
    for (size_t i = 0; i < suite->n_chains; i++) suite_write_summary(&json, &suite->chains[i]);
    jw_put(&json, "] }");
    jw_print(&json);
}

void bench_suite_report(const struct bench_suite *suite, const struct cli_options *options)
{
    struct buffer notes = {0};
    bench_notes(&suite->reads, suite->figures[PERCENT_OF_READ], suite->engine.info.weight_bytes,
                &notes);
    if (options->json)
        suite_print_json(suite, &notes);
    else
        suite_print_summary(suite);
    print_notes(&notes);
    buffer_free(&notes);
}
