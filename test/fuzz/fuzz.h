/* The entry point of a fuzz target, called by libFuzzer or by standalone.c. It must not keep, leak
 * or crash. */
#ifndef RF_TEST_FUZZ_H
#define RF_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
