/* Sequences of a model that has other frequencies for long texts (longrope): whatever happens to a
 * text around the border, its logits are those of the same text read plainly, with the frequencies
 * of its length. */
#include <math.h>

#include "infer/sequence/fixture.h"
#include "support/synthetic.h"

enum { BORDER = 200, STEPS = 50 };

static const float longer[] = {1.5f, 2, 4, 8};

/* Texts on both sides of the border, beside models that have the short or the long frequencies for
 * all texts. */
static void lengths_choose_frequencies(struct bench *bench, struct bench *all_short,
                                       struct bench *all_long)
{
    for (int32_t n = BORDER - 1; n <= BORDER + 2; n++) {
        float got[N_VOCAB], as_short[N_VOCAB], as_long[N_VOCAB];
        read_plainly(bench, bench->text, n, got);
        read_plainly(all_short, bench->text, n, as_short);
        read_plainly(all_long, bench->text, n, as_long);
        CHECK(memcmp(as_short, as_long, sizeof as_short) != 0);
        CHECK_MSG(memcmp(got, n > BORDER ? as_long : as_short, sizeof got) == 0,
                  "%s: other frequencies in a text of %d tokens", bench->name, n);
    }
}

/* The context does not count, nor how the text was cut into passes. */
static void texts_grow_and_shrink(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, BORDER - 3);
    for (int32_t n = BORDER - 3; n < BORDER + 4; n++) {
        check_sequence(bench, sequence, "a text that grows");
        CHECK_INT(rf_sequence_n_read(sequence), n);
        CHECK_INT(rf_sequence_room(sequence, n), (n > BORDER ? N_CTX : BORDER) - n);
        append(sequence, bench->text + n, 1);
        CHECK_INT(rf_sequence_unread(sequence, bench->view, n + 1), n == BORDER ? n + 1 : 1);
    }
    for (int32_t n = BORDER + 3; n > BORDER - 3; n -= 2) {
        rf_sequence_rewind(sequence, n);
        CHECK_INT(rf_sequence_n_read(sequence), n > BORDER || n < BORDER - 1 ? n : 0);
        check_sequence(bench, sequence, "a text that shrinks");
    }
    rf_sequence_free(sequence);
}

static void forks_change_their_length(struct bench *bench)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, BORDER + 30);
    struct rf_sequence *shorter = fork_of(bench, sequence);
    rf_sequence_rewind(shorter, BORDER - 20);
    struct rf_sequence *copy = fork_of(bench, shorter);
    check_sequence(bench, shorter, "a shorter fork");
    append(copy, bench->text + 300, 50);
    CHECK_INT(rf_sequence_n_read(copy), BORDER - 20); /* they were long all the time */
    check_sequence(bench, copy, "a fork that is long again");
    append(shorter, bench->text + 340, 50);
    check_sequence(bench, shorter, "a shorter fork that becomes long");
    check_sequence(bench, sequence, "what was forked");
    rf_sequence_free(copy);
    rf_sequence_free(shorter);
    rf_sequence_free(sequence);
}

/* Drafts up to the border are judged as if each had been read; more are refused. */
static void drafts_end_at_the_border(struct bench *bench)
{
    struct rf_error failure = {.text = ""};
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, BORDER - 5);
    for (int32_t n_text = BORDER - 4; n_text <= BORDER + 1; n_text++) {
        append(sequence, bench->text + n_text - 1, 1);
        int32_t n_draft = n_text > BORDER ? 4 : BORDER - n_text;
        struct rf_ask ask = {.sequence = sequence,
                             .n_text = n_text,
                             .draft = bench->text + n_text,
                             .n_draft = n_draft};
        MUST(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        for (int32_t i = 0; i <= n_draft; i++) {
            float got[N_VOCAB];
            copy_logits(bench->view, ask.first + i, got);
            check_logits(bench, got, bench->text, n_text + i, "a draft");
        }
        ask.n_draft = n_draft + 1;
        if (n_text > BORDER) continue;
        int code = rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &failure);
        CHECK_MSG(code == RF_ERR_CONTEXT && strstr(failure.text, "more than 200 differ"), "%s",
                  failure.text);
    }
    rf_sequence_free(sequence);
}

