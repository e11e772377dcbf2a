/* The architectures: one row each, for both containers (docs/design/architecture.md). */
#ifndef RF_MODEL_ARCH_H
#define RF_MODEL_ARCH_H

#include "model/reader.h"

/* Keys and tensors of a file that change the computation; a file whose architecture has none of a
 * group may not have them. */
enum rf_arch_keys {
    RF_KEYS_SCALES = 1,        /* factors of embeddings, residuals, scores and logits */
    RF_KEYS_CAPS = 2,          /* caps of scores and logits */
    RF_KEYS_WINDOW = 4,        /* a sliding window */
    RF_KEYS_EXPERTS = 8,       /* numbers of experts */
    RF_KEYS_SHARED = 16,       /* the width of an expert that every row has */
    RF_KEYS_LLAMA3 = 32,       /* GGUF: llama3's scaling as the tensor rope_freqs.weight */
    RF_KEYS_LONGROPE = 64,     /* GGUF: longrope's two sets of factors as tensors */
    RF_KEYS_CONV = 128,        /* layers with convolutions, and how many rows those read */
    RF_KEYS_LOGITS = 256,      /* a factor of logits; as part of RF_KEYS_SCALES it is a divisor */
    RF_KEYS_TEMPERATURE = 512, /* growth of queries with the position, and YaRN's mscale_all_dim */
    RF_KEYS_DELTA = 1024,      /* layers with the delta rule, and its sizes */
    RF_KEYS_MAMBA = 2048,      /* layers with Mamba-2, and its sizes */
    RF_KEYS_LATENT = 4096,     /* sizes of latent attention, groups of experts, their scale and
                                  norm, YaRN's mscale_all_dim as a factor of scores */
    RF_KEYS_LAYERS = 8192      /* sizes that differ between layers, and a cap of logits */
};

struct rf_arch_row {
    enum rf_arch arch;
    const char *name; /* general.architecture */
    enum rf_rope_style gguf_rope;
    unsigned keys;           /* bits of enum rf_arch_keys */
    struct rf_params traits; /* the fields that the architecture alone decides */
    uint8_t flags[2];        /* enum rf_layer_flag of most layers, and of every `period`-th */
    int32_t period, odd_one; /* layer i is the odd one where i % period == odd_one; 0: none is */
    int by_window;           /* layers only differ where the file has a window */
    int sqrt_embedding;      /* embeddings are multiplied by sqrt(n_embd) */
    int yarn_is_exact;       /* YaRN's ramp may end within a pair */
    int32_t n_layer_27b;     /* GGUF: a model of so many layers divides scores by
                                sqrt(n_embd / n_head), for which no key exists */
};

/* Ends with a row without a name. */
extern const struct rf_arch_row rf_arch_rows[];

const struct rf_arch_row *rf_arch_row(enum rf_arch arch);
/* Sets the fields that the architecture decides. */
void rf_arch_begin(struct rf_params *params, const struct rf_arch_row *row);
/* Sets those that also depend on other parameters, all of which are read by now: flags of layers
 * from the row unless the file had its own, and what an architecture computes from its sizes. */
void rf_arch_end(struct rf_reading *reading);
/* The flags of all layers, to be changed: at first all have the window. NULL after a failure. */
uint8_t *rf_arch_own_flags(struct rf_reading *reading);

#endif
