/* riffle_quantize with a text: the new file computes what the old one does more closely than a cast
 * does, and work that was interrupted is continued to the same file. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/changed_model.h"
#include "api/helpers.h"
#include "calibrate/share.h"
#include "platform/file.h"
#include "quant/blas.h"

enum { SKIPPED = 77, TEXT_BYTES = 24000, SCORED = 500, WINDOWS = 4 };

static char folder[256], output[300], saved[320], wide_model[320], text[TEXT_BYTES + 200];

/* Stories of the kind that the model was trained on. */
static void write_text(uint64_t seed)
{
    static const char *const names[] = {"Lily", "Tom", "Ben", "Mia", "Sue", "Max", "Anna", "Tim"};
    static const char *const things[] = {"ball",   "cat", "dog",  "tree",
                                         "flower", "car", "bird", "cake"};
    static const char *const plots[] = {
        "Once upon a time, there was a little girl named %s. She had a %s and played with it. ",
        "One day, %s saw a big %s in the park. \"Can I have it?\" she asked her mom. ",
        "%s was very sad because the %s was lost. But then a friend came to help. ",
        "The %2$s was red and pretty. %1$s was happy and said thank you. "};
    size_t n = 0;
    for (uint64_t state = seed; n < TEXT_BYTES;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        n += (size_t)sprintf(text + n, plots[state >> 60 & 3], names[state >> 50 & 7],
                             things[state >> 40 & 7]);
    }
}

static riffle_quantize_options calibrating(const char *on)
{
    riffle_quantize_options options;
    riffle_quantize_options_init(&options, sizeof options);
    options.calibration = on;
    options.calibration_bytes = strlen(on);
    options.calibration_windows = WINDOWS;
    options.high_share = -1;
    options.threads = 2;
    return options;
}

static double logprobs[4][SCORED]; /* results of the last call of `loss` */
static double original[4][SCORED]; /* results for TINY_MODEL */

/* The mean of -log p of the text. */
static double loss(const char *path)
{
    riffle_model_options options;
    riffle_model *model;
    static int32_t tokens[TEXT_BYTES];
    double sum = 0;
    riffle_model_options_init(&options, sizeof options);
    options.weights = "stored";
    if (CHECK_OK(riffle_model_open(&model, path, &options)) < 0) return NAN;
    int64_t n = riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_BOS, tokens, TEXT_BYTES);
    CHECK(n > SCORED * 4);
    riffle_session *session = open_session(model, SCORED, 2);
    for (int w = 0; w < 4; w++) {
        CHECK_OK(riffle_rewind(session, 0));
        CHECK_OK(riffle_score(session, tokens + w * SCORED, SCORED, 1, logprobs[w]));
        for (int i = 0; i < SCORED - 1; i++) sum -= logprobs[w][i] / (4.0 * (SCORED - 1));
    }
    riffle_session_close(session);
    riffle_model_close(model);
    return sum;
}

/* The mean squared difference of log p from the original's: chance can lower a loss, but not this.
 */
static double change(const char *path)
{
    double sum = 0;
    write_text(2);
    loss(path);
    for (int w = 0; w < 4; w++)
        for (int i = 0; i < SCORED - 1; i++)
            sum += (logprobs[w][i] - original[w][i]) * (logprobs[w][i] - original[w][i]);
    return sum / (4.0 * (SCORED - 1));
}

static void changes_less(const char *type)
{
    write_text(1);
    static char calibration[sizeof text];
    strcpy(calibration, text);
    riffle_quantize_options options = calibrating(calibration);
    /* Q4_0 has a scale for each 32 weights, W4A8 for each 64 of them here. */
    int is_w4a8 = strcmp(type, "w4a8") == 0;
    CHECK_OK(riffle_quantize(TINY_MODEL, output, is_w4a8 ? "q4_0" : type, NULL));
    double cast = change(output);
    CHECK_OK(riffle_quantize(TINY_MODEL, output, type, &options));
    double calibrated = change(output);
    CHECK_MSG(calibrated < 0.6 * cast, "%s: the mean square of changes is %.4f, a cast's %.4f",
              type, calibrated, cast);
    CHECK(!rf_path_exists(saved));
}

/* ---- more bits ---- */

static uint64_t bytes_with(const char *model, const char *type, int32_t share, double *changed)
{
    write_text(1);
    static char calibration[sizeof text];
    strcpy(calibration, text);
    riffle_quantize_options options = calibrating(calibration);
    options.high_share = share ? share : -1;
    CHECK_OK(riffle_quantize(model, output, type, &options));
    *changed = change(output);
    return (uint64_t)rf_file_bytes(output);
}

