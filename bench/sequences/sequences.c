/* Measures rows of several sequences in one pass beside as many rows of one, and the cost of a
 * fork.
 *
 *     bench_sequences MODEL [CONTEXT]     after CONTEXT tokens (default 512) in each sequence
 *
 * Passes alternate, so that a disturbance of the machine meets all kinds; figures are medians. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/median.h"
#include "platform/clock.h"
#include "platform/memory.h"

enum { ROUNDS = 41, ROWS = 8, MOST = 8 };

static void must(int code, const struct rf_error *error)
{
    if (code >= 0) return;
    fprintf(stderr, "bench_sequences: %s\n", error ? error->text : riffle_last_error());
    exit(1);
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%llu %llu", &pages, &resident) != 2) resident = 0;
    fclose(file);
    return resident * 4096;
}

/* Seconds of a pass over `rows` rows of each of `n` sequences, behind what they have read. */
static double pass(struct rf_view *view, riffle_session **sessions, int n, int rows)
{
    static const int32_t draft[MOST];
    struct rf_best best[ROWS];
    struct rf_ask asks[MOST];
    struct rf_error error;
    for (int i = 0; i < n; i++)
        asks[i] = (struct rf_ask){.sequence = sessions[i]->inner->sequence,
                                  .draft = draft,
                                  .n_text = rf_sequence_length(sessions[i]->inner->sequence),
                                  .n_draft = rows - 1};
    const struct rf_read_options options = {.n_best = 1, .best = best};
    struct rf_read_cost cost;
    must(rf_read(view, asks, n, &options, &cost, &error), &error);
    return cost.seconds;
}

static void read_filler(riffle_session *session, int32_t n)
{
    int32_t filler[256];
    for (int32_t i = 0; i < 256; i++) filler[i] = i % 100 + 1;
    for (int32_t done = 0, now; done < n; done += now) {
        now = n - done < 256 ? n - done : 256;
        must(riffle_prefill(session, filler, (size_t)now), NULL);
    }
}

int main(int argc, char **argv)
{
    int32_t context = argc > 2 ? atoi(argv[2]) : 512;
    if (argc < 2 || context < 1) {
        fprintf(stderr, "usage: bench_sequences MODEL [CONTEXT]\n");
        return 2;
    }
    riffle_model_options model_options;
    riffle_model_options_init(&model_options, sizeof model_options);
    model_options.chain = "none";
    riffle_model *model;
    must(riffle_model_open(&model, argv[1], &model_options), NULL);
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = context + 64;
    riffle_session *sessions[MOST] = {0};
    must(riffle_session_open(&sessions[0], model, &options), NULL);
    read_filler(sessions[0], context);

    uint64_t before = resident_bytes();
    double forks[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        riffle_session *copy;
        double start = rf_clock_seconds();
        must(riffle_fork(&copy, sessions[0]), NULL);
        forks[i] = rf_clock_seconds() - start;
        riffle_session_close(copy);
    }
    for (int i = 1; i < MOST; i++) must(riffle_fork(&sessions[i], sessions[0]), NULL);
    double taken = (double)(resident_bytes() - before) / (MOST - 1);
    printf("fork of %d tokens: %.3f ms, %.2f MB resident each\n", context,
           rf_median(forks, ROUNDS) * 1e3, taken * 1e-6);

    /* All of the sessions' sequences are read by the first one's view. */
    static const struct {
        int n, rows;
    } kinds[] = {{1, 8}, {2, 4}, {4, 2}, {8, 1}, {1, 1}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    double seconds[KINDS][ROUNDS], of_one[KINDS][ROUNDS];
    for (int round = -2; round < ROUNDS; round++)
        for (int k = 0; k < KINDS; k++) {
            double now = pass(sessions[0]->inner->view, sessions, kinds[k].n, kinds[k].rows);
            if (round >= 0) seconds[k][round] = now;
        }
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < ROUNDS; i++) of_one[k][i] = seconds[k][i] / seconds[0][i];
        printf("%d sequences of %d rows: %.2f ms, %.3f of one sequence of %d rows\n", kinds[k].n,
               kinds[k].rows, rf_median(seconds[k], ROUNDS) * 1e3, rf_median(of_one[k], ROUNDS),
               ROWS);
    }
    for (int i = 0; i < MOST; i++) riffle_session_close(sessions[i]);
    riffle_model_close(model);
    return 0;
}
