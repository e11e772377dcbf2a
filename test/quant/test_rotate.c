/* A rotated model computes what it did; models whose norms a rotation cannot pass are refused. */
#define _GNU_SOURCE
#include "quant/rotate.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/helpers.h"
#include "model/open.h"
#include "model/tensors.h"
#include "open_source.h"
#include "platform/memory.h"
#include "reference/forward.h"
#include "support/synthetic.h"

enum { N = 20, MOST_TENSORS = 128, MOST_LOGITS = N * 1024 };

static float before[MOST_LOGITS], after[MOST_LOGITS];

static void logits_of(const struct rf_source *source, float *logits)
{
    int32_t tokens[N];
    for (int32_t i = 0; i < N; i++) tokens[i] = (i * 37 + 1) % source->params.n_vocab;
    CHECK(N * source->params.n_vocab <= MOST_LOGITS);
    CHECK_INT(reference_logits(source, REFERENCE_EXACT, tokens, N, NULL, NULL, logits), 0);
}

/* The largest difference, in root mean squares of the logits. */
static double difference(int32_t n_vocab)
{
    double most = 0, squares = 0;
    for (int32_t i = 0; i < N * n_vocab; i++) {
        most = fmax(most, fabs((double)before[i] - (double)after[i]));
        squares += (double)before[i] * (double)before[i];
    }
    return most / sqrt(squares / (N * n_vocab));
}

/* The kurtosis of a tensor's values: 3 for normal ones, large where a few are massive. */
static double kurtosis(const struct rf_tensor *tensor, const float *values)
{
    double second = 0, fourth = 0;
    uint64_t n = rf_tensor_elements(tensor);
    for (uint64_t i = 0; i < n; i++) {
        double square = (double)values[i] * (double)values[i];
        second += square / (double)n;
        fourth += square * square / (double)n;
    }
    return fourth / (second * second);
}

/* A tensor after the rotation, whose rows are asked for as they may be. */
static float *rotated(const struct rf_rotation *rotation, const struct rf_tensor *tensor, int whole)
{
    size_t k = (size_t)tensor->ne[0], m = (size_t)(rf_tensor_elements(tensor) / k), split = m / 3;
    float *rows = malloc(m * k * sizeof *rows);
    if (!rows) exit(1);
    if (whole) split = 0;
    if (split) rf_rotate_rows(rotation, tensor, 0, split, rows);
    rf_rotate_rows(rotation, tensor, split, m - split, rows + split * k);
    return rows;
}

