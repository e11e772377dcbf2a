/* Sequences: whatever happened to one, the logits after its text are, bit for bit, those after the
 * same text read plainly from its beginning. On every kind of device. */
#include <math.h>

#include "cpu/cpu_backend.h"
#include "devices/devices.h"
#include "infer/device.h"
#include "infer/sequence.h"
#include "reference/forward.h"
#include "support/plain_backend.h"
#include "support/shared_kind.h"
#include "support/synthetic.h"

static const struct device devices[] = {{"cpu", &rf_cpu_backend_kind, NULL},
                                        {"processors", &shared_cpu_kind, NULL},
                                        {"cpu, scalar", &rf_cpu_backend_kind, "scalar"},
                                        {"processor and plain", &shared_mixed_kind, NULL},
                                        {"plain", &plain_backend_kind, NULL},
                                        {"cuda", &rf_cuda_backend_kind, NULL},
                                        {"processor and cuda", &shared_cuda_kind, NULL}};
static int first_device, end_device; /* of this run */
enum {
    N_DEVICES = sizeof devices / sizeof *devices,
    N_VOCAB = 61,
    N_EMBD = 32,
    N_CTX = 600,
    MAX_ROWS = 96
};

static const struct rf_params params = {.arch = RF_ARCH_QWEN2,
                                        .arch_name = "qwen2",
                                        .n_layer = 2,
                                        .n_embd = N_EMBD,
                                        .n_head = 4,
                                        .n_head_kv = 2,
                                        .head_dim = 8,
                                        .n_ff = 64,
                                        .n_vocab = N_VOCAB,
                                        .n_ctx_train = 1024,
                                        .rms_eps = 1e-6f,
                                        .rope_style = RF_ROPE_NEOX,
                                        .rope_dim = 8,
                                        .rope_theta = 1e6f,
                                        .rope_scale = 1.0f,
                                        .rope_magnitude = 1.0f,
                                        .tied_output = 1,
                                        .qkv_bias = 1};

/* Allocations of the size of a cache's block. */
struct meter {
    uint64_t block_bytes;
    int32_t made, out, most; /* so far, not freed, and the most of these at a time */
};

static int is_block(const struct meter *meter, size_t bytes)
{
    return bytes >= meter->block_bytes && bytes < meter->block_bytes + 256;
}

static void *meter_alloc(void *user, size_t bytes)
{
    struct meter *meter = user;
    meter->made += is_block(meter, bytes);
    meter->out += is_block(meter, bytes);
    if (meter->out > meter->most) meter->most = meter->out;
    return rf_system_allocator.alloc(rf_system_allocator.user, bytes);
}

static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *meter = user;
    meter->out -= memory && is_block(meter, bytes);
    rf_system_allocator.release(rf_system_allocator.user, memory, bytes);
}

/* A model on a device with two views: of its own weights, and of a cast of them that drafts. */
struct bench {
    const char *name;
    int counts_blocks; /* they are the allocator's, not a device's */
    struct opened opened;
    struct rf_model *cast;
    struct rf_view *view, *draft;
    atomic_int cancel;
    struct meter meter;
    struct rf_allocator allocator;
    int32_t text[N_CTX + 100];
};

static void bench_open(struct bench *bench, const struct device *device,
                       const struct rf_source *source, enum rf_weight_form form, enum rf_kv_type kv)
{
    memset(bench, 0, sizeof *bench);
    bench->name = device->name;
    bench->counts_blocks =
        device->kind == &rf_cpu_backend_kind || device->kind == &plain_backend_kind;
    bench->meter.block_bytes = device->kind->kv_bytes(&params, RF_KV_F16, RF_KV_POSITIONS);
    bench->allocator = (struct rf_allocator){meter_alloc, meter_release, &bench->meter};
    bench->opened = opened_new(device, source, form, &bench->allocator);
    struct rf_view_options options = {.kv = kv, .max_rows = MAX_ROWS, .cancel = &bench->cancel};
    MUST(rf_model_load(&bench->cast, source, bench->opened.queue, RF_WEIGHTS_MXFP4, NULL, NULL,
                       &error));
    bench->view = view_of(&bench->opened, bench->opened.model, &options);
    if (kv == RF_KV_Q8) options.kv = RF_KV_Q4; /* the draft reads the upper nibbles alone */
    bench->draft = view_of(&bench->opened, bench->cast, &options);
    random_tokens(bench->text, N_CTX + 100, N_VOCAB, 7);
    bench->meter.made = bench->meter.out = 0;
}

static void bench_close(struct bench *bench)
{
    CHECK_INT(bench->meter.out, 0);
    rf_view_free(bench->view);
    rf_view_free(bench->draft);
    rf_model_free(bench->cast);
    opened_free(&bench->opened);
}

static struct rf_sequence *sequence_of(struct bench *bench, int32_t n_ctx)
{
    struct rf_sequence *sequence;
    const struct rf_sequence_shape shape = {.n_ctx = n_ctx, .kv = bench->view->shape.kv};
    MUST(rf_sequence_new(&sequence, bench->view, &shape, &bench->allocator, &error));
    return sequence;
}

static struct rf_sequence *fork_of(struct bench *bench, struct rf_sequence *from)
{
    struct rf_sequence *copy;
    MUST(rf_sequence_fork(&copy, from, bench->view, &error));
    return copy;
}

static void prefill(struct bench *bench, struct rf_sequence *sequence, const int32_t *tokens,
                    int32_t n)
{
    MUST(rf_sequence_prefill(sequence, bench->view, tokens, n, NULL, NULL, &error));
}

static void append(struct rf_sequence *sequence, const int32_t *tokens, int32_t n)
{
    MUST(rf_sequence_append(sequence, tokens, n, &error));
}

/* What the view's last pass says of its i-th wanted row. */
static void copy_logits(const struct rf_view *view, int32_t i, float *out)
{
    const float *row;
    MUST(view->backend->ops->logits((struct rf_view *)view, i, &row, &error));
    memcpy(out, row, N_VOCAB * sizeof *out);
}

static void copy_answer(struct rf_sequence *sequence, struct rf_view *view, float *out)
{
    const float *row;
    MUST(rf_sequence_answer(sequence, view, &row, &error));
    memcpy(out, row, N_VOCAB * sizeof *out);
}

/* The logits after tokens[0 .. n), read in order by a fresh sequence. */
static void read_plainly(struct bench *bench, const int32_t *tokens, int32_t n, float *out)
{
    struct rf_sequence *sequence = sequence_of(bench, n);
    prefill(bench, sequence, tokens, n);
    copy_answer(sequence, bench->view, out);
    rf_sequence_free(sequence);
}

static void check_logits(struct bench *bench, const float *got, const int32_t *tokens, int32_t n,
                         const char *what)
{
    float wanted[N_VOCAB];
    read_plainly(bench, tokens, n, wanted);
    CHECK_MSG(memcmp(got, wanted, sizeof wanted) == 0, "%s: %s: other logits after %d tokens",
              bench->name, what, n);
}

