/* Any call to the device may fail: the failure comes out with its code and a sentence, the sequence
 * is at its last committed token, and everything can go on as if nothing had happened. */
#include "infer/device.h"
#include "infer/sequence.h"
#include "speculate/cascade.h"
#include "speculate/drafters.h"
#include "speculate/model_level.h"
#include "support/plain_backend.h"
#include "support/shared_kind.h"
#include "support/synthetic.h"

/* One that fails, and two that share a model and fail. */
static const struct rf_backend_kind *const kinds[] = {&plain_backend_kind, &shared_plain_kind};

enum {
    N_VOCAB = 29,
    N_CTX = 300,
    PROMPT = 246, /* so that rounds cross the border of a block */
    MAX_ROWS = 100,
    GAMMA = 3,
    MAX_TOKENS = 128
};

static const struct rf_params params = {.arch = RF_ARCH_QWEN2,
                                        .arch_name = "qwen2",
                                        .n_layer = 2,
                                        .n_embd = 32,
                                        .n_head = 4,
                                        .n_head_kv = 2,
                                        .head_dim = 8,
                                        .n_ff = 32,
                                        .n_vocab = N_VOCAB,
                                        .n_ctx_train = 512,
                                        .rms_eps = 1e-6f,
                                        .rope_style = RF_ROPE_NEOX,
                                        .rope_dim = 8,
                                        .rope.theta = 1e4f,
                                        .rope.scale = 1.0f,
                                        .rope.magnitude = 1.0f,
                                        .tied_output = 1,
                                        .qkv_bias = 1};

/* A sequence with its chain: n-grams draft for a view of cast weights, and that for the target. */
struct writer {
    struct rf_sequence *sequence;
    struct rf_view *view, *draft_view;
    struct rf_sampler *sampler;
    struct rf_model_level levels[2];
    void *ngram;
    struct rf_cascade *cascade;
};

struct script {
    const struct rf_backend_kind *kind;
    struct rf_backend *backend;
    struct rf_queue *queue;
    struct rf_model *model, *cast;
    struct writer writer, fork;
    int32_t prompt[PROMPT], out[MAX_TOKENS], n_out;
    uint8_t *state;
    int code;       /* code with which the n-th call fails */
    int n_failures; /* failures that have come out */
};

/* ---- one step at a time ---- */

/* Checks what every step relies on after a failure. */
static void check_failure(struct script *script, const struct writer *writer, int code,
                          const struct rf_error *error, int32_t n_committed, const char *what)
{
    script->n_failures++;
    CHECK_MSG(code == script->code, "%s fails with %d, not %d", what, code, script->code);
    CHECK_MSG(error->code == code && error->text[0], "%s fails without a sentence", what);
    if (!writer || !writer->sequence) return;
    CHECK_MSG(rf_sequence_n_committed(writer->sequence) == n_committed &&
                  rf_sequence_length(writer->sequence) == n_committed,
              "%s fails with %d tokens of which %d are committed, not %d", what,
              rf_sequence_length(writer->sequence), rf_sequence_n_committed(writer->sequence),
              n_committed);
}

