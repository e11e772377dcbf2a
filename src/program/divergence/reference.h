/* The other side that a model's probabilities are compared with: a file of log-probabilities, or
 * another model, which reads the same tokens beside it. The verb perplexity opens one. */
#ifndef DIVERGENCE_REFERENCE_H
#define DIVERGENCE_REFERENCE_H

#include "divergence/logits_file.h"
#include "session/engine.h"

enum { REFERENCE_ROWS = 64 /* tokens whose log-probabilities are in memory at a time */ };

struct reference {
    const char *name; /* as it was given */
    int is_file;
    struct logits_file file;
    struct engine engine;
    float *rows; /* [REFERENCE_ROWS][vocabulary] */
};

/* Windows of a text: tokens [n_windows][n_ctx]. */
struct windows {
    const struct input *input;
    int32_t *tokens; /* [n_tokens] */
    size_t n_tokens, n_ctx, n_windows;
};

/* Tokens that follow one another in a window: those from `first` on are scored, REFERENCE_ROWS at
 * most. */
struct slice {
    const int32_t *tokens;
    size_t n, first;
};

/* Opens options->reference. A model there computes with weights as they are stored, 16-bit
 * activations and an F16 cache. *n_ctx, 0 where no option says it, becomes a file's. CLI_OK, or an
 * exit status with a sentence and nothing open. */
int reference_open(struct reference *reference, const struct cli_options *options, int32_t *n_ctx);
/* Checks that it has the vocabulary of `engine` and the windows' tokens. A file with fewer windows
 * than the text lowers their number. CLI_OK, or an exit status with a sentence. */
int reference_check(struct reference *reference, const struct engine *engine,
                    struct windows *windows);
/* The next window begins. 0 or a code of the library. */
int reference_rewind(struct reference *reference);
/* Writes the log-probabilities before the slice's scored tokens to reference->rows. Slices follow
 * one another, all of the windows'. 0 or a code of the library. An interrupt stops the reference's
 * session meanwhile, afterwards the one of `engine`. */
int reference_read(struct reference *reference, const struct slice *slice,
                   const struct engine *engine);
void reference_close(struct reference *reference);

#endif
