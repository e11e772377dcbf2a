/* Perplexity as computed by llama.cpp's tool of that name, so that results can be compared. The
 * text is cut into windows of n_ctx tokens; the remainder is not used. Tokens n_ctx/2 + 1 .. n_ctx
 * - 1 of a window are scored, given all tokens before them in it. BOS replaces the window's first
 * token if the model adds BOS. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/progress.h"
#include "session/engine.h"
#include "verbs/verbs.h"

enum { DEFAULT_WINDOW = 512 };

struct score {
    double sum, sum_of_squares; /* sums over -log p */
    uint64_t count;
};

static double perplexity_of(const struct score *score)
{
    return exp(score->sum / (double)score->count);
}

/* Standard error of the perplexity: the error of the mean of -log p, propagated through exp. */
static double standard_error_of(const struct score *score)
{
    double n = (double)score->count, mean = score->sum / n;
    double variance = score->sum_of_squares / n - mean * mean;
    return variance > 0 && n > 1 ? sqrt(variance / (n - 1)) * exp(mean) : 0;
}

/* Adds the windows to `score`. 0 or a code of the library. */
static int score_windows(struct engine *engine, int32_t *tokens, size_t n_windows, size_t n_ctx,
                         struct score *score)
{
    size_t first = n_ctx / 2 + 1;
    double *logprobs = cli_allocate(n_ctx - first, sizeof *logprobs);
    struct progress_line progress = {0};
    int code = RIFFLE_OK;
    for (size_t i = 0; i < n_windows && code == RIFFLE_OK; i++) {
        int32_t *window = tokens + i * n_ctx;
        if (engine->info.adds_bos) window[0] = engine->info.bos_token;
        code = riffle_rewind(engine->session, 0);
        if (code == RIFFLE_OK) code = riffle_score(engine->session, window, n_ctx, first, logprobs);
        progress_clear(&engine->progress);
        if (code != RIFFLE_OK) break;
        for (size_t j = 0; j < n_ctx - first; j++) {
            score->sum -= logprobs[j];
            score->sum_of_squares += logprobs[j] * logprobs[j];
        }
        score->count += n_ctx - first;

        char note[96];
        snprintf(note, sizeof note, "window %zu of %zu, %.4f so far", i + 1, n_windows,
                 perplexity_of(score));
        if (progress_update_note(&progress, "perplexity", i + 1, n_windows, note))
            code = RIFFLE_ERR_CANCELLED;
    }
    free(logprobs);
    progress_clear(&progress);
    return code;
}

static void print_score(const struct score *score, size_t n_ctx, size_t n_windows, int as_json)
{
    struct json_writer json = {0};
    if (!as_json) {
        printf("perplexity %.4f +/- %.4f (%llu tokens scored in %zu windows of %zu)\n",
               perplexity_of(score), standard_error_of(score), (unsigned long long)score->count,
               n_windows, n_ctx);
        return;
    }
    jw_put(&json, "{ perplexity %g standard_error %g", perplexity_of(score),
           standard_error_of(score));
    jw_put(&json, "tokens %" PRIu64 " context %d chunks %d }", score->count, (int)n_ctx,
           (int)n_windows);
    jw_print(&json);
}

static int perplexity_measure(struct engine *engine, const struct cli_options *options,
                              size_t n_ctx)
{
    const struct input *input = &options->input;
    int32_t *tokens;
    int64_t n = engine_tokenize(engine, input->text, input->bytes, RIFFLE_TOKENIZE_BOS, &tokens);
    if (n < 0) return cli_status(n);

    int status;
    size_t n_windows = (size_t)n / n_ctx;
    struct score score = {0, 0, 0};
    if (options->chunks && (size_t)options->chunks < n_windows) n_windows = (size_t)options->chunks;
    if (n_windows == 0)
        status = cli_fail("%s has %zu tokens, fewer than one window of %zu: a longer text or a "
                          "smaller --ctx is needed",
                          input->name, (size_t)n, n_ctx);
    else
        status = cli_status(score_windows(engine, tokens, n_windows, n_ctx, &score));
    if (status == CLI_OK) print_score(&score, n_ctx, n_windows, options->json);
    free(tokens);
    return status;
}

int verb_perplexity(const struct cli_options *options)
{
    struct engine engine;
    int32_t n_ctx = options->n_ctx ? options->n_ctx : DEFAULT_WINDOW;
    int status = engine_open_session(&engine, options, n_ctx);
    if (status != CLI_OK) return status;
    status = perplexity_measure(&engine, options, (size_t)n_ctx);
    engine_close(&engine);
    return status;
}
