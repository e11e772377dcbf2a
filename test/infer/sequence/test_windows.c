/* Layers with a window, whose keys and values are given up behind it: wherever a text is cut,
 * forked, loaded or fails to be read, it goes on as one that was read plainly and kept all. */
#include "cpu/cpu_backend.h"
#include "infer/sequence/fixture.h"
#include "infer/state_kept.h"
#include "infer/window_kept.h"
#include "support/plain_backend.h"
#include "support/synthetic.h"

enum { N = 3000, MORE = 700 };

static int32_t text[N + MORE];

/* ---- the models ---- */

static struct rf_params windowed_params(const uint8_t *flags, int32_t n_layer, int32_t window)
{
    struct rf_params params = bench_params;
    params.n_layer = n_layer;
    params.n_ff = 96; /* no buffer of a view is as large as a block */
    params.layer_flags = flags;
    params.window = window;
    return params;
}

/* Blocks of the cache of both kinds on the cores. */
static uint64_t bytes_of_kind(const struct rf_params *params, enum rf_kv_kind kind)
{
    return (uint64_t)rf_n_of_kind(params, kind) * (uint64_t)params->n_head_kv *
           (uint64_t)(params->head_dim + 16) * 2 * RF_KV_POSITIONS;
}

/* ---- what is kept ---- */

/* The two newest of twelve blocks are there, and those before the blocks 4, 8 and 10. */
static void what_is_behind_windows_is_given_up(struct bench *bench)
{
    enum { BLOCKS = 12, KEPT = 5 };
    static const struct {
        int32_t at, n_read;
    } cuts[] = {{N - 1, N - 1}, {2900, 2900}, {2816, 2816}, {2600, 2600}, {2500, 2048},
                {2048, 2048},   {2047, 1024}, {1500, 1024}, {1000, 0},    {1, 0}};
    const struct rf_params *params = bench->view->shape.program->params;
    int is_exact = bench->opened.device->kind == &rf_cpu_backend_kind && !bench->has_states &&
                   !rf_kv_is_quantised(bench->view->shape.kv);
    struct rf_sequence *sequence = sequence_of(bench, N + MORE);
    prefill(bench, sequence, text, N);
    if (is_exact)
        CHECK_INT(rf_sequence_kv_held(sequence), BLOCKS * bytes_of_kind(params, RF_KV_WHOLE) +
                                                     KEPT * bytes_of_kind(params, RF_KV_WINDOW));
    CHECK(rf_sequence_kv_held(sequence) <=
              bench->opened.device->kind->kv_bytes(params, bench->view->shape.kv, N + MORE) ||
          bench->opened.device->kind == &plain_backend_kind); /* which holds F32 */
    check_sequence(bench, sequence, "a long text");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct rf_sequence *copy = fork_of(bench, sequence);
        rf_sequence_rewind(copy, cuts[i].at);
        if (is_exact) CHECK_INT(rf_sequence_n_read(copy), cuts[i].n_read);
        CHECK(rf_sequence_n_read(copy) <= cuts[i].at);
        append(copy, text + N, 3);
        check_sequence(bench, copy, "a long text that was cut");
        rf_sequence_free(copy);
    }
    append(sequence, text + N, 40);
    check_sequence(bench, sequence, "a long text behind its forks");
    rf_sequence_free(sequence);
}

/* A fork holds its window, also when what it was forked from has given it up. */
static void forks_keep_their_windows(struct bench *bench)
{
    enum { AT = 1300 };
    struct rf_sequence *sequence = sequence_of(bench, N + MORE);
    prefill(bench, sequence, text, AT);
    struct rf_sequence *copy = fork_of(bench, sequence);
    prefill(bench, sequence, text + AT, N - AT);
    CHECK_INT(rf_sequence_n_read(copy), AT);
    check_sequence(bench, copy, "a fork whose origin went on");
    append(copy, text + N, 300);
    check_sequence(bench, copy, "a fork that went on");
    check_sequence(bench, sequence, "what was forked");
    rf_sequence_free(sequence);
    rf_sequence_rewind(copy, AT - 700);
    check_sequence(bench, copy, "a fork that was cut");
    rf_sequence_free(copy);
}

/* ---- failures ---- */

static int cancels_late(void *user, int32_t done, int32_t total)
{
    (void)user;
    return done * 2 > total;
}

