/* Shapes: prompts of a length and answers of a length, timed alone, as other programs' benchmarks
 * have them. The verb bench calls it with --format or --preset. */
#ifndef SHAPES_SHAPES_H
#define SHAPES_SHAPES_H

#include "output/origin.h"
#include "session/engine.h"

/* A prompt after `depth` tokens, then an answer. Either may be 0: without a prompt the answer
 * follows a single token. */
struct shape {
    const char *name; /* NULL: none */
    int32_t prompt, gen, depth;
    double *prompt_seconds, *gen_seconds; /* [repeats]; 0 where there is none */
};

struct shapes {
    struct engine engine; /* open, for the name and the types of the model */
    struct origin origin;
    const struct cli_options *options;
    int32_t repeats;
    struct shape *items;
    size_t count;
};

/* Measures what the options ask for. CLI_OK, or an exit status with a sentence. shapes_free must
 * follow in both cases. */
int shapes_measure(struct shapes *shapes, const struct cli_options *options);
void shapes_free(struct shapes *shapes);

/* Prints them as --format says; without it as a table of waits and speeds. */
void shapes_report(const struct shapes *shapes);

#endif