static void eight_bits_lose_less(void)
{
    double none, some, all;
    uint64_t least = bytes_with(TINY_MODEL, "w4a8", 0, &none),
             more = bytes_with(TINY_MODEL, "w4a8", 40, &some),
             most = bytes_with(TINY_MODEL, "w4a8", 100, &all);
    /* Less than the share: matrices are whole. */
    CHECK_MSG(more > least && (more - least) * 100 <= (most - least) * 40 &&
                  (more - least) * 100 > (most - least) * 25,
              "%d, %d and %d bytes", (int)least, (int)more, (int)most);
    CHECK_MSG(some < 0.8 * none && all < 0.05 * none,
              "the mean square of changes is %.4f, with 40 and 100 %% of 8 bits %.4f and %.4f",
              none, some, all);
}

/* Some of ffn_down's columns become 32 times as large, and ffn_up's rows inversely. */
static void make_uneven(const char *name, float *values, size_t row, size_t rows)
{
    int is_down = strstr(name, "ffn_down.weight") != NULL;
    if (!is_down && !strstr(name, "ffn_up.weight")) return;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < row; j++)
            if ((is_down ? j : i) % 16 == 0) values[i * row + j] *= is_down ? 32 : 1 / 32.0f;
}

/* Copies a tensor with 256 values or rows instead of 172, of which the others are zeros, if it is a
 * matrix of the feed-forward. `info`: behind its name. Returns the new tensor's bytes. */
static size_t widen_tensor(unsigned char *info, const char *name, const unsigned char *old,
                           unsigned char *new, int is_uneven)
{
    enum { NARROW = 172, WIDE = 256 };
    uint64_t ne[2] = {number_at(info + 4), info[0] > 1 ? number_at(info + 12) : 1};
    size_t row = ne[0] * sizeof(float), rows = ne[1], wide_row = row;
    if (strstr(name, "ffn_down.weight")) {
        ne[0] = WIDE;
        wide_row = WIDE * sizeof(float);
    } else if (rows == NARROW) {
        ne[1] = WIDE;
    }
    for (size_t i = 0; i < rows; i++) memcpy(new + i *wide_row, old + i * row, row);
    if (is_uneven) make_uneven(name, (float *)(void *)new, wide_row / sizeof(float), rows);
    if (info[0] > 1) memcpy(info + 4, ne, sizeof ne);
    return (wide_row * ne[1] + 31) / 32 * 32;
}

/* The same model with 256 values in ffn_down's rows, or also with uneven columns there. */
static void write_wide_model(int is_uneven)
{
    static struct file file, wide;
    read_model(&file);
    unsigned char *at = behind(&file, "token_embd.weight"),
                  *data = tensor_data(&file, "token_embd.weight") - number_at(at + 4 + 16 + 4);
    size_t n = 0, header = (size_t)(data - file.data);
    memcpy(behind(&file, "llama.feed_forward_length") + VALUE, &(uint32_t){256}, 4);
    at -= 8 + strlen("token_embd.weight"); /* the first tensor */
    for (uint64_t left = number_at(file.data + 8); left; left--) {
        char name[64] = "";
        uint64_t length = number_at(at), old, offset = n;
        CHECK(length < sizeof name);
        memcpy(name, at + 8, length);
        unsigned char *info = at + 8 + length, *end = info + 4 + 8 * info[0] + 4;
        old = number_at(end);
        n += widen_tensor(info, name, data + old, wide.data + header + n, is_uneven);
        memcpy(end, &offset, sizeof offset);
        at = end + 8;
        CHECK(header + n < sizeof wide.data);
    }
    memcpy(wide.data, file.data, header);
    write_model(wide.data, header + n, wide_model);
}

/* "Q6_K 5, ..." */
static int counts(const char *path, const char *type)
{
    riffle_model *model;
    riffle_model_info info;
    if (CHECK_OK(riffle_model_open(&model, path, NULL)) < 0) return -1;
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    const char *found = strstr(info.stored_types, type);
    int n = found ? atoi(found + strlen(type)) : 0;
    riffle_model_close(model);
    return n;
}

