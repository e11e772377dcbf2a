/* Checks of a draft head that do not depend on its container: it fits its target, and its tensors
 * are exactly those that its pass computes with. Both readers of heads end with it. */
#include <inttypes.h>

#include "model/cursor.h"
#include "model/head_reader.h"
#include "model/layout.h"

struct rf_head_file *rf_head_new(struct rf_head_reading *of, struct rf_reading *reading)
{
    of->head = rf_keep(reading, 1, sizeof *of->head, "draft head");
    if (of->head) of->head->source = reading->source;
    return of->head;
}

static int has_tensor(const struct rf_reading *reading, const char *name)
{
    return rf_source_tensor(reading->source, name) != NULL;
}

/* What a llama's layer may have and a head's not. */
static void check_head_params(struct rf_reading *reading)
{
    const struct rf_params *params = &reading->source->params;
    if (params->n_layer != 1)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "a draft head of %" PRId32 " layers; one is supported",
               params->n_layer);
    if (params->n_expert || params->window)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "a draft head with %s is not supported",
               params->n_expert ? "experts" : "a sliding window");
    if (params->n_ctx_short || params->rope_long_factors)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "a draft head with longrope is not supported");
    if (params->n_embd % RF_HEAD_WIDTH_STEP || params->n_embd > INT32_MAX / 2)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "a draft head of width %" PRId32 "; multiples of %d are supported", params->n_embd,
               RF_HEAD_WIDTH_STEP);
}

/* The width of the target's rows, which else fc tells. */
static void check_target_width(struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_head_file *head = of->head;
    const struct rf_tensor *fc = rf_source_tensor(reading->source, "fc.weight");
    int32_t width = of->target->params.n_embd;
    if (!head->n_embd_target && fc && fc->ne[0] % RF_HEAD_TAPS == 0 &&
        fc->ne[0] / RF_HEAD_TAPS <= INT32_MAX)
        head->n_embd_target = (int32_t)(fc->ne[0] / RF_HEAD_TAPS);
    if (head->n_embd_target && head->n_embd_target != width)
        rf_bad(reading, RF_ERR_ARGUMENT,
               RF_OF_ANOTHER "it reads rows of %" PRId32 " values, but the target's have %" PRId32,
               head->n_embd_target, width);
    head->n_embd_target = width;
    if (width % RF_HEAD_WIDTH_STEP || width > INT32_MAX / RF_HEAD_TAPS)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "a draft head for a target of width %" PRId32 "; multiples of %d are supported",
               width, RF_HEAD_WIDTH_STEP);
}

static void check_target_layers(struct rf_head_reading *of, struct rf_reading *reading)
{
    int32_t n_layer = of->target->params.n_layer;
    for (int i = 0; i < RF_HEAD_TAPS; i++) {
        int64_t layer = of->layers[i];
        if (i && layer <= of->layers[i - 1])
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "reads the inputs of layers %" PRId64 ", %" PRId64 " and %" PRId64
                   " of its target; ascending ones are supported",
                   of->layers[0], of->layers[1], of->layers[2]);
        if (layer < 1)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "reads the input of layer %" PRId64 " of its target; layers from 1 on are "
                   "supported",
                   layer);
        if (layer > n_layer)
            rf_bad(reading, RF_ERR_ARGUMENT,
                   RF_OF_ANOTHER "it reads the input of layer %" PRId64
                                 ", but the target has %" PRId32 " layers",
                   layer, n_layer);
        if (!reading->code) of->head->taps[i] = (int32_t)layer - 1;
    }
}

static void check_against_target(struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_head_file *head = of->head;
    int32_t n_vocab = of->target->params.n_vocab;
    check_target_width(of, reading);
    if (head->n_vocab_target && head->n_vocab_target != n_vocab)
        rf_bad(reading, RF_ERR_ARGUMENT,
               RF_OF_ANOTHER "its vocabulary has %" PRId32 " tokens, but the target's has %" PRId32,
               head->n_vocab_target, n_vocab);
    head->n_vocab_target = n_vocab;
    check_target_layers(of, reading);
    if (reading->code || !head->target) return;
    uint64_t target = rf_source_fingerprint(of->target);
    if (head->target != target)
        rf_bad(reading, RF_ERR_ARGUMENT,
               RF_OF_ANOTHER "that has the fingerprint %016" PRIx64 ", and this one %016" PRIx64,
               head->target, target);
}

static int64_t target_id(const struct rf_head_reading *of, int32_t row)
{
    /* Unsigned: an offset may be any number. */
    uint64_t id = rf_load_le(of->ids + (size_t)row * sizeof(int64_t), sizeof(int64_t));
    return (int64_t)(of->are_offsets ? id + (uint64_t)row : id);
}

