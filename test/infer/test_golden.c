/* Logits of real models against those that scripts/oracle.py computed, and greedy decoding against
 * its ids.
 *
 *     test_golden GOLDEN.txt [MODEL]     without MODEL, $RIFFLE_TEST_MODEL; without that the test
 * is skipped (77)
 *
 * The tolerances. Engine and oracle round at the same places and differ only in the order of F32
 * sums. Such a difference of 1e-7 moves an activation over a BF16 border now and then, which is a
 * step of 2^-8, and thirty layers pass it on: the oracle itself, run with sums in F64 instead of
 * F32, moves its logits (of standard deviation 3 to 7) by up to 0.11 root mean square and 0.33 at
 * most. Twice that is allowed. */
#include <math.h>
#include <stdlib.h>

#include "riffle.h"
#include "support/check.h"

#define RMS_TOLERANCE 0.22
#define MAX_TOLERANCE 0.66

enum { MAX_TOKENS = 256, MAX_LOGITS = 512 };

struct golden {
    int32_t prompt[MAX_TOKENS], n_prompt;
    int32_t ids[MAX_LOGITS], n_logits; /* the top ones first */
    double logits[MAX_LOGITS];
    int32_t greedy[MAX_TOKENS], n_greedy;
    double leads[MAX_TOKENS];
};

/* The count that follows `word`; -1 if something else does. Comment lines before it are skipped. */
static int32_t read_count(FILE *file, const char *word, int32_t limit)
{
    char found[64];
    int32_t count;
    do {
        if (fscanf(file, "%63s", found) != 1) return -1;
    } while (found[0] == '#' && fscanf(file, "%*[^\n]") == 0);
    if (strcmp(found, word) != 0 || fscanf(file, "%" SCNd32, &count) != 1) return -1;
    return count < 1 || count > limit ? -1 : count;
}

static int read_pairs(FILE *file, int32_t *ids, double *values, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (fscanf(file, "%" SCNd32 " %lf", &ids[i], &values[i]) != 2) return -1;
    }
    return 0;
}

/* 1: read one, 0: the file ends, -1: it is malformed. */
static int read_golden(FILE *file, struct golden *golden)
{
    golden->n_prompt = read_count(file, "prompt", MAX_TOKENS);
    if (golden->n_prompt < 0) return feof(file) ? 0 : -1;
    for (int32_t i = 0; i < golden->n_prompt; i++) {
        if (fscanf(file, "%" SCNd32, &golden->prompt[i]) != 1) return -1;
    }
    int32_t n_top = read_count(file, "top", MAX_LOGITS);
    if (n_top < 0 || read_pairs(file, golden->ids, golden->logits, n_top)) return -1;
    int32_t n_spread = read_count(file, "spread", MAX_LOGITS - n_top);
    if (n_spread < 0 || read_pairs(file, golden->ids + n_top, golden->logits + n_top, n_spread))
        return -1;
    golden->n_logits = n_top + n_spread;
    golden->n_greedy = read_count(file, "greedy", MAX_TOKENS);
    return golden->n_greedy < 0 || read_pairs(file, golden->greedy, golden->leads, golden->n_greedy)
               ? -1
               : 1;
}

static void check_logits(riffle_session *session, const struct golden *golden, float *logits,
                         size_t n_vocab, const char *how)
{
    CHECK_INT(riffle_logits(session, logits, n_vocab), 0);
    double squares = 0, largest = 0;
    for (int32_t i = 0; i < golden->n_logits; i++) {
        double off = fabs(logits[golden->ids[i]] - golden->logits[i]);
        squares += off * off;
        if (!(off <= largest)) largest = off;
    }
    double rms = sqrt(squares / golden->n_logits);
    CHECK_MSG(rms < RMS_TOLERANCE && largest < MAX_TOLERANCE,
              "%d tokens %s: logits are off by %.3f rms, %.3f at most", golden->n_prompt, how, rms,
              largest);
    printf("%d tokens %s: rms %.4f, max %.4f\n", golden->n_prompt, how, rms, largest);
}

static void check_greedy(riffle_session *session, const struct golden *golden)
{
    for (int32_t i = 0; i < golden->n_greedy && golden->leads[i] > MAX_TOLERANCE / 2; i++) {
        int32_t token = -1;
        CHECK_INT(riffle_step(session, &token, 1), 1);
        CHECK_MSG(token == golden->greedy[i], "token %d after %d is %d, not %d", i,
                  golden->n_prompt, token, golden->greedy[i]);
        if (token != golden->greedy[i]) return;
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 2 ? argv[2] : getenv("RIFFLE_TEST_MODEL");
    if (argc < 2) return 2;
    if (!path) {
        printf("skipped: RIFFLE_TEST_MODEL is not set\n");
        return 77;
    }
    FILE *file = fopen(argv[1], "r");
    riffle_model *model;
    riffle_session *session;
    riffle_model_options model_options;
    riffle_model_options_init(&model_options, sizeof model_options);
    model_options.weights = "bf16"; /* the oracle's form */
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = MAX_TOKENS;
    if (!file || riffle_model_open(&model, path, &model_options) ||
        riffle_session_open(&session, model, &options)) {
        fprintf(stderr, "%s\n", file ? riffle_last_error() : "no golden file");
        return 1;
    }
    riffle_model_info info;
    CHECK_INT(riffle_model_get_info(model, &info, sizeof info), 0);
    float *logits = calloc((size_t)info.n_vocab, sizeof *logits);
    static struct golden golden;
    int state = 0;
    while (logits && (state = read_golden(file, &golden)) > 0) {
        CHECK_INT(riffle_rewind(session, 0), 0);
        CHECK_INT(riffle_prefill(session, golden.prompt, (size_t)golden.n_prompt), 0);
        check_logits(session, &golden, logits, (size_t)info.n_vocab, "at once");
        check_greedy(session, &golden);
        CHECK_INT(riffle_rewind(session, 0), 0);
        for (int32_t i = 0; i < golden.n_prompt; i++)
            CHECK_INT(riffle_prefill(session, golden.prompt + i, 1), 0);
        check_logits(session, &golden, logits, (size_t)info.n_vocab, "one by one");
    }
    CHECK_MSG(state == 0, "%s is malformed", argv[1]);
    free(logits);
    fclose(file);
    riffle_session_close(session);
    riffle_model_close(model);
    return check_result();
}
