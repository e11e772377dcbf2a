/* Opens a reference and reads its log-probabilities, from a file or by passes of a model. */
#include "divergence/reference.h"

#include <stdlib.h>
#include <string.h>

#include "divergence/statistics.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "riffle_experimental.h"

static int open_file(struct reference *reference, int32_t *n_ctx)
{
    int status = logits_file_open(&reference->file, reference->name);
    if (status != CLI_OK) return status;
    if (*n_ctx && (size_t)*n_ctx != reference->file.n_ctx) {
        status = cli_fail("%s: has windows of %zu tokens, but --ctx is %d", reference->name,
                          reference->file.n_ctx, *n_ctx);
        logits_file_close(&reference->file);
        return status;
    }
    *n_ctx = (int32_t)reference->file.n_ctx;
    return CLI_OK;
}

static int open_model(struct reference *reference, const struct cli_options *options, int32_t n_ctx)
{
    struct cli_options other = *options;
    other.model = options->reference;
    other.weights = "auto";
    other.activations = "16";
    other.kv = "f16";
    return engine_open_session(&reference->engine, &other, n_ctx);
}

int reference_open(struct reference *reference, const struct cli_options *options, int32_t *n_ctx)
{
    enum { DEFAULT_WINDOW = 512 };
    *reference = (struct reference){.name = options->reference};
    reference->is_file = reference->name && is_logits_file(reference->name);
    int status = reference->is_file ? open_file(reference, n_ctx) : CLI_OK;
    if (!*n_ctx) *n_ctx = DEFAULT_WINDOW;
    if (reference->name && !reference->is_file) status = open_model(reference, options, *n_ctx);
    return status;
}

/* The reference's tokens must begin with all of the windows'. */
static int check_tokens(const struct reference *reference, const struct windows *windows,
                        const int32_t *tokens, size_t n_tokens)
{
    size_t n = windows->n_windows * windows->n_ctx, i = 0;
    while (i < n && i < n_tokens && tokens[i] == windows->tokens[i]) i++;
    if (i == n) return CLI_OK;
    if (reference->is_file)
        return cli_fail("%s: is of another text than %s, or of another vocabulary: token %zu "
                        "differs",
                        reference->name, windows->input->name, i);
    return cli_fail("%s: has another vocabulary than the model: token %zu of %s differs",
                    reference->name, i, windows->input->name);
}

int reference_check(struct reference *reference, const struct engine *engine,
                    struct windows *windows)
{
    const struct input *input = windows->input;
    size_t n_vocab =
        reference->is_file ? reference->file.n_vocab : (size_t)reference->engine.info.n_vocab;
    if (n_vocab != (size_t)engine->info.n_vocab)
        return cli_fail("%s: has a vocabulary of %zu tokens, the model one of %d", reference->name,
                        n_vocab, (int)engine->info.n_vocab);
    reference->rows = cli_allocate(REFERENCE_ROWS * n_vocab, sizeof *reference->rows);
    if (reference->is_file) {
        const struct logits_file *file = &reference->file;
        if (file->n_windows < windows->n_windows) windows->n_windows = file->n_windows;
        return check_tokens(reference, windows, file->tokens, file->n_windows * file->n_ctx);
    }
    int32_t *tokens;
    int64_t n = engine_tokenize(&reference->engine, input->text, input->bytes, RIFFLE_TOKENIZE_BOS,
                                &tokens);
    if (n < 0) return cli_status(n);
    int status = check_tokens(reference, windows, tokens, (size_t)n);
    free(tokens);
    return status;
}

int reference_rewind(struct reference *reference)
{
    return reference->is_file ? RIFFLE_OK : riffle_rewind(reference->engine.session, 0);
}

/* Where the rows of a slice go. */
struct taken {
    struct reference *reference;
    size_t first;
};

static int take_row(void *user, size_t i, const float *logits, size_t n)
{
    const struct taken *taken = user;
    log_probabilities(logits, n, taken->reference->rows + (i - taken->first) * n);
    return 0;
}

int reference_read(struct reference *reference, const struct slice *slice,
                   const struct engine *engine)
{
    if (reference->is_file) {
        for (size_t i = 0; i < slice->n - slice->first; i++)
            logits_file_next(&reference->file, reference->rows + i * reference->file.n_vocab);
        return RIFFLE_OK;
    }
    struct taken taken = {reference, slice->first};
    engine_stops(reference->engine.session);
    int code = riffle_score_logits(reference->engine.session, slice->tokens, slice->n, slice->first,
                                   take_row, &taken);
    engine_stops(engine->session);
    return code;
}

void reference_close(struct reference *reference)
{
    if (reference->is_file)
        logits_file_close(&reference->file);
    else if (reference->engine.model)
        engine_close(&reference->engine);
    free(reference->rows);
    *reference = (struct reference){0};
}
