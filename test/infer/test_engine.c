/* The forward pass of every tier that this machine has, against reference/forward.c and against
 * itself. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "microkernels/kernels.h"
#include "model/open.h"
#include "platform/cpu.h"
#include "reference/forward.h"
#include "support/check.h"
#include "support/engine.h"
#include "support/synthetic.h"

/* Engine and reference round at the same places; they differ in the order of F32 sums, by 1e-7, and
 * where that moves an activation over a BF16 border, by a step of 2^-8 in that one activation,
 * which later layers and positions see. The largest relative error seen so is 7e-3; a wrong
 * rotation, bias, head or norm gives 2e-2 to 2. */
#define TOLERANCE 1.2e-2
/* Where activations are rounded to 8 bits the step is 2^-7 of the largest of 32: 1.0e-2 seen. (Of
 * normally distributed rows the whole of that rounding is worth 5e-3 of a layer's result; the
 * reference does it too.) */
#define TOLERANCE_8_BITS 1.8e-2
/* A position whose activations crossed no border agrees to the sums' 1e-7. In the first layer there
 * are always some (a quarter at least, seen), and none at all when a single rounding is missing or
 * in another place. */
#define SAME 1e-5

/* Enough that positions cross the border between two chunks of attention (256). */
enum { N_TOKENS = 272, MAX_ROWS = N_TOKENS };

/* Makes room for the logits of all rows of a pass; the engine's own passes need fewer. */
static void answer_all_rows(struct engine *engine)
{
    const struct rf_backend_ops *ops = engine->backend->ops;
    struct rf_view *wide, *narrow = engine->view;
    struct rf_view_shape shape = narrow->shape;
    struct rf_error error;
    shape.max_logits = shape.max_rows;
    CHECK_INT(ops->view_new(&wide, engine->queue, &shape, &error), 0);
    wide->backend = engine->backend;
    wide->shape = shape;
    wide->source = narrow->source;
    ops->view_free(narrow); /* the program stays, for rf_view_free */
    engine->view = wide;
}

static void open_plain(struct engine *engine, const struct rf_source *source,
                       enum rf_weight_form form, enum rf_tier tier, int threads, enum rf_kv_type kv)
{
    const struct rf_view_options view = {.kv = kv, .max_rows = MAX_ROWS};
    engine_open(engine, source, form, (int)tier, threads, N_TOKENS, &view);
    answer_all_rows(engine);
}

/* Reads tokens[first .. first + n_rows) at their positions and copies their logits to
 * [n_rows][n_vocab]. */
static void read_logits(struct engine *engine, const int32_t *tokens, int32_t first, int32_t n_rows,
                        float *logits)
{
    const struct rf_rows rows = {.tokens = tokens + first, .n = n_rows, .first_pos = first};
    size_t n_vocab = (size_t)engine->model->source->params.n_vocab;
    CHECK_INT(engine_read(engine, rows, 0, n_rows), 0);
    for (int32_t i = 0; i < n_rows; i++)
        memcpy(logits + (size_t)i * n_vocab, engine_logits(engine, i), n_vocab * sizeof *logits);
}

/* ---- against the reference ---- */

/* Hidden states [n_layer][N_TOKENS][n_embd], of the one or the other. */
struct trace {
    float *hidden;
    int32_t n_embd;
};

static float *trace_row(const struct trace *trace, int32_t layer, int32_t position)
{
    return trace->hidden + ((size_t)layer * N_TOKENS + (size_t)position) * (size_t)trace->n_embd;
}

/* The outputs of all layers in the last pass, over N_TOKENS rows; tap 0 is the embedding. */
static void trace_engine(struct engine *engine, const struct trace *trace)
{
    struct rf_error error;
    int32_t n_layer = engine->model->source->params.n_layer;
    for (int32_t layer = 0; layer < n_layer; layer++)
        for (int32_t i = 0; i < N_TOKENS; i++) {
            const float *row;
            CHECK_INT(engine->backend->ops->tap(engine->view, layer + 1, i, &row, &error), 0);
            memcpy(trace_row(trace, layer, i), row, (size_t)trace->n_embd * sizeof *row);
        }
}

