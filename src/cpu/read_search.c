/* The patterns of reading memory, and a search by halving: it drops the slower half of the
 * candidates until a few finalists are left. read_speed.c and the program's roofline call it; tests
 * give it measurements that are made up. */
#include "cpu/read_search.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"

struct rf_read_pattern rf_read_pattern(size_t index)
{
    static const size_t streams[] = {1, 2, 4, 8, 16}, steps[] = {256, 64},
                        distances[] = {0, 1024, 4096};
    struct rf_read_pattern pattern = {.streams = streams[index % 5],
                                      .step = steps[index / 5 % 2],
                                      .ahead = distances[index / 10 % 3],
                                      .equally = index >= RF_READ_PATTERNS_OF_A_THREAD};
    return pattern;
}

void rf_read_pattern_name(const struct rf_read_pattern *pattern, char name[RF_READ_NAME])
{
    char turns[40] = "", ahead[40] = "no prefetch";
    if (pattern->streams > 1) snprintf(turns, sizeof turns, ", turns of %zu bytes", pattern->step);
    if (pattern->ahead) snprintf(ahead, sizeof ahead, "prefetch %zu KiB", pattern->ahead / 1024);
    snprintf(name, RF_READ_NAME, "%zu stream%s a thread%s, %s%s", pattern->streams,
             pattern->streams == 1 ? "" : "s", turns, ahead,
             pattern->equally ? ", equal shares" : "");
}

struct candidate {
    size_t number;
    double best;
};

static int by_best(const void *left, const void *right)
{
    double a = ((const struct candidate *)left)->best, b = ((const struct candidate *)right)->best;
    return (a < b) - (a > b);
}

static void measure_once(const struct rf_search *search, struct candidate *candidates, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double rate = search->measure(search->user, candidates[i].number, 0);
        if (rate > candidates[i].best) candidates[i].best = rate;
    }
}

struct rf_found rf_search_fastest(const struct rf_search *search)
{
    struct candidate candidates[RF_SEARCH_MOST];
    double rates[RF_SEARCH_FINALISTS][RF_SEARCH_MOST_ROUNDS];
    size_t left = search->n, n_rounds = (size_t)search->final_rounds;
    for (size_t i = 0; i < left; i++) candidates[i] = (struct candidate){.number = i};
    while (left > RF_SEARCH_FINALISTS) {
        for (int round = 0; round < search->rounds; round++) measure_once(search, candidates, left);
        qsort(candidates, left, sizeof *candidates, by_best);
        left = left / 2 > RF_SEARCH_FINALISTS ? left / 2 : RF_SEARCH_FINALISTS;
    }
    for (size_t round = 0; round < n_rounds; round++)
        for (size_t i = 0; i < left; i++)
            rates[i][round] = search->measure(search->user, candidates[i].number, 1);
    struct rf_found found = {0};
    for (size_t i = 0; i < left; i++) {
        double usual = rf_median(rates[i], n_rounds); /* sorts them */
        if (i == 0 || usual > found.usual)
            found = (struct rf_found){candidates[i].number, usual, rates[i][n_rounds - 1]};
    }
    return found;
}