/* The sequence goes on from its whole text as one that was read plainly. */
static void check_sequence(struct bench *bench, struct rf_sequence *sequence, const char *what)
{
    float got[N_VOCAB];
    copy_answer(sequence, bench->view, got);
    check_logits(bench, got, rf_sequence_tokens(sequence), rf_sequence_length(sequence), what);
}

/* ---- several sequences in one pass ---- */

enum { TALKS = 5, ROWS = 4, DRAFT = 3 };

/* A text of `length` tokens of which the last `unread` are not read, and a tree of drafts. */
struct talk {
    struct rf_sequence *sequence;
    int32_t unread, n_draft, draft[DRAFT], parents[DRAFT];
};

/* The last one is a fork of the one before it, which has just been made. */
static void talks_open(struct bench *bench, struct talk *talks, int n)
{
    static const int32_t lengths[TALKS] = {257, 255, 5, 260, 260};
    static const int32_t parents[DRAFT] = {-1, -1, 1};
    for (int i = 0; i < n; i++) {
        struct talk *talk = &talks[i];
        int is_tree = i % 2 == 1;
        int32_t begin = 10 * i, read = lengths[i] - (is_tree ? 1 : ROWS);
        *talk = (struct talk){.unread = is_tree ? 1 : ROWS, .n_draft = is_tree ? DRAFT : 0};
        memcpy(talk->parents, parents, sizeof parents);
        random_tokens(talk->draft, DRAFT, N_VOCAB, (uint32_t)i);
        if (i == TALKS - 1) {
            talk->sequence = fork_of(bench, talks[i - 1].sequence);
            rf_sequence_rewind(talk->sequence, read);
        } else {
            talk->sequence = sequence_of(bench, N_CTX);
            prefill(bench, talk->sequence, bench->text + begin, read);
        }
        append(talk->sequence, bench->text + begin + read, talk->unread);
    }
}

static void talks_close(struct talk *talks, int n)
{
    for (int i = 0; i < n; i++) rf_sequence_free(talks[i].sequence);
}

static struct rf_ask ask_of(const struct talk *talk)
{
    return (struct rf_ask){.sequence = talk->sequence,
                           .n_text = rf_sequence_length(talk->sequence),
                           .draft = talk->draft,
                           .parents = talk->n_draft ? talk->parents : NULL,
                           .n_draft = talk->n_draft};
}

/* The text and the drafts that lead to row i. */
static int32_t path_of(const struct talk *talk, int32_t i, int32_t *tokens)
{
    int32_t n = rf_sequence_length(talk->sequence), depth = 0;
    for (int32_t at = i; at >= 0; at = talk->parents[at]) depth++;
    memcpy(tokens, rf_sequence_tokens(talk->sequence), (size_t)n * sizeof *tokens);
    for (int32_t at = i, d = depth; at >= 0; at = talk->parents[at])
        tokens[n + --d] = talk->draft[at];
    return n + depth;
}

static void passes_take_several_sequences(struct bench *bench, int n)
{
    struct talk together[TALKS], alone[TALKS];
    struct rf_ask asks[TALKS];
    struct rf_best best[TALKS * ROWS], own_best[ROWS];
    struct rf_read_options options = {.n_best = 2, .best = best};
    struct rf_read_cost cost;
    static float logits[TALKS * ROWS][N_VOCAB];
    talks_open(bench, together, n);
    talks_open(bench, alone, n);
    for (int i = 0; i < n; i++) asks[i] = ask_of(&together[i]);
    MUST(rf_read(bench->view, asks, n, &options, &cost, &error));
    CHECK_INT(cost.rows, n * ROWS);
    const struct rf_ask *last = &asks[n - 1];
    for (int32_t a = 0; a <= last->first + last->n_draft; a++)
        copy_logits(bench->view, a, logits[a]);
    for (int i = 0; i < n; i++) {
        struct rf_ask ask = ask_of(&alone[i]);
        int32_t tokens[N_CTX];
        options.best = own_best;
        MUST(rf_read(bench->view, &ask, 1, &options, NULL, &error));
        for (int32_t a = 0; a <= ask.n_draft; a++) {
            float own[N_VOCAB];
            copy_logits(bench->view, ask.first + a, own);
            int32_t all = asks[i].first + a;
            CHECK_MSG(memcmp(own, logits[all], sizeof own) == 0,
                      "%s: sequence %d of %d, answer %d: other logits than alone", bench->name, i,
                      n, a);
            CHECK(best[all].n == 2 && own_best[a].n == 2 && best[all].mass == own_best[a].mass);
            CHECK(memcmp(best[all].top, own_best[a].top, 2 * sizeof *best->top) == 0);
        }
        for (int32_t a = 0; a <= ask.n_draft; a++) {
            int32_t length = path_of(&alone[i], a - 1, tokens);
            check_logits(bench, logits[asks[i].first + a], tokens, length, "in one pass");
        }
    }
    /* All go on: those with a tree by a path of it. */
    for (int i = 0; i < n; i++) {
        static const int32_t path[] = {1, 2};
        struct talk *talk = &together[i];
        const int32_t tokens[] = {talk->draft[1], talk->draft[2]};
        int32_t length = rf_sequence_length(talk->sequence);
        if (talk->n_draft) rf_sequence_place(talk->sequence, tokens, 2);
        if (talk->n_draft)
            MUST(rf_sequence_accept(talk->sequence, bench->view, length, path, 2, &error));
        check_sequence(bench, talk->sequence, "after a pass with others");
    }
    talks_close(together, n);
    talks_close(alone, n);
}

/* ---- forks ---- */

static void forks_go_on_alone(struct bench *bench)
{
    static const int32_t lengths[] = {1, 40, 255, 256, 257, 300};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int32_t n = lengths[i];
        struct rf_sequence *sequence = sequence_of(bench, N_CTX);
        prefill(bench, sequence, bench->text, n);
        struct rf_sequence *copy = fork_of(bench, sequence), *third = fork_of(bench, copy);
        CHECK_INT(rf_sequence_n_committed(copy), n);
        CHECK_INT(rf_sequence_n_read(copy), n);
        append(copy, bench->text + 310, 20);
        check_sequence(bench, copy, "a fork");
        append(sequence, bench->text + 350, 7);
        check_sequence(bench, sequence, "what was forked");
        rf_sequence_free(sequence);
        append(copy, bench->text + 400, 3);
        check_sequence(bench, copy, "a fork, later");
        check_sequence(bench, third, "a fork of a fork");
        rf_sequence_free(copy);
        rf_sequence_free(third);
    }
}

/* Tokens that are ahead are not the fork's. */
static void forks_have_what_is_committed(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, 30);
    rf_sequence_place(sequence, bench->text + 50, 4);
    float ahead[N_VOCAB];
    copy_answer(sequence, bench->view, ahead);
    CHECK_INT(rf_sequence_n_read(sequence), 34);
    struct rf_sequence *copy = fork_of(bench, sequence);
    CHECK_INT(rf_sequence_length(copy), 30);
    CHECK_INT(rf_sequence_n_read(copy), 30);
    check_sequence(bench, copy, "a fork without the drafts");
    check_sequence(bench, sequence, "drafts that are read");
    rf_sequence_free(sequence);
    rf_sequence_free(copy);
}

