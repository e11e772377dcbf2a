/* From names to casts (quantize.h): rf_quantize casts and rotates, rf_calibrate also measures. A
 * calibrated and rotated file takes two steps with a file between them. */
#include "engine/quantize.h"

#include <stdio.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "engine/cores.h"
#include "engine/devices.h"
#include "engine/progress.h"
#include "microkernels/kernels.h"
#include "model/open.h"
#include "platform/cpu.h"
#include "platform/folder.h"
#include "platform/memory.h"
#include "quant/quantize.h"
#include "text/tokenizer.h"

static int find_cast_target(const char *type, const char *rule, enum rf_cast_target *target,
                            struct rf_error *error)
{
    static const struct {
        const char *name;
        enum rf_cast_target target;
    } types[] = {{"mxfp4", RF_TARGET_MXFP4}, {"q4", RF_TARGET_Q4},
                 {"q4_0", RF_TARGET_Q4_0},   {"w4a8", RF_TARGET_W4A8},
                 {"q6", RF_TARGET_Q6},       {"q8_0", RF_TARGET_Q8_0},
                 {"bf16", RF_TARGET_BF16},   {"w4a8i", RF_TARGET_W4A8_G128}};
    size_t i = 0, n = sizeof types / sizeof *types;
    while (i < n && strcmp(types[i].name, type) != 0) i++;
    if (i == n)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "type \"%s\": known are mxfp4, q4, q4_0, w4a8, w4a8i, q6, q8_0 and bf16",
                       type);
    *target = types[i].target;
    if (!rule) return 0;
    if (*target != RF_TARGET_MXFP4)
        return rf_fail(error, RF_ERR_ARGUMENT, "rule \"%s\": only mxfp4 has rules, not %s", rule,
                       type);
    if (strcmp(rule, "floor") == 0)
        *target = RF_TARGET_MXFP4_FLOOR;
    else if (strcmp(rule, "best") != 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "rule \"%s\": known are floor and best", rule);
    return 0;
}

enum { DEFAULT_WINDOWS = 128, DEFAULT_GROUP = 128, DEFAULT_HIGH_SHARE = 25 };

/* Keeps n_windows of n windows, spread over the text, so that they are of all that it is about. */
static void spread_windows(int32_t *ids, size_t n, size_t n_windows)
{
    for (size_t w = 0; w < n_windows; w++)
        memmove(ids + w * RF_CALIBRATE_WINDOW, ids + w * n / n_windows * RF_CALIBRATE_WINDOW,
                RF_CALIBRATE_WINDOW * sizeof *ids);
}

/* Windows of the text, each of which begins with BOS where the model adds one. */
static int take_windows(const struct rf_source *source, const char *path,
                        const riffle_quantize_options *chosen, const struct rf_allocator *allocator,
                        struct rf_tokens *tokens, int32_t *n_windows, struct rf_error *error)
{
    const struct rf_segment text = {chosen->calibration, (size_t)chosen->calibration_bytes, 0};
    int32_t most = chosen->calibration_windows ? chosen->calibration_windows : DEFAULT_WINDOWS;
    struct rf_tokenizer *tokenizer;
    int code = rf_tokenizer_new(&tokenizer, &source->vocab, path, allocator, error);
    if (code) return code;
    code = rf_tokenizer_encode(tokenizer, &text, 1, 0, allocator, tokens, error);
    size_t n = tokens->count / RF_CALIBRATE_WINDOW;
    *n_windows = n < (size_t)most ? (int32_t)n : most;
    if (!code && !n)
        code = rf_fail(error, RF_ERR_ARGUMENT,
                       "the text to calibrate on has %zu tokens, fewer than a window of %d",
                       tokens->count, RF_CALIBRATE_WINDOW);
    if (!code) spread_windows(tokens->ids, n, (size_t)*n_windows);
    for (int32_t w = 0; !code && w < *n_windows && rf_tokenizer_adds_bos(tokenizer); w++)
        tokens->ids[w * RF_CALIBRATE_WINDOW] = rf_tokenizer_bos(tokenizer);
    rf_tokenizer_free(tokenizer);
    return code;
}

/* MXFP4 stays a file of one type, which drafts and other runtimes read as it is. */
static int32_t high_share_of(const riffle_quantize_options *chosen, enum rf_cast_target target)
{
    if (chosen->high_share) return chosen->high_share > 0 ? chosen->high_share : 0;
    return target == RF_TARGET_MXFP4 ? 0 : DEFAULT_HIGH_SHARE;
}

static int calibrate_file(const char *in, const char *out, const riffle_quantize_options *chosen,
                          const struct rf_quantize_options *work,
                          const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_calibrate_options options = {.quantize = *work};
    const struct rf_backend_options device = rf_processor_options();
    struct rf_source *source;
    struct rf_tokens tokens = {0};
    int code = rf_source_open(&source, in, NULL, allocator, error);
    if (code) return code;
    code = take_windows(source, in, chosen, allocator, &tokens, &options.n_windows, error);
    if (!code) code = rf_backend_kinds[0]->open(&options.backend, &device, allocator, error);
    if (!code) {
        options.source = source;
        options.tokens = tokens.ids;
        options.high_share = high_share_of(chosen, work->target);
        code = rf_calibrate(in, out, &options, allocator, error);
        options.backend->ops->free(options.backend);
    }
    rf_tokens_free(allocator, &tokens);
    rf_source_close(source);
    return code;
}