static int by_name(const void *a, const void *b) /* the order that rf_source_tensor needs */
{
    return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

/* Biases, a tied head, groups of heads, widths of 8 x 9 and 4 x 3. */
static void computes_the_same(void)
{
    static const enum rf_dtype type = RF_F32;
    static struct rf_tensor tensors[MOST_TENSORS];
    struct rf_params params = synthetic_qwen2();
    params.o_bias = params.ffn_bias = 1;
    struct rf_source *source = synthetic_new(&params, &type, 1), turned;
    struct rf_rotation *rotation;
    struct rf_error error;
    if (!source) exit(1);
    /* Gains of norms that differ, and columns that are massive. */
    struct rf_tensor *gains = (struct rf_tensor *)rf_source_tensor(source, "output_norm.weight");
    for (int64_t i = 0; i < gains->ne[0]; i++) ((float *)gains->data)[i] = 0.5f + 0.02f * (float)i;
    struct rf_tensor *up = (struct rf_tensor *)rf_source_tensor(source, "blk.1.ffn_up.weight");
    for (int64_t i = 0; i < up->ne[1]; i++) ((float *)up->data)[i * up->ne[0] + 5] *= 20;
    CHECK(kurtosis(up, up->data) > 15);

    struct rf_team *team;
    CHECK_INT(rf_team_of(&team, NULL, 2, &rf_system_allocator, &error), 0);
    CHECK_INT(rf_rotation_new(&rotation, source, team, &rf_system_allocator, &error), 0);
    turned = *source;
    turned.tensors = tensors;
    memcpy(tensors, source->tensors, (size_t)source->n_tensors * sizeof *tensors);
    tensors[turned.n_tensors] = *rf_source_tensor(source, RF_TOKEN_EMBD);
    tensors[turned.n_tensors++].name = RF_OUTPUT;
    qsort(tensors, (size_t)turned.n_tensors, sizeof *tensors, by_name);
    turned.params.tied_output = 0;
    int n_turned = 0, whole;
    for (int32_t i = 0; i < turned.n_tensors; i++) {
        if (!rf_rotates(rotation, &tensors[i], &whole)) continue;
        tensors[i].data = rotated(rotation, &tensors[i], whole);
        n_turned++;
    }
    CHECK_INT(n_turned, 3 + 2 * 12); /* all of a layer but the biases of q, k, gate and up */
    CHECK(kurtosis(up, rf_source_tensor(&turned, up->name)->data) < 5);
    logits_of(source, before);
    logits_of(&turned, after);
    double off = difference(params.n_vocab);
    CHECK_MSG(off < 1e-4, "a rotated model's logits are off by %g", off);

    for (int32_t i = 0; i < turned.n_tensors; i++)
        if (rf_rotates(rotation, &tensors[i], &whole)) free((void *)tensors[i].data);
    rf_rotation_free(rotation);
    rf_team_free(team);
    synthetic_free(source);
}

/* The whole way through a file; all matrices get the type, whatever they had. */
static void files(const char *in, const char *out)
{
    riffle_quantize_options options;
    riffle_quantize_options_init(&options, sizeof options);
    options.rotate = 1;
    CHECK_OK(riffle_quantize(in, out, "bf16", &options));
    struct rf_source *source = open_source(in), *turned = open_source(out);
    logits_of(source, before);
    logits_of(turned, after);
    double off = difference(source->params.n_vocab);
    CHECK_MSG(off > 0 && off < 0.1, "%s rotated, in BF16: logits are off by %g", in, off);
    CHECK(rf_source_tensor(turned, RF_OUTPUT) != NULL);
    CHECK_INT(rf_source_tensor(turned, "blk.0.attn_q.weight")->dtype, RF_BF16);
    rf_source_close(source);
    rf_source_close(turned);
    options.rotate = 2;
    CHECK_FAILS(riffle_quantize(in, out, "bf16", &options), RIFFLE_ERR_ARGUMENT);
}

static void refused(const char *in, const char *out, const char *why)
{
    riffle_quantize_options options;
    riffle_quantize_options_init(&options, sizeof options);
    options.rotate = 1;
    CHECK_FAILS(riffle_quantize(in, out, "bf16", &options), RIFFLE_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(riffle_last_error(), why) != NULL, "\"%s\" lacks \"%s\"", riffle_last_error(),
              why);
    CHECK(access(out, F_OK) != 0);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char folder[256], out[300];
    snprintf(folder, sizeof folder, "%s/riffle-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) return 1;
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    computes_the_same();
    files(TINY_MODEL, out);
    files(QUANTISED_MODEL, out);
    files("architectures/granite/model.gguf", out); /* scales embeddings, branches and logits */
    files("architectures/smollm3/model.gguf", out); /* layers without RoPE */
    unlink(out);
    refused("architectures/gemma2/model.gguf", out, "norms behind attention");
    refused("architectures/olmo2/model.gguf", out, "norms behind attention");
    refused("architectures/phi3/model.gguf", out, "fused");
    refused("architectures/lfm2/model.gguf", out, "convolutions");
    refused("architectures/qwen35/model.gguf", out, "delta rule");
    refused("stories260K-latent.gguf", out, "latent attention");
    refused("experts/mixtral.gguf", out, "experts");
    CHECK_INT(rmdir(folder), 0);
    return check_result();
}