/* One more token, read by the judge: how many blocks that makes. */
static int32_t blocks_of_a_token(struct bench *bench, struct rf_sequence *sequence)
{
    int32_t before = bench->meter.made;
    prefill(bench, sequence, bench->text, 1);
    return bench->meter.made - before;
}

static void forks_share_blocks(struct bench *bench)
{
    struct meter *meter = &bench->meter;
    meter->made = 0;
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    CHECK_INT(meter->made, 0);
    prefill(bench, sequence, bench->text, 300);
    CHECK_INT(meter->made, 2);
    struct rf_sequence *copy = fork_of(bench, sequence);
    CHECK_INT(meter->made, 2);
    CHECK_INT(blocks_of_a_token(bench, copy), 1); /* the second block, of which 44 are taken */
    CHECK_INT(blocks_of_a_token(bench, copy), 0);
    CHECK_INT(blocks_of_a_token(bench, sequence), 0); /* it has the old one alone now */
    CHECK_INT(meter->out, 3);

    /* In the first block, too, the first write copies. A rewind keeps one block that the next token
     * is likely to need, if no other cache holds it. */
    rf_sequence_rewind(copy, 100);
    CHECK_INT(meter->out, 3);
    CHECK_INT(blocks_of_a_token(bench, copy), 1);
    CHECK_INT(blocks_of_a_token(bench, sequence), 0);
    rf_sequence_rewind(sequence, 256);
    CHECK_INT(meter->out, 4);
    rf_sequence_rewind(sequence, 0);
    CHECK_INT(meter->out, 3);
    check_sequence(bench, copy, "with its own first block");

    /* Whole blocks stay shared by any number. */
    prefill(bench, sequence, bench->text, 256);
    struct rf_sequence *forks[3];
    for (int i = 0; i < 3; i++) forks[i] = fork_of(bench, sequence);
    for (int i = 0; i < 3; i++) CHECK_INT(blocks_of_a_token(bench, forks[i]), 1);
    CHECK_INT(meter->out, 6);
    rf_sequence_free(sequence);
    CHECK_INT(meter->out, 6);
    for (int i = 0; i < 3; i++) rf_sequence_free(forks[i]);
    rf_sequence_free(copy);
    CHECK_INT(meter->out, 0);
}

/* ---- back and forth ---- */

static void the_text_goes_back_and_on(struct bench *bench)
{
    static const int32_t places[] = {299, 257, 256, 255, 17, 16, 1, 0};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, 300);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        rf_sequence_rewind(sequence, places[i]);
        CHECK_INT(rf_sequence_length(sequence), places[i]);
        CHECK_INT(rf_sequence_n_read(sequence), places[i]);
        if (places[i]) check_sequence(bench, sequence, "after going back");
        append(sequence, bench->text + 320 + i, 5);
        check_sequence(bench, sequence, "after going back and on");
    }
    rf_sequence_free(sequence);
}

static void tokens_ahead_are_committed_or_taken_back(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    append(sequence, bench->text, 254);
    rf_sequence_place(sequence, bench->text + 300, 5);
    CHECK_INT(rf_sequence_n_committed(sequence), 254);
    check_sequence(bench, sequence, "with tokens ahead");
    MUST(rf_sequence_commit(sequence, &error));
    MUST(rf_sequence_commit(sequence, &error));
    CHECK_INT(rf_sequence_n_committed(sequence), 256);
    check_sequence(bench, sequence, "with some committed");
    rf_sequence_rewind(sequence, 257); /* one of them stays ahead */
    CHECK_INT(rf_sequence_length(sequence), 257);
    check_sequence(bench, sequence, "with one left ahead");
    append(sequence, bench->text + 330, 2); /* the one ahead gives way */
    CHECK_INT(rf_sequence_length(sequence), 258);
    check_sequence(bench, sequence, "with others in their place");
    rf_sequence_free(sequence);
}

/* A path of a tree that begins 2 positions before a block's border, or just behind it: its entries
 * move across. `forked`: the block was shared until the tree was read. */