/* Calibrates a rotated copy, a file of its own as long as that takes. */
static int calibrate_rotated(const char *in, const char *out, const riffle_quantize_options *chosen,
                             const struct rf_quantize_options *work,
                             const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_quantize_options rotating = *work, calibrating = *work;
    struct rf_progress report = {chosen->progress, chosen->progress_user, "rotating"};
    struct rf_error ignored;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s.rotated", out);
    if (n < 0 || (size_t)n >= sizeof path)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", out);
    rotating.target = RF_TARGET_BF16;
    rotating.user = &report;
    calibrating.rotates = 0;
    int code = rf_check_other_file(in, out, error);
    if (!code) code = rf_quantize(in, path, &rotating, allocator, error);
    if (code) return code;
    code = calibrate_file(path, out, chosen, &calibrating, allocator, error);
    rf_remove(path, &ignored);
    return code;
}

/* Rotation lowers the loss of W4A8 on every model measured (docs/lab/2026-11-26-calibration.md). */
static int choose_rotation(const char *in, const riffle_quantize_options *chosen,
                           enum rf_cast_target target, const struct rf_allocator *allocator,
                           int *rotates, struct rf_error *error)
{
    struct rf_source *source;
    *rotates = chosen->rotate > 0;
    if (chosen->rotate || !rf_is_w4a8(target)) return 0;
    int code = rf_source_open(&source, in, NULL, allocator, error);
    if (code) return code;
    *rotates = rf_rotating_suits(source, target);
    rf_source_close(source);
    return 0;
}

static int check_quantize_options(const riffle_quantize_options *chosen, enum rf_cast_target target,
                                  struct rf_error *error)
{
    if (chosen->calibration_windows < 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "calibration_windows %d: is negative",
                       chosen->calibration_windows);
    if (chosen->calibration && target != RF_TARGET_MXFP4 && target != RF_TARGET_Q4 &&
        !rf_is_w4a8(target))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "only mxfp4 with the rule best, q4, w4a8 and w4a8i can be calibrated");
    if (!chosen->calibration && rf_is_w4a8(target))
        return rf_fail(error, RF_ERR_ARGUMENT, "%s needs a text to calibrate on",
                       target == RF_TARGET_W4A8 ? "w4a8" : "w4a8i");
    if (chosen->group < -1 || chosen->group % 64 > 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "group %d: is not a multiple of 64", chosen->group);
    if (chosen->rotate < -1 || chosen->rotate > 1)
        return rf_fail(error, RF_ERR_ARGUMENT, "rotate %d: is neither -1, 0 nor 1", chosen->rotate);
    if (chosen->high_share < -1 || chosen->high_share > 100)
        return rf_fail(error, RF_ERR_ARGUMENT, "high_share %d: is no percentage",
                       chosen->high_share);
    if (chosen->high_share > 0 && !chosen->calibration)
        return rf_fail(error, RF_ERR_ARGUMENT, "high_share %d: needs a text to calibrate on",
                       chosen->high_share);
    if (chosen->group && !rf_is_w4a8(target))
        return rf_fail(error, RF_ERR_ARGUMENT, "group %d: only w4a8 and w4a8i have groups",
                       chosen->group);
    if (chosen->group > 0 && chosen->group != DEFAULT_GROUP && target == RF_TARGET_W4A8_G128)
        return rf_fail(error, RF_ERR_ARGUMENT, "group %d: w4a8i has groups of 128, or whole rows",
                       chosen->group);
    return 0;
}

int rf_quantize_file(const char *in, const char *out, const char *type,
                     const riffle_quantize_options *options, const struct rf_allocator *allocator,
                     struct rf_error *error)
{
    struct rf_progress report = {options->progress, options->progress_user,
                                 options->calibration ? "calibrating" : "quantising"};
    struct rf_quantize_options work = {.progress = options->progress ? rf_progress_report : NULL,
                                       .group = options->group > 0   ? options->group
                                                : options->group < 0 ? 0
                                                                     : DEFAULT_GROUP,
                                       .user = &report};
    const struct rf_backend_options device = rf_processor_options();
    struct rf_device_info info;
    int code = find_cast_target(type, options->rule, &work.target, error);
    if (!code) code = check_quantize_options(options, work.target, error);
    if (!code && work.target == RF_TARGET_W4A8_G128 && options->group < 0)
        work.target = RF_TARGET_W4A8_ROW;
    if (!code) code = rf_cores_threads(options->threads, &work.threads, error);
    if (!code) code = choose_rotation(in, options, work.target, allocator, &work.rotates, error);
    if (!code) code = rf_backend_kinds[0]->describe(&device, &info, error);
    if (!code && rf_is_w4a8(work.target) && !work.rotates)
        report.stage = "calibrating, not rotated";
    if (!code) {
        int tier = rf_tier_by_name(info.tier);
        work.kernels = rf_kernels(tier < 0 ? rf_kernels_best_tier() : tier);
        code = !options->calibration ? rf_quantize(in, out, &work, allocator, error)
               : work.rotates        ? calibrate_rotated(in, out, options, &work, allocator, error)
                                     : calibrate_file(in, out, options, &work, allocator, error);
    }
    return code;
}
