/* The state of a sequence, its keys and values: saved and loaded, moved between devices, and in
 * caches that quantise what is old. */
#include <math.h>

#include "infer/sequence/fixture.h"
#include "support/synthetic.h"

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
        append(sequence, bench->text + n, 3); /* the state has no keys and values of these */
        uint8_t *kv = save(sequence, &bytes);
        prefill(bench, other, bench->text + 300, 20); /* loading replaces this text */
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

/* Only the newest positions of a long text are still there in 16 bits. Wherever the text is cut,
 * forked or loaded, it goes on as if it had been read plainly. */
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
        CHECK(places[i] < SPARE ? rf_sequence_n_read(copy) == 0
                                : is_read_after_cut(bench, rf_sequence_n_read(copy), places[i]));
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

/* ---- all of it ---- */

static void check_states_of(struct bench *bench)
{
    enum rf_kv_type kv = bench->view->shape.kv;
    states_are_saved_and_loaded(bench);
    if (!rf_kv_is_quantised(kv)) return;
    what_was_given_up_is_read_again(bench);
    if (!bench->opened.device->tier && kv == RF_KV_Q8) {
        a_quantised_cache_is_small(bench->opened.device);
        /* On two devices the same is read twice, which matters where layers have states. */
        if (bench->opened.device == bench_devices || (!IS_SANITIZED && bench->has_states))
            a_checkpoint_shortens_reading(bench);
    }
}

static void states_move_everywhere(const enum rf_dtype *types, size_t n_types,
                                   enum rf_weight_form form)
{
    static struct bench benches[N_DEVICES];
    struct rf_source *source = bench_source(types, n_types);
    for (int d = first_device; d < end_device; d++)
        bench_open(&benches[d], &bench_devices[d], source, form, RF_KV_F16);
    for (int from = first_device; from < end_device; from++)
        for (int to = first_device; to < end_device; to++)
            if (from != to) states_move_between(&benches[from], &benches[to]);
    for (int d = first_device; d < end_device; d++) bench_close(&benches[d]);
    synthetic_free(source);
}

static void quantised_states_move(const struct device *one, const struct device *other,
                                  enum rf_kv_type kv)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static struct bench benches[2];
    struct rf_source *source = bench_source(&bf16, 1);
    bench_open(&benches[0], one, source, RF_WEIGHTS_BF16, kv);
    bench_open(&benches[1], other, source, RF_WEIGHTS_BF16, kv);
    states_move_between(&benches[0], &benches[1]);
    states_move_between(&benches[1], &benches[0]);
    bench_close(&benches[0]);
    bench_close(&benches[1]);
    synthetic_free(source);
}

int main(int argc, char **argv)
{
    static const enum rf_dtype bf16 = RF_BF16,
                               mixed[] = {RF_Q4_0, RF_Q8_0, RF_BF16, RF_MXFP4, RF_Q4_1};
    devices_choose(argc, argv);
    on_every_bench(check_states_of);
    states_move_everywhere(&bf16, 1, RF_WEIGHTS_BF16);
    states_move_everywhere(mixed, 5, RF_WEIGHTS_STORED);
    for (int d = on_cuda ? FIRST_CUDA : 1; d < (on_cuda ? N_DEVICES : 2); d++) {
        quantised_states_move(&bench_devices[0], &bench_devices[d], RF_KV_Q8);
        quantised_states_move(&bench_devices[0], &bench_devices[d], RF_KV_Q4);
    }
    return check_result();
}