static void paths_cross_borders(struct bench *bench, int32_t n_text, int forked)
{
    static const int32_t parents[] = {-1, -1, 0, 1, 3, 3, 5, 6}, path[] = {1, 3, 5, 6, 7};
    enum { N = 8, KEPT = 5 };
    int32_t draft[N];
    random_tokens(draft, N, N_VOCAB, (uint32_t)n_text);
    struct rf_sequence *sequence = sequence_of(bench, N_CTX), *copy = NULL;
    prefill(bench, sequence, bench->text, n_text);
    if (forked) copy = fork_of(bench, sequence);
    for (int32_t kept = 0; kept <= KEPT; kept++) {
        struct rf_ask ask = {.sequence = sequence,
                             .n_text = n_text,
                             .draft = draft,
                             .parents = parents,
                             .n_draft = N};
        MUST(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        for (int32_t i = 0; i < kept; i++) rf_sequence_place(sequence, &draft[path[i]], 1);
        MUST(rf_sequence_accept(sequence, bench->view, n_text, path, kept, &error));
        CHECK_INT(rf_sequence_n_read(sequence), n_text + kept);
        check_sequence(bench, sequence, "behind a path of a tree");
        rf_sequence_place(sequence, bench->text + 400, 3);
        check_sequence(bench, sequence, "further behind it");
        rf_sequence_rewind(sequence, n_text);
    }
    if (copy) check_sequence(bench, copy, "a fork beside a tree");
    rf_sequence_free(sequence);
    rf_sequence_free(copy);
}

/* ---- a second view on the same cache ---- */

static void another_view_reads_along(struct bench *bench)
{
    struct rf_view *judge = bench->view, *draft = bench->draft;
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    float first[N_VOCAB], second[N_VOCAB];
    prefill(bench, sequence, bench->text, 250);
    CHECK_INT(rf_sequence_unread(sequence, judge, 250), 0);
    CHECK_INT(rf_sequence_unread(sequence, draft, 250), 1); /* no answer of its own */
    CHECK_INT(rf_sequence_unread(sequence, draft, 253), 3);

    /* Behind the judge's entries it writes its own. */
    rf_sequence_place(sequence, bench->text + 300, 10);
    copy_answer(sequence, draft, first);
    CHECK_INT(rf_sequence_n_read(sequence), 250);
    CHECK_INT(rf_sequence_unread(sequence, draft, 260), 0);
    CHECK_INT(rf_sequence_unread(sequence, draft, 262), 2);
    CHECK_INT(rf_sequence_unread(sequence, judge, 260), 10);

    /* A token of them taken back: what is left is still the drafter's. */
    rf_sequence_rewind(sequence, 259);
    CHECK_INT(rf_sequence_unread(sequence, draft, 259), 1);
    rf_sequence_place(sequence, bench->text + 309, 1);
    copy_answer(sequence, draft, second);
    CHECK(memcmp(first, second, sizeof first) == 0);

    /* The judge overwrites them; then its entries are what the drafter goes on from. */
    check_sequence(bench, sequence, "the judge behind a drafter");
    CHECK_INT(rf_sequence_n_read(sequence), 260);
    CHECK_INT(rf_sequence_unread(sequence, draft, 262), 2);
    copy_answer(sequence, draft, second);
    CHECK(memcmp(first, second, sizeof first) != 0);
    /* Reading the last token again, it took that one entry from the judge. */
    CHECK_INT(rf_sequence_n_read(sequence), 259);
    check_sequence(bench, sequence, "the judge, again");
    rf_sequence_free(sequence);
}

/* A drafter that verifies a tree itself, whose path the judge then reads. */
static void another_view_keeps_paths(struct bench *bench)
{
    static const int32_t parents[] = {-1, -1, 1, 2}, path[] = {1, 2, 3};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    int32_t draft[4];
    random_tokens(draft, 4, N_VOCAB, 3);
    prefill(bench, sequence, bench->text, 253);
    append(sequence, bench->text + 253, 1);
    struct rf_ask ask = {
        .sequence = sequence, .n_text = 254, .draft = draft, .parents = parents, .n_draft = 4};
    MUST(rf_read(bench->draft, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
    rf_sequence_place(sequence, draft + 1, 3);
    MUST(rf_sequence_accept(sequence, bench->draft, 254, path, 3, &error));
    CHECK_INT(rf_sequence_n_read(sequence), 253);
    CHECK_INT(rf_sequence_unread(sequence, bench->draft, 258), 1);
    struct rf_sequence *copy = fork_of(bench, sequence);
    CHECK_INT(rf_sequence_n_read(copy), 253);
    check_sequence(bench, copy, "a fork behind a drafter");
    check_sequence(bench, sequence, "the judge behind a drafter's path");
    rf_sequence_free(copy);
    rf_sequence_free(sequence);
}

/* ---- anything in any order ---- */

enum { PREFIX = 250, STEPS = 60 };

/* One random thing that may happen to a text between PREFIX and PREFIX + 40 tokens. */
static void do_something(struct bench *bench, struct rf_sequence **sequence, uint32_t *state)
{
    struct rf_sequence *s = *sequence, *copy;
    int32_t length = rf_sequence_length(s), tokens[8], n = 1 + (int32_t)random_below(state, 8);
    float logits[N_VOCAB];
    random_tokens(tokens, n, N_VOCAB, random_below(state, 1u << 30));
    if (length > PREFIX + 30)
        rf_sequence_rewind(s, PREFIX + (int32_t)random_below(state, (uint32_t)(length - PREFIX)));
    switch (random_below(state, 7)) {
    case 0: append(s, tokens, n); break;
    case 1: rf_sequence_place(s, tokens, n); break;
    case 2:
        rf_sequence_place(s, tokens, n);
        MUST(rf_sequence_commit(s, &error));
        break;
    case 3:
        rf_sequence_rewind(s, PREFIX + (int32_t)random_below(
                                           state, (uint32_t)(rf_sequence_length(s) - PREFIX + 1)));
        break;
    case 4: copy_answer(s, bench->draft, logits); break;
    case 5:
        copy = fork_of(bench, s);
        rf_sequence_free(s);
        *sequence = copy;
        break;
    default: {
        struct rf_view *view = random_below(state, 3) ? bench->view : bench->draft;
        int32_t parents[8], path[8], k = 0;
        for (int32_t i = 0; i < n; i++)
            parents[i] = (int32_t)random_below(state, (uint32_t)i + 1) - 1;
        struct rf_ask ask = {.sequence = s,
                             .n_text = rf_sequence_length(s),
                             .draft = tokens,
                             .parents = parents,
                             .n_draft = n};
        MUST(rf_read(view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        for (int32_t i = 0; i < n; i++) /* the path of first children */
            if (parents[i] == (k ? path[k - 1] : -1)) path[k++] = i;
        for (int32_t i = 0; i < k; i++) rf_sequence_place(s, &tokens[path[i]], 1);
        MUST(rf_sequence_accept(s, view, ask.n_text, path, k, &error));
    }
    }
}

static void anything_may_happen(struct bench *bench, uint32_t seed)
{
    struct rf_sequence *prefix = sequence_of(bench, N_CTX), *sequence;
    prefill(bench, prefix, bench->text, PREFIX);
    sequence = fork_of(bench, prefix);
    for (int step = 0; step < STEPS; step++) {
        do_something(bench, &sequence, &seed);
        if (step % 3) continue; /* things that pile up unread are part of it */
        float got[N_VOCAB], wanted[N_VOCAB];
        int32_t n = rf_sequence_length(sequence);
        copy_answer(sequence, bench->view, got);
        struct rf_sequence *plain = fork_of(bench, prefix);
        append(plain, rf_sequence_tokens(sequence) + PREFIX, n - PREFIX);
        if (n == PREFIX) copy_answer(prefix, bench->view, wanted);
        if (n > PREFIX) copy_answer(plain, bench->view, wanted);
        CHECK_MSG(memcmp(got, wanted, sizeof got) == 0, "%s: step %d: other logits", bench->name,
                  step);
        rf_sequence_free(plain);
    }
    check_sequence(bench, sequence, "after many things");
    rf_sequence_free(sequence);
    rf_sequence_free(prefix);
}

/* ---- states ---- */

static uint8_t *save(struct rf_sequence *sequence, uint64_t *bytes)
{
    *bytes = rf_sequence_kv_bytes(sequence, rf_sequence_n_read(sequence));
    uint8_t *kv = malloc((size_t)*bytes + 1);
    if (!kv) exit(1);
    memset(kv, 0xa5, (size_t)*bytes + 1);
    MUST(rf_sequence_kv_save(sequence, kv, &error));
    CHECK(kv[*bytes] == 0xa5);
    return kv;
}

static void states_are_saved_and_loaded(struct bench *bench)
{
    static const int32_t lengths[] = {1, 15, 16, 17, 255, 256, 257, 300};
    struct rf_sequence *other = sequence_of(bench, 400);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int32_t n = lengths[i];
        uint64_t bytes, again_bytes;
        struct rf_sequence *sequence = sequence_of(bench, N_CTX);
        prefill(bench, sequence, bench->text, n);
        append(sequence, bench->text + n, 3); /* of which the state has no keys and values */
        uint8_t *kv = save(sequence, &bytes);
        prefill(bench, other, bench->text + 300, 20); /* what was there is gone */
        MUST(rf_sequence_load(other, bench->text, n + 3, n, kv, &error));
        CHECK_INT(rf_sequence_length(other), n + 3);
        CHECK_INT(rf_sequence_n_read(other), n);
        uint8_t *again = save(other, &again_bytes);
        CHECK(bytes == again_bytes && memcmp(kv, again, (size_t)bytes) == 0);
        check_sequence(bench, other, "a loaded state");
        append(other, bench->text + 330, 2);
        check_sequence(bench, other, "behind a loaded state");
        free(kv);
        free(again);
        rf_sequence_free(sequence);
    }
    rf_sequence_free(other);
}

static float half_value(const uint8_t *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float size =
        exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
    return half >> 15 ? -size : size;
}

/* Two states of 16 bits are one another up to rounding. */
static void check_states(const struct bench *from, const struct bench *to, const uint8_t *kv,
                         const uint8_t *own_kv, uint64_t bytes)
{
    double off = 0, size = 0;
    for (uint64_t i = 0; i < bytes; i += 2) {
        double a = (double)half_value(kv + i), b = (double)half_value(own_kv + i);
        off += (a - b) * (a - b);
        size += b * b;
    }
    CHECK_MSG(sqrt(off / size) < 1e-2, "%s's state is off %s's by %.1e", from->name, to->name,
              sqrt(off / size));
}

/* One device's state goes to and fro without a change. */
static void states_move_between(struct bench *from, struct bench *to)
{
    enum { N = 461 };
    uint64_t bytes, own_bytes, moved_bytes;
    struct rf_sequence *sequence = sequence_of(from, N_CTX), *own = sequence_of(to, N_CTX),
                       *moved = sequence_of(to, N_CTX), *back = sequence_of(from, N_CTX);
    prefill(from, sequence, from->text, N);
    prefill(to, own, from->text, N);
    uint8_t *kv = save(sequence, &bytes), *own_kv = save(own, &own_bytes);
    CHECK(bytes == own_bytes);
    if (bytes == own_bytes && !rf_kv_is_quantised(from->view->shape.kv))
        check_states(from, to, kv, own_kv, bytes);
    MUST(rf_sequence_load(moved, from->text, N, N, kv, &error));
    uint8_t *moved_kv = save(moved, &moved_bytes);
    CHECK(moved_bytes == bytes && memcmp(moved_kv, kv, (size_t)bytes) == 0);
    float ours[N_VOCAB], theirs[N_VOCAB];
    copy_answer(moved, to->view, theirs);
    copy_answer(sequence, from->view, ours);
    double off = 0, size = 0;
    for (int v = 0; v < N_VOCAB; v++) {
        off += pow((double)ours[v] - (double)theirs[v], 2);
        size += pow((double)ours[v], 2);
    }
    CHECK_MSG(sqrt(off / size) < 2e-2, "%s goes on from %s's state, off by %.1e", to->name,
              from->name, sqrt(off / size));
    MUST(rf_sequence_load(back, from->text, N, N, moved_kv, &error));
    check_sequence(from, back, "a state that comes back");
    free(kv);
    free(own_kv);
    free(moved_kv);
    rf_sequence_free(sequence);
    rf_sequence_free(own);
    rf_sequence_free(moved);
    rf_sequence_free(back);
}

/* ---- caches that quantise ---- */

/* Of a long text only the newest positions are still there in 16 bits. Wherever it is cut, forked
 * or loaded, it goes on as if it had been read plainly. */
static void what_was_given_up_is_read_again(struct bench *bench)
{
    enum { N = 1500, BLOCKS_KEPT = 4, SPARE = 1024 };
    static const int32_t places[] = {N - 1, 1281, 1280, 1152, 1025, 1024, 520, 127};
    static int32_t text[N + 100];
    random_tokens(text, N + 100, N_VOCAB, 11);
    int32_t before = bench->meter.out;
    struct rf_sequence *sequence = sequence_of(bench, N + 100),
                       *other = sequence_of(bench, N + 100);
    prefill(bench, sequence, text, N);
    if (bench->counts_blocks) CHECK_INT(bench->meter.out - before, BLOCKS_KEPT);
    check_sequence(bench, sequence, "a long text");

    uint64_t bytes;
    uint8_t *kv = save(sequence, &bytes);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct rf_sequence *copy = fork_of(bench, sequence);
        rf_sequence_rewind(copy, places[i]);
        CHECK_INT(rf_sequence_length(copy), places[i]);
        CHECK_INT(rf_sequence_n_read(copy), places[i] >= SPARE ? places[i] : 0);
        append(copy, text + N, 3);
        check_sequence(bench, copy, "a long text that was cut");
        MUST(rf_sequence_load(other, text, N, N, kv, &error));
        CHECK_INT(rf_sequence_n_read(other), N);
        if (i % 4 == 0) check_sequence(bench, other, "a long text that was loaded");
        rf_sequence_rewind(other, places[i]);
        append(other, text + N, 3);
        check_sequence(bench, other, "a long text that was loaded and cut");
        rf_sequence_free(copy);
    }
    append(sequence, text + N, 40);
    check_sequence(bench, sequence, "a long text behind its forks");
    free(kv);
    rf_sequence_free(sequence);
    rf_sequence_free(other);
}

static void a_checkpoint_shortens_reading(struct bench *bench)
{
    enum { N = 17500, CHECKPOINT = 16384, CUT = 16400, BLOCKS_KEPT = 5 };
    static int32_t text[N];
    random_tokens(text, N, N_VOCAB, 12);
    struct rf_sequence *sequence = sequence_of(bench, N);
    int32_t before = bench->meter.most = bench->meter.out;
    prefill(bench, sequence, text, N);
    if (bench->counts_blocks) CHECK_INT(bench->meter.most - before, BLOCKS_KEPT);
    rf_sequence_rewind(sequence, CUT);
    CHECK_INT(rf_sequence_n_read(sequence), CHECKPOINT);
    append(sequence, text, 3);
    check_sequence(bench, sequence, "from a checkpoint");
    rf_sequence_rewind(sequence, CHECKPOINT);
    CHECK_INT(rf_sequence_n_read(sequence), CHECKPOINT);
    check_sequence(bench, sequence, "at a checkpoint");
    rf_sequence_free(sequence);
}

/* A long text takes at most 56 % of the memory that 16 bits take. */
static void a_quantised_cache_is_small(const struct device *device)
{
    const struct rf_params long_model = {.n_layer = 28, .n_head_kv = 2, .head_dim = 128};
    double whole = (double)device->kind->kv_bytes(&long_model, RF_KV_F16, 32768);
    CHECK((double)device->kind->kv_bytes(&long_model, RF_KV_Q8, 32768) <= 0.56 * whole);
    CHECK((double)device->kind->kv_bytes(&long_model, RF_KV_Q4, 32768) <= 0.31 * whole);
}

/* ---- reading ---- */

static void answers_are_remembered(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, 200);
    const struct rf_best *best = rf_sequence_best(sequence, bench->view);
    uint64_t passes = bench->view->passes;
    float logits[N_VOCAB];
    copy_answer(sequence, bench->view, logits);
    CHECK_INT(bench->view->passes, passes);
    CHECK(best && best->n == 1);
    for (int v = 0; best && v < N_VOCAB; v++) CHECK(logits[v] <= best->top[0].logit);
    if (best) CHECK(logits[best->top[0].token] == best->top[0].logit);
    CHECK(rf_sequence_best(sequence, bench->draft) == NULL);
    prefill(bench, sequence, NULL, 0); /* all is read */
    CHECK_INT(bench->view->passes, passes);

    rf_sequence_rewind(sequence, 199);
    CHECK(rf_sequence_best(sequence, bench->view) == NULL);
    CHECK_INT(rf_sequence_unread(sequence, bench->view, 199), 1);
    check_sequence(bench, sequence, "one token back");
    rf_sequence_free(sequence);
}

static double log_softmax(const float *logits, int32_t token)
{
    double largest = -INFINITY, sum = 0;
    for (int v = 0; v < N_VOCAB; v++) largest = fmax(largest, (double)logits[v]);
    for (int v = 0; v < N_VOCAB; v++) sum += exp((double)logits[v] - largest);
    return (double)logits[token] - largest - log(sum);
}

/* From several beginnings, in one and in several passes. */
static void scores_are_log_softmax(struct bench *bench)
{
    enum { N = 130 };
    static double logprobs[N], later[N];
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    MUST(rf_sequence_score(sequence, bench->view, bench->text, N, 1, logprobs, &error));
    CHECK_INT(rf_sequence_n_committed(sequence), N);
    check_sequence(bench, sequence, "after scoring");
    for (int32_t i = 1; i < N; i += 13) {
        float logits[N_VOCAB];
        read_plainly(bench, bench->text, i, logits);
        double wanted = log_softmax(logits, bench->text[i]);
        CHECK_MSG(fabs(logprobs[i - 1] - wanted) < 1e-5, "%s: token %d scores %f, not %f",
                  bench->name, i, logprobs[i - 1], wanted);
    }
    static const int32_t cuts[] = {1, 50, 96, 97};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        int32_t cut = cuts[c];
        rf_sequence_rewind(sequence, 0);
        prefill(bench, sequence, bench->text, cut);
        MUST(
            rf_sequence_score(sequence, bench->view, bench->text + cut, N - cut, 0, later, &error));
        CHECK(memcmp(later, logprobs + cut - 1, (size_t)(N - cut) * sizeof *later) == 0);
        rf_sequence_rewind(sequence, cut);
        MUST(rf_sequence_score(sequence, bench->view, bench->text + cut, N - cut, 10, later,
                               &error));
        CHECK(memcmp(later, logprobs + cut + 9, (size_t)(N - cut - 10) * sizeof *later) == 0);
    }
    rf_sequence_free(sequence);
}

/* Reads of up to `stop` blocks. */
struct stop {
    int32_t calls, stop, done, total;
};

static int stop_reading(void *user, int32_t done, int32_t total)
{
    struct stop *stop = user;
    stop->done = done;
    stop->total = total;
    return ++stop->calls == stop->stop;
}

#define CHECK_FAILS(call, code, part) check_fails((call), (code), &failure, (part), __LINE__)

static void check_fails(int got, int code, struct rf_error *failure, const char *part, int line)
{
    CHECK_MSG(got == code && failure->code == code, "line %d: gives %d, not %d", line, got, code);
    CHECK_MSG(strstr(failure->text, part) != NULL, "line %d: \"%s\" does not say \"%s\"", line,
              failure->text, part);
    *failure = (struct rf_error){.text = ""};
}

static void passes_can_be_cancelled(struct bench *bench)
{
    struct rf_error failure = {.text = ""};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, 10);
    for (int32_t blocks = 1; blocks <= 3; blocks++) {
        struct stop stop = {.stop = blocks};
        CHECK_FAILS(rf_sequence_prefill(sequence, bench->view, bench->text + 10, 400, stop_reading,
                                        &stop, &failure),
                    RF_ERR_CANCELLED, "cancelled after");
        CHECK_INT(stop.total, 400);
        CHECK_INT(stop.done, blocks * MAX_ROWS);
        CHECK_INT(rf_sequence_n_committed(sequence), 10 + blocks * MAX_ROWS);
        check_sequence(bench, sequence, "after a cancelled read");
        rf_sequence_rewind(sequence, 10);
    }
    /* In the middle of a pass. */
    atomic_store(&bench->cancel, 1);
    CHECK_FAILS(
        rf_sequence_prefill(sequence, bench->view, bench->text + 10, 5, NULL, NULL, &failure),
        RF_ERR_CANCELLED, "10 tokens");
    CHECK_INT(rf_sequence_length(sequence), 10);
    append(sequence, bench->text + 10, 2);
    struct rf_ask ask = {
        .sequence = sequence, .n_text = 12, .draft = bench->text + 40, .n_draft = 3};
    CHECK_FAILS(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &failure),
                RF_ERR_CANCELLED, "12 tokens");
    CHECK_INT(rf_sequence_length(sequence), 12);
    double seconds;
    CHECK_FAILS(rf_sequence_time_passes(sequence, bench->view, 3, 20, 1, &seconds, &failure),
                RF_ERR_CANCELLED, "12 tokens");
    CHECK_INT(rf_sequence_length(sequence), 12);
    atomic_store(&bench->cancel, 0);
    check_sequence(bench, sequence, "after cancelled passes");
    rf_sequence_free(sequence);
}