static void trace_reference(void *user, int32_t layer, int32_t position, const float *hidden)
{
    const struct trace *trace = user;
    memcpy(trace_row(trace, layer, position), hidden, (size_t)trace->n_embd * sizeof(float));
}

/* |a - b| / |b| over n elements. */
static double relative_error(const float *a, const float *b, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(off / size);
}

/* A model, the tokens it reads, and what the reference makes of them. */
struct subject {
    const char *name;
    const struct rf_source *source;
    enum rf_weight_form form;
    int32_t tokens[N_TOKENS];
    struct trace reference;
    float *logits; /* [N_TOKENS][n_vocab] */
};

static float *floats(size_t n)
{
    float *values = calloc(n, sizeof *values);
    if (!values) exit(1);
    return values;
}

static void check_off(const struct subject *subject, enum rf_tier tier, const char *what,
                      int32_t layer, int32_t position, double off, double *worst)
{
    double tolerance = subject->form == RF_WEIGHTS_BF16 ? TOLERANCE : TOLERANCE_8_BITS;
    CHECK_MSG(off < tolerance, "%s, %s: the %s of layer %d at position %d is off by %.1e",
              subject->name, rf_tier_name(tier), what, layer, position, off);
    *worst = off > *worst ? off : *worst;
}

/* In the last pass. */
static void embeddings_are_rows_of_the_table(const struct subject *subject, struct engine *engine)
{
    const struct rf_tensor *table = rf_source_tensor(subject->source, "token_embd.weight");
    size_t n = (size_t)subject->source->params.n_embd,
           bytes = (size_t)(table->bytes / (uint64_t)subject->source->params.n_vocab);
    float *wanted = floats(n);
    struct rf_error error;
    for (int32_t i = 0; i < N_TOKENS; i++) {
        const float *got;
        rf_dequantize_f32(table->dtype,
                          (const char *)table->data + (size_t)subject->tokens[i] * bytes, wanted,
                          n);
        for (size_t j = 0; subject->form == RF_WEIGHTS_BF16 && j < n; j++)
            wanted[j] = rf_bf16_to_f32(rf_f32_to_bf16(wanted[j]));
        CHECK_INT(engine->backend->ops->tap(engine->view, 0, i, &got, &error), 0);
        CHECK_MSG(memcmp(got, wanted, n * sizeof *got) == 0, "%s: the embedding at position %d",
                  subject->name, i);
    }
    free(wanted);
}

static void every_layer_agrees(const struct subject *subject, enum rf_tier tier)
{
    const struct rf_params *p = &subject->source->params;
    size_t n_embd = (size_t)p->n_embd, n_vocab = (size_t)p->n_vocab;
    float *hidden = floats((size_t)p->n_layer * N_TOKENS * n_embd),
          *logits = floats(N_TOKENS * n_vocab);
    int32_t taps[RF_MAX_TAPS];
    for (int32_t layer = -1; layer < p->n_layer; layer++) taps[layer + 1] = layer;
    const struct rf_view_options view = {
        .max_rows = MAX_ROWS, .taps = taps, .n_taps = p->n_layer + 1};
    const struct trace trace = {.hidden = hidden, .n_embd = p->n_embd};
    struct engine engine;
    engine_open(&engine, subject->source, subject->form, (int)tier, 2, N_TOKENS, &view);
    answer_all_rows(&engine);
    read_logits(&engine, subject->tokens, 0, N_TOKENS, logits);
    trace_engine(&engine, &trace);
    embeddings_are_rows_of_the_table(subject, &engine);
    engine_close(&engine);

    double worst = 0;
    int32_t same = 0;
    for (int32_t i = 0; i < N_TOKENS; i++) {
        for (int32_t layer = 0; layer < p->n_layer; layer++) {
            double off = relative_error(trace_row(&trace, layer, i),
                                        trace_row(&subject->reference, layer, i), n_embd);
            check_off(subject, tier, "output", layer, i, off, &worst);
            same += layer == 0 && off < SAME;
        }
        size_t row = (size_t)i * n_vocab;
        check_off(subject, tier, "logits", p->n_layer, i,
                  relative_error(logits + row, subject->logits + row, n_vocab), &worst);
    }
    CHECK_MSG(same > N_TOKENS / 10, "%s, %s: only %d positions are the same after the first layer",
              subject->name, rf_tier_name(tier), same);
    printf("%s, %s: off by at most %.1e\n", subject->name, rf_tier_name(tier), worst);
    free(hidden);
    free(logits);
}