/* A call that fails leaves the text as it was, though the passes before it gave up windows. */
static void failed_calls_change_nothing(struct bench *bench)
{
    enum { AT = 1300, LATER = 1000 };
    struct rf_sequence *sequence = sequence_of(bench, N + MORE);
    prefill(bench, sequence, text, AT);
    int32_t n_failed = 0;
    for (int32_t until = 1; until < 20; until += IS_SANITIZED ? 4 : 2) {
        struct rf_sequence *copy = fork_of(bench, sequence);
        bench->meter.until_failure = until;
        int code = rf_sequence_prefill(copy, bench->view, text + AT, LATER, NULL, NULL,
                                       &(struct rf_error){0});
        bench->meter.until_failure = 0;
        n_failed += code != 0;
        CHECK_INT(rf_sequence_length(copy), code ? AT : AT + LATER);
        check_sequence(bench, copy, "after an allocation that failed");
        append(copy, text, 5);
        check_sequence(bench, copy, "behind an allocation that failed");
        rf_sequence_free(copy);
    }
    CHECK(n_failed > 1);
    CHECK_INT(rf_sequence_prefill(sequence, bench->view, text + AT, LATER, cancels_late, NULL,
                                  &(struct rf_error){0}),
              RF_ERR_CANCELLED);
    CHECK(rf_sequence_length(sequence) > AT && rf_sequence_length(sequence) < AT + LATER);
    check_sequence(bench, sequence, "after a cancelled prefill");
    rf_sequence_rewind(sequence, AT);
    check_sequence(bench, sequence, "where a cancelled prefill began");
    rf_sequence_free(sequence);
}

/* ---- states ---- */

static uint8_t *save(struct rf_sequence *sequence, uint64_t *bytes)
{
    *bytes = rf_sequence_kv_bytes(sequence, rf_sequence_n_saved(sequence));
    uint8_t *kv = malloc((size_t)*bytes + 1);
    if (!kv) exit(1);
    MUST(rf_sequence_kv_save(sequence, kv, &error));
    return kv;
}

static void loaded_texts_go_on(struct bench *bench)
{
    static const int32_t lengths[] = {N, 2817, 2816, 700, 256}, cuts[] = {1, 65, 250, 600, 1500};
    struct rf_sequence *other = sequence_of(bench, N + MORE);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t bytes, again_bytes;
        int32_t n = lengths[i];
        struct rf_sequence *sequence = sequence_of(bench, N + MORE);
        prefill(bench, sequence, text, n);
        uint8_t *kv = save(sequence, &bytes);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            MUST(rf_sequence_load(other, text, n, n, kv, &error));
            uint8_t *again = save(other, &again_bytes);
            CHECK(bytes == again_bytes && memcmp(kv, again, (size_t)bytes) == 0);
            free(again);
            if (c == 0) check_sequence(bench, other, "a loaded text");
            rf_sequence_rewind(other, n > cuts[c] ? n - cuts[c] : n);
            append(other, text + N, 2);
            check_sequence(bench, other, "a loaded text that was cut");
        }
        free(kv);
        rf_sequence_free(sequence);
    }
    rf_sequence_free(other);
}

/* One device's state goes to another and back without a change. */
static void states_move(const struct rf_source *source, int from, int to, enum rf_kv_type kv)
{
    static struct bench benches[2];
    uint64_t bytes, moved_bytes;
    bench_open(&benches[0], &bench_devices[from], source, RF_WEIGHTS_BF16, kv);
    bench_open(&benches[1], &bench_devices[to], source, RF_WEIGHTS_BF16, kv);
    struct rf_sequence *one = sequence_of(&benches[0], N), *other = sequence_of(&benches[1], N);
    prefill(&benches[0], one, text, N - 300);
    uint8_t *saved = save(one, &bytes);
    MUST(rf_sequence_load(other, text, N - 300, N - 300, saved, &error));
    uint8_t *moved = save(other, &moved_bytes);
    CHECK(bytes == moved_bytes && memcmp(saved, moved, (size_t)bytes) == 0);
    rf_sequence_rewind(one, 0);
    MUST(rf_sequence_load(one, text, N - 300, N - 300, moved, &error));
    check_sequence(&benches[0], one, "a state that comes back");
    /* The other device reads again what it lacks. */
    rf_sequence_rewind(other, 1400);
    append(other, text, 3);
    check_sequence(&benches[1], other, "a state from another device that was cut");
    free(saved);
    free(moved);
    rf_sequence_free(one);
    rf_sequence_free(other);
    for (int b = 0; b < 2; b++) bench_close(&benches[b]);
}

