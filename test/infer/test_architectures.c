/* Tiny models of each architecture against transformers' own code
 * (scripts/make_architecture_models.py), from both containers.
 *
 *     test_architectures FOLDER...
 *
 * The tolerance. Both sides round the inputs of linear layers to BF16 and keys and values to F16.
 * They differ in the order of F32 sums, by about 1e-6 of a value; where that tips a value over a
 * border, by a step of 2^-8 of it. In these models a sum has 32 or 64 terms, and a layer has four
 * such sums on the way to the logits, so a tipped value changes a logit by some 2^-8 / sqrt(32) of
 * its size times a few; hundreds of values may tip in a text. A twentieth of a logit's standard
 * deviation is far below what a wrong part of an architecture changes, which is of its own size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/backend.h"
#include "riffle.h"
#include "support/check.h"

enum { MOST_IDS = 1024, MOST_LOGITS = 64, MOST_POSITIONS = 64, MOST_GREEDY = 64, N_VOCAB = 288 };

struct position {
    int32_t at, n;
    int32_t ids[MOST_LOGITS];
    double logits[MOST_LOGITS];
};

struct text {
    int32_t n_ctx, n, n_positions, n_greedy;
    int32_t ids[MOST_IDS], greedy[MOST_GREEDY];
    double leads[MOST_GREEDY];
    struct position positions[MOST_POSITIONS];
};

/* "id:value" up to the end of a line. */
static int32_t read_pairs(FILE *file, int32_t *ids, double *values, int32_t most)
{
    int32_t n = 0;
    char end = 0;
    while (n < most && fscanf(file, "%" SCNd32 ":%lf%c", &ids[n], &values[n], &end) == 3) {
        n++;
        if (end == '\n') break;
    }
    return n;
}

/* 0 at the end of the file. */
static int read_text(FILE *file, struct text *text)
{
    char word[16];
    memset(text, 0, sizeof *text);
    if (fscanf(file, " case %" SCNd32 " text %" SCNd32, &text->n_ctx, &text->n) != 2) return 0;
    for (int32_t i = 0; i < text->n; i++) CHECK_INT(fscanf(file, "%" SCNd32, &text->ids[i]), 1);
    while (fscanf(file, "%15s", word) == 1 && strcmp(word, "position") == 0) {
        struct position *position = &text->positions[text->n_positions++];
        CHECK_INT(fscanf(file, "%" SCNd32, &position->at), 1);
        position->n = read_pairs(file, position->ids, position->logits, MOST_LOGITS);
    }
    int32_t n_greedy;
    CHECK_INT(fscanf(file, "%" SCNd32, &n_greedy), 1);
    text->n_greedy = read_pairs(file, text->greedy, text->leads, MOST_GREEDY);
    CHECK_INT(text->n_greedy, n_greedy);
    return 1;
}

/* The standard deviation of all expected logits. */
static double deviation(const struct text *text)
{
    double sum = 0, squares = 0, n = 0;
    for (int32_t p = 0; p < text->n_positions; p++)
        for (int32_t i = 0; i < text->positions[p].n; i++, n++) {
            sum += text->positions[p].logits[i];
            squares += text->positions[p].logits[i] * text->positions[p].logits[i];
        }
    return sqrt(squares / n - sum / n * (sum / n));
}

/* Reads up to each position, so in blocks of several sizes, and compares the logits there. */
static double check_logits(const char *path, riffle_session *session, const struct text *text,
                           float (*kept)[N_VOCAB])
{
    double tolerance = deviation(text) / 20, largest = 0;
    for (int32_t p = 0, read = 0; p < text->n_positions; p++) {
        const struct position *position = &text->positions[p];
        int32_t end = position->at + 1;
        CHECK_INT(riffle_prefill(session, text->ids + read, (size_t)(end - read)), 0);
        CHECK_INT(riffle_logits(session, kept[p], N_VOCAB), 0);
        for (int32_t i = 0; i < position->n; i++) {
            double off = fabs((double)kept[p][position->ids[i]] - position->logits[i]);
            if (!(off <= largest)) largest = off;
        }
        read = end;
    }
    CHECK_MSG(largest <= tolerance, "%s: logits over %d ids are off by %.3f of %.3f", path, text->n,
              largest, tolerance);
    return largest / tolerance;
}

/* transformers' likeliest token after its own text, where the next best is not too near. */
static void check_greedy(const char *path, riffle_session *session, const struct text *text)
{
    static float logits[N_VOCAB];
    for (int32_t i = 0; i < text->n_greedy; i++) {
        int32_t best = 0;
        CHECK_INT(riffle_logits(session, logits, N_VOCAB), 0);
        for (int32_t t = 1; t < N_VOCAB; t++)
            if (logits[t] > logits[best]) best = t;
        CHECK_MSG(best == text->greedy[i] || text->leads[i] < deviation(text) / 10,
                  "%s: id %d is %d, not %d", path, i, best, text->greedy[i]);
        CHECK_INT(riffle_prefill(session, text->greedy + i, 1), 0);
    }
}

static void check_drafted(const char *path, riffle_session *session, const int32_t *wanted,
                          int32_t n)
{
    int32_t made[MOST_GREEDY + 16], count = 0;
    while (count < n) {
        int32_t step = (int32_t)riffle_step(session, made + count, 16);
        CHECK_MSG(step > 0, "%s: %s", path, riffle_last_error());
        if (step <= 0) return;
        count += step;
    }
    for (int32_t i = 0; i < n; i++)
        CHECK_MSG(made[i] == wanted[i], "%s: drafted id %d is %d, not %d", path, i, made[i],
                  wanted[i]);
}