/* ---- against itself ---- */

/* The logits of every token: the first `begin` read in one pass, the others in passes of `rows`
 * rows. */
static void read_in_passes(struct engine *engine, const int32_t *tokens, int32_t begin,
                           int32_t rows, float *logits)
{
    size_t n_vocab = (size_t)engine->model->source->params.n_vocab;
    for (int32_t at = 0, n = begin ? begin : rows; at < N_TOKENS; at += n, n = rows) {
        if (n > N_TOKENS - at) n = N_TOKENS - at;
        read_logits(engine, tokens, at, n, logits + (size_t)at * n_vocab);
    }
}

/* `thorough`: every reading of the list, else the first few. */
static void rows_are_independent(const struct subject *subject, enum rf_tier tier,
                                 enum rf_kv_type kv, int thorough)
{
    enum { BEGIN = 240 }; /* small passes need to be seen on both sides of a chunk's border only */
    /* The first reading is what the others are compared with. */
    static const struct {
        int threads;
        int32_t begin, rows;
    } readings[] = {{1, 0, 1},        {2, 0, N_TOKENS}, {3, BEGIN, 16},  {2, BEGIN, 7},
                    {1, 0, N_TOKENS}, {2, BEGIN, 1},    {2, BEGIN, 2},   {2, BEGIN, 3},
                    {2, BEGIN, 5},    {2, BEGIN, 8},    {2, 0, 16},      {2, 0, 33},
                    {2, 0, 64},       {3, BEGIN, 4},    {3, 0, N_TOKENS}};
    size_t n_vocab = (size_t)subject->source->params.n_vocab;
    float *first = floats(N_TOKENS * n_vocab), *other = floats(N_TOKENS * n_vocab);
    for (size_t k = 0; k < (thorough ? sizeof readings / sizeof *readings : 4); k++) {
        struct engine engine;
        open_plain(&engine, subject->source, subject->form, tier, readings[k].threads, kv);
        read_in_passes(&engine, subject->tokens, readings[k].begin, readings[k].rows,
                       k == 0 ? first : other);
        engine_close(&engine);
        for (size_t i = 0; k > 0 && i < N_TOKENS; i++) {
            CHECK_MSG(memcmp(first + i * n_vocab, other + i * n_vocab, n_vocab * sizeof *first) ==
                          0,
                      "%s, %s: position %zu has other logits in passes of %d rows with %d threads",
                      subject->name, rf_tier_name(tier), i, readings[k].rows, readings[k].threads);
        }
    }
    free(first);
    free(other);
}

/* Rows far into a text: attention over several chunks of several quantised groups. With a window
 * that begins within a group, those before it are hidden or given up. */
static void distant_rows_are_independent(enum rf_tier tier, enum rf_kv_type kv, int32_t window)
{
    enum { LENGTH = 1100, BEGIN = 1048 };
    static const enum rf_dtype bf16 = RF_BF16;
    static const int32_t blocks[] = {1, 7, LENGTH - BEGIN};
    struct rf_params params = synthetic_qwen2();
    params.window = window;
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) exit(1);
    size_t n_vocab = (size_t)params.n_vocab, n = (LENGTH - BEGIN) * n_vocab;
    float *first = floats(n), *other = floats(n), *unused = floats(MAX_ROWS * n_vocab);
    int32_t tokens[LENGTH];
    for (int32_t i = 0; i < LENGTH; i++) tokens[i] = i * i % params.n_vocab;
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
        const struct rf_view_options view = {.kv = kv, .max_rows = MAX_ROWS};
        struct engine engine;
        engine_open(&engine, source, RF_WEIGHTS_BF16, (int)tier, 2, LENGTH, &view);
        answer_all_rows(&engine);
        for (int32_t at = 0; at < BEGIN; at += BEGIN / 4)
            read_logits(&engine, tokens, at, BEGIN / 4, unused);
        for (int32_t at = BEGIN, rows = blocks[k]; at < LENGTH; at += rows)
            read_logits(&engine, tokens, at, rows < LENGTH - at ? rows : LENGTH - at,
                        (k ? other : first) + (size_t)(at - BEGIN) * n_vocab);
        engine_close(&engine);
        CHECK(isfinite(first[n - 1]));
        CHECK_MSG(k == 0 || memcmp(first, other, n * sizeof *first) == 0,
                  "%s: rows have other logits in passes of %d rows, with a window of %d",
                  rf_tier_name(tier), blocks[k], window);
    }
    free(first);
    free(other);
    free(unused);
    synthetic_free(source);
}