/* One pass over a short and a long text. */
static void passes_have_both(struct bench *bench)
{
    struct rf_sequence *sequences[] = {sequence_of(bench, N_CTX), sequence_of(bench, N_CTX)};
    const int32_t lengths[] = {BORDER - 10, BORDER + 10};
    struct rf_ask asks[2] = {{.sequence = sequences[0]}, {.sequence = sequences[1]}};
    for (int t = 0; t < 2; t++) {
        prefill(bench, sequences[t], bench->text, lengths[t]);
        append(sequences[t], bench->text + lengths[t], 3);
        asks[t].n_text = lengths[t] + 3;
    }
    MUST(rf_read(bench->view, asks, 2, &(struct rf_read_options){0}, NULL, &error));
    for (int t = 0; t < 2; t++) {
        float got[N_VOCAB];
        copy_logits(bench->view, asks[t].first, got);
        check_logits(bench, got, bench->text, lengths[t] + 3, "beside a text of the other kind");
        rf_sequence_free(sequences[t]);
    }
}

/* Slices of a long prompt are long from its beginning. */
static void slices_know_the_prompt(struct bench *bench)
{
    enum { N = BORDER + 60, SLICE = 50 };
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    append(sequence, bench->text, N);
    for (int32_t n; (n = rf_sequence_n_read(sequence)) + SLICE < N;) {
        struct rf_ask ask = {.sequence = sequence, .n_text = n + SLICE, .reads_only = 1};
        CHECK_INT(rf_ask_unread(&ask, bench->view), SLICE);
        MUST(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        CHECK_INT(rf_sequence_n_read(sequence), n + SLICE);
    }
    check_sequence(bench, sequence, "a prompt in slices");
    rf_sequence_free(sequence);
}

static double log_probability(const float *logits, int32_t token)
{
    double sum = 0;
    for (int v = 0; v < N_VOCAB; v++) sum += exp((double)logits[v]);
    return (double)logits[token] - log(sum);
}

static void scores_are_of_each_length(struct bench *bench)
{
    enum { N = BORDER + 20, CUT = 100 };
    static double logprobs[N], later[N];
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    MUST(rf_sequence_score(sequence, bench->view, bench->text, N, 1, logprobs, &error));
    check_sequence(bench, sequence, "after scoring");
    for (int32_t n = BORDER - 3; n < BORDER + 4; n++) {
        float logits[N_VOCAB];
        read_plainly(bench, bench->text, n, logits);
        double wanted = log_probability(logits, bench->text[n]);
        CHECK_MSG(fabs(logprobs[n - 1] - wanted) < 1e-5, "%s: token %d scores %f, not %f",
                  bench->name, n, logprobs[n - 1], wanted);
    }
    static const int32_t cuts[] = {CUT, BORDER - 1, BORDER, BORDER + 1};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        int32_t cut = cuts[c];
        rf_sequence_rewind(sequence, 0);
        prefill(bench, sequence, bench->text, cut);
        MUST(
            rf_sequence_score(sequence, bench->view, bench->text + cut, N - cut, 0, later, &error));
        CHECK(memcmp(later, logprobs + cut - 1, (size_t)(N - cut) * sizeof *later) == 0);
    }
    rf_sequence_free(sequence);
}

static void states_have_their_length(struct bench *bench)
{
    for (int32_t n = BORDER - 1; n <= BORDER + 1; n++) {
        struct rf_sequence *sequence = sequence_of(bench, N_CTX),
                           *other = sequence_of(bench, N_CTX);
        prefill(bench, sequence, bench->text, n);
        if (n == BORDER) append(sequence, bench->text + n, 1); /* its entries are of a short text */
        int32_t length = rf_sequence_length(sequence), n_read = rf_sequence_n_read(sequence);
        CHECK_INT(n_read, n == BORDER ? 0 : n);
        uint8_t *kv = malloc((size_t)rf_sequence_kv_bytes(sequence, n_read) + 1);
        if (!kv) exit(1);
        MUST(rf_sequence_kv_save(sequence, kv, &error));
        MUST(rf_sequence_load(other, bench->text, length, n_read, kv, &error));
        check_sequence(bench, other, "a loaded state");
        free(kv);
        rf_sequence_free(other);
        rf_sequence_free(sequence);
    }
}

static int stop_at_once(void *user, int32_t done, int32_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return 1;
}