/* Ids of the target's vocabulary, none twice. */
static void read_tokens(const struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_head_file *head = of->head;
    int32_t n_vocab = head->n_vocab_target;
    if (of->n_ids > n_vocab)
        rf_bad(reading, RF_ERR_ARGUMENT,
               RF_OF_ANOTHER "it drafts %" PRId32 " tokens, but the target has %" PRId32, of->n_ids,
               n_vocab);
    if (reading->code) return;
    int32_t *tokens = rf_keep(reading, (size_t)of->n_ids, sizeof *tokens, "ids of a draft head");
    unsigned char *seen = rf_take(reading, (size_t)n_vocab, 1, "ids of a draft head");
    for (int32_t i = 0; tokens && seen && i < of->n_ids; i++) {
        int64_t id = target_id(of, i);
        if (id < 0 || id >= n_vocab)
            rf_bad(reading, RF_ERR_ARGUMENT,
                   RF_OF_ANOTHER "row %" PRId32 " of its output is the token %" PRId64
                                 " (d2t), but the target has %" PRId32,
                   i, id, n_vocab);
        else if (seen[id])
            rf_bad(reading, RF_ERR_FORMAT,
                   "two rows of the output are the token %" PRId64 " (tensor d2t)", id);
        if (reading->code) return;
        seen[id] = 1;
        tokens[i] = (int32_t)id;
    }
    head->tokens = tokens;
}

/* Whose the output rows are, and which tokens they stand for. */
static void read_output(struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_head_file *head = of->head;
    struct rf_params *params = &reading->source->params;
    head->has_output = has_tensor(reading, RF_OUTPUT);
    if (head->n_rows && (head->has_output || of->ids))
        rf_bad(reading, RF_ERR_FORMAT,
               "has output rows of its own (output.weight, d2t) beside rows of the target's "
               "(riffle.head.output_rows)");
    if (of->ids && !head->has_output)
        rf_bad(reading, RF_ERR_FORMAT, "tensor d2t names output rows, but the head has none");
    if (reading->code) return;
    params->n_vocab = head->n_rows ? head->n_rows : of->ids ? of->n_ids : head->n_vocab_target;
    if (of->n_vocab && of->n_vocab != params->n_vocab)
        rf_bad(reading, RF_ERR_FORMAT, "states %" PRId32 " output rows, but %s %" PRId32,
               of->n_vocab, of->ids ? "d2t names" : "without d2t there must be", params->n_vocab);
    if (of->ids) read_tokens(of, reading);
}

/* Tensors that a file may have or not, and the width that it needs without its own. */
static void find_optional(struct rf_head_reading *of, struct rf_reading *reading)
{
    struct rf_head_file *head = of->head;
    struct rf_params *params = &reading->source->params;
    params->qkv_bias = has_tensor(reading, "blk.0.attn_q.bias") ||
                       has_tensor(reading, "blk.0.attn_k.bias") ||
                       has_tensor(reading, "blk.0.attn_v.bias");
    params->o_bias = has_tensor(reading, "blk.0.attn_output.bias");
    params->ffn_bias = 0;
    params->tied_output = 0;
    head->has_embd = has_tensor(reading, RF_TOKEN_EMBD);
    if ((!head->has_output || !head->has_embd) && params->n_embd != head->n_embd_target)
        rf_bad(reading, RF_ERR_ARGUMENT,
               "has the width %" PRId32 ", and no %s of its own: the target's have the width "
               "%" PRId32,
               params->n_embd, head->has_embd ? "output rows" : "embeddings", head->n_embd_target);
}

#define HEAD_SHAPE(field, gguf, role, ne0, ne1, condition) \
    {gguf, RF_WEIGHT_##role, ne0, ne1, (condition) != 0},

static void check_tensors(const struct rf_head_file *f, struct rf_reading *reading)
{
    const struct rf_source *source = reading->source;
    const struct rf_params *p = &source->params;
    unsigned char *expected = rf_take(reading, (size_t)source->n_tensors, 1, "tensors");
    const struct rf_layout_shape shapes[] = {RF_EACH_HEAD_TENSOR(HEAD_SHAPE)};
    for (size_t i = 0; expected && i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].used) rf_layout_expect(reading, expected, shapes[i].name, &shapes[i]);
    if (!reading->code)
        rf_layout_rope_factors(reading, expected, "rope_freqs.weight",
                               &reading->source->params.rope.factors);
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++)
        if (!expected[i])
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "tensor %.200s has no place in this draft head as it is computed here",
                   rf_layout_shown(reading, source->tensors[i].name).text);
}

int rf_head_check(struct rf_head_reading *of, struct rf_reading *reading)
{
    if (!reading->code) check_head_params(reading);
    if (!reading->code) rf_tensors_sort(reading);
    if (!reading->code) check_against_target(of, reading);
    if (!reading->code) read_output(of, reading);
    if (!reading->code) find_optional(of, reading);
    if (!reading->code) check_tensors(of->head, reading);
    return reading->code;
}
