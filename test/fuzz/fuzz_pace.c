/* A file of measured speeds: whatever it says, costs are positive numbers, and what is saved is
 * read again. */
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speculate/pace.h"

static const char names[3][RF_PACE_NAME_BYTES] = {"ngram", "mxfp4", "target"};
static const struct rf_level levels[3] = {{.cost = 0.01, .acceptance = 0.3},
                                          {.cost = 0.3, .acceptance = 0.8, .has_passes = 1},
                                          {.cost = 1.0, .has_passes = 1}};
static const struct rf_proposal by = {.proposer = 1};

static void check(const struct rf_pace *pace)
{
    for (int32_t l = 1; l < 3; l++) {
        for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows += 1 + rows / 3) {
            double cost = rf_pace_cost(pace, l, rows);
            if (!(cost > 0) || !isfinite(cost)) abort();
        }
        double p = rf_pace_acceptance(pace, 2, &by, 0.5);
        if (!(p >= 0 && p <= 1)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char first[] = "riffle pace 3\n";
    char path[64];
    struct rf_pace pace, again;
    struct rf_error error;
    snprintf(path, sizeof path, "/tmp/riffle-fuzz-%ld.pace", (long)getpid());
    FILE *file = fopen(path, "wb");
    if (!file) abort();
    fwrite(first, 1, sizeof first - 1, file);
    fwrite(data, 1, bytes, file);
    fclose(file);
    rf_pace_init(&pace, levels, 3);
    rf_pace_load(&pace, names, path);
    check(&pace);
    pace.length = 1000000;
    check(&pace);
    for (int i = 0; i < 64; i++) rf_pace_pass(&pace, 2, 1 + i % RF_PACE_ROWS, 0.01);
    for (int i = 0; i < 64; i++) rf_pace_judged(&pace, 2, &by, 0.9, i % 3 != 0);
    check(&pace);
    if (rf_pace_save(&pace, names, path, &error)) abort();
    rf_pace_init(&again, levels, 3);
    rf_pace_load(&again, names, path);
    check(&again);
    remove(path);
    return 0;
}
