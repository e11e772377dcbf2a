#include "cpu/roofline_request.h"

#include <stdio.h>
#include <string.h>

#include "microkernels/panel.h"

enum { MOST_ROUNDS = 1000 };

static const int64_t MOST_M = 1 << 20, MOST_K = 1 << 17;
static const struct rf_roofline_shape default_shape = {8192, 8192};

const char *rf_roofline_next_name(const char *list, char *name, size_t cap)
{
    size_t n = strcspn(list, ","), first = strspn(list, " ");
    const char *after = list[n] ? list + n + 1 : NULL;
    if (first > n) first = n;
    while (n > first && list[n - 1] == ' ') n--;
    snprintf(name, cap, "%.*s", (int)(n - first), list + first);
    return after;
}

int rf_roofline_wants(const struct rf_roofline_request *request, const char *kernel)
{
    char name[64];
    if (!request->kernels) return 1;
    for (const char *list = request->kernels; list;) {
        list = rf_roofline_next_name(list, name, sizeof name);
        if (strstr(kernel, name)) return 1;
    }
    return 0;
}

int rf_roofline_check_kernels(const struct rf_roofline_request *request,
                              const char *(*kernel)(size_t i), struct rf_error *error)
{
    char name[64], known[512] = "";
    for (const char *list = request->kernels; list;) {
        int found = 0;
        list = rf_roofline_next_name(list, name, sizeof name);
        for (size_t i = 0; kernel(i); i++) found |= name[0] && strstr(kernel(i), name);
        if (found) continue;
        for (size_t i = 0; kernel(i); i++) {
            size_t n = strlen(known);
            snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", kernel(i));
        }
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "roofline: no kernel has \"%s\" in its name (known: %s)", name, known);
    }
    return 0;
}

int rf_roofline_check_numbers(struct rf_roofline_request *request, struct rf_error *error)
{
    if (!request->n_shapes) {
        request->shapes = &default_shape;
        request->n_shapes = 1;
    }
    if (request->rounds == 0) request->rounds = RF_ROOFLINE_ROUNDS;
    if (request->rounds < 1 || request->rounds > MOST_ROUNDS)
        return rf_fail(error, RF_ERR_ARGUMENT, "roofline: %d rounds: not between 1 and %d",
                       request->rounds, MOST_ROUNDS);
    for (size_t i = 0; i < request->n_rows; i++)
        if (request->rows[i] < 1 || request->rows[i] > RF_ROOFLINE_MOST_ROWS)
            return rf_fail(error, RF_ERR_ARGUMENT, "roofline: %d rows: not between 1 and %d",
                           request->rows[i], RF_ROOFLINE_MOST_ROWS);
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
