/* Ways of reading memory, and the search for the fastest. Which one that is depends on the machine:
 * a ceiling from a single pattern can lie below what a kernel reaches. */
#ifndef RF_CPU_READ_SEARCH_H
#define RF_CPU_READ_SEARCH_H

#include <stddef.h>

enum {
    RF_READ_PATTERNS = 60,
    RF_READ_PATTERNS_OF_A_THREAD = 30, /* the first ones; the others differ from them in shares */
    RF_READ_NAME = 96,
    RF_SEARCH_MOST = 64,
    RF_SEARCH_FINALISTS = 3,
    RF_SEARCH_MOST_ROUNDS = 32
};

struct rf_read_pattern {
    size_t streams, step, ahead; /* members of struct rf_read_args */
    int equally;                 /* equal shares; else workers that are ready take the rest */
};

/* index < RF_READ_PATTERNS. */
struct rf_read_pattern rf_read_pattern(size_t index);
/* "4 streams a thread, turns of 64 bytes, prefetch 1 KiB, equal shares" */
void rf_read_pattern_name(const struct rf_read_pattern *pattern, char name[RF_READ_NAME]);

struct rf_search {
    size_t n;         /* candidates: 1 to RF_SEARCH_MOST */
    int rounds;       /* rounds before the slower half of the candidates is dropped */
    int final_rounds; /* rounds of the finalists: 1 to RF_SEARCH_MOST_ROUNDS */
    /* A rate: more is better. Measurements in final rounds may take longer, to be more precise. */
    double (*measure)(void *user, size_t candidate, int is_final);
    void *user;
};

struct rf_found {
    size_t candidate;
    double usual, best; /* median and maximum of its final rounds */
};

/* Every round measures all remaining candidates in turn, so that clocks and other load, which
 * change within seconds, favour none. Candidates are dropped by their highest rate, as disturbances
 * only lower it; the finalist with the highest median is the result. */
struct rf_found rf_search_fastest(const struct rf_search *search);

#endif
