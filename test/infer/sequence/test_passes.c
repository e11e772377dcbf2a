/* Sequences in passes: several in one, and two views on one cache, each with its own weights, taps
 * or precision. */
#include <math.h>

#include "infer/sequence/fixture.h"
#include "reference/forward.h"
#include "support/synthetic.h"

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
    struct rf_source *source = bench_source(&mxfp4, 1);
    struct bench bench;
    static float exact[N * N_VOCAB];
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

static void check_passes(struct bench *bench)
{
    passes_take_several_sequences(bench, 2);
    passes_take_several_sequences(bench, TALKS);
    another_view_reads_along(bench);
    another_view_keeps_paths(bench);
    other_taps_change_nothing(bench);
}

int main(int argc, char **argv)
{
    devices_choose(argc, argv);
    on_every_bench(check_passes);
    for (int d = first_device; d < end_device; d++) precisions_share_a_cache(&bench_devices[d]);
    return check_result();
}