static void passes_are_timed_and_cancelled(struct bench *bench)
{
    struct rf_error failure = {.text = ""};
    double seconds[2];
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, BORDER - 30);
    MUST(rf_sequence_time_passes(sequence, bench->view, 8, BORDER - 4, 2, seconds, &error));
    check_sequence(bench, sequence, "after passes over the border were timed");
    CHECK_INT(rf_sequence_prefill(sequence, bench->view, bench->text + BORDER - 30, 200,
                                  stop_at_once, NULL, &failure),
              RF_ERR_CANCELLED);
    CHECK_INT(rf_sequence_length(sequence), BORDER - 30);
    check_sequence(bench, sequence, "after a cancelled read over the border");
    rf_sequence_free(sequence);
}

/* Steps around the border, of both views. */
static void do_something(struct bench *bench, struct rf_sequence **sequence, uint32_t *state)
{
    struct rf_sequence *s = *sequence, *copy;
    int32_t length = rf_sequence_length(s), n = 1 + (int32_t)random_below(state, 8), tokens[8];
    float logits[N_VOCAB];
    random_tokens(tokens, n, N_VOCAB, random_below(state, 1u << 30));
    if (length > BORDER + 20) rf_sequence_rewind(s, BORDER - 20);
    switch (random_below(state, 6)) {
    case 0: append(s, tokens, n); break;
    case 1: rf_sequence_place(s, tokens, n); break;
    case 2: rf_sequence_rewind(s, BORDER - 10); break;
    case 3: copy_answer(s, bench->draft, logits); break;
    case 4:
        copy = fork_of(bench, s);
        rf_sequence_free(s);
        *sequence = copy;
        break;
    default: {
        struct rf_view *view = random_below(state, 2) ? bench->view : bench->draft;
        const int32_t path[] = {0, 1, 2, 3, 4, 5, 6, 7};
        int32_t room = rf_sequence_room(s, rf_sequence_length(s));
        struct rf_ask ask = {.sequence = s,
                             .n_text = rf_sequence_length(s),
                             .draft = tokens,
                             .n_draft = n < room ? n : room};
        MUST(rf_read(view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
        rf_sequence_place(s, tokens, ask.n_draft);
        MUST(rf_sequence_accept(s, view, ask.n_text, path, ask.n_draft, &error));
    }
    }
}

static void anything_may_happen(struct bench *bench, uint32_t seed)
{
    struct rf_sequence *sequence = sequence_of(bench, N_CTX);
    prefill(bench, sequence, bench->text, BORDER - 10);
    for (int step = 0; step < STEPS; step++) {
        do_something(bench, &sequence, &seed);
        if (rf_sequence_length(sequence) < BORDER - 10)
            append(sequence, bench->text, BORDER - 10 - rf_sequence_length(sequence));
        if (step % 3 == 0) check_sequence(bench, sequence, "after many things");
    }
    rf_sequence_free(sequence);
}

static void check_lengths(const struct device *device, enum rf_kv_type kv)
{
    static const enum rf_dtype types[] = {RF_Q8_0, RF_BF16};
    static struct bench benches[3];
    const int32_t borders[] = {BORDER, INT32_MAX, 1};
    struct rf_source *sources[3];
    for (int b = 0; b < 3; b++) {
        sources[b] = bench_source(types, 2);
        sources[b]->params.rope_long_factors = longer;
        sources[b]->params.n_ctx_short = borders[b];
        bench_open(&benches[b], device, sources[b], RF_WEIGHTS_STORED, kv);
    }
    lengths_choose_frequencies(&benches[0], &benches[1], &benches[2]);
    texts_grow_and_shrink(&benches[0]);
    forks_change_their_length(&benches[0]);
    drafts_end_at_the_border(&benches[0]);
    passes_have_both(&benches[0]);
    slices_know_the_prompt(&benches[0]);
    scores_are_of_each_length(&benches[0]);
    states_have_their_length(&benches[0]);
    passes_are_timed_and_cancelled(&benches[0]);
    for (uint32_t seed = 0; seed < 3; seed++) anything_may_happen(&benches[0], seed);
    for (int b = 0; b < 3; b++) {
        bench_close(&benches[b]);
        synthetic_free(sources[b]);
    }
}

int main(int argc, char **argv)
{
    devices_choose(argc, argv);
    for (int d = first_device; d < end_device; d++) {
        check_lengths(&bench_devices[d], RF_KV_F16);
        if (!strstr(bench_devices[d].name, "plain")) check_lengths(&bench_devices[d], RF_KV_Q8);
    }
    return check_result();
}
