/* A guess before anything is measured: memory holds the weights beside everything else, and a token
 * reads the weights once. */
#include "models/propose.h"

#include <stdio.h>
#include <string.h>

#include "output/errors.h"
#include "output/output.h"
#include "riffle.h"

/* A core reads about 8 GB/s, and all of a usual machine 50 GB/s; five tokens in a second are as
 * fast as people read. A quarter of the memory is left to others, and 1 GB to the context. */
static const double bytes_per_core = 8e9, most_bytes_per_second = 50e9,
                    tokens_per_second_wanted = 5;
static const double memory_share = 0.75, context_bytes = 1e9;

static int suits(const struct known_model *model, double memory, double bandwidth)
{
    return (double)model->bytes + context_bytes <= memory_share * memory &&
           (double)model->read_bytes * tokens_per_second_wanted <= bandwidth;
}

const struct known_model *propose_for(uint64_t memory_bytes, int cores)
{
    const struct known_model *best = NULL, *smallest = NULL;
    double bandwidth = bytes_per_core * cores;
    if (bandwidth > most_bytes_per_second) bandwidth = most_bytes_per_second;
    for (const struct known_model *model = known_models(); model->name[0]; model++) {
        if (!smallest || model->bytes < smallest->bytes) smallest = model;
        if (strcmp(model->purpose, "chat") != 0 || !suits(model, (double)memory_bytes, bandwidth))
            continue;
        if (!best || model->bytes > best->bytes) best = model;
    }
    return best ? best : smallest;
}

int propose_model(struct proposal *proposal)
{
    char memory[32], size[32];
    riffle_machine machine;
    if (riffle_machine_get(&machine, sizeof machine) != RIFFLE_OK)
        return cli_fail("%s", riffle_last_error());
    proposal->model = propose_for(machine.memory_bytes, machine.cores);
    snprintf(proposal->sentence, sizeof proposal->sentence,
             "For %s of memory and %d core%s, a model that answers at reading speed (%s, about %s)",
             human_bytes(machine.memory_bytes, memory), machine.cores, plural(machine.cores),
             proposal->model->licence, human_bytes((uint64_t)proposal->model->bytes, size));
    return CLI_OK;
}
