/* Reads what a GGUF file states of vectors: the pooling, and for encoders the gate's function.
 * gguf_params.c calls this. */
#include <inttypes.h>

#include "model/gguf.h"

/* Reads what files of encoders state besides: the gate's function, and the reranker's head,
 * with llama.cpp's defaults. */
static void read_encoder(struct rf_gguf *gguf)
{
    enum { MEAN = 1, CLS = 2 };
    struct rf_params *params = &gguf->reading->source->params;
    if (!params->encoder) return;
    int is_modern = params->arch == RF_ARCH_MODERN_BERT;
    int64_t pooling = rf_gguf_integer(gguf, ".classifier.pooling_type", INT32_MIN, INT32_MAX,
                                      is_modern ? MEAN : CLS);
    if (pooling != MEAN && pooling != CLS)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is %" PRId64 "; known are 1 (mean) and 2 (the first token)", gguf->key,
               pooling);
    params->cls_mean = pooling == MEAN;
    if (!is_modern) return;
    struct rf_str act = rf_gguf_string(gguf, ".hidden_activation", rf_str_of("gelu"));
    int is_silu = rf_str_is(act, "silu");
    if (!is_silu && !rf_str_is(act, "gelu"))
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is \"%.*s\"; of this architecture gelu and silu are supported", gguf->key,
               rf_shown(act), act.data);
    if (is_silu) params->gelu = params->gelu_exact = 0;
}

/* The numbers are llama.cpp's. */
void rf_gguf_read_pooling(struct rf_gguf *gguf)
{
    read_encoder(gguf);
    int64_t named = rf_gguf_integer(gguf, ".pooling_type", INT32_MIN, INT32_MAX, 0);
    static const enum rf_pooling known[] = {RF_POOLING_NONE, RF_POOLING_MEAN, RF_POOLING_CLS,
                                            RF_POOLING_LAST, RF_POOLING_RANK};
    struct rf_source *source = gguf->reading->source;
    int is_known = named >= 0 && named < (int64_t)(sizeof known / sizeof *known);
    int may_be = is_known && (source->params.encoder || named == 1 || named == 3);
    source->pooling = may_be ? known[named] : RF_POOLING_NONE;
    if (source->params.encoder && !is_known)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is %" PRId64 "; known are 0 (none), 1 (mean), 2 (the first token), 3 (the "
               "last) and 4 (a reranker)",
               gguf->key, named);
}