/* Six where rows allow it; they cost less than eight, so that they come first. */
static void six_bits_lose_less(void)
{
    double none, some, all;
    write_wide_model(0);
    double wide = change(wide_model);
    CHECK_MSG(wide < 1e-4, "the wide model's mean square of changes is %g", wide);
    uint64_t least = bytes_with(wide_model, "w4a8", 0, &none);
    CHECK_INT(counts(output, "Q6_K"), 0);
    uint64_t more = bytes_with(wide_model, "w4a8", 30, &some);
    int n = counts(output, "Q6_K"), eight = counts(output, "Q8_0");
    uint64_t most = bytes_with(wide_model, "w4a8", 100, &all);
    CHECK_MSG(n > 0, "%d matrices have six bits, %d eight", n, eight);
    CHECK_INT(counts(output, "Q6_K"), 5);
    CHECK_MSG((more - least) * 100 <= (most - least) * 31, "%d, %d and %d bytes", (int)least,
              (int)more, (int)most);
    CHECK_MSG(some < 0.8 * none && all < 0.05 * none,
              "the mean square of changes is %.4f, with 30 and 100 %% of more bits %.4f and %.4f",
              none, some, all);
}

static void evens_columns(const char *type)
{
    double plain, uneven;
    write_wide_model(0);
    bytes_with(wide_model, type, 0, &plain);
    write_wide_model(1);
    CHECK(change(wide_model) < 1e-4);
    bytes_with(wide_model, type, 0, &uneven);
    CHECK_MSG(uneven < 1.2 * plain,
              "%s: the mean square of changes is %.4f, with uneven columns %.4f", type, plain,
              uneven);
    write_wide_model(0);
}

static void the_worst_for_their_bytes(void)
{
    const struct candidate candidates[] = {{8, 40}, {3, 10}, {0, 10}, {1, 10}, {5, 30}};
    uint8_t high[5];
    rf_choose_high(candidates, 5, 40, high); /* 40 bytes: 3 in 10, then 5 in 30, as 8 in 40 does
                                                not fit */
    CHECK(!high[0] && high[1] && !high[2] && !high[3] && high[4]);
    rf_choose_high(candidates, 5, 0, high);
    for (size_t i = 0; i < 5; i++) CHECK(!high[i]);
    rf_choose_high(candidates, 5, 100, high);
    for (size_t i = 0; i < 5; i++) CHECK_INT(high[i], candidates[i].error > 0);
}

/* ---- interruptions ---- */

struct stop {
    uint64_t calls, at, last;
};

static int stop_at(void *user, const char *stage, uint64_t done, uint64_t total)
{
    struct stop *stop = user;
    CHECK_STR(stage, "calibrating");
    CHECK(done > stop->last && done <= total);
    stop->last = done;
    return ++stop->calls == stop->at;
}

static char *contents(const char *path, size_t *bytes)
{
    struct rf_error error;
    char *data = NULL;
    CHECK_INT(rf_slurp(path, 1 << 30, &data, bytes, &error), 0);
    return data;
}

static void same_file(const char *wanted, size_t wanted_bytes, const char *when)
{
    size_t bytes = 0;
    char *data = contents(output, &bytes);
    CHECK_MSG(bytes == wanted_bytes && memcmp(data, wanted, bytes) == 0, "another file %s", when);
    free(data);
}

/* The share that a type has where none is given. */
static void default_share(const char *type, int32_t share)
{
    write_text(1);
    riffle_quantize_options options = calibrating(text);
    options.high_share = share ? share : -1;
    CHECK_OK(riffle_quantize(TINY_MODEL, output, type, &options));
    size_t bytes = 0;
    char *wanted = contents(output, &bytes);
    options.high_share = 0;
    CHECK_OK(riffle_quantize(TINY_MODEL, output, type, &options));
    same_file(wanted, bytes, type);
    free(wanted);
}

