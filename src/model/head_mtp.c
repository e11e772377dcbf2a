/* A draft head that was trained with its target (`mtp`), the layer behind the target's own: what
 * does not depend on its container. The readers of heads call it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/head_reader.h"
#include "model/layout.h"

static void check_target(const struct rf_head_reading *of, struct rf_reading *reading)
{
    const struct rf_params *own = &reading->source->params, *target = &of->target->params;
    if (own->arch != target->arch)
        rf_bad(reading, RF_ERR_ARGUMENT, RF_OF_ANOTHER "it is of a %s, but the target is a %s",
               own->arch_name, target->arch_name);
    if (own->n_layer != target->n_layer)
        rf_bad(reading, RF_ERR_ARGUMENT,
               RF_OF_ANOTHER "it follows %" PRId32 " layers, but the target has %" PRId32,
               own->n_layer, target->n_layer);
    if (own->n_embd != target->n_embd)
        rf_bad(reading, RF_ERR_ARGUMENT,
               RF_OF_ANOTHER "it reads rows of %" PRId32 " values, but the target's have %" PRId32,
               own->n_embd, target->n_embd);
}

void rf_mtp_begin(struct rf_head_reading *of, struct rf_reading *reading, int32_t n)
{
    struct rf_params *params = &reading->source->params;
    if (!reading->code && n != 1)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "a draft head of %" PRId32 " layers for further tokens; one is supported", n);
    if (!reading->code) check_target(of, reading);
    if (!reading->code && params->n_embd % RF_HEAD_WIDTH_STEP)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "a draft head of width %" PRId32 "; multiples of %d are supported", params->n_embd,
               RF_HEAD_WIDTH_STEP);
    if (reading->code || !rf_head_new(of, reading)) return;
    of->head->mtp_layer = params->n_layer;
    of->head->recipe = "trained with the model (mtp)";
    of->head->n_embd_target = params->n_embd;
    of->head->n_vocab_target = of->target->params.n_vocab;
    params->n_layer = 1;
    params->layer_flags = NULL; /* it has attention, and experts where the model has any */
    params->fused = params->delta_tiled = params->conv_rows = 0;
    params->delta_keys = params->delta_values = 0;
    params->delta_key_dim = params->delta_value_dim = 0;
}

/* Leaves the head's own tensors: files have the target's, too, or its embeddings and output. */
static void drop_targets(struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    int32_t n = 0;
    for (int32_t i = 0; i < source->n_tensors; i++) {
        const struct rf_tensor *tensor = &source->tensors[i];
        int is_table = strcmp(tensor->name, RF_TOKEN_EMBD) == 0;
        if (is_table && tensor->ne[1] != of->head->n_vocab_target)
            rf_bad(reading, RF_ERR_ARGUMENT,
                   RF_OF_ANOTHER "its vocabulary has %" PRId64
                                 " tokens, but the target's has %" PRId32,
                   tensor->ne[1], of->head->n_vocab_target);
        if (strncmp(tensor->name, "blk.", 4) == 0 &&
            strtol(tensor->name + 4, NULL, 10) >= of->head->mtp_layer)
            source->tensors[n++] = *tensor;
    }
    source->n_tensors = n;
}

static const struct rf_tensor *find(const struct rf_head_file *head, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%" PRId32 ".%s", head->mtp_layer, name);
    return rf_source_tensor(head->source, full);
}

static int has_bias(const struct rf_head_file *head, const char *name)
{
    char full[32];
    snprintf(full, sizeof full, "%s.bias", name);
    return find(head, full) != NULL;
}

static int is_special(const struct rf_vocab *vocab, int32_t token)
{
    return vocab->types[token] == RF_TOKEN_CONTROL || vocab->types[token] == RF_TOKEN_USER_DEFINED;
}

/* Output rows are most of what a draft reads of a large vocabulary. Where merges made it, low ids
 * are those of the earliest merges, which its makers met most often. So a head without rows of its
 * own or chosen ones reads those of the first CHOSEN_ROWS tokens and of special ones, with which
 * answers end. Other tokens are not drafted. */
