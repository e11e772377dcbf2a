/* riffle_quantize: resolves names and calls rf_quantize. */
#include "quant/quantize.h"

#include <string.h>

#include "api/handles.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "platform/memory.h"

RF_API_OPTIONS(riffle_quantize_options, .threads = 0)

static int find_target(const char *type, const char *rule, enum rf_cast_target *target,
                       struct rf_error *error)
{
    static const struct {
        const char *name;
        enum rf_cast_target target;
    } types[] = {{"mxfp4", RF_TARGET_MXFP4},
                 {"q4", RF_TARGET_Q4},
                 {"q4_0", RF_TARGET_Q4_0},
                 {"q8_0", RF_TARGET_Q8_0},
                 {"bf16", RF_TARGET_BF16}};
    size_t i = 0, n = sizeof types / sizeof *types;
    while (i < n && strcmp(types[i].name, type) != 0) i++;
    if (i == n)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "type \"%s\": known are mxfp4, q4, q4_0, q8_0 and bf16", type);
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

int riffle_quantize(const char *in, const char *out, const char *type,
                    const riffle_quantize_options *options)
{
    riffle_quantize_options chosen;
    if (!in || !out || !type)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", !in ? "in" : !out ? "out" : "type");
    int code = take_riffle_quantize_options(&chosen, options);
    if (code) return code;
    struct rf_allocator allocator;
    code = rf_api_allocator(&allocator, chosen.allocator);
    if (code) return code;
    struct rf_error error;
    struct rf_api_progress report = {chosen.progress, chosen.progress_user, "quantising"};
    struct rf_quantize_options work = {.progress = chosen.progress ? rf_api_report : NULL,
                                       .user = &report};
    const struct rf_backend_options device = rf_api_device();
    struct rf_device_info info;
    code = find_target(type, chosen.rule, &work.target, &error);
    if (!code) code = rf_api_threads(chosen.threads, &work.threads, &error);
    if (!code) code = rf_backend_kinds[0]->describe(&device, &info, &error);
    if (!code) {
        int tier = rf_tier_by_name(info.tier);
        work.kernels = rf_kernels(tier < 0 ? rf_kernels_best_tier() : tier);
        code = rf_quantize(in, out, &work, &allocator, &error);
    }
    return code ? rf_api_fail(&error) : 0;
}
