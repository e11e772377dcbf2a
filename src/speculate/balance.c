/* The arithmetic of the balance (balance.h). */
#include "speculate/balance.h"

#include "speculate/tuning.h"

int rf_balance_allows(const struct rf_balance *balance, int32_t rounds)
{
    const struct rf_bare_passes *bare = &balance->bare[rounds];
    return bare->seen >= rf_tuning.balance.bare_first &&
           bare->since < rf_tuning.balance.bare_every && balance->won > 0.0;
}

static void learn_bare(struct rf_bare_passes *bare, double seconds)
{
    double gain = bare->seen ? rf_tuning.balance.gain_bare : 1.0,
           most = rf_tuning.balance.most_change;
    if (bare->seen && seconds > most * bare->seconds) seconds = most * bare->seconds;
    bare->seconds += gain * (seconds - bare->seconds);
    bare->since = 0;
    if (bare->seen < UINT8_MAX) bare->seen++;
}

void rf_balance_pass(struct rf_balance *balance, int32_t rounds, int is_bare, int32_t tokens,
                     double seconds)
{
    struct rf_bare_passes *bare = &balance->bare[rounds];
    double most = rf_tuning.balance.most_won * rounds;
    if (!balance->is_begun) balance->won = rf_tuning.balance.first_won * rounds;
    balance->is_begun = 1;
    balance->won += rf_tuning.balance.loss * tokens;
    if (is_bare)
        learn_bare(bare, seconds);
    else if (bare->seconds > 0.0)
        balance->won += tokens - rounds * seconds / bare->seconds;
    if (!is_bare && bare->since < UINT8_MAX) bare->since++;
    if (balance->won > most) balance->won = most;
}
