/* A team for tests in which every worker takes part from the first pass on, on machines with fewer
 * cores too, and the workers' shares differ. */
#ifndef RF_TEST_CREW_H
#define RF_TEST_CREW_H

#include <stdio.h>
#include <stdlib.h>

#include "platform/memory.h"
#include "platform/team.h"

struct crew {
    struct rf_team *team;
    struct rf_split *split;
};

/* A split by which worker i has 1 / (1 + i) of the first one's speed. */
static inline struct rf_split *crew_split(int size)
{
    struct rf_split *split;
    struct rf_error error = {.text = ""};
    if (rf_split_new(&split, size, size, NULL, &rf_system_allocator, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    for (int kind = 0; kind < RF_WORK_KINDS; kind++)
        for (int i = 0; i < size; i++) split->kinds[kind].speed[i] = 1.0 / (1 + i);
    return split;
}

static inline struct crew crew_open(int threads)
{
    struct crew crew;
    struct rf_error error = {.text = ""};
    if (rf_team_of(&crew.team, NULL, threads, &rf_system_allocator, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    crew.split = crew_split(rf_team_size(crew.team));
    rf_team_begin_with(crew.team, crew.split);
    return crew;
}

/* Must come after closing everything that works with the team. */
static inline void crew_close(struct crew *crew)
{
    rf_team_free(crew->team);
    rf_split_free(crew->split);
}

#endif
