/* Perplexity as computed by llama.cpp's tool of that name, so that results can be compared. The
 * text is cut into windows of n_ctx tokens; the remainder is not used. Tokens n_ctx/2 + 1 .. n_ctx
 * - 1 of a window are scored, given all tokens before them in it. BOS replaces the window's first
 * token if the model adds BOS. With a reference, the divergence before each scored token, too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "divergence/reference.h"
#include "divergence/statistics.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/progress.h"
#include "riffle_experimental.h"
#include "session/engine.h"
#include "verbs/verbs.h"

/* A measurement. Either no row is looked at, or all are compared, or all are written. */
struct measuring {
    const struct cli_options *options;
    struct windows windows;
    struct engine engine;
    struct reference reference;
    struct logits_writer writer;
    struct divergence divergence;
    double *logprobs;    /* [tokens scored in a window] */
    double sum, squares; /* over -log p, without a reference */
    uint64_t count;
    const struct slice *slice;
    int status; /* of a callback that stopped a pass with a sentence */
};

static struct estimate own_perplexity(const struct measuring *m)
{
    return m->reference.name ? divergence_own(&m->divergence)
                             : perplexity_of(m->sum, m->squares, (size_t)m->count);
}

static void add_logprob(struct measuring *m, double logprob)
{
    m->sum -= logprob;
    m->squares += logprob * logprob;
}

/* ---- rows ---- */

static int compare_row(void *user, size_t i, const float *logits, size_t n)
{
    struct measuring *m = user;
    const float *row = m->reference.rows + (i - m->slice->first) * n;
    if (divergence_add(&m->divergence, logits, row, n, m->slice->tokens[i]) == 0) return 0;
    m->status = cli_fail("%s: a probability is no number, of the model or of the reference",
                         m->reference.name);
    return 1;
}

static int write_row(void *user, size_t i, const float *logits, size_t n)
{
    struct measuring *m = user;
    add_logprob(m, log_probability(logits, n, m->slice->tokens[i]));
    m->status = logits_writer_next(&m->writer, logits);
    return m->status != CLI_OK;
}

/* A slice of a window. 0 or a code of the library. */
static int score_slice(struct measuring *m, const struct slice *slice)
{
    riffle_session *session = m->engine.session;
    m->slice = slice;
    if (m->options->save_reference)
        return riffle_score_logits(session, slice->tokens, slice->n, slice->first, write_row, m);
    if (m->reference.name) {
        int code = reference_read(&m->reference, slice, &m->engine);
        return code != RIFFLE_OK ? code
                                 : riffle_score_logits(session, slice->tokens, slice->n,
                                                       slice->first, compare_row, m);
    }
    int code = riffle_score(session, slice->tokens, slice->n, slice->first, m->logprobs);
    for (size_t i = 0; code == RIFFLE_OK && i < slice->n - slice->first; i++)
        add_logprob(m, m->logprobs[i]);
    return code;
}

/* ---- windows ---- */

static int score_window(struct measuring *m, int32_t *window)
{
    size_t n_ctx = m->windows.n_ctx, first = n_ctx - scored_of(n_ctx);
    size_t most = m->reference.name ? REFERENCE_ROWS : n_ctx; /* else no row is kept */
    if (m->engine.info.adds_bos) window[0] = m->engine.info.bos_token;
    int code = riffle_rewind(m->engine.session, 0);
    if (code == RIFFLE_OK && m->reference.name) code = reference_rewind(&m->reference);
    for (size_t read = 0, end; code == RIFFLE_OK && read < n_ctx; read = end) {
        size_t from = read > first ? read : first;
        end = n_ctx - from < most ? n_ctx : from + most;
        struct slice slice = {window + read, end - read, from - read};
        code = score_slice(m, &slice);
        progress_clear(&m->engine.progress);
    }
    m->count += n_ctx - first;
    return code;
}

/* CLI_OK, or an exit status with a sentence. */
static int score_windows(struct measuring *m)
{
    struct progress_line progress = {0};
    int code = RIFFLE_OK;
    for (size_t i = 0; i < m->windows.n_windows && code == RIFFLE_OK; i++) {
        char note[96];
        code = score_window(m, m->windows.tokens + i * m->windows.n_ctx);
        if (code != RIFFLE_OK) break;
        snprintf(note, sizeof note, "window %zu of %zu, %.4f so far", i + 1, m->windows.n_windows,
                 own_perplexity(m).value);
        if (progress_update_note(&progress, "perplexity", i + 1, m->windows.n_windows, note))
            code = RIFFLE_ERR_CANCELLED;
    }
    progress_clear(&progress);
    return m->status != CLI_OK ? m->status : cli_status(code);
}

/* ---- figures ---- */

static const struct {
    double share;
    const char *name, *key, *error_key;
} quantiles[] = {{0.5, "median", "median", "median_error"},
                 {0.9, "90 %", "p90", "p90_error"},
                 {0.99, "99 %", "p99", "p99_error"},
                 {0.999, "99.9 %", "p999", "p999_error"}};
enum { N_QUANTILES = sizeof quantiles / sizeof *quantiles };

static void print_line(const char *name, struct estimate estimate)
{
    printf("  %-20s %.6f +/- %.6f\n", name, estimate.value, estimate.error);
}