static void contexts_are_full(struct bench *bench)
{
    enum { SMALL = 20 };
    struct rf_error failure = {.text = ""};
    struct rf_sequence *sequence = sequence_of(bench, SMALL);
    CHECK_FAILS(rf_sequence_prefill(sequence, bench->view, bench->text, 21, NULL, NULL, &failure),
                RF_ERR_CONTEXT, "21 tokens do not fit: the context holds 20, of which 0 are taken");
    CHECK_INT(rf_sequence_length(sequence), 0);
    prefill(bench, sequence, bench->text, 19);
    rf_sequence_place(sequence, bench->text + 19, 3); /* ahead there is room */
    MUST(rf_sequence_commit(sequence, &error));
    CHECK_FAILS(rf_sequence_commit(sequence, &failure), RF_ERR_CONTEXT, "of 20 tokens is full");
    CHECK_INT(rf_sequence_length(sequence), 22);
    rf_sequence_rewind(sequence, 20);
    CHECK_FAILS(rf_sequence_append(sequence, bench->text, 1, &failure), RF_ERR_CONTEXT,
                "of 20 tokens is full");
    check_sequence(bench, sequence, "a full context");
    struct rf_ask ask = {
        .sequence = sequence, .n_text = 18, .draft = bench->text + 40, .n_draft = 3};
    CHECK_FAILS(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &failure),
                RF_ERR_CONTEXT, "3 draft tokens do not fit");
    ask.n_draft = 2; /* fills it */
    MUST(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
    float last[N_VOCAB];
    int32_t tokens[SMALL];
    copy_logits(bench->view, ask.first + 2, last);
    memcpy(tokens, bench->text, 18 * sizeof *tokens);
    memcpy(tokens + 18, bench->text + 40, 2 * sizeof *tokens);
    check_logits(bench, last, tokens, SMALL, "the last rows of a context");
    rf_sequence_free(sequence);
}