/* Rows of three texts in one pass: each has the logits that it has alone. The texts are of other
 * lengths, and on both sides of a chunk's border. */
static void texts_share_a_pass(const struct subject *subject, enum rf_tier tier, int32_t n_rows)
{
    enum { TEXTS = 3, MOST = 40 };
    static const int32_t lengths[TEXTS] = {7, N_TOKENS - MOST, 255 - MOST / 2};
    const int32_t *tokens = subject->tokens;
    size_t n_vocab = (size_t)subject->source->params.n_vocab;
    struct rf_rows groups[TEXTS];
    int32_t wanted[TEXTS];
    float *alone = floats(TEXTS * n_vocab);
    struct rf_error error;
    struct engine engine;
    open_plain(&engine, subject->source, subject->form, tier, 2, RF_KV_F16);
    const struct rf_backend_ops *ops = engine.backend->ops;
    const struct rf_cache_shape shape = engine.cache->shape;
    for (int t = 0; t < TEXTS; t++) {
        /* Text t begins at token t. */
        struct rf_rows text = {.tokens = tokens + t, .n = lengths[t]};
        groups[t] = (struct rf_rows){
            .tokens = tokens + t + lengths[t], .n = n_rows - t, .first_pos = lengths[t]};
        CHECK_INT(ops->cache_new(&groups[t].cache, engine.backend, &shape, &error), 0);
        struct rf_cache *own = engine.cache;
        engine.cache = groups[t].cache;
        CHECK_INT(engine_read(&engine, text, 0, 0), 0);
        CHECK_INT(engine_read(&engine, groups[t], groups[t].n - 1, groups[t].n), 0);
        memcpy(alone + (size_t)t * n_vocab, engine_logits(&engine, 0), n_vocab * sizeof *alone);
        engine.cache = own;
        wanted[t] = (t ? wanted[t - 1] : -1) + groups[t].n;
    }
    const struct rf_pass pass = {
        .groups = groups, .n_groups = TEXTS, .wanted = wanted, .n_wanted = TEXTS};
    CHECK_INT(rf_view_run(engine.view, &pass, &error), 0);
    for (int t = 0; t < TEXTS; t++) {
        CHECK_MSG(memcmp(alone + (size_t)t * n_vocab, engine_logits(&engine, t),
                         n_vocab * sizeof *alone) == 0,
                  "%s, %s: text %d has other logits beside others, with %d rows", subject->name,
                  rf_tier_name(tier), t, n_rows);
        ops->cache_free(groups[t].cache);
    }
    engine_close(&engine);
    free(alone);
}

static void a_cancelled_pass_harms_nothing(const struct subject *subject, enum rf_tier tier)
{
    const int32_t *tokens = subject->tokens;
    size_t n_vocab = (size_t)subject->source->params.n_vocab;
    float *values = floats(2 * 16 * n_vocab), *again = values + 16 * n_vocab;
    atomic_int cancel = 0;
    const struct rf_view_options view = {.max_rows = MAX_ROWS, .cancel = &cancel};
    struct engine engine;
    engine_open(&engine, subject->source, subject->form, (int)tier, 2, N_TOKENS, &view);
    read_logits(&engine, tokens, 0, 16, values);
    read_logits(&engine, tokens, 16, 8, values);
    cancel = 1;
    const struct rf_rows rows = {.tokens = tokens, .n = 8, .first_pos = 16};
    CHECK_INT(engine_read(&engine, rows, 0, 8), RF_ERR_CANCELLED);
    cancel = 0;
    read_logits(&engine, tokens, 16, 8, again);
    CHECK(memcmp(values, again, 8 * n_vocab * sizeof *values) == 0);
    engine_close(&engine);
    free(values);
}

