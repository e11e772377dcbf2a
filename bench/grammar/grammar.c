/* Measures the cost of a grammar: reading it, and the masks along an answer, the first time and
 * again.
 *
 *     bench_grammar MODEL gbnf|schema GRAMMAR ANSWER     (files; the answer is a text of the
 * grammar)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/median.h"
#include "grammar/grammar.h"
#include "platform/clock.h"
#include "platform/file.h"

enum { MOST = 4096 };

static void must(int code, const struct rf_error *error)
{
    if (code >= 0) return;
    fprintf(stderr, "%s\n", error ? error->text : riffle_last_error());
    exit(1);
}

static struct rf_str read_file(const char *path)
{
    struct rf_error error;
    char *text;
    size_t bytes;
    must(rf_slurp(path, (size_t)1 << 24, &text, &bytes, &error), &error);
    return (struct rf_str){text, bytes};
}

/* Microseconds of each token's mask and step; returns how many bits the masks have in the mean. */
static double walk(struct rf_matcher *matcher, const int32_t *tokens, int64_t n, double *seconds)
{
    struct rf_error error;
    struct rf_token_mask mask;
    double bits = 0;
    int32_t state = rf_matcher_start(matcher, &error);
    for (int64_t i = 0; i < n; i++) {
        double start = rf_clock_seconds();
        must(rf_matcher_mask(matcher, state, &mask, &error), &error);
        state = rf_matcher_advance(matcher, state, tokens[i], &error);
        seconds[i] = (rf_clock_seconds() - start) * 1e6;
        must(state, &error);
        bits += mask.count;
        if (state == RF_STATE_REJECTED) {
            fprintf(stderr, "token %lld of the answer is rejected\n", (long long)i);
            exit(1);
        }
    }
    return bits / (double)n;
}

static void print(const char *what, const double *seconds, int64_t n)
{
    static double copy[MOST];
    double sum = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += seconds[i];
        if (seconds[i] > most) most = seconds[i];
    }
    memcpy(copy, seconds, (size_t)n * sizeof *copy);
    printf("%-10s mean %8.2f us   median %8.2f us   most %8.2f us\n", what, sum / (double)n,
           rf_median(copy, (size_t)n), most);
}

int main(int argc, char **argv)
{
    static int32_t tokens[MOST];
    static double seconds[MOST];
    if (argc != 5) {
        fputs("bench_grammar MODEL gbnf|schema GRAMMAR ANSWER\n", stderr);
        return 2;
    }
    riffle_model_options options;
    riffle_model *model;
    riffle_grammar *grammar;
    struct rf_matcher *matcher;
    struct rf_error error;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    must(riffle_model_open(&model, argv[1], &options), NULL);
    struct rf_str text = read_file(argv[3]), answer = read_file(argv[4]);
    while (answer.bytes && answer.data[answer.bytes - 1] == '\n') answer.bytes--;
    double start = rf_clock_seconds();
    must(riffle_grammar_new(&grammar, model,
                            strcmp(argv[2], "gbnf") == 0 ? RIFFLE_GRAMMAR_GBNF
                                                         : RIFFLE_GRAMMAR_JSON_SCHEMA,
                            text.data, text.bytes),
         NULL);
    printf("compiled in %.1f ms\n", (rf_clock_seconds() - start) * 1e3);
    must(rf_grammar_store_take(&matcher, grammar->store, model->engine, &error), &error);
    int64_t n = riffle_tokenize(model, answer.data, answer.bytes, 0, tokens, MOST);
    must((int)n, NULL);
    if (n > MOST) n = MOST;
    double bits = walk(matcher, tokens, n, seconds);
    printf("%lld tokens, masks of %.0f tokens in the mean\n", (long long)n, bits);
    print("first", seconds, n);
    walk(matcher, tokens, n, seconds);
    print("again", seconds, n);
    rf_grammar_store_return(matcher, grammar->store);
    riffle_grammar_free(grammar);
    riffle_model_close(model);
    free((char *)text.data);
    free((char *)answer.data);
    return 0;
}
