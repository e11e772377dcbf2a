/* The columns of llama-bench. shapes_report calls it with --format. */
#ifndef SHAPES_LLAMA_BENCH_H
#define SHAPES_LLAMA_BENCH_H

#include "shapes/shapes.h"

void shapes_print_llama_bench(const struct shapes *shapes);

#endif