/* Scoring gives the logarithm of the softmax of the same logits. */
static void scores_are_log_softmax(const struct subject *subject, enum rf_tier tier)
{
    enum { N = 140 }; /* more than the engine's passes give logits of */
    const int32_t *tokens = subject->tokens;
    size_t n_vocab = (size_t)subject->source->params.n_vocab;
    float *logits = floats(N * n_vocab);
    double logprobs[N - 1];
    struct engine engine;
    open_plain(&engine, subject->source, subject->form, tier, 2, RF_KV_F16);
    read_logits(&engine, tokens, 0, N, logits);
    engine_close(&engine);
    const struct rf_view_options view = {.max_rows = MAX_ROWS};
    engine_open(&engine, subject->source, subject->form, (int)tier, 2, N_TOKENS, &view);
    int32_t wanted[N - 1];
    for (int32_t i = 0; i + 1 < N; i++) wanted[i] = i;
    const struct rf_rows rows = {.cache = engine.cache, .tokens = tokens, .n = N};
    const struct rf_pass pass = {.groups = &rows,
                                 .n_groups = 1,
                                 .wanted = wanted,
                                 .n_wanted = N - 1,
                                 .targets = tokens + 1,
                                 .logprobs = logprobs};
    struct rf_error error;
    CHECK_INT(rf_view_run(engine.view, &pass, &error), 0);
    for (int i = 0; i + 1 < N; i++) {
        const float *row = logits + (size_t)i * n_vocab;
        double largest = row[0], sum = 0;
        for (size_t v = 1; v < n_vocab; v++) largest = row[v] > largest ? row[v] : largest;
        for (size_t v = 0; v < n_vocab; v++) sum += exp(row[v] - largest);
        double right = row[tokens[i + 1]] - largest - log(sum);
        CHECK_MSG(fabs(logprobs[i] - right) < 1e-5, "score %d is %.7f, not %.7f", i, logprobs[i],
                  right);
    }
    engine_close(&engine);
    free(logits);
}

/* ---- the models ---- */

static void check_model(const char *name, const struct rf_source *source, enum rf_weight_form form,
                        int thorough)
{
    const struct rf_params *p = &source->params;
    struct subject subject = {
        .name = name, .source = source, .form = form, .reference = {.n_embd = p->n_embd}};
    enum reference_rounding rounding = form == RF_WEIGHTS_BF16 ? REFERENCE_BF16 : REFERENCE_STORED;
    uint32_t random = 1;
    for (int i = 0; i < N_TOKENS; i++) {
        random = random * 1664525u + 1013904223u;
        subject.tokens[i] = (int32_t)((random >> 8) % (uint32_t)p->n_vocab);
    }
    subject.reference.hidden = floats((size_t)p->n_layer * N_TOKENS * (size_t)p->n_embd);
    subject.logits = floats(N_TOKENS * (size_t)p->n_vocab);
    CHECK_INT(reference_logits(source, rounding, subject.tokens, N_TOKENS, trace_reference,
                               &subject.reference, subject.logits),
              0);
    struct rf_error error;
    static int turn; /* the cache that the next model's rows have beside the one of 16 bits */
    turn++;
    for (int i = 0; i < RF_TIER_COUNT; i++) {
        enum rf_tier tier = (enum rf_tier)i;
        struct rf_backend *backend;
        if (!rf_cpu_has_tier(tier)) continue;
        /* Tiers share work among threads in the same ways. */
        if (IS_FOR_RACES && i != rf_kernels_best_tier()) continue;
        if (IS_SANITIZED && tier == RF_TIER_SCALAR && !thorough) continue;
        if (rf_cpu_backend_new(&backend, i, &rf_system_allocator, &error))
            continue; /* it has no kernels */
        backend->ops->free(backend);
        every_layer_agrees(&subject, tier);
        /* Instrumented plain C takes most of the time. */
        int is_slow = IS_SANITIZED && tier == RF_TIER_SCALAR,
            every_row = thorough && !is_slow && !IS_FOR_RACES;
        rows_are_independent(&subject, tier, RF_KV_F16, every_row);
        if (thorough || turn % 3 == 0) rows_are_independent(&subject, tier, RF_KV_Q8, every_row);
        if (!is_slow && (thorough || turn % 3 == 1))
            rows_are_independent(&subject, tier, RF_KV_BF16, 0);
        if (!is_slow && (thorough || turn % 3 == 2))
            rows_are_independent(&subject, tier, RF_KV_Q4, 0);
        if (!is_slow)
            texts_share_a_pass(&subject, tier, 5); /* together as few as a decoding step has */
        texts_share_a_pass(&subject, tier, 37);    /* many */
        a_cancelled_pass_harms_nothing(&subject, tier);
        scores_are_log_softmax(&subject, tier);
    }
    free(subject.reference.hidden);
    free(subject.logits);
}

