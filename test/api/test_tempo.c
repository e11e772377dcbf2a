/* Slices of prompts make passes take about twice as long, on a machine that is not as fast as the
 * costs say, and that changes. */
#include "engine/tempo.h"
#include "infer/backend.h"
#include "support/check.h"

enum { ROUNDS = 4, PASSES = 200 };

/* A machine: a pass takes `rounds` seconds and `row` for each row of a prompt. */
struct machine {
    double rounds, row;
};

static double pass(struct tempo *tempo, struct machine machine, int32_t slices, double expected)
{
    double seconds = machine.rounds + slices * machine.row;
    rf_tempo_pass(tempo, ROUNDS, slices, expected, seconds);
    return seconds;
}

/* Prompts are waiting all the time, and costs say `expected` of a pass. Returns how many times
 * longer than the rounds alone the last pass with slices took. */
static double settle(struct tempo *tempo, struct machine machine, double expected, int *plain)
{
    double last = 0.0;
    for (int i = 0; i < PASSES; i++) {
        int32_t n = rf_tempo_slice(tempo, expected, 2.0 * expected);
        double seconds = pass(tempo, machine, n, expected);
        if (n)
            last = seconds / machine.rounds;
        else
            ++*plain;
    }
    return last;
}

static void check_settled(struct tempo *tempo, struct machine machine, double expected)
{
    int plain = 0;
    double slower = settle(tempo, machine, expected, &plain);
    CHECK_MSG(slower > 1.8 && slower < 2.1, "%g passes for one, where %g were expected", slower,
              expected);
    CHECK_MSG(plain > 5 && plain < PASSES / 8, "%d of %d passes are plain", plain, PASSES);
}

static void check_costs(void)
{
    const struct machine quiet = {0.05, 0.003}, busy = {0.11, 0.007};
    for (double wrong = 0.25; wrong <= 4.0; wrong *= 2.0) {
        struct tempo tempo = {.plain = 0};
        check_settled(&tempo, quiet, wrong * quiet.rounds);
        check_settled(&tempo, busy, wrong * quiet.rounds);
        check_settled(&tempo, quiet, wrong * quiet.rounds);
    }
}

/* One pass that was disturbed changes little. */
static void check_disturbed(void)
{
    const struct machine quiet = {0.05, 0.003}, disturbed = {1.0, 0.003};
    struct tempo tempo = {.plain = 0};
    check_settled(&tempo, quiet, quiet.rounds);
    int32_t usual = rf_tempo_slice(&tempo, quiet.rounds, 2.0 * quiet.rounds);
    pass(&tempo, disturbed, 0, quiet.rounds);
    int32_t after = rf_tempo_slice(&tempo, quiet.rounds, 2.0 * quiet.rounds);
    CHECK_MSG(after <= usual + 1, "%d rows after %d", after, usual);
}

/* Without costs, and with rows that take no time, slices stay in their bounds. */
static void check_bounds(void)
{
    struct tempo tempo = {.plain = 0};
    CHECK_INT(rf_tempo_slice(&tempo, 0.0, 0.0), 0);
    for (int i = 0; i < 4; i++) rf_tempo_pass(&tempo, 1, 0, 0.0, 0.05);
    CHECK_INT(rf_tempo_slice(&tempo, 0.0, 0.0), RF_TEMPO_LEAST);
    rf_tempo_pass(&tempo, 0, 256, 0.0, 1e-9);
    CHECK_INT(rf_tempo_slice(&tempo, 0.05, 0.1), 0); /* nobody has waited */
    for (int i = 0; i < 3; i++) rf_tempo_pass(&tempo, 1, 0, 0.05, 0.05);
    CHECK_INT(rf_tempo_slice(&tempo, 0.05, 0.1), RF_MAX_ROWS);
    rf_tempo_pass(&tempo, 1, 4, 0.05, 10.0);
    CHECK_INT(rf_tempo_slice(&tempo, 0.05, 0.1), RF_TEMPO_LEAST);
}

int main(void)
{
    check_costs();
    check_disturbed();
    check_bounds();
    return check_result();
}
