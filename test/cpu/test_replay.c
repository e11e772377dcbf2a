/* How many rows passes go through again with the delta rule: those since the pass before, also
 * where a draft's view reads ahead of the judge. */
#include "cpu/cpu.h"
#include "infer/sequence/fixture.h"
#include "support/synthetic.h"

/* Rows of the log that the view's last pass went through. */
static size_t replayed(const struct rf_view *base)
{
    const struct cpu_view *view = (const struct cpu_view *)base;
    return view->n_mixed - view->n_rows;
}

static size_t rows_of(const struct rf_view *view)
{
    return ((const struct cpu_view *)view)->n_rows;
}

/* Rounds of drafts, of which the judge takes `kept`. */
static void rounds(struct bench *bench, struct rf_sequence *sequence, int32_t kept)
{
    enum { ROUNDS = 24, DRAFTS = 4 };
    float logits[N_VOCAB];
    const int32_t *next = bench->text + 100;
    for (int i = 0; i < ROUNDS; i++, next += DRAFTS) {
        int32_t n = rf_sequence_length(sequence);
        size_t before = rows_of(bench->view);
        for (int32_t d = 0; d < DRAFTS; d++, before = rows_of(bench->draft)) {
            copy_answer(sequence, bench->draft, logits);
            CHECK_MSG(i == 0 || replayed(bench->draft) <= before,
                      "round %d, draft %d: %zu rows are replayed after a pass over %zu", i, d,
                      replayed(bench->draft), before);
            rf_sequence_place(sequence, next + d, 1);
        }
        copy_answer(sequence, bench->view, logits);
        CHECK_MSG(i == 0 || replayed(bench->view) == 0, "round %d: %zu rows are replayed", i,
                  replayed(bench->view));
        rf_sequence_rewind(sequence, n);
        append(sequence, next, kept);
    }
    check_sequence(bench, sequence, "rounds of drafts");
}

int main(void)
{
    static const enum rf_dtype bf16 = RF_BF16;
    static struct bench bench;
    const struct rf_params params = bench_delta_params();
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) return 1;
    bench_open(&bench, &bench_devices[0], source, RF_WEIGHTS_BF16, RF_KV_F16);
    for (int32_t kept = 1; kept <= 4; kept++) {
        struct rf_sequence *sequence = sequence_of(&bench, N_CTX);
        prefill(&bench, sequence, bench.text, 41);
        rounds(&bench, sequence, kept);
        rf_sequence_free(sequence);
    }
    bench_close(&bench);
    synthetic_free(source);
    return check_result();
}