static void wrong_arguments_are_named(struct bench *bench)
{
    static const int32_t outside[] = {3, N_VOCAB}, negative[] = {-1};
    struct rf_view *view = bench->view, *none;
    struct rf_error failure = {.text = ""};
    struct rf_read_options options = {0};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX), *other = sequence_of(bench, N_CTX);
    const float *logits;
    double values[8];

    /* An empty text. */
    struct rf_ask ask = {.sequence = sequence, .n_text = 0};
    CHECK_FAILS(rf_sequence_answer(sequence, view, &logits, &failure), RF_ERR_ARGUMENT,
                "no logits");
    CHECK_FAILS(rf_read(view, &ask, 1, &options, NULL, &failure), RF_ERR_ARGUMENT,
                "nothing to go on from");
    CHECK_FAILS(rf_sequence_score(sequence, view, bench->text, 3, 0, values, &failure),
                RF_ERR_ARGUMENT, "first 0");

    CHECK_FAILS(rf_sequence_append(sequence, outside, 2, &failure), RF_ERR_ARGUMENT,
                "token 61 at index 1");
    CHECK_FAILS(rf_sequence_append(sequence, negative, 1, &failure), RF_ERR_ARGUMENT, "token -1");
    CHECK_FAILS(rf_sequence_score(sequence, view, outside, 2, 1, values, &failure), RF_ERR_ARGUMENT,
                "token 61");
    CHECK_INT(rf_sequence_length(sequence), 0);

    prefill(bench, sequence, bench->text, 10);
    CHECK_FAILS(rf_sequence_score(sequence, view, bench->text, 3, 4, values, &failure),
                RF_ERR_ARGUMENT, "first 4");
    CHECK_FAILS(rf_sequence_score(sequence, view, bench->text, 3, -1, values, &failure),
                RF_ERR_ARGUMENT, "first -1");
    CHECK_FAILS(rf_sequence_time_passes(sequence, view, MAX_ROWS + 1, 10, 1, values, &failure),
                RF_ERR_ARGUMENT, "rows 97");
    CHECK_FAILS(rf_sequence_time_passes(sequence, view, 1, 10, 0, values, &failure),
                RF_ERR_ARGUMENT, "repeats 0");
    CHECK_FAILS(rf_sequence_time_passes(sequence, view, 1, 9, 1, values, &failure), RF_ERR_ARGUMENT,
                "context 9");
    CHECK_FAILS(rf_sequence_time_passes(sequence, view, 2, N_CTX - 1, 1, values, &failure),
                RF_ERR_ARGUMENT, "context 599");

    /* More than a pass takes. */
    CHECK_FAILS(rf_read(view, &ask, 0, &options, NULL, &failure), RF_ERR_ARGUMENT, "0 sequences");
    ask = (struct rf_ask){.sequence = sequence, .n_text = 10, .draft = bench->text, .n_draft = 64};
    CHECK_FAILS(rf_read(view, &ask, 1, &options, NULL, &failure), RF_ERR_ARGUMENT, "64 draft rows");
    ask.n_draft = -1;
    CHECK_FAILS(rf_read(view, &ask, 1, &options, NULL, &failure), RF_ERR_ARGUMENT, "-1 draft rows");
    prefill(bench, other, bench->text, 10);
    struct rf_ask asks[] = {
        {.sequence = sequence, .n_text = 10, .draft = bench->text, .n_draft = 40},
        {.sequence = other, .n_text = 10, .draft = bench->text, .n_draft = 40}};
    CHECK_FAILS(rf_read(view, asks, 2, &options, NULL, &failure), RF_ERR_ARGUMENT,
                "41 rows after the 41 of other sequences");

    static const int32_t taps[] = {1, 0}, beyond[] = {2};
    struct rf_view_options wrong = {.max_rows = 4, .taps = taps, .n_taps = 2};
    CHECK_FAILS(rf_view_new(&none, bench->opened.model, bench->opened.queue, &wrong, &failure),
                RF_ERR_ARGUMENT, "taps[1]");
    wrong.taps = beyond;
    wrong.n_taps = 1;
    CHECK_FAILS(rf_view_new(&none, bench->opened.model, bench->opened.queue, &wrong, &failure),
                RF_ERR_ARGUMENT, "layer 2");
    wrong.n_taps = RF_MAX_TAPS + 1;
    CHECK_FAILS(rf_view_new(&none, bench->opened.model, bench->opened.queue, &wrong, &failure),
                RF_ERR_ARGUMENT, "n_taps 65");

    check_sequence(bench, sequence, "after wrong arguments");
    check_sequence(bench, other, "after wrong arguments");
    rf_sequence_free(sequence);
    rf_sequence_free(other);
}

