#include "speculate/drafters.h"

#include <string.h>

#include "speculate/ngram_level.h"

static const struct rf_drafter drafters[] = {
    {"ngram", 0.5, &rf_ngram_level_ops, rf_ngram_level_open, rf_ngram_level_close},
};

const struct rf_drafter *rf_drafter_find(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof drafters / sizeof *drafters; i++)
        if (strlen(drafters[i].name) == bytes && memcmp(drafters[i].name, name, bytes) == 0)
            return &drafters[i];
    return NULL;
}