static void check_synthetic(const char *name, const struct rf_params *params,
                            const enum rf_dtype *types, size_t n_types, enum rf_weight_form form)
{
    struct rf_source *source = synthetic_new(params, types, n_types);
    CHECK(source != NULL);
    if (source) check_model(name, source, form, 0);
    synthetic_free(source);
}

/* Matrices in every type of blocks of 32, and floats among them, so that layers that share their
 * input differ in form; no number of rows is a multiple of 16 but for the widths. */
static void check_blocks_of_32(void)
{
    static const enum rf_dtype types[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1, RF_Q5_0,
                                          RF_Q5_1, RF_F16,  RF_Q4_0,  RF_Q4_1, RF_F32};
    struct rf_params params = synthetic_qwen2();
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 160;
    check_synthetic("blocks of 32", &params, types, sizeof types / sizeof *types,
                    RF_WEIGHTS_STORED);
    check_synthetic("blocks of 32 in BF16", &params, types, sizeof types / sizeof *types,
                    RF_WEIGHTS_BF16);
}

/* Loading refuses a row that panels cannot hold, and names it. */
static void rows_that_lie(const struct rf_params *params)
{
    static const enum rf_dtype type = RF_W4A8_G128;
    struct rf_source *source = synthetic_new(params, &type, 1);
    struct rf_error error = {.text = ""};
    struct engine engine = {0};
    CHECK(source != NULL);
    if (!source) return;
    for (int32_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, "blk.0.ffn_up.weight") == 0)
            ((uint8_t *)(void *)source->tensors[i].data)[2] = 16;
    CHECK_INT(engine_device(&engine, RF_TIER_SCALAR, 1, &error), 0);
    CHECK_INT(
        rf_model_load(&engine.model, source, engine.queue, RF_WEIGHTS_STORED, NULL, NULL, &error),
        RF_ERR_FORMAT);
    CHECK(strstr(error.text, "blk.0.ffn_up.weight: row 0 has a group with the scale 16") != NULL);
    engine.backend->ops->queue_free(engine.queue);
    rf_split_free(engine.split);
    engine.backend->ops->free(engine.backend);
    synthetic_free(source);
}

static void check_blocks_of_256(void)
{
    static const enum rf_dtype types[] = {RF_Q4_K, RF_Q6_K, RF_Q5_K, RF_Q2_K,
                                          RF_Q3_K, RF_Q4_K, RF_BF16},
                               rows[] = {RF_W4A8_G128, RF_W4A8_ROW, RF_Q4_K, RF_W4A8_ROW,
                                         RF_W4A8_G128},
                               grids[] = {RF_IQ2_XXS, RF_IQ3_S, RF_IQ3_XXS, RF_IQ1_S,
                                          RF_IQ2_S,   RF_TQ1_0, RF_IQ4_XS,  RF_IQ2_XS};
    const struct rf_params params = {.arch = RF_ARCH_LLAMA,
                                     .arch_name = "llama",
                                     .n_layer = 1,
                                     .n_embd = 256,
                                     .n_head = 4,
                                     .n_head_kv = 1,
                                     .head_dim = 64,
                                     .n_ff = 256,
                                     .n_vocab = 117,
                                     .n_ctx_train = 512,
                                     .rms_eps = 1e-5f,
                                     .rope_style = RF_ROPE_NORM,
                                     .rope_dim = 64,
                                     .rope.theta = 1e4f,
                                     .rope.scale = 1.0f,
                                     .rope.magnitude = 1.0f};
    check_synthetic("blocks of 256", &params, types, sizeof types / sizeof *types,
                    RF_WEIGHTS_STORED);
    check_synthetic("blocks of 256 in BF16", &params, types, sizeof types / sizeof *types,
                    RF_WEIGHTS_BF16);
    check_synthetic("grids", &params, grids, sizeof grids / sizeof *grids, RF_WEIGHTS_STORED);
    check_synthetic("grids in BF16", &params, grids, sizeof grids / sizeof *grids, RF_WEIGHTS_BF16);
    check_synthetic("scales for rows", &params, rows, sizeof rows / sizeof *rows,
                    RF_WEIGHTS_STORED);
    rows_that_lie(&params);
}