static void timed_passes_leave_the_text(struct bench *bench)
{
    static const int32_t rows[] = {1, 4, 20, MAX_ROWS};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    double seconds[2];
    prefill(bench, sequence, bench->text, 100);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MUST(rf_sequence_time_passes(sequence, bench->view, rows[i], i % 2 ? 300 : 100, 2, seconds,
                                     &error));
        CHECK(seconds[0] >= 0 && seconds[1] >= 0);
        CHECK_INT(rf_sequence_length(sequence), 100);
        check_sequence(bench, sequence, "after timed passes");
    }
    rf_sequence_free(sequence);
}

/* A sequence without a cache holds a text. */
static void texts_need_no_device(void)
{
    struct rf_sequence *sequence;
    static const int32_t tokens[] = {1, 1 << 20, 3};
    const struct rf_sequence_shape shape = {.n_ctx = 4};
    MUST(rf_sequence_new(&sequence, NULL, &shape, &rf_system_allocator, &error));
    append(sequence, tokens, 3);
    rf_sequence_place(sequence, tokens, 2);
    MUST(rf_sequence_commit(sequence, &error));
    rf_sequence_rewind(sequence, 4);
    CHECK_INT(rf_sequence_n_committed(sequence), 4);
    CHECK_INT(rf_sequence_tokens(sequence)[3], 1);
    rf_sequence_free(sequence);
}

/* ---- views ---- */

static void other_taps_change_nothing(struct bench *bench)
{
    enum { N = 12 };
    static const int32_t all[] = {-1, 0, 1}, some[] = {1};
    const enum rf_kv_type kv = bench->view->shape.kv;
    const struct rf_view_options with_all = {.kv = kv, .max_rows = N, .taps = all, .n_taps = 3},
                                 with_some = {.kv = kv, .max_rows = N, .taps = some, .n_taps = 1};
    const struct rf_backend_ops *ops = bench->opened.backend->ops;
    struct rf_view *views[] = {view_of(&bench->opened, bench->opened.model, &with_all),
                               view_of(&bench->opened, bench->opened.model, &with_some)};
    static float rows[2][N][N_EMBD], logits[2][N_VOCAB];
    for (int v = 0; v < 2; v++) {
        const float *row;
        struct rf_sequence *sequence = sequence_of(bench, N_CTX);
        append(sequence, bench->text, N);
        copy_answer(sequence, views[v], logits[v]);
        for (int32_t i = 0; i < N; i++) {
            MUST(ops->tap(views[v], v == 0 ? 2 : 0, i, &row, &error));
            memcpy(rows[v][i], row, sizeof rows[v][i]);
        }
        /* The embedding is what every other row of the same token begins with. */
        for (int32_t i = 0; v == 0 && i < N; i++) {
            float embedded[N_EMBD];
            MUST(ops->tap(views[v], 0, i, &row, &error));
            memcpy(embedded, row, sizeof embedded);
            CHECK(memcmp(embedded, rows[v][i], sizeof embedded) != 0);
            MUST(ops->tap(views[v], 1, i, &row, &error));
            CHECK(memcmp(embedded, row, sizeof embedded) != 0);
        }
        rf_sequence_free(sequence);
    }
    CHECK(memcmp(rows[0], rows[1], sizeof rows[0]) == 0);
    CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0);
    check_logits(bench, logits[0], bench->text, N, "with taps");
    rf_view_free(views[0]);
    rf_view_free(views[1]);
}