/* A step that may fail is done again; then it does not. */
#define STEP(script, writer, call)                                              \
    do {                                                                        \
        struct rf_error error = {.text = ""};                                   \
        const struct rf_sequence *text_ = (writer) ? (writer)->sequence : NULL; \
        int32_t n_before_ = text_ ? rf_sequence_n_committed(text_) : 0;         \
        int code_ = (call);                                                     \
        if (code_ < 0) {                                                        \
            check_failure((script), (writer), code_, &error, n_before_, #call); \
            code_ = (call);                                                     \
            CHECK_MSG(code_ >= 0, "%s fails twice: %s", #call, error.text);     \
            if (code_ < 0) exit(1);                                             \
        }                                                                       \
    } while (0)

static int new_view(struct rf_view **view, const struct script *script,
                    const struct rf_model *model, struct rf_error *error)
{
    const struct rf_view_options options = {.max_rows = MAX_ROWS};
    return rf_view_new(view, model, script->queue, &options, error);
}

static void writer_open(struct script *script, struct writer *writer, struct rf_sequence *from)
{
    static const struct rf_sequence_shape shape = {.n_ctx = N_CTX};
    const struct rf_drafter *ngram = rf_drafter_find("ngram", 5);
    memset(writer, 0, sizeof *writer);
    STEP(script, (struct writer *)NULL, new_view(&writer->view, script, script->model, &error));
    STEP(script, (struct writer *)NULL,
         new_view(&writer->draft_view, script, script->cast, &error));
    if (from)
        STEP(script, (struct writer *)NULL,
             rf_sequence_fork(&writer->sequence, from, writer->view, &error));
    else
        STEP(
            script, (struct writer *)NULL,
            rf_sequence_new(&writer->sequence, writer->view, &shape, &rf_system_allocator, &error));
    MUST(rf_sampler_new(&writer->sampler, N_VOCAB, script->backend->first_above,
                        &rf_system_allocator, &error));
    const struct rf_drafter_options options = {.n_ctx = N_CTX};
    MUST(ngram->open(&writer->ngram, &options, &rf_system_allocator, &error));
    rf_model_level_of_target(&writer->levels[0], writer->draft_view, writer->sequence,
                             writer->sampler);
    rf_model_level_of_target(&writer->levels[1], writer->view, writer->sequence, writer->sampler);
    const struct rf_level levels[] = {
        {.ops = &ngram->ops, .self = writer->ngram, .acceptance = *ngram->acceptance},
        {.ops = &rf_model_level_ops,
         .self = &writer->levels[0],
         .cost = 0.5,
         .acceptance = 0.8,
         .has_passes = 1},
        {.ops = &rf_model_level_ops, .self = &writer->levels[1], .cost = 1, .has_passes = 1}};
    MUST(rf_cascade_new(&writer->cascade, levels, 3, writer->sequence, &rf_system_allocator,
                        &error));
    rf_cascade_set_gamma(writer->cascade, GAMMA, 0.0f); /* whatever passes take */
}

static void writer_close(struct writer *writer)
{
    rf_cascade_free(writer->cascade);
    rf_drafter_find("ngram", 5)->close(writer->ngram);
    rf_sampler_free(writer->sampler);
    rf_sequence_free(writer->sequence);
    rf_view_free(writer->view);
    rf_view_free(writer->draft_view);
}

/* Rounds until `n` more tokens are committed. */
static void write_tokens(struct script *script, struct writer *writer, int32_t n)
{
    while (n > 0) {
        struct rf_yield yield[RF_MAX_DRAFT + 1];
        int32_t made = 0;
        STEP(script, writer, made = rf_cascade_round(writer->cascade, n, yield, &error));
        CHECK(made >= 1 && made <= n);
        for (int32_t i = 0; i < made; i++, n--) {
            CHECK_INT(
                rf_sequence_tokens(writer->sequence)[rf_sequence_n_committed(writer->sequence)],
                yield[i].token);
            MUST(rf_sequence_commit(writer->sequence, &error));
            if (script->n_out < MAX_TOKENS) script->out[script->n_out++] = yield[i].token;
        }
    }
}

/* Has a tree read and goes on behind a path of it, as a round does. */
static int keep_a_path(struct writer *writer, struct rf_error *error)
{
    static const int32_t draft[] = {3, 1, 4, 1, 5}, parents[] = {-1, -1, 1, 0, 2},
                         path[] = {1, 2, 4};
    struct rf_sequence *sequence = writer->sequence;
    int32_t n = rf_sequence_n_committed(sequence);
    struct rf_ask ask = {
        .sequence = sequence, .n_text = n, .draft = draft, .parents = parents, .n_draft = 5};
    int code = rf_read(writer->view, &ask, 1, &(struct rf_read_options){0}, NULL, error);
    for (int i = 0; !code && i < 3; i++) rf_sequence_place(sequence, &draft[path[i]], 1);
    if (!code) code = rf_sequence_accept(sequence, writer->view, n, path, 3, error);
    if (code) rf_sequence_rewind(sequence, n);
    return code;
}

/* ---- the script ---- */

static void open_model(struct script *script, const struct rf_source *source)
{
    const struct rf_queue_options threads = {.threads = 1};
    MUST(script->kind->open(&script->backend, &(struct rf_backend_options){0}, &rf_system_allocator,
                            &error));
    STEP(script, (struct writer *)NULL,
         script->backend->ops->queue_new(&script->queue, script->backend, &threads, NULL, &error));
    STEP(script, (struct writer *)NULL,
         rf_model_load(&script->model, source, script->queue, RF_WEIGHTS_BF16, NULL, NULL, &error));
    STEP(script, (struct writer *)NULL,
         rf_model_load(&script->cast, source, script->queue, RF_WEIGHTS_MXFP4, NULL, NULL, &error));
}

static void save_and_load(struct script *script, struct writer *writer)
{
    struct rf_sequence *sequence = writer->sequence;
    int32_t n = rf_sequence_n_committed(sequence), n_read = rf_sequence_n_read(sequence);
    int32_t tokens[N_CTX];
    script->state = malloc((size_t)rf_sequence_kv_bytes(sequence, n_read));
    if (!script->state) exit(1);
    memcpy(tokens, rf_sequence_tokens(sequence), (size_t)n * sizeof *tokens);
    STEP(script, writer, rf_sequence_kv_save(sequence, script->state, &error));
    write_tokens(script, writer, 4);
    STEP(script, writer, rf_sequence_load(sequence, tokens, n, n_read, script->state, &error));
    CHECK_INT(rf_sequence_length(sequence), n);
    free(script->state);
}

/* Runs the script; the tokens that are written are script->out. */
static void run(struct script *script, const struct rf_source *source)
{
    struct writer *writer = &script->writer, *fork = &script->fork;
    double logprobs[8];
    const float *logits;
    open_model(script, source);
    writer_open(script, writer, NULL);
    STEP(script, writer,
         rf_sequence_prefill(writer->sequence, writer->view, script->prompt, PROMPT, NULL, NULL,
                             &error));
    write_tokens(script, writer, 12);
    writer_open(script, fork, writer->sequence);
    write_tokens(script, fork, 9);
    write_tokens(script, writer, 5);
    save_and_load(script, writer);
    write_tokens(script, writer, 5);
    STEP(script, writer, keep_a_path(writer, &error));
    for (int i = 0; i < 3; i++) MUST(rf_sequence_commit(writer->sequence, &error));
    write_tokens(script, writer, 5);
    for (int32_t l = 0; l < 2; l++) CHECK(rf_cascade_stats(writer->cascade, l)->accepted > 0);
    rf_sequence_rewind(writer->sequence, PROMPT - 3);
    STEP(script, writer,
         rf_sequence_score(writer->sequence, writer->view, script->prompt, 8, 0, logprobs, &error));
    write_tokens(script, writer, 8);
    STEP(script, writer, rf_sequence_answer(writer->sequence, writer->view, &logits, &error));
    for (int32_t t = 0; t < 3; t++) /* bits of logits are part of what is compared */
        memcpy(&script->out[script->n_out++], &logits[t], sizeof *logits);
    writer_close(fork);
    writer_close(writer);
    rf_model_free(script->cast);
    rf_model_free(script->model);
    if (script->kind == &plain_backend_kind) CHECK_INT(plain_device_bytes(script->backend), 0);
    script->backend->ops->queue_free(script->queue);
    script->backend->ops->free(script->backend);
}

static void script_new(struct script *script, const struct rf_backend_kind *kind)
{
    memset(script, 0, sizeof *script);
    script->kind = kind;
    /* Lines that come again, for the n-grams. */
    for (int32_t i = 0; i < PROMPT; i++) script->prompt[i] = (i % 17 * 5 + i % 3) % N_VOCAB;
}

/* Calls up to which models, queues and texts are opened; behind them come rounds, whose calls are
 * the same again and again. */
enum { OPENING = 40 };

/* Each call that can fail does once; `undisturbed` is the script without failures. With sanitizers
 * one in seven of the rounds' calls does: each place that calls has others of its kind. */
static void fail_everywhere(const struct script *undisturbed, const struct rf_source *source)
{
    static const int codes[] = {RF_ERR_SYSTEM, RF_ERR_MEMORY};
    static struct script script;
    int32_t n = 1, last = 0;
    for (;; n += IS_SANITIZED && n > OPENING ? 7 : 1) {
        script_new(&script, undisturbed->kind);
        script.code = codes[n % 2];
        plain_fail_at(n, script.code);
        run(&script, source);
        if (!plain_has_failed()) break; /* it has fewer calls */
        last = n;
        CHECK_MSG(script.n_failures == 1, "call %d: %d failures came out", n, script.n_failures);
        CHECK_MSG(script.n_out == undisturbed->n_out &&
                      memcmp(script.out, undisturbed->out, sizeof script.out) == 0,
                  "call %d: other tokens after it failed", n);
    }
    plain_fail_at(0, 0);
    CHECK(last > 60);
    printf("%s: %d calls can fail\n", undisturbed->kind->name, last);
}

/* The same on a model whose first and last layers have states in place of keys and values. */
static void check_states(const struct rf_params *states)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static struct script undisturbed;
    struct rf_source *source = synthetic_new(states, &bf16, 1);
    CHECK(source != NULL);
    if (!source) return;
    script_new(&undisturbed, &plain_backend_kind);
    run(&undisturbed, source);
    CHECK(undisturbed.n_out > 40 && undisturbed.n_failures == 0);
    fail_everywhere(&undisturbed, source);
    synthetic_free(source);
}

static void check_every_state(void)
{
    static const uint8_t convs[] = {RF_LAYER_CONV, RF_LAYER_WINDOW, RF_LAYER_CONV},
                         deltas[] = {RF_LAYER_DELTA, 0, RF_LAYER_DELTA},
                         mambas[] = {RF_LAYER_MAMBA, 0, RF_LAYER_MAMBA};
    struct rf_params conv = params, delta = params, mamba = params;
    conv.n_layer = 3;
    conv.layer_flags = convs;
    conv.conv_rows = 3;
    check_states(&conv);
    synthetic_deltas(&delta, deltas, 3);
    delta.delta_values = 2;
    delta.delta_key_dim = delta.delta_value_dim = 4;
    check_states(&delta);
    synthetic_mamba(&mamba, mambas, 3);
    mamba.delta_values = 2;
    mamba.delta_key_dim = mamba.delta_value_dim = 4;
    check_states(&mamba);
    struct rf_params latent = params;
    synthetic_latent(&latent, 8);
    check_states(&latent);
}

int main(void)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static struct script undisturbed[2];
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) return 1;
    check_every_state();
    for (int k = 0; k < 2; k++) {
        script_new(&undisturbed[k], kinds[k]);
        run(&undisturbed[k], source);
        CHECK(undisturbed[k].n_out > 40 && undisturbed[k].n_failures == 0);
        fail_everywhere(&undisturbed[k], source);
    }
    CHECK(memcmp(undisturbed[0].out, undisturbed[1].out, sizeof undisturbed[0].out) == 0);
    synthetic_free(source);
    return check_result();
}
