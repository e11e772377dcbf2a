/* Calls on a sequence: remembered answers, scores, cancelled reads, a full context, wrong
 * arguments, timed passes. */
#include <math.h>

#include "infer/sequence/fixture.h"

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

/* Reads of up to `stop` blocks; the first call comes before any. */
struct stop {
    int32_t calls, stop, done, total;
};

static int stop_reading(void *user, int32_t done, int32_t total)
{
    struct stop *stop = user;
    stop->done = done;
    stop->total = total;
    return stop->calls++ == stop->stop;
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
    for (int32_t blocks = 0; blocks <= 3; blocks++) {
        struct stop stop = {.stop = blocks};
        CHECK_FAILS(rf_sequence_prefill(sequence, bench->view, bench->text + 10, 400, stop_reading,
                                        &stop, &failure),
                    RF_ERR_CANCELLED, "cancelled after");
        CHECK_INT(stop.total, 400);
        CHECK_INT(stop.done, blocks * MAX_ROWS);
        CHECK_INT(rf_sequence_n_committed(sequence), 10 + blocks * MAX_ROWS);
        check_sequence(bench, sequence, "after a cancelled read");
        rf_sequence_rewind(sequence, 10);
        prefill(bench, sequence, NULL, 0); /* what a cache with states has given up */
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

    static const int32_t taps[] = {1, 0};
    char beyond[16];
    snprintf(beyond, sizeof beyond, "layer %d", bench->n_layer);
    struct rf_view_options wrong = {.max_rows = 4, .taps = taps, .n_taps = 2};
    CHECK_FAILS(rf_view_new(&none, bench->opened.model, bench->opened.queue, &wrong, &failure),
                RF_ERR_ARGUMENT, "taps[1]");
    wrong.taps = &bench->n_layer;
    wrong.n_taps = 1;
    CHECK_FAILS(rf_view_new(&none, bench->opened.model, bench->opened.queue, &wrong, &failure),
                RF_ERR_ARGUMENT, beyond);
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

static void check_calls(struct bench *bench)
{
    answers_are_remembered(bench);
    scores_are_log_softmax(bench);
    passes_can_be_cancelled(bench);
    contexts_are_full(bench);
    wrong_arguments_are_named(bench);
    timed_passes_leave_the_text(bench);
}

int main(int argc, char **argv)
{
    devices_choose(argc, argv);
    texts_need_no_device();
    on_every_bench(check_calls);
    return check_result();
}
