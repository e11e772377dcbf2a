/* A model on a device with two views, and what the tests of sequences say of the text of one:
 * whatever happened to it, the logits after it are, bit for bit, those after the same text read
 * plainly from its beginning. The tests (test_*.c here) run on every kind of device; an argument
 * "cuda" selects the CUDA devices. */
#ifndef RF_TEST_INFER_SEQUENCE_FIXTURE_H
#define RF_TEST_INFER_SEQUENCE_FIXTURE_H

#include <stdatomic.h>

#include "infer/device.h"
#include "infer/sequence.h"

enum { N_VOCAB = 61, N_EMBD = 32, N_CTX = 600, MAX_ROWS = 96 };

/* Allocations of the size of a cache's block, of layers without a window where layers differ. */
struct meter {
    uint64_t block_bytes;
    int32_t until_failure;   /* allocations of any size up to one that fails; 0: none does */
    int32_t made, out, most; /* so far, not freed, and the most of these at a time */
};

/* A model on a device with two views: of its own weights, and of a cast of them that drafts. */
struct bench {
    const char *name;
    int counts_blocks; /* 1: blocks are the allocator's, not a device's */
    int has_states;    /* layers have states, which are given up behind a text's end */
    int32_t n_layer;
    struct opened opened;
    struct rf_model *cast;
    struct rf_view *view, *draft;
    atomic_int cancel;
    struct meter meter;
    struct rf_allocator allocator;
    int32_t text[N_CTX + 100];
};

/* The model's parameters; its weights are drawn (support/synthetic.h). */
extern const struct rf_params bench_params;
/* The same with the delta rule before and behind a layer with gated attention. */
struct rf_params bench_delta_params(void);

/* The devices of this run: first_device .. end_device - 1. bench_devices[0] is the processor. */
enum { N_DEVICES = 7, FIRST_CUDA = N_DEVICES - 2 };
extern const struct device bench_devices[N_DEVICES];
extern int first_device, end_device, on_cuda;

/* Chooses them. Ends the test as skipped where "cuda" is asked for and there is none. */
void devices_choose(int argc, char **argv);

void bench_open(struct bench *bench, const struct device *device, const struct rf_source *source,
                enum rf_weight_form form, enum rf_kv_type kv);
void bench_close(struct bench *bench); /* all blocks must be back */

/* A made-up model with weights of these types. Ends the test without memory. */
struct rf_source *bench_source(const enum rf_dtype *types, size_t n_types);

/* A made-up model with these parameters. Ends the test without memory. */
struct rf_source *bench_source_of(const struct rf_params *params, const enum rf_dtype *types,
                                  size_t n_types);

/* Opens a bench, checks something and closes it. */
void on_bench(const struct device *device, const struct rf_source *source, enum rf_weight_form form,
              enum rf_kv_type kv, void (*check)(struct bench *));

/* Opens every bench of this run in turn: both models with caches of 16 bits, and a model with
 * caches that quantise on the devices that can; and a model whose layers but one have
 * convolutions. */
void on_every_bench(void (*check)(struct bench *bench));

/* Calls that must not fail. */
struct rf_sequence *sequence_of(struct bench *bench, int32_t n_ctx);
struct rf_sequence *fork_of(struct bench *bench, struct rf_sequence *from);
void prefill(struct bench *bench, struct rf_sequence *sequence, const int32_t *tokens, int32_t n);
void append(struct rf_sequence *sequence, const int32_t *tokens, int32_t n);

/* The logits [N_VOCAB] of the i-th wanted row of the view's last pass, and those after a sequence.
 */
void copy_logits(const struct rf_view *view, int32_t i, float *out);
void copy_answer(struct rf_sequence *sequence, struct rf_view *view, float *out);

/* The logits after tokens[0 .. n), read in order by a fresh sequence. */
void read_plainly(struct bench *bench, const int32_t *tokens, int32_t n, float *out);
void check_logits(struct bench *bench, const float *got, const int32_t *tokens, int32_t n,
                  const char *what);

/* Whether n_read is right for a text that was longer and is cut to its first n tokens: all of them,
 * or where states are given up those before the checkpoint in front of n. */
int is_read_after_cut(const struct bench *bench, int32_t n_read, int32_t n);

/* The sequence goes on from its whole text as one that was read plainly. */
void check_sequence(struct bench *bench, struct rf_sequence *sequence, const char *what);

#endif