/* Experts whose rows are no multiple of a panel's, and types that differ among their matrices. */
static void check_experts(void)
{
    static const enum rf_dtype types[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1, RF_Q5_0,
                                          RF_Q5_1, RF_F16,  RF_Q4_0,  RF_Q4_1, RF_F32};
    static const enum rf_dtype bf16 = RF_BF16, mxfp4 = RF_MXFP4;
    struct rf_params params = synthetic_qwen2();
    params.n_expert = 5;
    params.n_expert_used = 2;
    params.expert_norm = 1;
    check_synthetic("experts in BF16", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.expert_norm = 0;
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 160;
    check_synthetic("experts in blocks of 32", &params, types, sizeof types / sizeof *types,
                    RF_WEIGHTS_STORED);
    params.n_expert = params.n_expert_used = 3;
    check_synthetic("all experts in MXFP4", &params, &mxfp4, 1, RF_WEIGHTS_STORED);
}

/* Convolutions before, between and after attention. */
static void check_convolutions(void)
{
    static const enum rf_dtype types[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1},
                               bf16 = RF_BF16;
    static const uint8_t flags[] = {RF_LAYER_CONV, RF_LAYER_WINDOW, RF_LAYER_CONV, RF_LAYER_CONV};
    struct rf_params params = synthetic_qwen2();
    params.arch = RF_ARCH_LFM2;
    params.arch_name = "lfm2";
    params.n_layer = 4;
    params.layer_flags = flags;
    params.qkv_bias = 0;
    params.qk_norm = 1;
    params.conv_rows = 3;
    check_synthetic("convolutions", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.n_layer = 2; /* products of rounded values: each layer adds to the error */
    params.conv_rows = 6;
    params.conv_bias = 1;
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 160;
    check_synthetic("convolutions in blocks of 32", &params, types, 5, RF_WEIGHTS_STORED);
}

/* The delta rule before and after gated attention. Each layer adds to the error. */
static void check_deltas(void)
{
    static const enum rf_dtype types[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1},
                               bf16 = RF_BF16;
    static const uint8_t before[] = {RF_LAYER_DELTA, 0}, after[] = {0, RF_LAYER_DELTA};
    struct rf_params params = synthetic_qwen2();
    synthetic_deltas(&params, before, 2);
    params.qkv_bias = 0;
    check_synthetic("the delta rule", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.layer_flags = after;
    check_synthetic("the delta rule after attention", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.layer_flags = before;
    params.conv_rows = 2;
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 160;
    params.delta_tiled = 1;
    params.delta_value_dim = 32;
    check_synthetic("the delta rule in blocks of 32", &params, types, 5, RF_WEIGHTS_STORED);
}

/* Mamba-2 before and after attention. */
static void check_mamba(void)
{
    static const enum rf_dtype types[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1},
                               bf16 = RF_BF16;
    static const uint8_t before[] = {RF_LAYER_MAMBA, 0}, after[] = {0, RF_LAYER_MAMBA};
    struct rf_params params = synthetic_qwen2();
    synthetic_mamba(&params, before, 2);
    check_synthetic("Mamba-2", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.layer_flags = after;
    params.step_min = 0.3f;
    params.step_max = 0.9f;
    check_synthetic("Mamba-2 after attention", &params, &bf16, 1, RF_WEIGHTS_BF16);
    params.layer_flags = before;
    params.conv_rows = 2;
    params.conv_bias = 0;
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 160;
    params.delta_value_dim = 32;
    check_synthetic("Mamba-2 in blocks of 32", &params, types, 5, RF_WEIGHTS_STORED);
}

/* Latent attention, with and without a latent of queries. */
static void check_latents(void)
{
    static const enum rf_dtype types[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1},
                               bf16 = RF_BF16;
    struct rf_params params = synthetic_qwen2();
    synthetic_latent(&params, 0);
    check_synthetic("latent attention", &params, &bf16, 1, RF_WEIGHTS_BF16);
    synthetic_latent(&params, 28);
    check_synthetic("latent attention, latent queries", &params, &bf16, 1, RF_WEIGHTS_BF16);
    synthetic_latent(&params, 64);
    params.n_embd = 96;
    params.n_ff = 160;
    params.n_head = 4;
    params.latent = params.head_nope = params.head_value = 32;
    params.head_dim = 40;
    check_synthetic("latent attention in blocks of 32", &params, types, 5, RF_WEIGHTS_STORED);
}

int main(void)
{
    struct rf_error error = {.text = ""};
    struct rf_source *source;
    if (rf_source_open(&source, "stories260K.gguf", NULL, &rf_system_allocator, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    check_model("stories260K", source, RF_WEIGHTS_BF16, 1);
    rf_source_close(source);

    /* Parts that stories260K lacks: biases, the other pairing, a tied head, odd widths, three query
     * heads to one of keys. */
    struct rf_params qwen2 = synthetic_qwen2();
    static const enum rf_dtype f32 = RF_F32, bf16 = RF_BF16;
    check_synthetic("qwen2, F32", &qwen2, &f32, 1, RF_WEIGHTS_BF16);
    check_synthetic("qwen2, BF16", &qwen2, &bf16, 1, RF_WEIGHTS_BF16);

    struct rf_params qwen3 =
        qwen2; /* heads whose sum is not the width, norms of heads, one key head for all */
    qwen3.arch = RF_ARCH_QWEN3;
    qwen3.arch_name = "qwen3";
    qwen3.n_head = 4;
    qwen3.n_head_kv = 1;
    qwen3.head_dim = 32;
    qwen3.rope_dim = 32;
    qwen3.qkv_bias = 0;
    qwen3.qk_norm = 1;
    check_synthetic("qwen3", &qwen3, &bf16, 1, RF_WEIGHTS_BF16);
    check_experts();
    check_convolutions();
    check_deltas();
    check_mamba();
    check_latents();

    static const float factors[] = {1, 1, 1.5f, 2, 4, 8, 8, 8};
    struct rf_params llama3 = qwen3; /* scaled frequencies, half of each head rotating */
    llama3.arch = RF_ARCH_LLAMA;
    llama3.arch_name = "llama";
    llama3.rope_style = RF_ROPE_NORM;
    llama3.rope_dim = 16;
    llama3.rope.factors = factors;
    llama3.rope.scale = 0.5f;
    llama3.rope.magnitude = 1.25f;
    llama3.qk_norm = 0;
    llama3.tied_output = 0;
    llama3.qkv_bias = llama3.o_bias = llama3.ffn_bias = 1;
    llama3.rope.ntk_factor = 3; /* and frequencies that fall with the position */
    llama3.rope.ntk_from = 8;
    check_synthetic("llama3", &llama3, &bf16, 1, RF_WEIGHTS_BF16);

    check_blocks_of_32();
    check_blocks_of_256();
    for (int tier = 0; tier < RF_TIER_COUNT; tier++) {
        if (!rf_cpu_has_tier((enum rf_tier)tier) || !rf_kernels(tier)) continue;
        if (IS_FOR_RACES && tier != rf_kernels_best_tier()) continue;
        distant_rows_are_independent((enum rf_tier)tier, RF_KV_Q8, 0);
        distant_rows_are_independent((enum rf_tier)tier, RF_KV_Q8, 600);
        distant_rows_are_independent((enum rf_tier)tier, RF_KV_Q4, 140);
    }
    return check_result();
}
