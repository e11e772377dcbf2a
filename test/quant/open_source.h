#ifndef RF_TEST_QUANT_OPEN_SOURCE_H
#define RF_TEST_QUANT_OPEN_SOURCE_H

#include <stdio.h>
#include <stdlib.h>

#include "model/open.h"
#include "platform/memory.h"

/* A model's file, which the test cannot do without. */
static inline struct rf_source *open_source(const char *path)
{
    struct rf_error error = {.text = ""};
    struct rf_source *source;
    if (rf_source_open(&source, path, NULL, &rf_system_allocator, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return source;
}

#endif
