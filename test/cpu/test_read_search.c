/* The search for the fastest way of reading, with measurements that are made up. */
#include <string.h>

#include "cpu/read_search.h"
#include "support/check.h"

/* A machine whose clock falls, and on which other work disturbs some measurements. */
struct machine {
    size_t fastest;
    double lead;        /* lead of the fastest candidate over the others */
    double drift;       /* per measurement */
    unsigned disturbed; /* every so many measurements are half as fast; 0: none */
    size_t n_measured, n_final;
    size_t measured[RF_SEARCH_MOST];
};

static double measure(void *user, size_t candidate, int is_final)
{
    struct machine *machine = user;
    machine->n_measured++;
    machine->measured[candidate]++;
    machine->n_final += is_final != 0;
    double rate = candidate == machine->fastest ? 1 + machine->lead : 1 - 1e-4 * (double)candidate;
    if (machine->disturbed && machine->n_measured % machine->disturbed == 0) rate /= 2;
    return rate * (1 - machine->drift * (double)machine->n_measured);
}

static struct rf_found search(struct machine *machine, size_t n, int rounds, int final_rounds)
{
    const struct rf_search search = {.n = n,
                                     .rounds = rounds,
                                     .final_rounds = final_rounds,
                                     .measure = measure,
                                     .user = machine};
    return rf_search_fastest(&search);
}

static void test_finds_each(void)
{
    static const size_t counts[] = {
        1, 2, 3, 4, 7, RF_READ_PATTERNS_OF_A_THREAD, RF_READ_PATTERNS, RF_SEARCH_MOST};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t fastest = 0; fastest < counts[c]; fastest++) {
            struct machine machine = {.fastest = fastest, .lead = 0.01};
            struct rf_found found = search(&machine, counts[c], 1, 5);
            CHECK_INT((long long)found.candidate, (long long)fastest);
            CHECK(found.usual == 1.01 && found.best == 1.01);
        }
}

/* Half of the final measurements may be disturbed, and clocks may fall all the while. */
static void test_disturbed(void)
{
    for (size_t fastest = 0; fastest < RF_READ_PATTERNS; fastest++) {
        struct machine busy = {.fastest = fastest, .lead = 0.05, .disturbed = 7};
        CHECK_INT((long long)search(&busy, RF_READ_PATTERNS, 2, 11).candidate, (long long)fastest);
        /* A round of 60 measurements loses 1.2 per cent. */
        struct machine falls = {.fastest = fastest, .lead = 0.05, .drift = 2e-4};
        CHECK_INT((long long)search(&falls, RF_READ_PATTERNS, 2, 11).candidate, (long long)fastest);
    }
}

/* The slower half is dropped each time: few measurements are spent on slow candidates. */
static void test_effort(void)
{
    struct machine machine = {.fastest = 17, .lead = 0.1};
    search(&machine, RF_READ_PATTERNS, 1, 7);
    CHECK_INT((long long)machine.n_measured, 60 + 30 + 15 + 7 + 3 * 7);
    CHECK_INT((long long)machine.n_final, 3 * 7);
    for (size_t i = 0; i < RF_READ_PATTERNS; i++) CHECK(machine.measured[i] >= 1);
    CHECK_INT((long long)machine.measured[17], 4 + 7);
}

/* Every pattern differs from the others, but one stream is read in the same order in any step. */
static void test_patterns(void)
{
    int equally = 0;
    for (size_t i = 0; i < RF_READ_PATTERNS; i++) {
        struct rf_read_pattern pattern = rf_read_pattern(i);
        char name[RF_READ_NAME], other[RF_READ_NAME];
        rf_read_pattern_name(&pattern, name);
        CHECK(strlen(name) < RF_READ_NAME - 1);
        CHECK(pattern.streams >= 1 && pattern.streams <= 16);
        CHECK(pattern.step == 64 || pattern.step == 256);
        CHECK_INT(pattern.equally, i >= RF_READ_PATTERNS_OF_A_THREAD);
        equally += pattern.equally;
        for (size_t j = 0; j < i; j++) {
            struct rf_read_pattern before = rf_read_pattern(j);
            rf_read_pattern_name(&before, other);
            CHECK((strcmp(name, other) == 0) ==
                  (pattern.streams == 1 && before.streams == 1 && pattern.ahead == before.ahead &&
                   pattern.equally == before.equally));
        }
    }
    CHECK_INT(equally, RF_READ_PATTERNS / 2);
}

int main(void)
{
    test_finds_each();
    test_disturbed();
    test_effort();
    test_patterns();
    return check_result();
}