static riffle_session *open_session(riffle_model *model, const struct text *text, const char *chain,
                                    const char *kv)
{
    riffle_session *session = NULL;
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = text->n_ctx;
    options.chain = chain;
    options.kv = kv;
    CHECK_MSG(riffle_session_open(&session, model, &options) == 0, "%s", riffle_last_error());
    return session;
}

/* The ids are the same with every chain that the model was opened for. */
static void check_chains(const char *path, riffle_model *model, const struct text *text,
                         const char *kv, const int32_t *ids)
{
    static const char *const chains[] = {"mxfp4", "ngram > mxfp4"};
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        riffle_session *session = open_session(model, text, chains[c], kv);
        if (!session) return;
        CHECK_INT(riffle_prefill(session, text->ids, (size_t)text->n), 0);
        check_drafted(path, session, ids, text->n_greedy);
        riffle_session_close(session);
    }
}

/* Row by row the bits are those of blocks, and with drafts the ids are those without. */
static void check_same(const char *path, riffle_model *model, const struct text *text,
                       const char *kv)
{
    static float in_blocks[MOST_POSITIONS][N_VOCAB], row[N_VOCAB];
    riffle_session *plain = open_session(model, text, "none", kv),
                   *drafting = open_session(model, text, "ngram", kv);
    if (!plain || !drafting) return;
    CHECK_INT(riffle_prefill(drafting, text->ids, (size_t)text->n), 0);
    for (int32_t p = 0, read = 0; p < text->n_positions; p++) {
        int32_t end = text->positions[p].at + 1;
        CHECK_INT(riffle_prefill(plain, text->ids + read, (size_t)(end - read)), 0);
        CHECK_INT(riffle_logits(plain, in_blocks[p], N_VOCAB), 0);
        read = end;
    }
    CHECK_INT(riffle_rewind(plain, 0), 0);
    for (int32_t p = 0, i = 0; p < text->n_positions; p++) {
        for (; i <= text->positions[p].at; i++)
            CHECK_INT(riffle_prefill(plain, text->ids + i, 1), 0);
        CHECK_INT(riffle_logits(plain, row, N_VOCAB), 0);
        CHECK_MSG(memcmp(row, in_blocks[p], sizeof row) == 0,
                  "%s, kv %s: the bits at %d depend on how the text was cut", path, kv,
                  text->positions[p].at);
    }
    int32_t ids[MOST_GREEDY];
    for (int32_t i = 0; i < text->n_greedy; i++) CHECK_INT(riffle_step(plain, ids + i, 1), 1);
    check_drafted(path, drafting, ids, text->n_greedy);
    riffle_session_close(plain);
    riffle_session_close(drafting);
    check_chains(path, model, text, kv, ids);
}

/* The part of a model that CUDA devices refuse, by its folder's name; NULL: none. */
static const char *refused_part(const char *path)
{
    static const struct {
        const char *folder, *part;
    } refused[] = {{"lfm2", "convolutions"},
                   {"qwen35", "the delta rule"},
                   {"granitehybrid", "Mamba-2"},
                   {"nemotron", "Mamba-2"},
                   {"gemma4", "layers of different sizes"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strstr(path, refused[i].folder)) return refused[i].part;
    return NULL;
}

/* `is_gguf`: the other container has the same matrices, whose passes are cut and drafted with only
 * once; its logits and likeliest tokens are compared like the first's. */
static void check_model(const char *path, FILE *file, int is_gguf)
{
    static struct text text;
    static float logits[MOST_POSITIONS][N_VOCAB];
    riffle_model *model = NULL;
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > mxfp4";
    int code = riffle_model_open(&model, path, &options);
    const char *refused = refused_part(path);
    if (strcmp(rf_backend_kinds[0]->name, "cuda") == 0 && refused) {
        CHECK_INT(code, RIFFLE_ERR_UNSUPPORTED);
        CHECK_MSG(strstr(riffle_last_error(), refused), "%s", riffle_last_error());
        return;
    }
    CHECK_MSG(code == 0, "%s", riffle_last_error());
    rewind(file);
    int n = 0;
    for (; model && read_text(file, &text); n++) {
        riffle_session *session = open_session(model, &text, "none", "f16");
        double share = check_logits(path, session, &text, logits);
        check_greedy(path, session, &text);
        printf("%s, %d ids: %.3f of the tolerance\n", path, text.n, share);
        riffle_session_close(session);
        if (is_gguf) continue;
        check_same(path, model, &text, "f16");
        if (!IS_FOR_RACES && strcmp(rf_backend_kinds[0]->name, "cpu") == 0)
            check_same(path, model, &text, "q8");
    }
    CHECK_INT(n, 2);
    riffle_model_close(model);
}

/* GGUF has no keys for what the others differ in (NO_GGUF in the script). */
static int has_gguf(const char *folder)
{
    return !strstr(folder, "vision") && !strstr(folder, "yarn") && !strstr(folder, "dynamic") &&
           !strstr(folder, "lfm2-bias") && !strstr(folder, "granitehybrid-rope");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/expected.txt", argv[i]);
        FILE *file = fopen(path, "r");
        CHECK_MSG(file != NULL, "%s: cannot open", path);
        if (!file) continue;
        check_model(argv[i], file, 0);
        snprintf(path, sizeof path, "%s/model.gguf", argv[i]);
        if (!IS_FOR_RACES && has_gguf(argv[i])) check_model(path, file, 1);
        fclose(file);
    }
    return check_result();
}
