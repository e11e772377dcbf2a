/* Models in the shapes of published ones, with random weights: what a pass costs does not depend on
 * what the weights say. */
#ifndef RF_BENCH_SHAPES_H
#define RF_BENCH_SHAPES_H

#include "model/source.h"
#include "platform/team.h"

struct shape {
    const char *name;
    enum rf_arch arch;
    int32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab;
    int32_t tied_output;
};

extern const struct shape shape_llama2_7b, shape_llama_68m, shape_qwen25_7b, shape_qwen25_05b;
/* Small ones, to try the program with. */
extern const struct shape shape_small, shape_tiny;

/* Bytes of a model's matrices in BF16. An embedding table of its own is not among them: it lies
 * over the output head, as a pass reads single rows of it. */
uint64_t shape_bytes(const struct shape *shape);

/* All matrices in BF16, filled by the team from a small pool of random numbers, over and over.
 * `shape` must outlive the source, which shape_close frees. */
int shape_open(struct rf_source **source, const struct shape *shape, struct rf_team *team,
               struct rf_error *error);
void shape_close(struct rf_source *source);

#endif