static void print_divergence(const struct measuring *m)
{
    const struct divergence *d = &m->divergence;
    struct estimate other = divergence_other(d), ratio = divergence_ratio(d),
                    same = divergence_same(d);
    printf("reference  %.4f +/- %.4f (", other.value, other.error);
    print_name(stdout, m->reference.name);
    printf(")\nratio      %.5f +/- %.5f\ndivergence from the reference, in nats:\n", ratio.value,
           ratio.error);
    print_line("mean", divergence_mean(d));
    for (size_t i = 0; i < N_QUANTILES; i++)
        print_line(quantiles[i].name, divergence_quantile(d, quantiles[i].share));
    printf("  %-20s %.6f\n", "maximum", divergence_quantile(d, 1).value);
    printf("same first choice: %.2f %% +/- %.2f\n", 100 * same.value, 100 * same.error);
}

static void write_divergence(const struct measuring *m, struct json_writer *json)
{
    const struct divergence *d = &m->divergence;
    struct estimate other = divergence_other(d), ratio = divergence_ratio(d),
                    same = divergence_same(d), mean = divergence_mean(d);
    jw_put(json, "reference { name %s perplexity %g standard_error %g }", m->reference.name,
           other.value, other.error);
    jw_put(json, "ratio %g ratio_error %g", ratio.value, ratio.error);
    jw_put(json, "divergence { mean %g mean_error %g", mean.value, mean.error);
    for (size_t i = 0; i < N_QUANTILES; i++) {
        struct estimate quantile = divergence_quantile(d, quantiles[i].share);
        jw_number(json, quantiles[i].key, quantile.value);
        jw_number(json, quantiles[i].error_key, quantile.error);
    }
    jw_put(json, "maximum %g }", divergence_quantile(d, 1).value);
    jw_put(json, "same_choice %g same_choice_error %g", same.value, same.error);
}

static void print_figures(struct measuring *m)
{
    struct json_writer json = {0};
    struct estimate own = own_perplexity(m);
    if (m->reference.name) divergence_sort(&m->divergence);
    if (!m->options->json) {
        printf("perplexity %.4f +/- %.4f (%llu tokens scored in %zu windows of %zu)\n", own.value,
               own.error, (unsigned long long)m->count, m->windows.n_windows, m->windows.n_ctx);
        if (m->reference.name) print_divergence(m);
        return;
    }
    jw_put(&json, "{ perplexity %g standard_error %g", own.value, own.error);
    jw_put(&json, "tokens %" PRIu64 " context %d chunks %d", m->count, (int)m->windows.n_ctx,
           (int)m->windows.n_windows);
    if (m->reference.name) write_divergence(m, &json);
    jw_put(&json, "}");
    jw_print(&json);
}

/* ---- a measurement ---- */

static int begin_writing(struct measuring *m)
{
    const char *path = m->options->save_reference;
    int status = logits_writer_open(&m->writer, path, (size_t)m->engine.info.n_vocab);
    return status != CLI_OK ? status
                            : logits_writer_begin(&m->writer, m->windows.tokens, m->windows.n_ctx,
                                                  m->windows.n_windows);
}

static int measure_windows(struct measuring *m)
{
    struct windows *windows = &m->windows;
    const struct cli_options *options = m->options;
    int status = CLI_OK;
    windows->n_windows = windows->n_tokens / windows->n_ctx;
    if (options->chunks && (size_t)options->chunks < windows->n_windows)
        windows->n_windows = (size_t)options->chunks;
    if (windows->n_windows == 0)
        return cli_fail("%s has %zu tokens, fewer than one window of %zu: a longer text or a "
                        "smaller --ctx is needed",
                        windows->input->name, windows->n_tokens, windows->n_ctx);
    if (m->reference.name) status = reference_check(&m->reference, &m->engine, windows);
    if (status == CLI_OK && options->save_reference) status = begin_writing(m);
    if (status == CLI_OK) status = score_windows(m);
    if (status == CLI_OK && m->reference.is_file && logits_file_is_lost(&m->reference.file))
        status = cli_fail("%s: became shorter while it was read", m->reference.name);
    if (status == CLI_OK && options->save_reference) status = logits_writer_finish(&m->writer);
    if (status == CLI_OK) print_figures(m);
    return status;
}

static int measure_text(struct measuring *m)
{
    struct windows *windows = &m->windows;
    const struct input *input = windows->input;
    int64_t n = engine_tokenize(&m->engine, input->text, input->bytes, RIFFLE_TOKENIZE_BOS,
                                &windows->tokens);
    if (n < 0) return cli_status(n);
    windows->n_tokens = (size_t)n;
    m->logprobs = cli_allocate(scored_of(windows->n_ctx), sizeof *m->logprobs);
    int status = measure_windows(m);
    logits_writer_close(&m->writer);
    divergence_free(&m->divergence);
    free(m->logprobs);
    free(windows->tokens);
    return status;
}

int verb_perplexity(const struct cli_options *options)
{
    struct measuring m = {.options = options, .windows.input = &options->input};
    int32_t n_ctx = options->n_ctx;
    int status = reference_open(&m.reference, options, &n_ctx);
    if (status != CLI_OK) return status;
    m.windows.n_ctx = (size_t)n_ctx;
    status = engine_open_session(&m.engine, options, n_ctx);
    if (status == CLI_OK) {
        status = measure_text(&m);
        engine_close(&m.engine);
    }
    reference_close(&m.reference);
    return status;
}