static void continues(void)
{
    write_text(1);
    riffle_quantize_options options = calibrating(text);
    struct stop whole = {0};
    options.progress = stop_at;
    options.progress_user = &whole;
    CHECK_OK(riffle_quantize(TINY_MODEL, output, "mxfp4", &options));
    size_t bytes = 0;
    char *wanted = contents(output, &bytes);
    unlink(output);

    /* In the second layer, and there once more; then to the end with fewer passes. */
    for (int i = 0; i < 2; i++) {
        struct stop stop = {.at = 2 * WINDOWS + 3 - (i ? WINDOWS - 1 : 0)};
        options.progress_user = &stop;
        CHECK_INT(riffle_quantize(TINY_MODEL, output, "mxfp4", &options), RIFFLE_ERR_CANCELLED);
        CHECK(strstr(riffle_last_error(), "continues") != NULL);
        CHECK(!rf_path_exists(output) && rf_path_exists(saved));
    }
    struct stop rest = {0};
    options.progress_user = &rest;
    CHECK_OK(riffle_quantize(TINY_MODEL, output, "mxfp4", &options));
    CHECK_INT(rest.calls, whole.calls - (WINDOWS - 1));
    CHECK(!rf_path_exists(saved));
    same_file(wanted, bytes, "after an interruption");

    /* A file of another calibration, or a damaged one, is not used. */
    for (int i = 0; i < 3; i++) {
        static char other[sizeof text];
        struct stop stop = {.at = 2 * WINDOWS + 1}, all = {0};
        strcpy(other, text);
        /* Windows are taken from all of the text. */
        if (i == 0) memset(other + strlen(other) / 2, 'x', strlen(other) / 2);
        riffle_quantize_options changed = calibrating(i == 0 ? other : text);
        changed.progress = stop_at;
        changed.progress_user = &stop;
        unlink(output);
        CHECK_INT(riffle_quantize(TINY_MODEL, output, i == 1 ? "q4" : "mxfp4", &changed),
                  RIFFLE_ERR_CANCELLED);
        if (i == 2) CHECK_INT(truncate(saved, (off_t)rf_file_bytes(saved) - 1), 0);
        options.progress_user = &all;
        CHECK_OK(riffle_quantize(TINY_MODEL, output, "mxfp4", &options));
        CHECK_INT(all.calls, whole.calls);
        same_file(wanted, bytes, "after a foreign or damaged start");
    }
    free(wanted);
}

/* The choice of matrices is kept with the layers. */
static void continues_with_six_bits(void)
{
    write_text(1);
    riffle_quantize_options options = calibrating(text);
    struct stop whole = {0};
    options.high_share = 30;
    options.progress = stop_at;
    options.progress_user = &whole;
    CHECK_OK(riffle_quantize(wide_model, output, "q4", &options));
    size_t bytes = 0;
    char *wanted = contents(output, &bytes);
    for (uint64_t twentieths = 5; twentieths < 20; twentieths += 7) {
        struct stop stop = {.at = whole.calls * twentieths / 20};
        options.progress_user = &stop;
        unlink(output);
        CHECK_INT(riffle_quantize(wide_model, output, "q4", &options), RIFFLE_ERR_CANCELLED);
    }
    struct stop rest = {0};
    options.progress_user = &rest;
    CHECK_OK(riffle_quantize(wide_model, output, "q4", &options));
    CHECK_MSG(rest.calls < whole.calls / 2, "%d of %d passes", (int)rest.calls, (int)whole.calls);
    CHECK(counts(output, "Q6_K") > 0);
    same_file(wanted, bytes, "after an interruption");
    free(wanted);
}

/* ---- what is refused ---- */

/* Opens the W4A8 file with the byte at `at` behind the text `after` set to `byte`. */
static void damaged(const char *after, size_t at, char byte, int code, const char *says)
{
    size_t bytes = 0, length = strlen(after);
    char *data = contents(output, &bytes), *found = memmem(data, bytes, after, length);
    CHECK_MSG(found != NULL, "%s is not in the file", after);
    if (found) found[length + at] = byte;
    const struct rf_span span = {data, bytes};
    char bad[320];
    snprintf(bad, sizeof bad, "%s.bad", output);
    struct rf_error error;
    CHECK_INT(rf_write_file(bad, &span, 1, 0, &error), 0);
    riffle_model *model;
    CHECK_FAILS(riffle_model_open(&model, bad, NULL), code);
    CHECK_MSG(strstr(riffle_last_error(), says) != NULL, "\"%s\" lacks \"%s\"", riffle_last_error(),
              says);
    unlink(bad);
    free(data);
}

/* Files that break a rule of W4A8 which readers rely on. */
static void bad_files(void)
{
    write_text(1);
    riffle_quantize_options options = calibrating(text);
    options.group = -1;
    CHECK_OK(riffle_quantize(TINY_MODEL, output, "w4a8", &options));
    enum { TYPE = 4 /* bytes of the value's type, or of the number of dimensions */ };
    damaged("riffle.w4a8.group", TYPE, 100, RIFFLE_ERR_UNSUPPORTED, "multiple of 64");
    damaged("riffle.w4a8.group", 0, 7, RIFFLE_ERR_FORMAT, "riffle.w4a8.group");
    damaged("riffle.w4a8.grou", 0, 'q', RIFFLE_ERR_UNSUPPORTED, "I8");
    damaged("blk.0.attn_q.weight", TYPE, 33, RIFFLE_ERR_FORMAT, "blocks of 34");
    damaged("blk.0.attn_q.weight", TYPE, 68, RIFFLE_ERR_FORMAT, "offset");
    damaged("blk.0.attn_norm.weight", TYPE + 8, 63, RIFFLE_ERR_UNSUPPORTED, "type 63");
    damaged("blk.0.attn_norm.weight", TYPE + 8, 65, RIFFLE_ERR_UNSUPPORTED, "type 65");
    CHECK_OK(riffle_quantize(TINY_MODEL, output, "w4a8i", &options));
    damaged("riffle.w4a8.levels", TYPE, 2, RIFFLE_ERR_UNSUPPORTED, "is not 128");
    damaged("riffle.w4a8.levels", TYPE, 3, RIFFLE_ERR_FORMAT, "riffle.w4a8.levels");
    damaged("riffle.w4a8.group", TYPE, 64, RIFFLE_ERR_UNSUPPORTED, "is not 0");
    damaged("blk.0.attn_q.weight", TYPE, 33, RIFFLE_ERR_FORMAT, "W4A8_ROW comes in blocks of 34");
    damaged("blk.0.attn_q.weight", TYPE + 3, 17, RIFFLE_ERR_UNSUPPORTED, "up to 131072 values");
    options.group = 64;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "w4a8i", &options), RIFFLE_ERR_ARGUMENT);
}

