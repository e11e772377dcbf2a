/* Turns a request into the list of its measurements: every tier, shape, kernel, form, number of
 * rows and place of the weights. All checks of a request are here, before anything is measured. */
#include <stdio.h>
#include <string.h>

#include "cpu/tiers.h"
#include "machine/device.h"
#include "microkernels/panel.h"

enum { MOST_TIERS = 16, MOST_ROUNDS = 1000, MOST_ROWS = 512, DEFAULT_ROUNDS = 11 };

static const int64_t MOST_M = 1 << 20, MOST_K = 1 << 17;
static const struct rf_roofline_shape default_shape = {8192, 8192};

#define A8(name, FORMAT, ...) \
    {"linear_" #name "_a8", 0, RF_FORMAT_##FORMAT, RF_OPERAND_A8, RF_KV_F16},
#define A16(name, FORMAT, ...) \
    {"linear_" #name "_a16", 0, RF_FORMAT_##FORMAT, RF_OPERAND_A16, RF_KV_F16},
#define A8_ROW(name, FORMAT, ...) \
    {"linear_" #name "_a8", 0, RF_FORMAT_##FORMAT, RF_OPERAND_A8_ROW, RF_KV_F16},
static const struct rf_roofline_kernel kernels[] = {
    {"linear_bf16", 0, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_F16},
    /* clang-format off */
    RF_EACH_PANEL_FORMAT(A8)
    RF_EACH_PANEL_FORMAT(A16)
    RF_EACH_ROW_FORMAT(A8_ROW)
    /* clang-format on */
    {"attention_f16", 1, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_F16},
    {"attention_bf16", 1, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_BF16},
    {"attention_q8", 1, RF_FORMAT_BF16, RF_OPERAND_A8, RF_KV_Q8},
    {"attention_q4", 1, RF_FORMAT_BF16, RF_OPERAND_A8, RF_KV_Q4},
};
#undef A8
#undef A16
#undef A8_ROW
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

/* Copies the next name of a list separated by commas to name[cap], without spaces around it.
 * Returns the rest of the list, or NULL at its end. */
static const char *next_name(const char *list, char *name, size_t cap)
{
    size_t n = strcspn(list, ","), first = strspn(list, " ");
    const char *after = list[n] ? list + n + 1 : NULL;
    if (first > n) first = n;
    while (n > first && list[n - 1] == ' ') n--;
    snprintf(name, cap, "%.*s", (int)(n - first), list + first);
    return after;
}

struct tiers {
    int list[MOST_TIERS];
    int n;
};

static int take_tiers(struct tiers *tiers, const struct rf_roofline_request *request,
                      const struct rf_roofline_device *device, struct rf_error *error)
{
    char name[64];
    *tiers = (struct tiers){.n = 0};
    if (device->tier) {
        tiers->n = 1;
        return request->tiers
                   ? rf_fail(error, RF_ERR_ARGUMENT, "roofline: CUDA devices have no tiers")
                   : 0;
    }
    const char *list = request->tiers ? request->tiers : request->tier;
    if (!list) tiers->list[tiers->n++] = rf_kernels_best_tier();
    while (list) {
        list = next_name(list, name, sizeof name);
        int tier = rf_cpu_find_tier("roofline", name, error);
        if (tier < 0) return tier;
        if (tiers->n == MOST_TIERS)
            return rf_fail(error, RF_ERR_ARGUMENT, "roofline: more than %d tiers", MOST_TIERS);
        tiers->list[tiers->n++] = tier;
    }
    return 0;
}

static int is_wanted_kernel(const struct rf_roofline_request *request, const char *kernel)
{
    char name[64];
    if (!request->kernels) return 1;
    for (const char *list = request->kernels; list;) {
        list = next_name(list, name, sizeof name);
        if (strstr(kernel, name)) return 1;
    }
    return 0;
}

/* Fails with the known names. Those of 8-bit rows stand for those of 16 bits. */
static int check_kernels(const struct rf_roofline_request *request, struct rf_error *error)
{
    char name[64], known[512] = "";
    for (const char *list = request->kernels; list;) {
        int found = 0;
        list = next_name(list, name, sizeof name);
        for (size_t i = 0; i < N_KERNELS; i++) found |= name[0] && strstr(kernels[i].name, name);
        if (found) continue;
        for (size_t i = 0; i < N_KERNELS; i++) {
            size_t n = strlen(known);
            if (strstr(kernels[i].name, "_a16")) continue;
            snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", kernels[i].name);
        }
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "roofline: no kernel has \"%s\" in its name (known: %s; a16 beside a8)",
                       name, known);
    }
    return 0;
}

static void fill_in(struct rf_roofline_request *request, const struct rf_roofline_device *device)
{
    if (!request->n_rows) {
        request->rows = device->default_rows;
        request->n_rows = device->n_default_rows;
    }
    if (!request->n_shapes) {
        request->shapes = &default_shape;
        request->n_shapes = 1;
    }
    if (request->rounds == 0) request->rounds = DEFAULT_ROUNDS;
}

static int check_request_numbers(const struct rf_roofline_request *request, struct rf_error *error)
{
    if (request->rounds < 1 || request->rounds > MOST_ROUNDS)
        return rf_fail(error, RF_ERR_ARGUMENT, "roofline: %d rounds: not between 1 and %d",
                       request->rounds, MOST_ROUNDS);
    for (size_t i = 0; i < request->n_rows; i++)
        if (request->rows[i] < 1 || request->rows[i] > MOST_ROWS)
            return rf_fail(error, RF_ERR_ARGUMENT, "roofline: %d rows: not between 1 and %d",
                           request->rows[i], MOST_ROWS);
    for (size_t i = 0; i < request->n_shapes; i++) {
        struct rf_roofline_shape shape = request->shapes[i];
        if (shape.m < 1 || shape.m > MOST_M || shape.k < 1 || shape.k > MOST_K ||
            shape.k % RF_SUPERBLOCK)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "roofline: the shape %lldx%lld: M must be between 1 and %lld, K a "
                           "multiple of %d up to %lld",
                           (long long)shape.m, (long long)shape.k, (long long)MOST_M, RF_SUPERBLOCK,
                           (long long)MOST_K);
    }
    return 0;
}

/* Adds the case with each number of rows up to `most`, from memory and in a cache. */
static void add_rows(struct rf_roofline_cases *cases, const struct rf_roofline_request *request,
                     struct rf_roofline_case what, size_t most)
{
    for (size_t i = 0; i < request->n_rows; i++) {
        what.rows = (size_t)request->rows[i];
        if (what.rows > most) continue;
        for (what.in_cache = 0; what.in_cache < 2; what.in_cache++) {
            if (cases->list) cases->list[cases->n] = what;
            cases->n++;
        }
    }
}

/* The generated kernel if there is one, then the compiled one. */
static void add_forms(struct rf_roofline_cases *cases, const struct rf_roofline_request *request,
                      const struct rf_roofline_device *device, struct rf_roofline_case what)
{
    const struct rf_roofline_kernel *kernel = what.kernel;
    if (!device->tier && !kernel->is_attention &&
        kernel->operand == rf_operand_of(kernel->format)) {
        what.is_generated = 1;
        add_rows(cases, request, what, rf_cpu_generated_rows(what.tier, kernel->format));
    }
    what.is_generated = 0;
    add_rows(cases, request, what, kernel->is_attention ? RF_ROOFLINE_ATTENTION_ROWS : SIZE_MAX);
}

/* Adds all cases; without a list only counts them. Attention is measured once, as the shapes do not
 * apply to it. */
static void add_cases(struct rf_roofline_cases *cases, const struct rf_roofline_request *request,
                      const struct rf_roofline_device *device, const struct tiers *tiers)
{
    cases->n = 0;
    for (int t = 0; t < tiers->n; t++)
        for (size_t s = 0; s < request->n_shapes; s++)
            for (size_t i = 0; i < N_KERNELS; i++) {
                const struct rf_roofline_case what = {.kernel = &kernels[i],
                                                      .tier = tiers->list[t],
                                                      .m = (size_t)request->shapes[s].m,
                                                      .k = (size_t)request->shapes[s].k};
                if ((!device->tier || kernels[i].format < RF_DEVICE_FORMAT_COUNT) &&
                    is_wanted_kernel(request, kernels[i].name) &&
                    !(kernels[i].is_attention && s > 0))
                    add_forms(cases, request, device, what);
            }
}

int rf_roofline_list(struct rf_roofline_cases *cases, struct rf_roofline_request *request,
                     const struct rf_roofline_device *device, const struct rf_allocator *allocator,
                     struct rf_error *error)
{
    struct tiers tiers;
    *cases = (struct rf_roofline_cases){.n = 0};
    int code = take_tiers(&tiers, request, device, error);
    if (!code) code = check_kernels(request, error);
    if (code) return code;
    fill_in(request, device);
    code = check_request_numbers(request, error);
    if (code) return code;
    add_cases(cases, request, device, &tiers);
    if (!cases->n)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "roofline: nothing to measure: attention takes at most %d rows",
                       RF_ROOFLINE_ATTENTION_ROWS);
    cases->list = rf_malloc(allocator, cases->n, sizeof *cases->list, "roofline", error);
    if (!cases->list) return RF_ERR_MEMORY;
    add_cases(cases, request, device, &tiers);
    return 0;
}