/* ---- anything in any order ---- */

static void read_tree(struct bench *bench, struct rf_sequence *s, uint32_t *state)
{
    struct rf_view *view = random_below(state, 3) ? bench->view : bench->draft;
    int32_t n = 1 + (int32_t)random_below(state, 24), parents[24], path[24], draft[24], k = 0;
    random_tokens(draft, n, N_VOCAB, random_below(state, 1u << 30));
    for (int32_t i = 0; i < n; i++) parents[i] = (int32_t)random_below(state, (uint32_t)i + 1) - 1;
    struct rf_ask ask = {.sequence = s,
                         .n_text = rf_sequence_length(s),
                         .draft = draft,
                         .parents = parents,
                         .n_draft = n};
    MUST(rf_read(view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
    for (int32_t i = 0; i < n; i++) /* the path of first children */
        if (parents[i] == (k ? path[k - 1] : -1)) path[k++] = i;
    for (int32_t i = 0; i < k; i++) rf_sequence_place(s, &draft[path[i]], 1);
    MUST(rf_sequence_accept(s, view, ask.n_text, path, k, &error));
}

static void do_something(struct bench *bench, struct rf_sequence **sequence, uint32_t *state)
{
    struct rf_sequence *s = *sequence, *copy;
    int32_t length = rf_sequence_length(s), n = 1 + (int32_t)random_below(state, MORE);
    uint64_t bytes;
    uint8_t *kv;
    float logits[N_VOCAB];
    if (length > N - MORE) rf_sequence_rewind(s, length = N - 2 * MORE);
    switch (random_below(state, 7)) {
    case 0:
    case 1: append(s, text + random_below(state, N), n); break;
    case 2: rf_sequence_rewind(s, 1 + (int32_t)random_below(state, (uint32_t)length)); break;
    case 3:
        n = length < 90 ? length - 1 : (int32_t)random_below(state, 90);
        rf_sequence_rewind(s, length - n);
        break;
    case 4: copy_answer(s, bench->draft, logits); break;
    case 5:
        copy = fork_of(bench, s);
        append(copy, text, 1);
        rf_sequence_free(s);
        *sequence = copy;
        break;
    case 6:
        if (rf_sequence_length(s) > rf_sequence_n_committed(s)) break;
        kv = save(s, &bytes);
        copy = sequence_of(bench, N + MORE);
        MUST(rf_sequence_load(copy, rf_sequence_tokens(s), rf_sequence_n_committed(s),
                              rf_sequence_n_saved(s), kv, &error));
        free(kv);
        rf_sequence_free(s);
        *sequence = copy;
    }
    read_tree(bench, *sequence, state);
}

static void anything_may_happen(struct bench *bench, uint32_t seed)
{
    enum { STEPS = IS_SANITIZED ? 12 : 30 };
    struct rf_sequence *sequence = sequence_of(bench, N + MORE);
    append(sequence, text, 900);
    for (int step = 0; step < STEPS; step++) {
        do_something(bench, &sequence, &seed);
        if (step % 3 == 0) check_sequence(bench, sequence, "after many things");
    }
    check_sequence(bench, sequence, "after all things");
    rf_sequence_free(sequence);
}

/* ---- the most memory ---- */

/* Positions kept of a layer with a window at any length, and those of a pass, are as many as the
 * cost of a session says at most. */
static void costs_hold(void)
{
    static const int32_t windows[] = {1, 128, 256, 300, 512, 1024, 4096};
    static unsigned char is_there[400];
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        const struct rf_params params = {.window = windows[w]};
        size_t most = 0, blocks = sizeof is_there;
        memset(is_there, 0, sizeof is_there);
        for (size_t n = 0; n < blocks * RF_KV_POSITIONS; n += 64) {
            size_t end = n + RF_MAX_ROWS, kept = 0;
            for (size_t c = 0; c < blocks && c * RF_KV_POSITIONS < end; c++) {
                if (c * RF_KV_POSITIONS >= n) is_there[c] = 1;
                if ((c + 1) * RF_KV_POSITIONS <= n && !rf_window_keeps(&params, c, n))
                    is_there[c] = 0;
                kept += is_there[c];
            }
            if (kept > most) most = kept;
            size_t n_ctx = end < blocks * RF_KV_POSITIONS ? end : blocks * RF_KV_POSITIONS;
            size_t says = (rf_window_most(&params, n_ctx) + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS;
            CHECK_MSG(most <= says, "window %d at %zu: %zu blocks, not %zu", windows[w], n, most,
                      says);
        }
    }
}

/* Five layers of six have a window of 1,024 positions, as in Gemma 3. */
static void long_texts_are_small(void)
{
    static const uint8_t flags[] = {RF_LAYER_WINDOW, RF_LAYER_WINDOW, RF_LAYER_WINDOW,
                                    RF_LAYER_WINDOW, RF_LAYER_WINDOW, 0};
    struct rf_params params = windowed_params(flags, 6, 1024);
    for (int kv = RF_KV_F16; kv <= RF_KV_Q4; kv++) {
        const struct rf_backend_kind *kind = &rf_cpu_backend_kind;
        double bytes = (double)kind->kv_bytes(&params, (enum rf_kv_type)kv, 131072);
        params.window = 0;
        double whole = (double)kind->kv_bytes(&params, (enum rf_kv_type)kv, 131072);
        params.window = 1024;
        CHECK_MSG(bytes < 0.28 * whole, "type %d: %.2f of a cache that keeps all", kv,
                  bytes / whole);
    }
}

/* ---- all of it ---- */

static void check_windows(struct bench *bench)
{
    what_is_behind_windows_is_given_up(bench);
    forks_keep_their_windows(bench);
    loaded_texts_go_on(bench);
    if (bench->opened.device->kind == &rf_cpu_backend_kind) failed_calls_change_nothing(bench);
    for (uint32_t seed = 0; seed < (IS_SANITIZED ? 1 : 2); seed++) anything_may_happen(bench, seed);
}

int main(int argc, char **argv)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static const uint8_t mixed[] = {RF_LAYER_WINDOW, 0, RF_LAYER_WINDOW},
                         conv[] = {RF_LAYER_WINDOW, RF_LAYER_CONV, 0, RF_LAYER_WINDOW};
    struct rf_params params = windowed_params(mixed, 3, 100), all = windowed_params(NULL, 2, 256),
                     convs = windowed_params(conv, 4, 150);
    convs.conv_rows = 4;
    devices_choose(argc, argv);
    random_tokens(text, N + MORE, N_VOCAB, 21);
    struct rf_source *source = bench_source_of(&params, &bf16, 1),
                     *windows = bench_source_of(&all, &bf16, 1),
                     *states = bench_source_of(&convs, &bf16, 1);
    costs_hold();
    if (!on_cuda) long_texts_are_small();
    for (int d = first_device; d < end_device; d++) {
        const struct device *device = &bench_devices[d];
        int is_first = d == first_device;
        if (device->tier) continue; /* the kernels' tier changes nothing here */
        on_bench(device, source, RF_WEIGHTS_BF16, RF_KV_F16, check_windows);
        if (is_first || !IS_SANITIZED)
            on_bench(device, windows, RF_WEIGHTS_BF16, RF_KV_F16, check_windows);
        if (is_first && !on_cuda)
            on_bench(device, states, RF_WEIGHTS_BF16, RF_KV_F16, check_windows);
        if (strstr(device->name, "plain")) continue; /* the plain device quantises nothing */
        on_bench(device, source, RF_WEIGHTS_BF16, RF_KV_Q8, check_windows);
        if (is_first) on_bench(device, windows, RF_WEIGHTS_BF16, RF_KV_Q4, check_windows);
        if (!is_first) states_move(source, 0, d, RF_KV_Q8);
    }
    for (int d = first_device; d < end_device; d++) {
        if (bench_devices[d].tier || d == 0) continue;
        states_move(source, 0, d, RF_KV_F16);
        states_move(windows, d, 0, RF_KV_F16);
    }
    synthetic_free(source);
    synthetic_free(windows);
    synthetic_free(states);
    return check_result();
}
