/* A guess before a model is there: memory holds the weights beside everything else, and a token
 * reads the weights once. */
#include "models/propose.h"

#include <stdio.h>
#include <string.h>

#include "output/errors.h"
#include "output/output.h"
#include "riffle_experimental.h"

/* Five tokens in a second are as fast as people read. A quarter of the memory is left to others,
 * and 1 GB to the context. */
static const double tokens_per_second_wanted = 5, memory_share = 0.75, context_bytes = 1e9;

static int suits(int64_t bytes, int64_t read_bytes, double memory, double bandwidth)
{
    return (double)bytes + context_bytes <= memory_share * memory &&
           (double)read_bytes * tokens_per_second_wanted <= bandwidth;
}

const struct known_model *propose_for(uint64_t memory_bytes, double bytes_per_second)
{
    const struct known_model *best = NULL, *smallest = NULL;
    for (const struct known_model *model = known_models(); model->name[0]; model++) {
        if (!smallest || model->bytes < smallest->bytes) smallest = model;
        if (strcmp(model->purpose, "chat") != 0 ||
            !suits(model->bytes, model->read_bytes, (double)memory_bytes, bytes_per_second))
            continue;
        if (!best || model->bytes > best->bytes) best = model;
    }
    return best ? best : smallest;
}

const struct model_entry *propose_entry(const struct model_list *list, uint64_t memory_bytes,
                                        double bytes_per_second)
{
    const struct model_entry *best = NULL, *smallest = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct model_entry *entry = &list->items[i];
        const struct known_model *known = entry->known;
        int64_t read_bytes = known ? known->read_bytes : entry->bytes;
        if (!model_is_complete(entry) || (known && strcmp(known->purpose, "embedding") == 0))
            continue;
        if (!smallest || entry->bytes < smallest->bytes) smallest = entry;
        if (suits(entry->bytes, read_bytes, (double)memory_bytes, bytes_per_second) &&
            (!best || entry->bytes > best->bytes))
            best = entry;
    }
    return best ? best : smallest;
}

int propose_model(struct proposal *proposal)
{
    char memory[32], size[32];
    riffle_machine machine;
    riffle_read_speed read;
    if (riffle_machine_get(&machine, sizeof machine) != RIFFLE_OK ||
        riffle_measure_read(0, &read, sizeof read) != RIFFLE_OK)
        return cli_fail("%s", riffle_last_error());
    proposal->model = propose_for(machine.memory_bytes, read.bytes_per_second);
    snprintf(
        proposal->sentence, sizeof proposal->sentence,
        "For %s of memory, read at %.0f GB/s, a model that answers at reading speed (%s, about "
        "%s)",
        human_bytes(machine.memory_bytes, memory), read.bytes_per_second * 1e-9,
        proposal->model->licence, human_bytes((uint64_t)proposal->model->bytes, size));
    return CLI_OK;
}