static double error_of(const float *a, const float *b)
{
    double off = 0;
    for (int v = 0; v < N_VOCAB; v++) off += pow((double)a[v] - (double)b[v], 2);
    return off;
}

static void precisions_share_a_cache(const struct device *device)
{
    enum { N = 40 };
    static const enum rf_dtype mxfp4 = RF_MXFP4;
    struct rf_source *source = synthetic_new(&params, &mxfp4, 1);
    struct bench bench;
    static float exact[N * N_VOCAB];
    if (!source) exit(1);
    bench_open(&bench, device, source, RF_WEIGHTS_STORED, RF_KV_F16);
    const struct rf_view_options in_16 = {.max_rows = MAX_ROWS, .precision = RF_PRECISION_16};
    struct rf_view *judge = view_of(&bench.opened, bench.opened.model, &in_16);
    const struct rf_sequence_shape shape = {.n_ctx = N_CTX};
    struct rf_sequence *coarse = sequence_of(&bench, N_CTX), *fine;
    MUST(rf_sequence_new(&fine, judge, &shape, &bench.allocator, &error));
    CHECK_INT(reference_logits(source, REFERENCE_EXACT, bench.text, N, NULL, NULL, exact), 0);
    double off_8 = 0, off_16 = 0;
    float in_8_bits[N_VOCAB], in_16_bits[N_VOCAB], again[N_VOCAB];
    for (int32_t i = 0; i < N; i++) {
        append(coarse, bench.text + i, 1);
        append(fine, bench.text + i, 1);
        copy_answer(coarse, bench.view, in_8_bits);
        copy_answer(fine, judge, in_16_bits);
        CHECK(memcmp(in_8_bits, in_16_bits, sizeof in_8_bits) != 0);
        off_8 += error_of(in_8_bits, exact + i * N_VOCAB);
        off_16 += error_of(in_16_bits, exact + i * N_VOCAB);
    }
    CHECK_MSG(off_16 < off_8 / 4, "%s: 16 bits are off by %.1e, 8 bits by %.1e", device->name,
              off_16, off_8);
    /* 8 bits draft behind the entries of 16 bits, which then judge. */
    rf_sequence_rewind(fine, N - 5);
    rf_sequence_place(fine, bench.text + N - 5, 5);
    copy_answer(fine, bench.view, again);
    CHECK(memcmp(again, in_16_bits, sizeof again) != 0);
    copy_answer(fine, judge, again);
    CHECK(memcmp(again, in_16_bits, sizeof again) == 0);
    rf_sequence_free(coarse);
    rf_sequence_free(fine);
    rf_view_free(judge);
    bench_close(&bench);
    synthetic_free(source);
}

/* ---- all of it ---- */

static void check_bench(struct bench *bench)
{
    int shares_blocks = bench->opened.device->kind == &rf_cpu_backend_kind;
    passes_take_several_sequences(bench, 2);
    passes_take_several_sequences(bench, TALKS);
    forks_go_on_alone(bench);
    forks_have_what_is_committed(bench);
    if (shares_blocks) forks_share_blocks(bench);
    the_text_goes_back_and_on(bench);
    tokens_ahead_are_committed_or_taken_back(bench);
    for (int forked = 0; forked < 2; forked++)
        for (int32_t n_text = 246; n_text <= 257; n_text += n_text == 246 ? 8 : 1)
            paths_cross_borders(bench, n_text, forked);
    another_view_reads_along(bench);
    another_view_keeps_paths(bench);
    for (uint32_t seed = 0; seed < 4; seed++) anything_may_happen(bench, seed);
    states_are_saved_and_loaded(bench);
    answers_are_remembered(bench);
    scores_are_log_softmax(bench);
    passes_can_be_cancelled(bench);
    contexts_are_full(bench);
    wrong_arguments_are_named(bench);
    timed_passes_leave_the_text(bench);
    other_taps_change_nothing(bench);
}

static void check_model(const enum rf_dtype *types, size_t n_types, enum rf_weight_form form)
{
    static struct bench benches[N_DEVICES];
    struct rf_source *source = synthetic_new(&params, types, n_types);
    CHECK(source != NULL);
    if (!source) return;
    for (int d = first_device; d < end_device; d++) {
        bench_open(&benches[d], &devices[d], source, form, RF_KV_F16);
        check_bench(&benches[d]);
    }
    for (int from = first_device; from < end_device; from++)
        for (int to = first_device; to < end_device; to++)
            if (from != to) states_move_between(&benches[from], &benches[to]);
    for (int d = first_device; d < end_device; d++) bench_close(&benches[d]);
    synthetic_free(source);
}

/* Caches that quantise. */
static void check_quantised(const struct device *device, enum rf_kv_type kv)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static struct bench bench;
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) exit(1);
    bench_open(&bench, device, source, RF_WEIGHTS_BF16, kv);
    check_bench(&bench);
    what_was_given_up_is_read_again(&bench);
    if (!device->tier && kv == RF_KV_Q8) {
        a_quantised_cache_is_small(device);
        a_checkpoint_shortens_reading(&bench);
    }
    bench_close(&bench);
    synthetic_free(source);
}

static void quantised_states_move(const struct device *one, const struct device *other,
                                  enum rf_kv_type kv)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static struct bench benches[2];
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) exit(1);
    bench_open(&benches[0], one, source, RF_WEIGHTS_BF16, kv);
    bench_open(&benches[1], other, source, RF_WEIGHTS_BF16, kv);
    states_move_between(&benches[0], &benches[1]);
    states_move_between(&benches[1], &benches[0]);
    bench_close(&benches[0]);
    bench_close(&benches[1]);
    synthetic_free(source);
}

/* Argument "cuda": the plain device, a CUDA device, and that with the processor; without it, all
 * others. */
int main(int argc, char **argv)
{
    int on_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
    int n_here = IS_SANITIZED ? 2 : N_DEVICES - 2;
    first_device = on_cuda ? N_DEVICES - 3 : 0;
    end_device = on_cuda ? N_DEVICES : n_here;
    if (on_cuda) device_must_exist(&devices[N_DEVICES - 2]);
    static const enum rf_dtype bf16 = RF_BF16,
                               mixed[] = {RF_Q4_0, RF_Q8_0, RF_BF16, RF_MXFP4, RF_Q4_1};
    texts_need_no_device();
    check_model(&bf16, 1, RF_WEIGHTS_BF16);
    check_model(mixed, 5, RF_WEIGHTS_STORED);
    for (int d = first_device; d < end_device; d++) {
        precisions_share_a_cache(&devices[d]);
        if (strstr(devices[d].name, "plain")) continue; /* it quantises nothing */
        check_quantised(&devices[d], RF_KV_Q8);
        check_quantised(&devices[d], RF_KV_Q4);
    }
    for (int d = on_cuda ? N_DEVICES - 2 : 1; d < (on_cuda ? N_DEVICES : 2); d++) {
        quantised_states_move(&devices[0], &devices[d], RF_KV_Q8);
        quantised_states_move(&devices[0], &devices[d], RF_KV_Q4);
    }
    return check_result();
}