static void choose_rows(struct rf_head_reading *of, struct rf_reading *reading)
{
    enum { CHOSEN_ROWS = 65536 };
    const struct rf_vocab *vocab = &of->target->vocab;
    int32_t n = CHOSEN_ROWS;
    if (vocab->kind != RF_VOCAB_BPE || vocab->n_tokens < 2 * CHOSEN_ROWS) return;
    for (int32_t i = CHOSEN_ROWS; i < vocab->n_tokens; i++) n += is_special(vocab, i);
    int32_t *tokens = rf_keep(reading, (size_t)n, sizeof *tokens, "output rows");
    if (!tokens) return;
    of->head->tokens = tokens;
    of->head->n_rows = n;
    for (int32_t i = 0; i < vocab->n_tokens; i++)
        if (i < CHOSEN_ROWS || is_special(vocab, i)) *tokens++ = i;
}

/* Finds what the head has of its own, and which biases its layer has. */
static void find_parts(struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_head_file *head = of->head;
    struct rf_params *params = &reading->source->params;
    head->has_norm = find(head, "nextn.shared_head_norm.weight") != NULL;
    head->has_output = find(head, "nextn.shared_head_head.weight") != NULL;
    head->has_embd = find(head, "nextn.embed_tokens.weight") != NULL;
    params->qkv_bias =
        has_bias(head, "attn_q") || has_bias(head, "attn_k") || has_bias(head, "attn_v");
    params->o_bias = has_bias(head, "attn_output");
    params->ffn_bias =
        has_bias(head, "ffn_gate") || has_bias(head, "ffn_up") || has_bias(head, "ffn_down");
    if (!head->n_rows && !head->has_output) choose_rows(of, reading);
    params->n_vocab = head->n_rows ? head->n_rows : head->n_vocab_target;
    params->tied_output = 0;
    if (head->n_rows && head->has_output)
        rf_bad(reading, RF_ERR_FORMAT,
               "has output rows of its own (nextn.shared_head_head.weight) beside rows of the "
               "target's (riffle.head.output_rows)");
}

#define MTP_SHAPE(field, gguf, role, ne0, ne1, condition) \
    {gguf, RF_WEIGHT_##role, ne0, ne1, (condition) != 0},
#define LAYER_SHAPE(field, gguf, hf, role, ne0, ne1, condition) \
    {gguf, RF_WEIGHT_##role, ne0, ne1, (condition) != 0},

static void check_tensors(const struct rf_head_file *f, struct rf_reading *reading)
{
    const struct rf_source *source = reading->source;
    const struct rf_params *p = &source->params;
    const int32_t layer = 0;
    unsigned char *expected = rf_take(reading, (size_t)source->n_tensors + 1, 1, "tensors");
    const struct rf_layout_shape shapes[] = {RF_EACH_MTP_TENSOR(MTP_SHAPE)
                                                 RF_EACH_LAYER_TENSOR(LAYER_SHAPE)};
    for (size_t i = 0; expected && i < sizeof shapes / sizeof *shapes; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRId32 ".%s", f->mtp_layer, shapes[i].name);
        if (shapes[i].used) rf_layout_expect(reading, expected, name, &shapes[i]);
    }
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++)
        if (!expected[i])
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "tensor %.200s has no place in this draft head as it is computed here",
                   rf_layout_shown(reading, source->tensors[i].name).text);
}

int rf_mtp_check(struct rf_head_reading *of, struct rf_reading *reading)
{
    if (!reading->code) drop_targets(of, reading);
    if (!reading->code) rf_tensors_sort(reading);
    if (!reading->code) find_parts(of, reading);
    if (!reading->code && of->head->target && of->head->target != rf_source_fingerprint(of->target))
        rf_bad(reading, RF_ERR_ARGUMENT, RF_OF_ANOTHER "its fingerprint is %016" PRIx64,
               of->head->target);
    if (!reading->code) check_tensors(of->head, reading);
    return reading->code;
}
