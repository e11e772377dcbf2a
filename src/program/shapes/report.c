/* The table of a preset: how long the first token takes, and the speed of the others, as geometric
 * means like MLPerf Client's. */
#include <math.h>
#include <stdio.h>

#include "output/output.h"
#include "shapes/llama_bench.h"

static double mean_of(const double *values, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += values[i];
    return sum / n;
}

static void print_table(const struct shapes *shapes)
{
    struct buffer machine = {0}, program = {0};
    double waits = 0, speeds = 0;
    origin_machine(&shapes->origin, &machine);
    origin_program(&shapes->origin, &program);
    print_name(stdout, engine_model_name(&shapes->engine));
    printf(", weights %s\nmachine   %s\nmeasured  %s, means of %d\n\n", shapes->engine.info.weights,
           machine.data, program.data, shapes->repeats);
    printf("%-24s %7s %7s %14s %9s\n", "", "prompt", "answer", "first token, s", "tokens/s");
    for (size_t i = 0; i < shapes->count; i++) {
        const struct shape *shape = &shapes->items[i];
        double wait = mean_of(shape->prompt_seconds, shapes->repeats);
        double speed =
            tokens_per_second((uint64_t)shape->gen, mean_of(shape->gen_seconds, shapes->repeats));
        printf("%-24s %7d %7d %14.2f %9.1f\n", shape->name, shape->prompt, shape->gen, wait, speed);
        waits += log(wait);
        speeds += log(speed);
    }
    printf("%-24s %7s %7s %14.2f %9.1f\n", "geometric mean", "", "",
           exp(waits / (double)shapes->count), exp(speeds / (double)shapes->count));
    buffer_free(&machine);
    buffer_free(&program);
}

void shapes_report(const struct shapes *shapes)
{
    if (shapes->options->format)
        shapes_print_llama_bench(shapes);
    else
        print_table(shapes);
}