static void refused(void)
{
    write_text(1);
    riffle_quantize_options options = calibrating(text);
    unlink(output);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q8_0", &options), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "bf16", &options), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, folder, "mxfp4", &options), RIFFLE_ERR_IO);
    CHECK_FAILS(riffle_quantize("absent.gguf", output, "mxfp4", &options), RIFFLE_ERR_IO);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "w4a8", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize("stories260K-conv.gguf", output, "q4", &options),
                RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "convolutions") != NULL);
    CHECK_FAILS(riffle_quantize("stories260K-delta.gguf", output, "q4", &options),
                RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "delta rule") != NULL);
    CHECK_FAILS(riffle_quantize("stories260K-latent.gguf", output, "q4", &options),
                RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "latent attention") != NULL);
    options.high_share = -2;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q4", &options), RIFFLE_ERR_ARGUMENT);
    options.high_share = 101;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q4", &options), RIFFLE_ERR_ARGUMENT);
    options.high_share = -1;
    options.group = 128;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "q4", &options), RIFFLE_ERR_ARGUMENT);
    options.group = 100;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "w4a8", &options), RIFFLE_ERR_ARGUMENT);
    options.group = 0;
    options.calibration_windows = -1;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "mxfp4", &options), RIFFLE_ERR_ARGUMENT);
    options.calibration_windows = 0;
    options.calibration_bytes = 100;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "mxfp4", &options), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "fewer than a window") != NULL);
    options.calibration_bytes = 0;
    CHECK_FAILS(riffle_quantize(TINY_MODEL, output, "mxfp4", &options), RIFFLE_ERR_ARGUMENT);
    CHECK(!rf_path_exists(output) && !rf_path_exists(saved));

    /* Four bits already. */
    CHECK_OK(riffle_quantize(TINY_MODEL, output, "mxfp4", NULL));
    snprintf(saved, sizeof saved, "%s/again.calibration", folder);
    char again[300];
    snprintf(again, sizeof again, "%s/again", folder);
    options = calibrating(text);
    /* ffn_down's rows suit no type of blocks, so the rest has four bits. */
    CHECK_FAILS(riffle_quantize(output, again, "mxfp4", &options), RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "nothing to calibrate") != NULL);
    CHECK(!rf_path_exists(again) && !rf_path_exists(saved));
}

int main(void)
{
    struct rf_blas blas;
    struct rf_error error;
    if (rf_blas_load(&blas, 2, &error)) {
        fprintf(stderr, "skipped: %s\n", error.text);
        return SKIPPED;
    }
    snprintf(folder, sizeof folder, "/tmp/riffle-calibrate-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(output, sizeof output, "%s/out", folder);
    snprintf(saved, sizeof saved, "%s.calibration", output);
    snprintf(wide_model, sizeof wide_model, "%s/wide.gguf", folder);
    write_text(2);
    loss(TINY_MODEL);
    memcpy(original, logprobs, sizeof original);
    changes_less("w4a8");
    evens_columns("q4");
    the_worst_for_their_bytes();
    default_share("q4", 25);
    if (!IS_SANITIZED) { /* the same code: what differs are the numbers */
        changes_less("mxfp4");
        changes_less("q4");
        eight_bits_lose_less();
        six_bits_lose_less();
        evens_columns("w4a8");
        default_share("w4a8", 25);
        default_share("mxfp4", 0);
    }
    continues();
    continues_with_six_bits();
    bad_files();
    refused();
    unlink(output);
    unlink(wide_model);
    rmdir(folder);
    return check_result();
}
